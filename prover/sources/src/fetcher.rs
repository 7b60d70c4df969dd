//! The fetcher: one call per URL, on threads that may block.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::FetchError;
use crate::local;
use crate::policy::{FileAccess, Policy};
use crate::remote::Remote;
use crate::sink::{Received, Sink};
use crate::url::{Scheme, SourceUrl};

/// Progress is reported at most every so many bytes, and at the end.
const PROGRESS_STEP: u64 = 1 << 18;

/// Fetches by URL within a [`Policy`]. Shared between threads; each call blocks its own thread and is cancelled within
/// a tenth of a second or so of `cancel` turning true (a write or read of the disk in progress aside).
pub struct Fetcher {
    policy: Policy,
    remote: Remote,
}

/// A fetched file: the original where it is local, else a temporary one without a name that vanishes when this drops.
#[derive(Debug)]
pub struct Fetched {
    /// Open for reading, at its start.
    pub file: File,
    /// SHA-256 of all of it.
    pub sha256: [u8; 32],
    /// Its length in bytes.
    pub len: u64,
    /// Whether this is the user's own file, which others may change, and not a private copy.
    pub in_place: bool,
}

impl Fetcher {
    /// A fetcher; looks at the settings but at no network.
    ///
    /// # Errors
    /// [`FetchError::Settings`]: an unreadable CA file, a malformed proxy or allow-list prefix.
    pub fn new(policy: Policy) -> Result<Self, FetchError> {
        let remote = Remote::new(&policy)?;
        Ok(Self { policy, remote })
    }

    /// The policy it was made with.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a URL would be opened in place ([`Self::open_local`]) instead of copied.
    pub fn is_local(&self, url: &str) -> bool {
        SourceUrl::parse(url).is_ok_and(|url| url.scheme() == Scheme::File)
    }

    /// Checks a URL against the policy as far as that goes without opening or connecting: scheme, form, allow-list,
    /// literal addresses. For refusing a job at its submission.
    ///
    /// # Errors
    /// Those of [`crate::error::ErrorClass::Request`].
    pub fn check(&self, url: &str) -> Result<(), FetchError> {
        let url = self.parse(url)?;
        if url.scheme() == Scheme::File {
            if self.policy.files == FileAccess::Denied {
                return Err(FetchError::FilesDenied { url: url.redacted() });
            }
            return url.file_path().map(drop);
        }
        self.remote.check(&url)
    }

    /// The regular file that a `file:` URL names, opened for reading, not copied and not digested.
    ///
    /// # Errors
    /// The file's absence, kind, rights or place; [`FetchError::BadUrl`] for other schemes.
    pub fn open_local(&self, url: &str) -> Result<File, FetchError> {
        let url = SourceUrl::parse(url)?;
        if url.scheme() != Scheme::File {
            return Err(url.bad("not a file: URL; it has to be fetched"));
        }
        local::open(&self.policy.files, &url)
    }

    /// The whole content in memory, at most `limit` bytes. `progress` gets (bytes so far, bytes in all if known); the
    /// former goes back to 0 if a server makes the fetch start over.
    ///
    /// # Errors
    /// Every [`FetchError`].
    pub fn fetch_bytes(
        &self,
        url: &str,
        sha256: Option<[u8; 32]>,
        limit: u64,
        cancel: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Vec<u8>, FetchError> {
        let url = self.parse(url)?;
        let mut sink = Sink::memory(url.redacted(), limit.min(self.policy.max_bytes));
        if url.scheme() == Scheme::File {
            let file = local::open(&self.policy.files, &url)?;
            local::read(&file, &url, &mut sink, &reporter(cancel, progress))?;
        } else {
            self.remote.fetch(&url, &mut sink, cancel, &throttled(progress))?;
        }
        let received = sink.finish(sha256)?;
        progress(received.len, Some(received.len));
        Ok(received.bytes)
    }

    /// The content as a file, digested. A `file:` URL is opened in place; anything else is streamed into a private
    /// file in `dir` (mode 0600, without a name). `limit` and `progress` as for [`Self::fetch_bytes`].
    ///
    /// # Errors
    /// Every [`FetchError`].
    pub fn fetch_file(
        &self,
        url: &str,
        sha256: Option<[u8; 32]>,
        limit: u64,
        dir: &Path,
        cancel: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Fetched, FetchError> {
        let url = self.parse(url)?;
        let limit = limit.min(self.policy.max_bytes);
        if url.scheme() == Scheme::File {
            let mut file = local::open(&self.policy.files, &url)?;
            let mut sink = Sink::digest(url.redacted(), limit);
            local::read(&file, &url, &mut sink, &reporter(cancel, progress))?;
            let Received { sha256, len, .. } = sink.finish(sha256)?;
            std::io::Seek::rewind(&mut file).map_err(|source| FetchError::Io {
                url: url.redacted(),
                doing: "rewinding".to_owned(),
                source,
            })?;
            progress(len, Some(len));
            return Ok(Fetched { file, sha256, len, in_place: true });
        }
        self.remote.check(&url)?;
        let mut sink = Sink::file(url.redacted(), limit, dir)?;
        self.remote.fetch(&url, &mut sink, cancel, &throttled(progress))?;
        let Received { file, sha256, len, .. } = sink.finish(sha256)?;
        let file = file.ok_or_else(|| FetchError::Settings("a fetched file went missing".to_owned()))?;
        progress(len, Some(len));
        Ok(Fetched { file, sha256, len, in_place: false })
    }

    fn parse(&self, url: &str) -> Result<SourceUrl, FetchError> {
        let url = SourceUrl::parse(url)?;
        url.require_built()?;
        Ok(url)
    }
}

impl Fetched {
    /// A path under which this process can open the file again, as long as this value lives.
    pub fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Reports progress of a local read and says whether to stop.
fn reporter<'a>(
    cancel: &'a dyn Fn() -> bool,
    progress: &'a dyn Fn(u64, Option<u64>),
) -> impl Fn(u64, u64) -> bool + 'a {
    move |done, total| {
        progress(done, Some(total));
        cancel()
    }
}

/// Lets a report through when enough has happened since the last one.
fn throttled<'a>(progress: &'a dyn Fn(u64, Option<u64>)) -> impl Fn(u64, Option<u64>) + 'a {
    let last = std::cell::Cell::new(u64::MAX);
    move |done, total| {
        if done.abs_diff(last.get()) >= PROGRESS_STEP {
            last.set(done);
            progress(done, total);
        }
    }
}
