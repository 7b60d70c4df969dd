//! The imported key's file: one header page with counts and a table of sections, then the sections, each page-aligned.
//! Everything little-endian; points and scalars as they lie in memory.
//!
//! | offset | header field |
//! |---|---|
//! | 0 | magic, 8 bytes; version u32; number of sections u32 |
//! | 16 | curve, reduction, security, contributions (0xffffffff: unknown), variables, public, constraints, log2 of the domain: u32 each |
//! | 48 | SHA-256 of the zkey |
//! | 80 | bytes of the zkey, bytes of this file: u64 each |
//! | 128 | the table: id u32, 4 zero bytes, offset u64, length u64, 8 zero bytes, SHA-256 of the section |
//! | 4064 | SHA-256 of all header bytes before |

use sha2::{Digest, Sha256};

use super::KeySecurity;
use crate::curve::{Curve, Reduction};
use crate::format::container::{u32_at, u64_at};

/// First bytes of an imported key.
pub const MAGIC: [u8; 8] = *b"pfmkey\x1a\n";
/// The version of the layout.
pub const VERSION: u32 = 1;
/// Bytes of the header, and the alignment of sections.
pub const PAGE: u64 = 4096;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Part {
    /// alpha1, beta1, delta1; beta2, gamma2, delta2; IC.
    Verifying = 1,
    /// A's points without infinities.
    A = 2,
    /// Their wires.
    AWires = 3,
    /// B's points in G1 without infinities.
    B1 = 4,
    /// B's points in G2 without infinities.
    B2 = 5,
    /// The wires of both.
    BWires = 6,
    /// C's points without infinities.
    C = 7,
    /// Their wires.
    CWires = 8,
    /// H.
    H = 9,
    /// Matrix A: row starts.
    MatrixARows = 10,
    /// Matrix A: wires.
    MatrixAWires = 11,
    /// Matrix A: places in the table of coefficients.
    MatrixACoefficients = 12,
    /// Matrix B: row starts.
    MatrixBRows = 13,
    /// Matrix B: wires.
    MatrixBWires = 14,
    /// Matrix B: places in the table of coefficients.
    MatrixBCoefficients = 15,
    /// The distinct coefficients of both matrices.
    Coefficients = 16,
}

/// A section's place and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it holds.
    pub part: Part,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// SHA-256.
    pub digest: [u8; 32],
}

/// The header, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The curve.
    pub curve: Curve,
    /// The reduction.
    pub reduction: Reduction,
    /// Who could forge proofs.
    pub security: KeySecurity,
    /// Phase-2 contributions, where the zkey told.
    pub contributions: Option<u32>,
    /// Wires, the constant 1 included.
    pub variables: u32,
    /// Public signals, the constant 1 not included.
    pub public: u32,
    /// Constraints, the rows of the public inputs not included.
    pub constraints: u32,
    /// Base-2 logarithm of the domain.
    pub domain_log: u32,
    /// SHA-256 of the zkey.
    pub source_digest: [u8; 32],
    /// Bytes of the zkey.
    pub source_bytes: u64,
    /// Bytes of the imported file.
    pub file_bytes: u64,
    /// One entry a [`Part`].
    pub entries: Vec<Entry>,
}

/// What is wrong with an imported key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Not an imported key.
    #[error("this is not an imported key; make one with `prover import KEY.zkey`")]
    WrongMagic,
    /// Shorter than its header.
    #[error("the imported key has only {length} bytes, less than its header; it is cut short, import the zkey again")]
    TooShort {
        /// Bytes found.
        length: u64,
    },
    /// A version that is not known.
    #[error("the imported key has version {found}, this prover reads {VERSION}; import the zkey again")]
    UnsupportedVersion {
        /// The version found.
        found: u32,
    },
    /// The header's digest is wrong.
    #[error("the header of the imported key is damaged; import the zkey again")]
    HeaderDigest,
    /// A field of the header has an impossible value.
    #[error("the imported key's header has an impossible {field}; import the zkey again")]
    HeaderField {
        /// Which one.
        field: &'static str,
    },
    /// The file has another length than its header says.
    #[error(
        "the imported key has {found} bytes, its header says {expected}; it was cut or replaced, import the zkey again"
    )]
    FileLength {
        /// Bytes found.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// A section is not there, or there twice.
    #[error("the imported key has no or several sections \"{part}\"; import the zkey again")]
    Section {
        /// Which one.
        part: Part,
    },
    /// A section's place or length does not fit the counts.
    #[error("section \"{part}\" of the imported key does not fit its header; import the zkey again")]
    SectionPlace {
        /// Which one.
        part: Part,
    },
    /// A section's digest is wrong.
    #[error("section \"{part}\" of the imported key is damaged; import the zkey again")]
    SectionDigest {
        /// Which one.
        part: Part,
    },
    /// An index points nowhere.
    #[error("section \"{part}\" of the imported key has an index out of range; import the zkey again")]
    Index {
        /// Which one.
        part: Part,
    },
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] crate::format::source::ReadError),
}

