//! What an import makes of genuine keys: the view holds exactly what the zkey held.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use common::Parts;
use proofmill_groth16::curve::{Curve, Suite};
use proofmill_groth16::format::zkey::points::verifying_key;
use proofmill_groth16::key::file::KeyFile;
use proofmill_groth16::key::import::{ImportControl, ImportError, import_zkey};
use proofmill_groth16::key::layout::{Header, KeyFileError, Part};
use proofmill_groth16::key::view::{Csr, Points};
use proofmill_groth16::key::{KeySecurity, ProvingKey};
use proofmill_groth16::verifying_key::VerifyingKey;
use proofmill_kernels::field::{Field, PrimeField};
use sha2::{Digest, Sha256};

fn open(bytes: &[u8]) -> (tempfile::TempDir, ProvingKey) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.key");
    std::fs::write(&path, bytes).unwrap();
    let key = ProvingKey::open(&path).unwrap();
    (folder, key)
}

#[test]
fn the_view_holds_what_the_zkey_held() {
    for curve in Curve::ALL {
        let zkey = common::fixture(curve, "chain.zkey");
        let (header, bytes) = common::import(&zkey).unwrap();
        assert_eq!(header.source_digest, <[u8; 32]>::from(Sha256::digest(&zkey)));
        let (_folder, key) = open(&bytes);
        let info = key.info();
        assert_eq!((info.curve, info.constraints, info.public, info.domain_log), (curve, 3000, 2, 12));
        assert_eq!(
            (info.variables, info.security, info.bytes),
            (3004 - 1, KeySecurity::Contributed, bytes.len() as u64)
        );
        assert_eq!(key.contributions(), Some(1));
        key.verify_digests().unwrap();
        key.check_length().unwrap();
        match &key {
            ProvingKey::Bn254(key) => check_view(key, &mut Parts::of(&zkey)),
            ProvingKey::Bls12381(key) => check_view(key, &mut Parts::of(&zkey)),
        }
    }
}

fn check_view<S: Suite>(key: &KeyFile<S>, zkey: &mut Parts) {
    let view = key.view();
    let n = S::CURVE.base_field_bytes();
    check_points(&view.a, zkey.section(5), 2 * n, 0);
    check_points(&view.b1, zkey.section(6), 2 * n, 0);
    check_points(&view.b2, zkey.section(7), 4 * n, 0);
    check_points(&view.c, zkey.section(8), 2 * n, view.public as u32 + 1);
    assert_eq!(bytemuck::cast_slice::<_, u8>(view.h), &zkey.section(9)[..]);
    assert_eq!(view.h.as_ptr().align_offset(64), 0, "points begin on a cache line");
    assert!(view.b1.points.len() < view.variables, "the chain has points at infinity in B");
    let entries = matrix_of::<S>(zkey.section(4));
    check_matrix::<S>(&view.matrix_a, &entries[0]);
    check_matrix::<S>(&view.matrix_b, &entries[1]);
    assert_eq!(view.matrix_a.rows(), 1 << view.domain_log);
}

fn check_points<F: Field>(points: &Points<'_, F>, section: &[u8], size: usize, first_wire: u32) {
    let finite: Vec<(u32, &[u8])> = (first_wire..)
        .zip(section.chunks_exact(size))
        .filter(|(_, point)| point.iter().any(|byte| *byte != 0))
        .collect();
    assert_eq!(points.points.len(), finite.len());
    assert_eq!(points.wires.len(), finite.len());
    for ((point, wire), (expected_wire, expected)) in points.points.iter().zip(points.wires).zip(finite) {
        assert_eq!(*wire, expected_wire);
        assert_eq!(bytemuck::bytes_of(point), expected);
    }
}

type Entries = BTreeMap<(u32, u32), [u64; 4]>;

/// Both matrices by an independent, slow reading.
fn matrix_of<S: Suite>(section: &[u8]) -> [Entries; 2] {
    let mut matrices = [BTreeMap::new(), BTreeMap::new()];
    for entry in section[4..].chunks_exact(44) {
        let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        let value = std::array::from_fn(|i| u64::from_le_bytes(entry[12 + 8 * i..20 + 8 * i].try_into().unwrap()));
        let value = S::Fr::from_montgomery(value);
        let sum = matrices[number(0) as usize].entry((number(4), number(8))).or_insert(S::Fr::ZERO);
        *sum = value.add(sum);
    }
    matrices.map(|m| m.into_iter().filter(|(_, v)| !v.is_zero()).map(|(k, v)| (k, v.montgomery())).collect())
}

