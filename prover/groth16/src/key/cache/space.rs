//! Space in the cache: counted, reserved by files under way, made by deleting what was used longest ago.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{CacheEntry, CacheError, KeyCache};
use crate::key::import::{hex, write_error};

/// A file under way. Its length is its reservation; it is locked while its process lives and deleted unless it becomes an
/// entry.
#[derive(Debug)]
pub(super) struct Reservation {
    file: File,
    path: PathBuf,
    persisted: bool,
}

/// Bytes of the cache's limit that a file elsewhere on its disk takes, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct DownloadSpace {
    cache: KeyCache,
    claim: Option<Reservation>,
    bytes: u64,
}

impl DownloadSpace {
    pub(super) const fn new(cache: KeyCache) -> Self {
        Self { cache, claim: None, bytes: 0 }
    }

    /// Makes it `bytes` in all, deleting what was used longest ago, as an import does.
    pub fn grow(&mut self, bytes: u64) -> Result<(), CacheError> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let _lock = self.cache.space_lock()?;
        self.cache.make_room(more)?;
        match &self.claim {
            Some(claim) => claim.file.set_len(bytes).map_err(write_error)?,
            None => self.claim = Some(self.cache.claim(bytes)?),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl KeyCache {
    /// Makes room for `need` bytes and claims them.
    pub(super) fn reserve(&self, need: u64) -> Result<Reservation, CacheError> {
        let _lock = self.space_lock()?;
        self.make_room(need)?;
        self.claim(need)
    }

    /// Makes room for `need` bytes more. Leased entries and what else is under way are left alone. The caller has the space
    /// lock.
    fn make_room(&self, need: u64) -> Result<(), CacheError> {
        self.remove_litter()?;
        let claimed = self.claimed()?;
        let mut entries = self.list()?;
        let mut used = claimed + entries.iter().map(|(_, entry)| entry.bytes).sum::<u64>();
        let mut kept = claimed;
        for (path, entry) in entries.drain(..) {
            if used.saturating_add(need) <= self.limit {
                break;
            }
            // What could not fit even alone must not cost others their entries.
            if need > self.limit {
                kept += if self.is_leased(&path)? { entry.bytes } else { 0 };
            } else if self.evict_path(&path)? {
                used -= entry.bytes;
            } else {
                kept += entry.bytes;
            }
        }
        if used.saturating_add(need) > self.limit {
            return Err(CacheError::Full { need, have: self.limit.saturating_sub(kept) });
        }
        Ok(())
    }

    /// Taken while space is counted and made. Held for moments only, so waiting needs no cancellation.
    pub(super) fn space_lock(&self) -> Result<File, CacheError> {
        let path = self.directory.join("lock");
        let file = self.lock_file(&path)?;
        file.lock().map_err(|error| CacheError::Directory { path, error })?;
        Ok(file)
    }

    /// Deletes files under way whose process is gone: nobody holds their lock. The caller has the space lock.
    pub(super) fn remove_litter(&self) -> Result<(), CacheError> {
        for path in self.folder("tmp")? {
            if let Ok(file) = File::open(&path)
                && file.try_lock().is_ok()
            {
                self.remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// The entries with their paths, least recently used first. Strange files are not entries.
    pub(super) fn list(&self) -> Result<Vec<(PathBuf, CacheEntry)>, CacheError> {
        let mut entries = Vec::new();
        for path in self.folder("keys")? {
            let Some(digest) = digest_of(&path) else { continue };
            // Gone since the folder was read: another process evicted it.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let last_used = metadata.modified().map_err(|error| self.directory_error(error))?;
            entries.push((path, CacheEntry { digest, bytes: metadata.len(), last_used }));
        }
        entries.sort_by_key(|(_, entry)| (entry.last_used, entry.digest));
        Ok(entries)
    }

    /// Deletes an entry unless someone has leased it; whether it is gone.
    pub(super) fn evict_path(&self, path: &Path) -> Result<bool, CacheError> {
        if self.is_leased(path)? {
            return Ok(false);
        }
        self.remove_file(path)?;
        Ok(true)
    }

    pub(super) fn remove_file(&self, path: &Path) -> Result<(), CacheError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CacheError::Directory { path: path.to_owned(), error })
            }
            _ => Ok(()),
        }
    }

    fn is_leased(&self, path: &Path) -> Result<bool, CacheError> {
        match File::open(path) {
            Ok(file) => match file.try_lock() {
                Ok(()) => Ok(false),
                Err(fs::TryLockError::WouldBlock) => Ok(true),
                Err(fs::TryLockError::Error(error)) => Err(CacheError::Directory { path: path.to_owned(), error }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CacheError::Directory { path: path.to_owned(), error }),
        }
    }

    /// Bytes that imports under way have claimed.
    fn claimed(&self) -> Result<u64, CacheError> {
        let lengths = self.folder("tmp")?.into_iter().filter_map(|path| fs::symlink_metadata(path).ok());
        Ok(lengths.map(|metadata| metadata.len()).sum())
    }

    fn claim(&self, bytes: u64) -> Result<Reservation, CacheError> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| self.directory_error(io::Error::other(error.to_string())))?;
        let path = self.directory.join("tmp").join(hex(&name));
        let failed = |error| CacheError::Directory { path: path.clone(), error };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        let reservation = Reservation { file, path: path.clone(), persisted: false };
        reservation.file.lock().map_err(failed)?;
        // A file full of holes: the claim is seen by others and takes no blocks yet.
        reservation.file.set_len(bytes).map_err(write_error)?;
        Ok(reservation)
    }

    fn folder(&self, name: &str) -> Result<Vec<PathBuf>, CacheError> {
        let path = self.directory.join(name);
        let entries = fs::read_dir(&path).and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect());
        entries.map_err(|error| CacheError::Directory { path, error })
    }
}

impl Reservation {
    /// The file, to be written from its begin.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Cuts the file to the `bytes` that were written, makes it durable and read-only, and renames it. The lock on the returned file is
    /// shared: others may lease the entry, nobody may evict it.
    pub(super) fn persist(mut self, cache: &KeyCache, bytes: u64, target: &Path) -> Result<File, CacheError> {
        self.file.set_len(bytes).map_err(write_error)?;
        self.file.set_permissions(fs::Permissions::from_mode(0o444)).map_err(write_error)?;
        self.file.sync_all().map_err(write_error)?;
        // To change an flock is to drop it for a moment: in that moment nobody may take the file for litter.
        let lock = cache.space_lock()?;
        self.file.lock_shared().map_err(write_error)?;
        fs::rename(&self.path, target).map_err(write_error)?;
        self.persisted = true;
        drop(lock);
        if let Some(folder) = target.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(write_error)?;
        }
        Ok(self.file.try_clone().map_err(write_error)?)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.persisted
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "an unfinished import could not be removed");
        }
    }
}

fn digest_of(path: &Path) -> Option<[u8; 32]> {
    let text = path.file_name()?.to_str()?.strip_suffix(".key")?;
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
