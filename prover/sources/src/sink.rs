//! Where fetched bytes go: memory, a private temporary file, or only the digest. Counts, bounds and digests them.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstatvfs};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::error::FetchError;

/// Never reserved on a server's word alone.
const FIRST_RESERVE: u64 = 1 << 20;

/// Bytes on their way in.
pub(crate) struct Sink {
    url: String,
    limit: u64,
    store: Store,
    hash: Sha256,
    length: u64,
    /// Whole length, as announced.
    announced: Option<u64>,
}

/// Everything that came.
pub(crate) struct Received {
    /// From a sink in memory.
    pub(crate) bytes: Vec<u8>,
    /// From a sink in a file; at its start.
    pub(crate) file: Option<File>,
    pub(crate) sha256: [u8; 32],
    pub(crate) len: u64,
}

enum Store {
    Memory(Vec<u8>),
    File(File, PathBuf),
    Nowhere,
}

impl Sink {
    /// Into memory.
    pub(crate) fn memory(url: String, limit: u64) -> Self {
        Self::new(url, limit, Store::Memory(Vec::new()))
    }

    /// Nowhere: only counted and digested.
    pub(crate) fn digest(url: String, limit: u64) -> Self {
        Self::new(url, limit, Store::Nowhere)
    }

    /// Into a file in `folder` that has no name (or loses it at once) and that only this user may read.
    pub(crate) fn file(url: String, limit: u64, folder: &Path) -> Result<Self, FetchError> {
        let file = private_file(folder).map_err(|source| {
            if is_full(&source) {
                return FetchError::DiskFull { url: url.clone(), dir: folder.to_owned(), need: 1, have: 0 };
            }
            FetchError::Io { url: url.clone(), doing: format!("making a file in {}", folder.display()), source }
        })?;
        Ok(Self::new(url, limit, Store::File(file, folder.to_owned())))
    }

    fn new(url: String, limit: u64, store: Store) -> Self {
        Self { url, limit, store, hash: Sha256::new(), length: 0, announced: None }
    }

    /// Bytes so far.
    pub(crate) const fn len(&self) -> u64 {
        self.length
    }

    /// What the whole length is said to be: refused at once if it is too much for the limit or the disk.
    pub(crate) fn expect(&mut self, total: Option<u64>) -> Result<(), FetchError> {
        self.announced = total;
        let Some(total) = total else { return Ok(()) };
        if total > self.limit {
            return Err(FetchError::TooLarge { url: self.url.clone(), size: Some(total), limit: self.limit });
        }
        match &mut self.store {
            Store::Memory(bytes) => {
                let reserve = total.min(FIRST_RESERVE.max(self.length * 2)).saturating_sub(self.length);
                try_reserve(bytes, reserve, &self.url)?;
            }
            Store::File(file, folder) => {
                let have = free(file);
                if have.is_some_and(|have| have < total.saturating_sub(self.length)) {
                    let (url, dir) = (self.url.clone(), folder.clone());
                    return Err(FetchError::DiskFull { url, dir, need: total, have: have.unwrap_or(0) });
                }
            }
            Store::Nowhere => {}
        }
        Ok(())
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let length = self.length + bytes.len() as u64;
        if length > self.limit {
            let size = self.announced.filter(|&total| total > self.limit);
            return Err(FetchError::TooLarge { url: self.url.clone(), size, limit: self.limit });
        }
        match &mut self.store {
            Store::Memory(buffer) => {
                if buffer.capacity() - buffer.len() < bytes.len() {
                    let aim = (length * 2).min(self.announced.unwrap_or(u64::MAX).max(length)).min(self.limit);
                    try_reserve(buffer, aim - self.length, &self.url)?;
                }
                buffer.extend_from_slice(bytes);
            }
            Store::File(file, folder) => file.write_all(bytes).map_err(|source| {
                let url = self.url.clone();
                if is_full(&source) {
                    let need = self.announced.unwrap_or(0).max(length);
                    return FetchError::DiskFull { url, dir: folder.clone(), need, have: free(file).unwrap_or(0) };
                }
                FetchError::Io { url, doing: format!("writing to {}", folder.display()), source }
            })?,
            Store::Nowhere => {}
        }
        self.hash.update(bytes);
        self.length = length;
        Ok(())
    }

    /// Forgets all bytes.
    #[cfg(feature = "http")]
    pub(crate) fn restart(&mut self) -> Result<(), FetchError> {
        self.hash = Sha256::new();
        self.length = 0;
        self.announced = None;
        match &mut self.store {
            Store::Memory(bytes) => bytes.clear(),
            Store::File(file, _) => rewind(file).and_then(|()| file.set_len(0)).map_err(|source| FetchError::Io {
                url: self.url.clone(),
                doing: "emptying a file".to_owned(),
                source,
            })?,
            Store::Nowhere => {}
        }
        Ok(())
    }

    /// Checks the digest and hands the bytes over.
    pub(crate) fn finish(self, expected: Option<[u8; 32]>) -> Result<Received, FetchError> {
        let actual: [u8; 32] = self.hash.finalize().into();
        if let Some(expected) = expected.filter(|&expected| expected != actual) {
            return Err(FetchError::DigestMismatch { url: self.url, expected, actual });
        }
        match self.store {
            Store::Memory(bytes) => Ok(Received { bytes, file: None, sha256: actual, len: self.length }),
            Store::Nowhere => Ok(Received { bytes: Vec::new(), file: None, sha256: actual, len: self.length }),
            Store::File(mut file, _) => {
                rewind(&mut file).map_err(|source| FetchError::Io {
                    url: self.url,
                    doing: "rewinding a file".to_owned(),
                    source,
                })?;
                Ok(Received { bytes: Vec::new(), file: Some(file), sha256: actual, len: self.length })
            }
        }
    }
}

/// A file without a name, mode 0600: O_TMPFILE where the file system has it, else made and unlinked.
fn private_file(folder: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        // What kernels and file systems without O_TMPFILE say.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let (file, name) = tempfile::NamedTempFile::new_in(folder)?.into_parts();
            name.close()?;
            Ok(file)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn rewind(file: &mut File) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0)).map(drop)
}

fn try_reserve(bytes: &mut Vec<u8>, more: u64, url: &str) -> Result<(), FetchError> {
    usize::try_from(more)
        .ok()
        .and_then(|more| bytes.try_reserve_exact(more).ok())
        .ok_or_else(|| FetchError::OutOfMemory { url: url.to_owned(), need: bytes.len() as u64 + more })
}

/// Bytes free for this user on the file's file system, where it says so.
fn free(file: &File) -> Option<u64> {
    let stat = fstatvfs(file).ok()?;
    // Some network and overlay file systems report nothing at all.
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}
