//! The binary container of iden3's formats: magic, version, then sections of (id, length, payload) in any order.

use std::collections::HashSet;

use super::source::{ReadAt, ReadError};

/// One kind of file in this container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name, which is also its magic.
    pub name: &'static str,
    /// The only version that is known.
    pub version: u32,
}

/// A proving key.
pub const ZKEY: Kind = Kind { name: "zkey", version: 1 };
/// A witness.
pub const WTNS: Kind = Kind { name: "wtns", version: 2 };
/// A constraint system.
pub const R1CS: Kind = Kind { name: "r1cs", version: 1 };

/// Where a section's payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its number; what it means depends on the kind.
    pub id: u32,
    /// First byte of the payload.
    pub offset: u64,
    /// Bytes of the payload.
    pub length: u64,
}

/// A container's table of sections, checked against the file's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    kind: Kind,
    /// In the file's order.
    sections: Vec<Section>,
}

/// What is wrong with a container.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The file is empty.
    #[error("the {kind} file is empty; the download or the tool that wrote it failed")]
    Empty {
        /// What was expected.
        kind: &'static str,
    },
    /// Shorter than the fixed header.
    #[error("the {kind} file has only {length} bytes, a header has 12; it is cut short")]
    TooShort {
        /// What was expected.
        kind: &'static str,
        /// Bytes found.
        length: u64,
    },
    /// Another kind of file.
    #[error("this is not a {kind} file: it begins with {found}, not with \"{kind}\"")]
    WrongMagic {
        /// What was expected.
        kind: &'static str,
        /// The first four bytes, printable or in hexadecimal.
        found: String,
    },
    /// A version that is not known.
    #[error(
        "{kind} version {found} is not supported, only version {supported}; write the file with snarkjs 0.7 or circom 2"
    )]
    UnsupportedVersion {
        /// What was expected.
        kind: &'static str,
        /// The version found.
        found: u32,
        /// The version that is known.
        supported: u32,
    },
    /// More sections than the file could hold.
    #[error("the {kind} file claims {count} sections, it can hold {limit} at most; it is corrupt")]
    TooManySections {
        /// What was expected.
        kind: &'static str,
        /// Sections claimed.
        count: u32,
        /// Sections possible.
        limit: u64,
    },
    /// The file ends within the table.
    #[error("the {kind} file ends before section {index} of {count}; it is cut short")]
    MissingSectionHeader {
        /// What was expected.
        kind: &'static str,
        /// The first section that is not there, from 1.
        index: u32,
        /// Sections claimed.
        count: u32,
    },
    /// A length that no file can have.
    #[error("section {id} of the {kind} file claims {length} bytes, which no file can hold; it is corrupt")]
    SectionOverflow {
        /// What was expected.
        kind: &'static str,
        /// The section.
        id: u32,
        /// Bytes claimed.
        length: u64,
    },
    /// A section goes past the end.
    #[error("section {id} of the {kind} file claims {length} bytes where {available} are left; the file is cut short")]
    SectionPastEnd {
        /// What was expected.
        kind: &'static str,
        /// The section.
        id: u32,
        /// Bytes claimed.
        length: u64,
        /// Bytes there.
        available: u64,
    },
    /// A section occurs twice.
    #[error("section {id} occurs twice in the {kind} file; it is corrupt")]
    DuplicateSection {
        /// What was expected.
        kind: &'static str,
        /// The section.
        id: u32,
    },
    /// A section that is needed is not there.
    #[error("the {kind} file has no section {id} ({name}); it is incomplete")]
    MissingSection {
        /// What was expected.
        kind: &'static str,
        /// The section.
        id: u32,
        /// What it holds.
        name: &'static str,
    },
    /// Bytes after the last section.
    #[error("{bytes} bytes follow the last section of the {kind} file; it is corrupt, or two files were joined")]
    TrailingBytes {
        /// What was expected.
        kind: &'static str,
        /// How many.
        bytes: u64,
    },
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// More sections than any known kind has; a bound on work and memory.
const MAX_SECTIONS: u64 = 1024;
/// Magic, version, count.
const HEADER: u64 = 12;
/// Id and length before each payload.
const SECTION_HEADER: u64 = 12;

