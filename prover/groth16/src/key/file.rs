//! An imported key, mapped. Opening costs a look at the header and at the indices; points are touched by the first proof.
//!
//! **Who may change a mapped file.** A process that reads a mapping whose file was truncated dies of SIGBUS, so only files
//! that nobody else writes are mapped: entries of the [cache](super::cache), which are read-only, replaced by rename
//! alone, and deleted only as names (a mapping outlives its name). Whatever a user or a download owns (a zkey, an imported
//! key given by path) is read, checked and copied into the cache first, and may change or vanish afterwards.

use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::OnceLock;

use bytemuck::Pod;
use memmap2::Mmap;
use proofmill_kernels::curve::Affine;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::KeyInfo;
use super::layout::{Header, KeyFileError, PAGE, Part};
use super::view::{Csr, KeyView, Points};
use crate::curve::Suite;
use crate::format::source::{FileSource, ReadAt};
use crate::verify::Prepared;
use crate::verifying_key::VerifyingPoints;

/// A mapped key of suite `S`.
pub struct KeyFile<S: Suite> {
    map: Mmap,
    /// Kept open: the lock on it is the cache's lease.
    file: File,
    header: Header,
    info: KeyInfo,
    /// Made when the first proof is verified.
    verifier: OnceLock<Prepared<S>>,
    /// Made when it is first asked for.
    verifying_key_digest: OnceLock<[u8; 32]>,
    suite: PhantomData<S>,
}

/// A mapped file with its header, before its curve is a type.
pub(crate) struct RawKeyFile {
    map: Mmap,
    file: File,
    pub(crate) header: Header,
    digest: [u8; 32],
}

/// alpha1, beta1, delta1 and beta2, gamma2, delta2.
type VerifyingHead<S> = ([Affine<<S as Suite>::Fq>; 3], [Affine<<S as Suite>::Fq2>; 3]);

impl RawKeyFile {
    /// Maps an imported key and checks its header.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyFileError> {
        let source = FileSource::open(path)?;
        let length = source.len();
        let mut page = vec![0; length.min(PAGE) as usize];
        source.read_exact_at(&mut page, 0)?;
        Header::decode(&page, length)?;
        // SAFETY: the file is one that nobody writes (see the module's text); all access is through `&[u8]`.
        let map = unsafe { Mmap::map(source.file()) }.map_err(crate::format::source::ReadError::Io)?;
        // Once more from the mapping: what is used is what was checked.
        let page = map.get(..PAGE as usize).ok_or(KeyFileError::TooShort { length })?;
        let header = Header::decode(page, map.len() as u64)?;
        let digest = Header::digest(page);
        Ok(Self { file: source.into_file(), header, digest, map })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The typed key; the header's curve must be `S`'s. Checks every index, so that no use of the view can go out of range.
    pub(crate) fn typed<S: Suite>(self) -> Result<KeyFile<S>, KeyFileError> {
        if self.header.curve != S::CURVE {
            return Err(KeyFileError::HeaderField { field: "curve" });
        }
        let header = &self.header;
        let info = KeyInfo {
            curve: header.curve,
            source_digest: header.source_digest,
            digest: self.digest,
            variables: header.variables,
            public: header.public,
            constraints: header.constraints,
            domain_log: header.domain_log,
            bytes: header.file_bytes,
            security: header.security,
        };
        let key = KeyFile {
            map: self.map,
            file: self.file,
            header: self.header,
            info,
            verifier: OnceLock::new(),
            verifying_key_digest: OnceLock::new(),
            suite: PhantomData,
        };
        key.check_indices()?;
        Ok(key)
    }
}

impl<S: Suite> KeyFile<S> {
    /// Sizes and digests.
    pub fn info(&self) -> &KeyInfo {
        &self.info
    }

    /// Phase-2 contributions, where the zkey told.
    pub fn contributions(&self) -> Option<u32> {
        self.header.contributions
    }

