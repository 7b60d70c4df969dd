//! Proving keys: import from a zkey, our aligned and memory-mapped format, the disk cache.

use std::sync::Arc;

use crate::curve::Curve;
use crate::device::simulated::SimulatedCircuit;

/// Whatever a device proves with.
#[derive(Clone)]
pub enum CircuitKey {
    /// A Groth16 proving key, mapped.
    Groth16(Arc<ProvingKey>),
    /// Scripted durations.
    Simulated(Arc<SimulatedCircuit>),
}

/// A mapped proving key.
pub struct ProvingKey {
    info: KeyInfo,
}

impl ProvingKey {
    /// Sizes and digests.
    pub fn info(&self) -> &KeyInfo {
        &self.info
    }
}

/// What is known of a key without touching its points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The curve.
    pub curve: Curve,
    /// SHA-256 of the zkey that was imported.
    pub source_digest: [u8; 32],
    /// SHA-256 of the imported key file.
    pub digest: [u8; 32],
    /// Variables, the constant 1 included.
    pub variables: u32,
    /// Public signals, the constant 1 not included.
    pub public: u32,
    /// Constraints, the rows of the public inputs not included.
    pub constraints: u32,
    /// Base-2 logarithm of the domain.
    pub domain_log: u32,
    /// Bytes when mapped.
    pub bytes: u64,
    /// Who could forge proofs.
    pub security: KeySecurity,
}

/// Whether a key's proofs can be forged by whoever made the key, or by anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySecurity {
    /// At least one phase-2 contribution.
    Contributed,
    /// delta equals gamma: no phase-2 contribution; anyone can forge.
    NoContribution,
    /// Made by `prover dev setup` with a known trapdoor.
    DevSetup,
}
