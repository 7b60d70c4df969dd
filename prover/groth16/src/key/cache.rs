//! The disk cache of imported keys: content-addressed by the SHA-256 of what was imported, bounded in bytes.
//!
//! ```text
//! DIR/keys/SHA256.key   entries: read-only, complete, never written again; replaced by rename, deleted as names
//! DIR/tmp/...           imports under way; each is locked by its process, an unlocked one is litter
//! DIR/locks/NNNN        one import of a key at a time, over all processes
//! DIR/lock              held for moments, while space is counted and made
//! ```
//!
//! All locks are `flock`s: they end with the process, however it ends. A key that is in use holds a shared lock on its
//! entry: its **lease**. What is leased, here or in another process, is never evicted. An entry's time of modification is
//! its time of last use. Several processes may share a directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::ProvingKey;
use super::file::RawKeyFile;
use super::import::{ImportControl, ImportError, hex, import_zkey, imported_bytes};
use super::layout::{KeyFileError, MAGIC};
use crate::format::source::{FileSource, ReadAt, ReadError, sha256};
use crate::format::zkey::Zkey;

mod copy;
mod space;

pub use space::DownloadSpace;
use space::Reservation;

/// A cache directory.
#[derive(Clone, Debug)]
pub struct KeyCache {
    directory: PathBuf,
    limit: u64,
}

/// One entry, for `status` and eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// SHA-256 of what was imported.
    pub digest: [u8; 32],
    /// Bytes of the entry.
    pub bytes: u64,
    /// When it was last asked for.
    pub last_used: SystemTime,
}