    /// The key as slices of the mapping.
    pub fn view(&self) -> KeyView<'_, S> {
        let (g1, g2) = self.verifying_head();
        let coefficients = self.slice(Part::Coefficients);
        let matrix = |rows, wires, places| Csr {
            row_start: self.slice(rows),
            wires: self.slice(wires),
            coefficient: self.slice(places),
            coefficients,
        };
        KeyView {
            variables: self.header.variables as usize,
            public: self.header.public as usize,
            domain_log: self.header.domain_log,
            reduction: self.header.reduction,
            alpha1: g1[0],
            beta1: g1[1],
            delta1: g1[2],
            beta2: g2[0],
            gamma2: g2[1],
            delta2: g2[2],
            a: Points { points: self.slice(Part::A), wires: self.slice(Part::AWires) },
            b1: Points { points: self.slice(Part::B1), wires: self.slice(Part::BWires) },
            b2: Points { points: self.slice(Part::B2), wires: self.slice(Part::BWires) },
            c: Points { points: self.slice(Part::C), wires: self.slice(Part::CWires) },
            h: self.slice(Part::H),
            matrix_a: matrix(Part::MatrixARows, Part::MatrixAWires, Part::MatrixACoefficients),
            matrix_b: matrix(Part::MatrixBRows, Part::MatrixBWires, Part::MatrixBCoefficients),
        }
    }

    /// The verifying key.
    pub fn verifying_points(&self) -> VerifyingPoints<S> {
        let (g1, g2) = self.verifying_head();
        let bytes = self.bytes(Part::Verifying);
        let head = 3 * size_of::<Affine<S::Fq>>() + 3 * size_of::<Affine<S::Fq2>>();
        let ic = bytes.get(head..).unwrap_or_default().chunks_exact(size_of::<Affine<S::Fq>>());
        VerifyingPoints {
            alpha1: g1[0],
            beta2: g2[0],
            gamma2: g2[1],
            delta2: g2[2],
            ic: ic.map(bytemuck::pod_read_unaligned).collect(),
        }
    }

    /// SHA-256 of the verifying key; `digest` makes it the first time.
    pub(super) fn verifying_key_digest(&self, digest: impl FnOnce() -> [u8; 32]) -> [u8; 32] {
        *self.verifying_key_digest.get_or_init(digest)
    }

    /// The verifying key, prepared: two to three milliseconds the first time.
    pub fn verifier(&self) -> &Prepared<S> {
        self.verifier.get_or_init(|| Prepared::new(&self.verifying_points()))
    }

    /// Reads the whole file and compares each section with its digest, in parallel on the caller's rayon pool.
    pub fn verify_digests(&self) -> Result<(), KeyFileError> {
        self.check_length()?;
        self.header.entries.par_iter().try_for_each(|entry| {
            if Sha256::digest(self.bytes(entry.part))[..] == entry.digest {
                return Ok(());
            }
            Err(KeyFileError::SectionDigest { part: entry.part })
        })
    }

    /// Whether the file under the mapping still has its length. One system call; worth it before a proof, because a
    /// mapping of a truncated file kills the process when it is read.
    pub fn check_length(&self) -> Result<(), KeyFileError> {
        let found = self.file.metadata().map_err(crate::format::source::ReadError::Io)?.len();
        if found == self.header.file_bytes {
            return Ok(());
        }
        Err(KeyFileError::FileLength { found, expected: self.header.file_bytes })
    }

    /// The open file, on which the cache holds its lease.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn verifying_head(&self) -> VerifyingHead<S> {
        let bytes = self.bytes(Part::Verifying);
        let (g1, g2) = (size_of::<Affine<S::Fq>>(), size_of::<Affine<S::Fq2>>());
        (
            std::array::from_fn(|i| read_point(bytes, i * g1, g1)),
            std::array::from_fn(|i| read_point(bytes, 3 * g1 + i * g2, g2)),
        )
    }

    /// A section's bytes. `Header::decode` has checked that they are there.
    fn bytes(&self, part: Part) -> &[u8] {
        let entry = self.header.entry(part);
        let range = usize::try_from(entry.offset).ok().zip(usize::try_from(entry.offset + entry.length).ok());
        range.and_then(|(start, end)| self.map.get(start..end)).unwrap_or_default()
    }

    /// A section in place. Sections are page-aligned and their lengths checked, so the cast holds.
    fn slice<T: Pod>(&self, part: Part) -> &[T] {
        bytemuck::try_cast_slice(self.bytes(part)).unwrap_or_default()
    }

    fn check_indices(&self) -> Result<(), KeyFileError> {
        let variables = self.header.variables;
        let ascending = |part, first: u32| {
            let wires: &[u32] = self.slice(part);
            let sorted = wires.par_windows(2).all(|pair| pair[0] < pair[1]);
            let inside = wires.first().is_none_or(|w| *w >= first) && wires.last().is_none_or(|w| *w < variables);
            if sorted && inside { Ok(()) } else { Err(KeyFileError::Index { part }) }
        };
        ascending(Part::AWires, 0)?;
        ascending(Part::BWires, 0)?;
        ascending(Part::CWires, self.header.public + 1)?;
        let distinct = self.slice::<S::Fr>(Part::Coefficients).len();
        for [rows, wires, places] in [
            [Part::MatrixARows, Part::MatrixAWires, Part::MatrixACoefficients],
            [Part::MatrixBRows, Part::MatrixBWires, Part::MatrixBCoefficients],
        ] {
            let starts: &[u32] = self.slice(rows);
            let entries: &[u32] = self.slice(wires);
            let whole = starts.first() == Some(&0) && starts.last().is_some_and(|end| *end as usize == entries.len());
            if !whole || !starts.par_windows(2).all(|pair| pair[0] <= pair[1]) {
                return Err(KeyFileError::Index { part: rows });
            }
            if !entries.par_iter().all(|wire| *wire < variables) {
                return Err(KeyFileError::Index { part: wires });
            }
            if !self.slice::<u32>(places).par_iter().all(|place| (*place as usize) < distinct) {
                return Err(KeyFileError::Index { part: places });
            }
        }
        Ok(())
    }
}

/// A point at an offset; infinity if it is not there, which the header's check has refused.
fn read_point<F: proofmill_kernels::field::Field>(bytes: &[u8], offset: usize, size: usize) -> Affine<F>
where
    Affine<F>: Pod,
{
    bytes.get(offset..offset + size).map_or(Affine::INFINITY, bytemuck::pod_read_unaligned)
}
