//! An imported key from elsewhere, copied into the cache: its digest is the caller's, its sections' digests are checked.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

use crate::format::source::{FileSource, ReadAt};
use crate::key::import::{ImportControl, ImportError, write_error};
use crate::key::layout::{Header, KeyFileError, PAGE};

/// Bytes copied at once.
const STEP: u64 = 4 << 20;

/// Copies the file and checks header and sections of the copy. The SHA-256 of the whole file.
pub(super) fn copy_imported(
    source: &FileSource,
    target: &mut File,
    control: &ImportControl<'_>,
) -> Result<[u8; 32], ImportError> {
    let mut whole = Sha256::new();
    let mut buffer = vec![0; STEP.min(source.len()) as usize];
    target.seek(SeekFrom::Start(0)).map_err(write_error)?;
    let mut done = 0;
    while done < source.len() {
        control.check()?;
        let step = &mut buffer[..(source.len() - done).min(STEP) as usize];
        source.read_exact_at(step, done)?;
        whole.update(&*step);
        target.write_all(step).map_err(write_error)?;
        done += step.len() as u64;
        (control.progress)(done, source.len());
    }
    // From the copy: nobody else writes it.
    let mut page = vec![0; PAGE.min(source.len()) as usize];
    let copy = FileSource::new(target.try_clone().map_err(write_error)?, source.len());
    copy.read_exact_at(&mut page, 0)?;
    let header = Header::decode(&page, copy.len())?;
    for entry in &header.entries {
        check_section(&copy, entry, control)?;
    }
    Ok(whole.finalize().into())
}

fn check_section(
    source: &FileSource,
    entry: &crate::key::layout::Entry,
    control: &ImportControl<'_>,
) -> Result<(), ImportError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; STEP.min(entry.length) as usize];
    let mut done = 0;
    while done < entry.length {
        control.check()?;
        let step = &mut buffer[..(entry.length - done).min(STEP) as usize];
        source.read_exact_at(step, entry.offset + done)?;
        hasher.update(&*step);
        done += step.len() as u64;
    }
    if hasher.finalize()[..] != entry.digest {
        return Err(KeyFileError::SectionDigest { part: entry.part }.into());
    }
    Ok(())
}