/// What went wrong with the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The import failed.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The key does not fit.
    #[error(
        "the key cache is full: {need} bytes are needed, {have} can be freed (what is downloaded counts until it is \
         imported); raise the cache's limit, or stop jobs that hold other keys"
    )]
    Full {
        /// Bytes that the key, or its download, takes.
        need: u64,
        /// Bytes that could be free: the limit less what is in use.
        have: u64,
    },
    /// An imported key without a digest.
    #[error(
        "an imported key is used without checking its points again, so its sha256 must be given; `prover import` prints it"
    )]
    DigestRequired,
    /// The directory cannot be used.
    #[error("cannot use the key cache at {path}: {error}; check that the directory is writable")]
    Directory {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Entries up to this size are compared with their digests whenever they are opened (about 0.3 ms a MiB and core).
/// Damage to larger ones shows as a proof that does not verify: then call [`ProvingKey::verify_digests`].
const VERIFIED_BYTES: u64 = 128 << 20;
/// How often a waiting process looks whether it may go on.
const POLL: Duration = Duration::from_millis(20);
/// Reads of an entry that others delete at this very moment.
const RETRIES: usize = 8;

impl KeyCache {
    /// Opens, or makes, a cache of at most `limit` bytes, and removes what dead processes left.
    pub fn open(directory: &Path, limit: u64) -> Result<Self, CacheError> {
        let cache = Self { directory: directory.to_owned(), limit };
        for folder in ["keys", "tmp", "locks"] {
            let path = directory.join(folder);
            fs::create_dir_all(&path).map_err(|error| CacheError::Directory { path, error })?;
        }
        let _lock = cache.space_lock()?;
        cache.remove_litter()?;
        Ok(cache)
    }

    /// The cache's limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The key that was imported from the file with this SHA-256, leased until the last clone of it is dropped. A damaged
    /// entry is removed and not found.
    pub fn get(&self, digest: &[u8; 32]) -> Result<Option<Arc<ProvingKey>>, CacheError> {
        let path = self.entry_path(digest);
        for _ in 0..RETRIES {
            match open_leased(&path) {
                Ok(Some(key)) => return Ok(Some(Arc::new(key))),
                // Deleted, or looked at for eviction, between opening and locking: look again.
                Ok(None) => std::thread::sleep(POLL / 20),
                Err(KeyFileError::Read(ReadError::Open { error, .. })) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(None);
                }
                Err(KeyFileError::Read(error)) => return Err(ImportError::Read(error).into()),
                Err(damage) => {
                    tracing::warn!(entry = %path.display(), %damage, "removed a damaged entry of the key cache");
                    self.remove_file(&path)?;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Bytes of the entry for this SHA-256, if there is one: without opening it, comparing its digests or keeping it.
    pub fn size(&self, digest: &[u8; 32]) -> Result<Option<u64>, CacheError> {
        let path = self.entry_path(digest);
        match fs::metadata(&path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CacheError::Directory { path, error }),
        }
    }

    /// The key in the file `source` (a zkey or an imported key, told apart by content), imported unless it is cached.
    /// `expected` is the file's SHA-256, where it is known; then a cached key is found without reading the file at all.
    /// If another process or thread imports the same key, this waits and uses its result.
    pub fn import(
        &self,
        source: &Path,
        expected: Option<[u8; 32]>,
        control: &ImportControl<'_>,
    ) -> Result<Arc<ProvingKey>, CacheError> {
        if let Some(expected) = expected
            && let Some(key) = self.get(&expected)?
        {
            return Ok(key);
        }
        let file = FileSource::open(source).map_err(ImportError::Read)?;
        let imported = is_imported_key(&file)?;
        let digest = match expected {
            Some(digest) => digest,
            None if imported => return Err(CacheError::DigestRequired),
            None => sha256(&file, &mut |_| !(control.cancelled)())
                .map_err(ImportError::Read)?
                .ok_or(ImportError::Cancelled)?,
        };
        let _turn = self.import_turn(&digest, control)?;
        if let Some(key) = self.get(&digest)? {
            return Ok(key);
        }
        let need = if imported { file.len() } else { imported_bytes(&Zkey::read(&file).map_err(ImportError::Zkey)?) };
        let mut space = self.reserve(need)?;
        let (found, bytes) = if imported {
            (copy::copy_imported(&file, space.file(), control)?, file.len())
        } else {
            let header = import_zkey(&file, space.file(), control)?;
            (header.source_digest, header.file_bytes)
        };
        if found != digest {
            let mismatch = ImportError::DigestMismatch { expected: hex(&digest), found: hex(&found) };
            return Err(if expected.is_some() { mismatch } else { ImportError::SourceChanged }.into());
        }
        self.publish(space, bytes, &digest)
    }

    /// Space for a file that is kept on the cache's disk beside it, such as a download: none yet.
    pub fn download_space(&self) -> DownloadSpace {
        DownloadSpace::new(self.clone())
    }

    /// Bytes that an import of `source` would take at most, without reading more than its head.
    pub fn estimate(&self, source: &Path) -> Result<u64, CacheError> {
        let file = FileSource::open(source).map_err(ImportError::Read)?;
        if is_imported_key(&file)? {
            return Ok(file.len());
        }
        Ok(imported_bytes(&Zkey::read(&file).map_err(ImportError::Zkey)?))
    }

    /// All entries, least recently used first.
    pub fn entries(&self) -> Result<Vec<CacheEntry>, CacheError> {
        Ok(self.list()?.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Deletes an entry unless it is leased; whether it is gone.
    pub fn evict(&self, digest: &[u8; 32]) -> Result<bool, CacheError> {
        let _lock = self.space_lock()?;
        self.evict_path(&self.entry_path(digest))
    }

    /// Deletes the entry that `key` is mapped from, leased or not: it was found to be damaged, and the next one who asks is
    /// to import anew. The mapping outlives the name. Whether there was one.
    pub fn discard(&self, key: &ProvingKey) -> Result<bool, CacheError> {
        use std::os::unix::fs::MetadataExt;
        let failed = |error| self.directory_error(error);
        let _lock = self.space_lock()?;
        let mapped = key.file().metadata().map_err(failed)?;
        for (path, _) in self.list()? {
            // By identity: the name may be another file's by now.
            let same = |found: &fs::Metadata| (found.dev(), found.ino()) == (mapped.dev(), mapped.ino());
            if fs::symlink_metadata(&path).is_ok_and(|found| same(&found)) {
                self.remove_file(&path)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a finished import an entry, leased before anyone could evict it.
    fn publish(&self, space: Reservation, bytes: u64, digest: &[u8; 32]) -> Result<Arc<ProvingKey>, CacheError> {
        let path = self.entry_path(digest);
        // Held until the key has a lease of its own.
        let _held = space.persist(self, bytes, &path)?;
        let opened = open_leased(&path).map_err(ImportError::KeyFile)?;
        match opened {
            Some(key) => Ok(Arc::new(key)),
            None => Err(self.directory_error(io::Error::from(io::ErrorKind::NotFound))),
        }
    }

    /// Waits until no other process or thread imports this key; the lock ends with the file.
    fn import_turn(&self, digest: &[u8; 32], control: &ImportControl<'_>) -> Result<File, CacheError> {
        // Two bytes of the digest: a bounded number of files, and strangers rarely wait for each other.
        let path = self.directory.join("locks").join(hex(&digest[..2]));
        let file = self.lock_file(&path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) => {
                    control.check()?;
                    std::thread::sleep(POLL);
                }
                Err(fs::TryLockError::Error(error)) => return Err(CacheError::Directory { path, error }),
            }
        }
    }

    fn lock_file(&self, path: &Path) -> Result<File, CacheError> {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|error| CacheError::Directory { path: path.to_owned(), error })
    }

    fn entry_path(&self, digest: &[u8; 32]) -> PathBuf {
        self.directory.join("keys").join(hex(digest)).with_extension("key")
    }

    fn directory_error(&self, error: io::Error) -> CacheError {
        CacheError::Directory { path: self.directory.clone(), error }
    }
}

/// Maps an entry with a shared lock on it; `None` if it was deleted meanwhile. Marks it as used now.
fn open_leased(path: &Path) -> Result<Option<ProvingKey>, KeyFileError> {
    let raw = RawKeyFile::open(path)?;
    if raw.file().try_lock_shared().is_err() || is_deleted(raw.file()) {
        return Ok(None);
    }
    let key = ProvingKey::from_raw(raw)?;
    if key.info().bytes <= VERIFIED_BYTES {
        key.verify_digests()?;
    }
    if let Err(error) = key.file().set_modified(SystemTime::now()) {
        tracing::debug!(%error, "the key cache cannot note the time of use");
    }
    Ok(Some(key))
}

fn is_deleted(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

fn is_imported_key(source: &FileSource) -> Result<bool, CacheError> {
    let mut head = [0; MAGIC.len()];
    if source.len() < head.len() as u64 {
        return Ok(false);
    }
    source.read_exact_at(&mut head, 0).map_err(ImportError::Read)?;
    Ok(head == MAGIC)
}
