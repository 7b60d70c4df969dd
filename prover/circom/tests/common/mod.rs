//! What several test files use. `tests/circuits/features.*`: our own circuit with every form of input (its comment says
//! how it was compiled); `features.wtns` is what snarkjs computes for `features.json` in flat form.

#![allow(dead_code)]

use std::path::{Path, PathBuf};

use num_bigint::BigUint;
use proofmill_circom::{CircomError, Limits, WitnessGenerator};

/// r of BN254.
pub const BN254: &str = "21888242871839275222246405745257275088548364400416034343698204186575808495617";

/// Nobody cancels.
pub const NEVER: &dyn Fn() -> bool = &|| false;

/// A file of the repository's fixtures.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/circom").join(path)
}

/// A file of `tests/circuits`.
pub fn circuit(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circuits").join(name)).unwrap()
}

/// The circuit with every form of input.
pub fn features() -> WitnessGenerator {
    WitnessGenerator::compile(&circuit("features.wasm"), Limits::default()).unwrap()
}

/// What `features` says to an input.
pub fn outcome(generator: &WitnessGenerator, input: &str) -> Result<Vec<[u64; 4]>, CircomError> {
    generator.generate(input.as_bytes(), NEVER).map(|witness| witness.values)
}

/// The values of a `.wtns` file of circom's fixed layout: header section first, then the values.
pub fn wtns_values(file: &[u8]) -> Vec<[u64; 4]> {
    let count = u32::from_le_bytes(file[60..64].try_into().unwrap()) as usize;
    let values = &file[76..];
    assert_eq!(values.len(), count * 32);
    let limb = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    values.chunks(32).map(|value| std::array::from_fn(|index| limb(&value[index * 8..][..8]))).collect()
}

/// A value of a witness as an integer.
pub fn integer(limbs: [u64; 4]) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64) + *limb)
}
