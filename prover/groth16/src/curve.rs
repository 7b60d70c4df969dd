//! The two curves, and what distinguishes them: fields, generators, names.

use serde::{Deserialize, Serialize};

/// A pairing-friendly curve that proofs are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Curve {
    /// BN254, called `bn128` by circom and snarkjs and `alt_bn128` by Ethereum.
    #[serde(rename = "bn128")]
    Bn254,
    /// BLS12-381.
    #[serde(rename = "bls12381")]
    Bls12381,
}

impl Curve {
    /// The name that snarkjs writes into its files.
    pub const fn snarkjs_name(self) -> &'static str {
        match self {
            Self::Bn254 => "bn128",
            Self::Bls12381 => "bls12381",
        }
    }

    /// Bytes of a base field element: 32 or 48.
    pub const fn base_field_bytes(self) -> usize {
        match self {
            Self::Bn254 => 32,
            Self::Bls12381 => 48,
        }
    }
}

impl std::fmt::Display for Curve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bn254 => "BN254",
            Self::Bls12381 => "BLS12-381",
        })
    }
}