impl Container {
    /// Reads the table of sections and checks it against the source's length: nothing overlaps, overflows or is left over.
    pub fn read(source: &(impl ReadAt + ?Sized), kind: Kind) -> Result<Self, ContainerError> {
        let (name, length) = (kind.name, source.len());
        if length == 0 {
            return Err(ContainerError::Empty { kind: name });
        }
        if length < HEADER {
            return Err(ContainerError::TooShort { kind: name, length });
        }
        let mut header = [0; HEADER as usize];
        source.read_exact_at(&mut header, 0)?;
        if header[..4] != *name.as_bytes() {
            return Err(ContainerError::WrongMagic { kind: name, found: printable(&header[..4]) });
        }
        let version = u32_at(&header, 4);
        if version != kind.version {
            return Err(ContainerError::UnsupportedVersion { kind: name, found: version, supported: kind.version });
        }
        let count = u32_at(&header, 8);
        let limit = ((length - HEADER) / SECTION_HEADER).min(MAX_SECTIONS);
        if u64::from(count) > limit {
            return Err(ContainerError::TooManySections { kind: name, count, limit });
        }
        let sections = read_sections(source, name, count)?;
        Ok(Self { kind, sections })
    }

    /// The section with this id, which `name` tells a reader.
    pub fn section(&self, id: u32, name: &'static str) -> Result<Section, ContainerError> {
        self.find(id).ok_or(ContainerError::MissingSection { kind: self.kind.name, id, name })
    }

    /// The section with this id, if there is one.
    pub fn find(&self, id: u32) -> Option<Section> {
        self.sections.iter().find(|section| section.id == id).copied()
    }

    /// All sections in the file's order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

fn read_sections(
    source: &(impl ReadAt + ?Sized),
    kind: &'static str,
    count: u32,
) -> Result<Vec<Section>, ContainerError> {
    let length = source.len();
    let mut sections = Vec::with_capacity(count as usize);
    let mut ids = HashSet::with_capacity(count as usize);
    let mut position = HEADER;
    for index in 1..=count {
        if length - position < SECTION_HEADER {
            return Err(ContainerError::MissingSectionHeader { kind, index, count });
        }
        let mut header = [0; SECTION_HEADER as usize];
        source.read_exact_at(&mut header, position)?;
        let id = u32_at(&header, 0);
        let claimed = u64_at(&header, 4);
        let offset = position + SECTION_HEADER;
        let end = offset.checked_add(claimed).filter(|end| *end <= i64::MAX as u64);
        let end = end.ok_or(ContainerError::SectionOverflow { kind, id, length: claimed })?;
        if end > length {
            return Err(ContainerError::SectionPastEnd { kind, id, length: claimed, available: length - offset });
        }
        if !ids.insert(id) {
            return Err(ContainerError::DuplicateSection { kind, id });
        }
        sections.push(Section { id, offset, length: claimed });
        position = end;
    }
    if position != length {
        return Err(ContainerError::TrailingBytes { kind, bytes: length - position });
    }
    Ok(sections)
}

/// The little-endian u32 at `offset`; zero-extended past the end.
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u64_at(bytes.get(..bytes.len().min(offset + 4)).unwrap_or_default(), offset) as u32
}

/// The little-endian u64 at `offset`; zero-extended past the end.
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let rest = bytes.get(offset..).unwrap_or_default();
    let mut word = [0; 8];
    let take = rest.len().min(8);
    word[..take].copy_from_slice(&rest[..take]);
    u64::from_le_bytes(word)
}

/// Four little-endian limbs; `bytes` holds 32.
pub fn limbs_at(bytes: &[u8], offset: usize) -> [u64; 4] {
    std::array::from_fn(|i| u64_at(bytes, offset + 8 * i))
}

/// Whether a is below b, both little-endian limbs of one length.
pub fn below(a: &[u64], b: &[u64]) -> bool {
    a.iter().rev().cmp(b.iter().rev()).is_lt()
}

fn printable(bytes: &[u8]) -> String {
    if bytes.iter().all(u8::is_ascii_graphic) {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    }
    bytes.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}"))
}
