//! What is fetched of a circuit into a file on the key cache's disk, with the space that it takes of the cache's limit.

use std::cell::RefCell;

use proofmill_engine::job::{Failure, FailureKind, Source};
use proofmill_engine::parts::Cancel;
use proofmill_groth16::format::source::{FileSource, ReadAt, ReadError};
use proofmill_groth16::key::cache::DownloadSpace;
use proofmill_sources::Fetched;

use super::{Circuits, bad_key, key_failure};
use crate::inputs::fetch_failure;
use crate::room::Room;

/// How far space is claimed ahead of a download of unknown length.
const STEP: u64 = 64 << 20;

/// A fetched file: the user's own, which takes no space, or a temporary one.
pub struct Download {
    /// The file.
    pub fetched: Fetched,
    space: DownloadSpace,
}

/// A part of a circuit as a file, for as long as it is needed.
pub struct Part {
    file: FileSource,
    _space: DownloadSpace,
}

impl Circuits {
    /// Fetches a part of a circuit as a file. `what` is what messages call it.
    pub(super) fn download(
        &self,
        source: &Source,
        what: &str,
        progress: &dyn Fn(u64, u64),
        cancel: &Cancel,
    ) -> Result<Download, Failure> {
        let space = RefCell::new(self.cache.download_space());
        let in_place = self.fetcher.is_local(&source.url);
        let grow = |bytes| if in_place { Ok(()) } else { space.borrow_mut().grow(bytes) };
        let room = Room::new(STEP, &grow);
        let fetched = self.fetcher.fetch_file(
            &source.url,
            source.sha256,
            self.key_limit,
            &self.folder,
            &|| cancel.is_cancelled() || room.is_refused(),
            &|done, total| {
                room.expect(done, total);
                progress(done, total.unwrap_or(done));
            },
        );
        room.granted().map_err(|e| key_failure(&e, what))?;
        let fetched = fetched.map_err(|e| fetch_failure(&e, what, FailureKind::BadKey))?;
        Ok(Download { fetched, space: space.into_inner() })
    }

    /// A part of a circuit as a file.
    pub fn open(&self, source: &Source, what: &str, cancel: &Cancel) -> Result<Part, Failure> {
        let Download { fetched, space } = self.download(source, what, &|_, _| {}, cancel)?;
        let file = FileSource::open(&fetched.path()).map_err(|e| bad_key(format!("{what}: {e}")))?;
        Ok(Part { file, _space: space })
    }
}

impl ReadAt for Part {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.file.read_exact_at(buffer, offset)
    }
}
