//! The imported key as it is written: sections one after the other, the header last.

use std::io::{self, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

use super::ImportError;
use crate::key::layout::{Entry, Header, PAGE, Part};

/// What an import writes to: a file, or memory in tests.
pub trait Sink: Write + Seek + Send {}
impl<T: Write + Seek + Send> Sink for T {}

/// Writes sections and keeps their table.
pub(super) struct Output<'a> {
    sink: &'a mut dyn Sink,
    position: u64,
    entries: Vec<Entry>,
    open: Option<(Part, u64, Sha256)>,
}

impl<'a> Output<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Result<Self, ImportError> {
        let mut output = Self { sink, position: 0, entries: Vec::new(), open: None };
        output.put(&[0; PAGE as usize])?;
        Ok(output)
    }

    /// Begins a section on the next page.
    pub(super) fn begin(&mut self, part: Part) -> Result<(), ImportError> {
        let padding = (PAGE - self.position % PAGE) % PAGE;
        self.put(&[0; PAGE as usize][..padding as usize])?;
        self.open = Some((part, self.position, Sha256::new()));
        Ok(())
    }

    /// More of the open section.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        if let Some((_, _, hasher)) = &mut self.open {
            hasher.update(bytes);
        }
        self.put(bytes)
    }

    /// Ends the open section.
    pub(super) fn end(&mut self) {
        if let Some((part, offset, hasher)) = self.open.take() {
            let length = self.position - offset;
            self.entries.push(Entry { part, offset, length, digest: hasher.finalize().into() });
        }
    }

    /// A whole section.
    pub(super) fn section(&mut self, part: Part, bytes: &[u8]) -> Result<(), ImportError> {
        self.begin(part)?;
        self.write(bytes)?;
        self.end();
        Ok(())
    }

    /// Writes the header over its page. `header`'s table and length are filled in.
    pub(super) fn finish(self, mut header: Header) -> Result<Header, ImportError> {
        header.entries = self.entries;
        header.file_bytes = self.position;
        self.sink.seek(SeekFrom::Start(0)).map_err(write_error)?;
        self.sink.write_all(&header.encode()).map_err(write_error)?;
        self.sink.flush().map_err(write_error)?;
        Ok(header)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        self.sink.write_all(bytes).map_err(write_error)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

/// A full disk or quota is told apart: the user can do something about it.
pub(crate) fn write_error(error: io::Error) -> ImportError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ImportError::DiskFull(error)
        }
        _ => ImportError::Write(error),
    }
}