/// Where the table begins, and the bytes of an entry.
const TABLE: usize = 128;
const ENTRY: usize = 64;
/// Where the header's digest lies.
const DIGEST: usize = PAGE as usize - 32;
/// "Contributions unknown".
const UNKNOWN: u32 = u32::MAX;

impl Part {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Verifying,
        Self::A,
        Self::AWires,
        Self::B1,
        Self::B2,
        Self::BWires,
        Self::C,
        Self::CWires,
        Self::H,
        Self::MatrixARows,
        Self::MatrixAWires,
        Self::MatrixACoefficients,
        Self::MatrixBRows,
        Self::MatrixBWires,
        Self::MatrixBCoefficients,
        Self::Coefficients,
    ];
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Verifying => "verifying key",
            Self::A => "A",
            Self::AWires => "wires of A",
            Self::B1 => "B in G1",
            Self::B2 => "B in G2",
            Self::BWires => "wires of B",
            Self::C => "C",
            Self::CWires => "wires of C",
            Self::H => "H",
            Self::MatrixARows => "matrix A, rows",
            Self::MatrixAWires => "matrix A, wires",
            Self::MatrixACoefficients => "matrix A, coefficients",
            Self::MatrixBRows => "matrix B, rows",
            Self::MatrixBWires => "matrix B, wires",
            Self::MatrixBCoefficients => "matrix B, coefficients",
            Self::Coefficients => "coefficients",
        })
    }
}

