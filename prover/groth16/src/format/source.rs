//! Where bytes come from: positioned reads from a regular file or from memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Positioned reads of something of known length.
pub trait ReadAt: Send + Sync {
    /// Bytes in all, as found when opened.
    fn len(&self) -> u64;

    /// Fills `buffer` from `offset`. An end before that is [`ReadError::Shrunk`].
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError>;

    /// Whether there is nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {error}; check the path and its permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A pipe, device, socket or folder.
    #[error("{path} is not a regular file; give a file")]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// The file became shorter while it was read.
    #[error("the file was truncated while it was read; write keys to a new file and rename it into place")]
    Shrunk,
    /// A small file is far larger than its kind can be.
    #[error("the file has {length} bytes, more than the {limit} that are allowed; this is not the right kind of file")]
    TooLarge {
        /// Bytes found.
        length: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The disk or network failed.
    #[error("cannot read the file: {0}")]
    Io(io::Error),
}

/// A regular file, read by `pread`: safe whatever others do with the file meanwhile.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    length: u64,
}

impl FileSource {
    /// Opens a regular file. Never blocks on a pipe.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let open_error = |error| ReadError::Open { path: path.to_owned(), error };
        // A FIFO would block without O_NONBLOCK; regular files do not care for it.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        if !metadata.is_file() {
            return Err(ReadError::NotRegular { path: path.to_owned() });
        }
        Ok(Self { file, length: metadata.len() })
    }

    /// A file that is open already, of known length.
    pub(crate) fn new(file: File, length: u64) -> Self {
        Self { file, length }
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The open file.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl ReadAt for FileSource {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Shrunk,
            _ => ReadError::Io(error),
        })
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let start = usize::try_from(offset).map_err(|_| ReadError::Shrunk)?;
        let end = start.checked_add(buffer.len()).ok_or(ReadError::Shrunk)?;
        buffer.copy_from_slice(self.get(start..end).ok_or(ReadError::Shrunk)?);
        Ok(())
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        (**self).read_exact_at(buffer, offset)
    }
}

/// A whole small file, at most `limit` bytes.
pub fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let source = FileSource::open(path)?;
    read_range(&source, 0, source.len(), limit)
}

/// `length` bytes from `offset`, at most `limit`. Allocates only what the source has.
pub fn read_range(source: &(impl ReadAt + ?Sized), offset: u64, length: u64, limit: u64) -> Result<Vec<u8>, ReadError> {
    if length > limit {
        return Err(ReadError::TooLarge { length, limit });
    }
    if offset.checked_add(length).is_none_or(|end| end > source.len()) {
        return Err(ReadError::Shrunk);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| ReadError::TooLarge { length, limit })?];
    source.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// SHA-256 of a source. `progress` is called with the bytes done; false stops with `None`.
pub fn sha256(
    source: &(impl ReadAt + ?Sized),
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<[u8; 32]>, ReadError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < source.len() {
        if !progress(offset) {
            return Ok(None);
        }
        let take = usize::try_from(source.len() - offset).unwrap_or(usize::MAX).min(buffer.len());
        source.read_exact_at(&mut buffer[..take], offset)?;
        hasher.update(&buffer[..take]);
        offset += take as u64;
    }
    Ok(Some(hasher.finalize().into()))
}

/// Reads a source front to back through a buffer: for formats without positions.
pub struct Cursor<'a, R: ReadAt + ?Sized> {
    source: &'a R,
    buffer: Vec<u8>,
    /// Next byte within the buffer.
    next: usize,
    /// Offset of the end of the buffer in the source.
    filled: u64,
    end: u64,
}

/// A cursor's read went past the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastEnd;

impl<'a, R: ReadAt + ?Sized> Cursor<'a, R> {
    /// Bytes read at once, at most.
    const BUFFER: usize = 1 << 18;

    /// A cursor over `start..end`; `end` is at most the source's length.
    pub fn new(source: &'a R, start: u64, end: u64) -> Self {
        Self { source, buffer: Vec::new(), next: 0, filled: start, end }
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.filled) + (self.buffer.len() - self.next) as u64
    }

    /// The next `count` bytes (at most 256 KiB).
    pub fn take(&mut self, count: usize) -> Result<Result<&[u8], PastEnd>, ReadError> {
        if count as u64 > self.remaining() || count > Self::BUFFER {
            return Ok(Err(PastEnd));
        }
        if self.buffer.len() - self.next < count {
            self.buffer.drain(..self.next);
            self.next = 0;
            let have = self.buffer.len();
            let more = (self.end - self.filled).min((Self::BUFFER - have) as u64) as usize;
            self.buffer.resize(have + more, 0);
            self.source.read_exact_at(&mut self.buffer[have..], self.filled)?;
            self.filled += more as u64;
        }
        let start = self.next;
        self.next += count;
        Ok(Ok(&self.buffer[start..self.next]))
    }
}
