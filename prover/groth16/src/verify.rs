//! Verification of proofs. No proof leaves the engine that did not pass here.

use crate::device::simulated::SimulatedCircuit;
use crate::key::CircuitKey;
use crate::proof::Proof;

/// Why a proof could not be judged: what was given is not a proof and a statement of this key at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Another number of public signals than the key has.
    #[error("{given} public signals given, the key has {expected}: give exactly those, without the constant 1")]
    PublicCount {
        /// What was given.
        given: usize,
        /// What the key has.
        expected: usize,
    },
    /// Proof and key are of different kinds.
    #[error("the proof is for {proof}, the key for {key}: they do not belong together")]
    Kind {
        /// Of the proof.
        proof: String,
        /// Of the key.
        key: String,
    },
}

/// Whether `proof` proves the statement `publics` (plain limbs, without the constant 1) under `key`. For a simulated
/// circuit the only public signal is the partition's seed.
pub fn verify_partition(key: &CircuitKey, proof: &Proof, publics: &[[u64; 4]]) -> Result<bool, VerifyError> {
    match key {
        CircuitKey::Simulated(_) => match publics {
            [[seed, 0, 0, 0]] => Ok(SimulatedCircuit::verify(proof, *seed)),
            _ => Err(VerifyError::PublicCount { given: publics.len(), expected: 1 }),
        },
        CircuitKey::Groth16(key) => {
            Err(VerifyError::PublicCount { given: publics.len(), expected: key.info().public as usize })
        }
    }
}