fn check_matrix<S: Suite>(matrix: &Csr<'_, S::Fr>, expected: &Entries) {
    let mut found = BTreeMap::new();
    for row in 0..matrix.rows() {
        for (wire, place) in matrix.row(row) {
            let value = matrix.coefficients[place as usize].montgomery();
            assert!(found.insert((row as u32, wire), value).is_none(), "an entry occurs twice");
        }
    }
    assert_eq!(&found, expected);
    assert_eq!(matrix.row(matrix.rows() + 5).count(), 0);
}

/// Split entries add up, and what adds up to zero is dropped.
#[test]
fn repeated_coefficients_are_added_up() {
    for curve in Curve::ALL {
        let mut parts = Parts::of(&common::fixture(curve, "chain.zkey"));
        let count = parts.get_u32(4, 0);
        let mut extra = parts.section(4)[4..4 + 44].to_vec();
        extra[12..44].copy_from_slice(&[&[1][..], &[0; 31]].concat());
        // 1 and r - 1 on a place of their own, and 1 on top of entry 0 (as raw values).
        let mut pair = extra.clone();
        pair[8..12].copy_from_slice(&77u32.to_le_bytes());
        let mut minus = pair.clone();
        minus[12..44].copy_from_slice(&curve.scalar_modulus_bytes());
        minus[12] -= 1;
        for entry in [&extra, &pair, &minus] {
            parts.section(4).extend(entry);
        }
        parts.put_u32(4, 0, count + 3);
        let (_, bytes) = common::import(&parts.bytes()).unwrap();
        let (_folder, key) = open(&bytes);
        match &key {
            ProvingKey::Bn254(key) => check_view_matrices(key, &mut parts),
            ProvingKey::Bls12381(key) => check_view_matrices(key, &mut parts),
        }
    }
}

fn check_view_matrices<S: Suite>(key: &KeyFile<S>, parts: &mut Parts) {
    let entries = matrix_of::<S>(parts.section(4));
    check_matrix::<S>(&key.view().matrix_a, &entries[0]);
    check_matrix::<S>(&key.view().matrix_b, &entries[1]);
}

#[test]
fn the_verifying_key_is_snarkjs_own() {
    for curve in Curve::ALL {
        let zkey = common::fixture(curve, "chain.zkey");
        let snarkjs = VerifyingKey::from_json(&common::fixture(curve, "vk.json")).unwrap();
        assert_eq!(verifying_key(&zkey[..]).unwrap(), snarkjs);
        let (_folder, key) = open(&common::import(&zkey).unwrap().1);
        assert_eq!(key.verifying_key(), snarkjs);
        assert_eq!(key.verifying_key().digest(), snarkjs.digest());
        // Our JSON says the same as snarkjs's, but for vk_alphabeta_12, which follows from the rest.
        let ours: serde_json::Value = serde_json::from_str(&snarkjs.to_json()).unwrap();
        let mut theirs: serde_json::Value = serde_json::from_slice(&common::fixture(curve, "vk.json")).unwrap();
        theirs.as_object_mut().unwrap().remove("vk_alphabeta_12");
        assert_eq!(ours, theirs);
    }
    let [bn, bls] = Curve::ALL.map(|curve| VerifyingKey::from_json(&common::fixture(curve, "vk.json")).unwrap());
    assert_ne!(bn.digest(), bls.digest());
}

#[test]
fn imports_are_deterministic() {
    let zkey = common::fixture(Curve::Bn254, "chain.zkey");
    assert_eq!(common::import(&zkey).unwrap().1, common::import(&zkey).unwrap().1);
}

#[test]
fn progress_reaches_the_end_and_cancellation_stops() {
    let zkey = common::fixture(Curve::Bn254, "chain.zkey");
    let (last, total) = (AtomicU64::new(0), zkey.len() as u64);
    let progress = |done, all| {
        assert_eq!(all, total);
        assert!(last.swap(done, Ordering::Relaxed) <= done);
    };
    let mut sink = std::io::Cursor::new(Vec::new());
    let control = ImportControl { progress: &progress, cancelled: &|| false };
    import_zkey(&&zkey[..], &mut sink, &control).unwrap();
    assert_eq!(last.load(Ordering::Relaxed), total);

    let control = ImportControl { progress: &|_, _| (), cancelled: &|| true };
    let result = import_zkey(&&zkey[..], &mut std::io::Cursor::new(Vec::new()), &control);
    assert!(matches!(result, Err(ImportError::Cancelled)));
}

/// A source that changes between the reading of its header and that of its content.
struct Changing<'a> {
    bytes: &'a [u8],
    reads: AtomicU64,
    at: u64,
}