impl Header {
    /// The header page.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE as usize];
        page[..8].copy_from_slice(&MAGIC);
        let numbers = [
            VERSION,
            self.entries.len() as u32,
            curve_number(self.curve),
            reduction_number(self.reduction),
            security_number(self.security),
            self.contributions.unwrap_or(UNKNOWN),
            self.variables,
            self.public,
            self.constraints,
            self.domain_log,
        ];
        for (slot, number) in page[8..48].chunks_exact_mut(4).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        page[48..80].copy_from_slice(&self.source_digest);
        page[80..88].copy_from_slice(&self.source_bytes.to_le_bytes());
        page[88..96].copy_from_slice(&self.file_bytes.to_le_bytes());
        for (slot, entry) in page[TABLE..DIGEST].chunks_exact_mut(ENTRY).zip(&self.entries) {
            slot[..4].copy_from_slice(&(entry.part as u32).to_le_bytes());
            slot[8..16].copy_from_slice(&entry.offset.to_le_bytes());
            slot[16..24].copy_from_slice(&entry.length.to_le_bytes());
            slot[32..].copy_from_slice(&entry.digest);
        }
        let digest = Sha256::digest(&page[..DIGEST]);
        page[DIGEST..].copy_from_slice(&digest);
        page
    }

    /// Decodes a header page and checks it against itself and the file's length.
    pub fn decode(page: &[u8], length: u64) -> Result<Self, KeyFileError> {
        if !page.starts_with(&MAGIC) {
            return Err(KeyFileError::WrongMagic);
        }
        if page.len() < PAGE as usize {
            return Err(KeyFileError::TooShort { length });
        }
        let version = u32_at(page, 8);
        if version != VERSION {
            return Err(KeyFileError::UnsupportedVersion { found: version });
        }
        if Sha256::digest(&page[..DIGEST])[..] != page[DIGEST..PAGE as usize] {
            return Err(KeyFileError::HeaderDigest);
        }
        let header = Self::decode_fields(page)?;
        if header.file_bytes != length {
            return Err(KeyFileError::FileLength { found: length, expected: header.file_bytes });
        }
        header.check_sections()?;
        Ok(header)
    }

    /// The digest that stands for the whole file: of the header, which holds each section's.
    pub fn digest(page: &[u8]) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(page.get(DIGEST..PAGE as usize).unwrap_or(&[0; 32]));
        digest
    }

    /// A section's entry; an empty one if it is not there, which `decode` has refused.
    pub fn entry(&self, part: Part) -> Entry {
        let found = self.entries.iter().find(|entry| entry.part == part);
        found.copied().unwrap_or(Entry { part, offset: 0, length: 0, digest: [0; 32] })
    }

    fn decode_fields(page: &[u8]) -> Result<Self, KeyFileError> {
        let number = |index: usize| u32_at(page, 8 + 4 * index);
        let bad = |field| KeyFileError::HeaderField { field };
        let count = number(1) as usize;
        if count != Part::ALL.len() {
            return Err(bad("number of sections"));
        }
        let mut entries = Vec::with_capacity(count);
        for slot in page[TABLE..DIGEST].chunks_exact(ENTRY).take(count) {
            let id = u32_at(slot, 0);
            let part = Part::ALL.into_iter().find(|part| *part as u32 == id).ok_or(bad("section number"))?;
            let mut digest = [0; 32];
            digest.copy_from_slice(&slot[32..]);
            entries.push(Entry { part, offset: u64_at(slot, 8), length: u64_at(slot, 16), digest });
        }
        let mut source_digest = [0; 32];
        source_digest.copy_from_slice(&page[48..80]);
        let known = |number| Some(number).filter(|n| *n != UNKNOWN);
        Ok(Self {
            curve: curve_from(number(2)).ok_or(bad("curve"))?,
            reduction: reduction_from(number(3)).ok_or(bad("reduction"))?,
            security: security_from(number(4)).ok_or(bad("security"))?,
            contributions: known(number(5)),
            variables: number(6),
            public: number(7),
            constraints: number(8),
            domain_log: number(9),
            source_digest,
            source_bytes: u64_at(page, 80),
            file_bytes: u64_at(page, 88),
            entries,
        })
    }

    /// Each section once, aligned, within the file, as long as the counts ask for; they do not overlap.
    fn check_sections(&self) -> Result<(), KeyFileError> {
        if self.domain_log > 31 || self.variables == 0 || self.public >= self.variables {
            return Err(KeyFileError::HeaderField { field: "count" });
        }
        let mut end = PAGE;
        for entry in &self.entries {
            let next = entry.offset.checked_add(entry.length);
            let inside = next.is_some_and(|next| next <= self.file_bytes);
            if entry.offset < end || !entry.offset.is_multiple_of(PAGE) || !inside {
                return Err(KeyFileError::SectionPlace { part: entry.part });
            }
            end = next.unwrap_or(u64::MAX);
        }
        for part in Part::ALL {
            if self.entries.iter().filter(|entry| entry.part == part).count() != 1 {
                return Err(KeyFileError::Section { part });
            }
            if !self.length_fits(part) {
                return Err(KeyFileError::SectionPlace { part });
            }
        }
        Ok(())
    }

    fn length_fits(&self, part: Part) -> bool {
        let g1 = 2 * self.curve.base_field_bytes() as u64;
        let g2 = 2 * g1;
        let (variables, public) = (u64::from(self.variables), u64::from(self.public));
        let domain = 1u64 << self.domain_log;
        let length = |part| self.entry(part).length;
        // As many items of `size` as `wires` has indices.
        let matches = |wires: Part, size: u64| length(wires) % 4 == 0 && length(part) == length(wires) / 4 * size;
        let indices = |limit: u64| length(part) % 4 == 0 && length(part) / 4 <= limit;
        match part {
            Part::Verifying => length(part) == 3 * g1 + 3 * g2 + (public + 1) * g1,
            Part::A => matches(Part::AWires, g1),
            Part::B1 => matches(Part::BWires, g1),
            Part::B2 => matches(Part::BWires, g2),
            Part::C => matches(Part::CWires, g1),
            Part::AWires | Part::BWires => indices(variables),
            Part::CWires => indices(variables - public - 1),
            Part::H => length(part) == domain * g1,
            Part::MatrixARows | Part::MatrixBRows => length(part) == (domain + 1) * 4,
            Part::MatrixAWires | Part::MatrixBWires => indices(u64::from(u32::MAX)),
            Part::MatrixACoefficients => matches(Part::MatrixAWires, 4),
            Part::MatrixBCoefficients => matches(Part::MatrixBWires, 4),
            Part::Coefficients => length(part) % 32 == 0,
        }
    }
}

const fn curve_number(curve: Curve) -> u32 {
    match curve {
        Curve::Bn254 => 1,
        Curve::Bls12381 => 2,
    }
}

fn curve_from(number: u32) -> Option<Curve> {
    Curve::ALL.into_iter().find(|curve| curve_number(*curve) == number)
}

const fn reduction_number(reduction: Reduction) -> u32 {
    match reduction {
        Reduction::Circom => 1,
        Reduction::Bellperson => 2,
    }
}

fn reduction_from(number: u32) -> Option<Reduction> {
    [Reduction::Circom, Reduction::Bellperson].into_iter().find(|reduction| reduction_number(*reduction) == number)
}

const fn security_number(security: KeySecurity) -> u32 {
    match security {
        KeySecurity::Contributed => 1,
        KeySecurity::NoContribution => 2,
        KeySecurity::DevSetup => 3,
    }
}

fn security_from(number: u32) -> Option<KeySecurity> {
    [KeySecurity::Contributed, KeySecurity::NoContribution, KeySecurity::DevSetup]
        .into_iter()
        .find(|security| security_number(*security) == number)
}
