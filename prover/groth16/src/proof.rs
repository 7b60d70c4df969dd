//! A Groth16 proof: its points, the API's canonical bytes, snarkjs's JSON.

use crate::curve::Curve;

/// A proof; coordinates are plain (not Montgomery) big-endian bytes of `curve.base_field_bytes()` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A proof on one of the two curves, in the API's canonical bytes: BN254 256 bytes, uncompressed big-endian in EIP-197
    /// order; BLS12-381 192 bytes, compressed as bellperson does.
    Groth16 {
        /// The curve.
        curve: Curve,
        /// The canonical bytes.
        bytes: Vec<u8>,
    },
    /// The tag of a simulated proof.
    Simulated(u64),
}
