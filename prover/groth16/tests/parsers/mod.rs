//! One entry per parser, for the short random tests here and for the long ones in `fuzz/`. Any bytes must give a value or
//! an error.

use std::io::Cursor;
use std::ops::ControlFlow;

use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::inspect::inspect_source;
use proofmill_groth16::format::{public, r1cs::R1cs, sym, wtns::WitnessFile, zkey::points::verifying_key};
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::key::import::{ImportControl, import_zkey};
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verifying_key::VerifyingKey;

/// A zkey: inspected, its verifying key read, imported.
pub fn zkey(data: &[u8]) {
    let _ = inspect_source(&data);
    let _ = verifying_key(data);
    let mut sink = Cursor::new(Vec::new());
    let _ = import_zkey(&data, &mut sink, &ImportControl::QUIET);
}

/// A witness.
pub fn wtns(data: &[u8]) {
    let _ = inspect_source(&data);
    let _ = WitnessFile::read(data).map(|file| file.check(Curve::Bn254, 10));
}

/// A constraint system, checked against a witness of its length.
pub fn r1cs(data: &[u8]) {
    let _ = inspect_source(&data);
    let Ok(r1cs) = R1cs::read(data) else { return };
    let _ = r1cs.for_each(|_, _| ControlFlow::<()>::Continue(()));
    if r1cs.header().wires <= 10_000 {
        let values = vec![[1, 0, 0, 0]; r1cs.header().wires as usize];
        let _ = r1cs.unsatisfied(&proofmill_groth16::assignment::Witness { values }, &|| false);
    }
}

/// A sym file.
pub fn sym(data: &[u8]) {
    let _ = sym::names(data, &[0, 1, 5]);
}

/// An imported key, from a file because it is mapped; everything in it is looked at.
pub fn imported_key(data: &[u8]) {
    let _ = inspect_source(&data);
    let path = std::env::temp_dir().join(format!("proofmill-fuzz-{}.key", std::process::id()));
    if std::fs::write(&path, data).is_err() {
        return;
    }
    if let Ok(key) = ProvingKey::open(&path) {
        let _ = key.verify_digests();
        let _ = key.verifying_key().digest();
        match &key {
            ProvingKey::Bn254(key) => touch(key.view().matrix_a, key.view().a.wires, key.view().variables),
            ProvingKey::Bls12381(key) => touch(key.view().matrix_a, key.view().a.wires, key.view().variables),
        }
    }
    let _ = std::fs::remove_file(&path);
}

/// Uses the indices as a prover does: without any check.
fn touch<F>(matrix: proofmill_groth16::key::view::Csr<'_, F>, wires: &[u32], variables: usize) {
    for row in 0..matrix.rows() {
        for (wire, place) in matrix.row(row) {
            let _ = &matrix.coefficients[place as usize];
            assert!((wire as usize) < variables);
        }
    }
    assert!(wires.iter().all(|wire| (*wire as usize) < variables));
}

/// A verification_key.json.
pub fn vk_json(data: &[u8]) {
    let _ = VerifyingKey::from_json(data).map(|key| key.to_json());
}

/// A proof.json, and the same bytes as canonical bytes.
pub fn proof_json(data: &[u8]) {
    let _ = Proof::from_json(data).map(|proof| proof.to_json());
    for curve in Curve::ALL {
        let _ = Proof::from_bytes(curve, data);
    }
}

/// A public.json.
pub fn public_json(data: &[u8]) {
    for expected in [0, 1, 2] {
        let _ = public::parse(data, Curve::Bn254, expected).map(|signals| public::to_json(&signals));
    }
}
