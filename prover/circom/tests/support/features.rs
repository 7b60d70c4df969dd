//! `tests/circuits/features.*`: our own circuit with every form of input (its comment says
//! how it was compiled); `features.wtns` is what snarkjs computes for `features.json` in flat form.

use std::path::Path;

use proofmill_circom::{CircomError, Limits, WitnessGenerator};

/// r of BN254.
pub const BN254: &str = "21888242871839275222246405745257275088548364400416034343698204186575808495617";

/// Nobody cancels.
pub const NEVER: &dyn Fn() -> bool = &|| false;

/// A file of `tests/circuits`.
pub fn circuit(name: &str) -> Vec<u8> {
    std::fs::read(Path::new("tests/circuits").join(name)).unwrap()
}

/// The circuit with every form of input.
pub fn features() -> WitnessGenerator {
    WitnessGenerator::compile(&circuit("features.wasm"), Limits::default()).unwrap()
}

/// What `features` says to an input.
pub fn outcome(generator: &WitnessGenerator, input: &str) -> Result<Vec<[u64; 4]>, CircomError> {
    generator.generate(input.as_bytes(), NEVER).map(|witness| witness.values)
}