impl proofmill_groth16::format::source::ReadAt for Changing<'_> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), proofmill_groth16::format::source::ReadError> {
        self.bytes.read_exact_at(buffer, offset)?;
        let covered = offset <= self.at && self.at < offset + buffer.len() as u64;
        if covered && self.reads.fetch_add(1, Ordering::Relaxed) > 0 {
            buffer[(self.at - offset) as usize] ^= 1;
        }
        Ok(())
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_refused() {
    let zkey = common::fixture(Curve::Bn254, "chain.zkey");
    // Within the first section's header, and within the header section's alpha.
    for at in [12, 12 + 16 + 12 + 200] {
        let source = Changing { bytes: &zkey, reads: AtomicU64::new(0), at };
        let result = import_zkey(&source, &mut std::io::Cursor::new(Vec::new()), &ImportControl::QUIET);
        assert!(matches!(result, Err(ImportError::SourceChanged)), "byte {at}");
    }
}

/// A sink that is full after some bytes.
struct Full(u64);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len() as u64).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Full {
    fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_full_disk_is_an_error_of_its_own() {
    let zkey = common::fixture(Curve::Bn254, "chain.zkey");
    for room in [0, 10_000, 500_000, 1_000_000] {
        let result = import_zkey(&&zkey[..], &mut Full(room), &ImportControl::QUIET);
        assert!(matches!(result, Err(ImportError::DiskFull(_))), "{room} bytes");
    }
}

/// Each kind of damage to an imported key.
#[test]
fn damaged_imported_keys_are_refused() {
    let (header, bytes) = common::import(&common::fixture(Curve::Bn254, "chain.zkey")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        ProvingKey::open(&path)
    };
    let damaged = |at: usize| {
        let mut copy = bytes.clone();
        copy[at] ^= 1;
        copy
    };
    let forged = |change: &dyn Fn(&mut Header)| {
        let mut copy = header.clone();
        change(&mut copy);
        [&copy.encode()[..], &bytes[4096..]].concat()
    };
    assert!(matches!(open(&[]), Err(KeyFileError::WrongMagic)));
    assert!(matches!(open(&bytes[..100]), Err(KeyFileError::TooShort { .. })));
    assert!(matches!(open(&damaged(0)), Err(KeyFileError::WrongMagic)));
    assert!(matches!(open(&damaged(8)), Err(KeyFileError::UnsupportedVersion { .. })));
    for at in [16, 32, 60, 130, 2000, 4090] {
        assert!(matches!(open(&damaged(at)), Err(KeyFileError::HeaderDigest)), "byte {at}");
    }
    assert!(matches!(open(&bytes[..bytes.len() - 1]), Err(KeyFileError::FileLength { .. })));
    assert!(matches!(open(&[&bytes[..], &[0]].concat()), Err(KeyFileError::FileLength { .. })));
    assert!(matches!(open(&forged(&|h| h.curve = Curve::Bls12381)), Err(KeyFileError::SectionPlace { .. })));
    assert!(matches!(open(&forged(&|h| h.variables = 0)), Err(KeyFileError::HeaderField { .. })));
    assert!(matches!(open(&forged(&|h| h.public = 1 << 31)), Err(KeyFileError::HeaderField { .. })));
    assert!(matches!(open(&forged(&|h| h.domain_log = 40)), Err(KeyFileError::HeaderField { .. })));
    assert!(matches!(open(&forged(&|h| h.domain_log = 13)), Err(KeyFileError::SectionPlace { .. })));
    assert!(matches!(open(&forged(&|h| h.entries[3].offset += 1)), Err(KeyFileError::SectionPlace { .. })));
    assert!(matches!(open(&forged(&|h| h.entries[3].length = u64::MAX)), Err(KeyFileError::SectionPlace { .. })));
    assert!(matches!(open(&forged(&|h| h.entries[3].offset = 4096)), Err(KeyFileError::SectionPlace { .. })));
    assert!(matches!(open(&forged(&|h| h.entries[3].part = Part::H)), Err(KeyFileError::Section { .. })));
    assert!(matches!(
        open(&forged(&|h| {
            h.entries.pop();
        })),
        Err(KeyFileError::HeaderField { .. })
    ));
    // Damage within a section shows with the digests, damage to an index at once.
    for part in Part::ALL {
        let entry = header.entry(part);
        let copy = damaged((entry.offset + entry.length - 1) as usize);
        match open(&copy) {
            Ok(key) => match key.verify_digests() {
                Err(KeyFileError::SectionDigest { part: found }) => assert_eq!(found, part),
                _ => panic!("damage to {part} was not seen"),
            },
            Err(KeyFileError::Index { part: found }) => assert_eq!(found, part),
            Err(other) => panic!("{part}: {other}"),
        }
    }
}
