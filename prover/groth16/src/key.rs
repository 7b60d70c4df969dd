//! Proving keys: import from a zkey, our aligned and memory-mapped format, the disk cache.
//!
//! ```text
//! zkey --import--> imported key (a cache entry) --open--> ProvingKey --view--> slices for the prover
//! ```

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::curve::{Bls12381, Bn254, Curve};
use crate::device::simulated::SimulatedCircuit;
use crate::verifying_key::VerifyingKey;

pub mod cache;
pub mod constraints;
pub mod file;
pub mod import;
pub mod layout;
pub mod security;
pub mod view;

use file::{KeyFile, RawKeyFile};
use layout::KeyFileError;

/// Whatever a device proves with.
#[derive(Clone)]
pub enum CircuitKey {
    /// A Groth16 proving key, mapped.
    Groth16(Arc<ProvingKey>),
    /// Scripted durations.
    Simulated(Arc<SimulatedCircuit>),
}

/// A mapped proving key on one of the curves.
pub enum ProvingKey {
    /// On BN254.
    Bn254(KeyFile<Bn254>),
    /// On BLS12-381.
    Bls12381(KeyFile<Bls12381>),
}

/// What is known of a key without touching its points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The curve.
    pub curve: Curve,
    /// SHA-256 of the zkey that was imported.
    pub source_digest: [u8; 32],
    /// SHA-256 of the imported key's header, which holds the digests of all its sections: it stands for the whole file.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySecurity {
    /// At least one phase-2 contribution.
    Contributed,
    /// delta equals gamma: no phase-2 contribution; anyone can forge.
    NoContribution,
    /// Made by `prover dev setup` with a known trapdoor.
    DevSetup,
}

impl ProvingKey {
    /// Maps an imported key. Checks the header, all lengths and all indices, in time that hardly depends on the key's size;
    /// [`ProvingKey::verify_digests`] reads the rest. Only for files that nobody else writes: see [`mod@file`].
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        Self::from_raw(RawKeyFile::open(path)?)
    }

    pub(crate) fn from_raw(raw: RawKeyFile) -> Result<Self, KeyFileError> {
        Ok(match raw.header.curve {
            Curve::Bn254 => Self::Bn254(raw.typed()?),
            Curve::Bls12381 => Self::Bls12381(raw.typed()?),
        })
    }

    /// Sizes and digests.
    pub fn info(&self) -> &KeyInfo {
        match self {
            Self::Bn254(key) => key.info(),
            Self::Bls12381(key) => key.info(),
        }
    }

    /// Phase-2 contributions, where the zkey told.
    pub fn contributions(&self) -> Option<u32> {
        match self {
            Self::Bn254(key) => key.contributions(),
            Self::Bls12381(key) => key.contributions(),
        }
    }

    /// The verifying key.
    pub fn verifying_key(&self) -> VerifyingKey {
        match self {
            Self::Bn254(key) => VerifyingKey::Bn254(key.verifying_points()),
            Self::Bls12381(key) => VerifyingKey::Bls12381(key.verifying_points()),
        }
    }

    /// SHA-256 of the verifying key, as [`VerifyingKey::digest`] makes it.
    pub fn verifying_key_digest(&self) -> [u8; 32] {
        let digest = || self.verifying_key().digest();
        match self {
            Self::Bn254(key) => key.verifying_key_digest(digest),
            Self::Bls12381(key) => key.verifying_key_digest(digest),
        }
    }

    /// Compares every section with its digest. Reads the whole file.
    pub fn verify_digests(&self) -> Result<(), KeyFileError> {
        match self {
            Self::Bn254(key) => key.verify_digests(),
            Self::Bls12381(key) => key.verify_digests(),
        }
    }

    /// Whether the file still has its length: cheap, before a proof touches the mapping.
    pub fn check_length(&self) -> Result<(), KeyFileError> {
        match self {
            Self::Bn254(key) => key.check_length(),
            Self::Bls12381(key) => key.check_length(),
        }
    }

    /// The open file, on which the cache holds its lease.
    pub(crate) fn file(&self) -> &std::fs::File {
        match self {
            Self::Bn254(key) => key.file(),
            Self::Bls12381(key) => key.file(),
        }
    }
}
