//! A Groth16 proof: its points, the API's canonical bytes, snarkjs's JSON.

use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use proofmill_kernels::curve::Affine;
use serde::Deserialize;

use crate::curve::{Bls12381, Bn254, Curve, Suite};
use crate::format::decimal::Decimal;
use crate::format::public::place_of;
use crate::point::{self, PointError};
use crate::verifying_key::shorten;

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

/// A proof's points on curve `S`: on the curve, in the subgroup, not at infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofPoints<S: Suite> {
    /// A in G1.
    pub a: Affine<S::Fq>,
    /// B in G2.
    pub b: Affine<S::Fq2>,
    /// C in G1.
    pub c: Affine<S::Fq>,
}

/// What is wrong with a proof's bytes or proof.json.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// Another number of bytes.
    #[error("a proof on {curve} has {expected} bytes, {found} were given")]
    Length {
        /// The curve.
        curve: Curve,
        /// Bytes given.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// The bytes are no compressed point.
    #[error("{point} of the proof is not a compressed point of the subgroup")]
    Compressed {
        /// A, B or C.
        point: &'static str,
    },
    /// A point is wrong.
    #[error("{point} of the proof: {error}")]
    Point {
        /// A, B or C.
        point: &'static str,
        /// What is wrong.
        error: PointError,
    },
    /// Not a proof.json.
    #[error("this is not a proof.json of snarkjs: {0}")]
    Json(String),
    /// Another proof system.
    #[error("the proof is for {found}, not for groth16")]
    OtherProtocol {
        /// What it says.
        found: String,
    },
    /// A curve that is not known.
    #[error("the proof is on curve {found}; bn128 and bls12381 are supported")]
    UnknownCurve {
        /// What it says.
        found: String,
    },
    /// A proof on another curve than asked for.
    #[error("the proof is on {found}, the key on {expected}; they do not belong together")]
    OtherCurve {
        /// The proof's.
        found: Curve,
        /// The one asked for.
        expected: Curve,
    },
    /// A simulated proof has no points.
    #[error("this proof comes from a simulated device and proves nothing")]
    Simulated,
}

/// snarkjs's proof.json.
#[derive(Deserialize)]
struct Document {
    pi_a: [Decimal; 3],
    pi_b: [[Decimal; 2]; 3],
    pi_c: [Decimal; 3],
    protocol: String,
    curve: String,
}

impl Proof {
    /// Checks canonical bytes: length, ranges, curve equation, subgroup.
    pub fn from_bytes(curve: Curve, bytes: &[u8]) -> Result<Self, ProofError> {
        match curve {
            Curve::Bn254 => ProofPoints::<Bn254>::from_bytes(bytes).map(|points| points.to_proof()),
            Curve::Bls12381 => ProofPoints::<Bls12381>::from_bytes(bytes).map(|points| points.to_proof()),
        }
    }

    /// The canonical bytes of the API; a simulated proof's are its tag, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Groth16 { bytes, .. } => bytes.clone(),
            Self::Simulated(tag) => tag.to_le_bytes().to_vec(),
        }
    }

    /// Reads a proof.json strictly: form, ranges, curve equation, subgroup.
    pub fn from_json(json: &[u8]) -> Result<Self, ProofError> {
        let document: Document = serde_json::from_slice(json).map_err(|error| ProofError::Json(place_of(&error)))?;
        if document.protocol != "groth16" {
            return Err(ProofError::OtherProtocol { found: shorten(&document.protocol) });
        }
        match Curve::from_snarkjs_name(&document.curve) {
            Some(Curve::Bn254) => document.points::<Bn254>().map(|points| points.to_proof()),
            Some(Curve::Bls12381) => document.points::<Bls12381>().map(|points| points.to_proof()),
            None => Err(ProofError::UnknownCurve { found: shorten(&document.curve) }),
        }
    }

    /// Writes a proof.json that snarkjs reads. Checks the bytes on the way.
    pub fn to_json(&self) -> Result<String, ProofError> {
        match self {
            Self::Groth16 { curve: Curve::Bn254, bytes } => Ok(ProofPoints::<Bn254>::from_bytes(bytes)?.to_json()),
            Self::Groth16 { curve: Curve::Bls12381, bytes } => {
                Ok(ProofPoints::<Bls12381>::from_bytes(bytes)?.to_json())
            }
            Self::Simulated(_) => Err(ProofError::Simulated),
        }
    }

    /// The points, if the proof is on curve `S`. Checks them.
    pub fn points<S: Suite>(&self) -> Result<ProofPoints<S>, ProofError> {
        match self {
            Self::Groth16 { curve, bytes } if *curve == S::CURVE => ProofPoints::from_bytes(bytes),
            Self::Groth16 { curve, .. } => Err(ProofError::OtherCurve { found: *curve, expected: S::CURVE }),
            Self::Simulated(_) => Err(ProofError::Simulated),
        }
    }
}

impl<S: Suite> ProofPoints<S> {
    /// Bytes of the canonical form.
    pub const BYTES: usize = match S::CURVE {
        Curve::Bn254 => 256,
        Curve::Bls12381 => 192,
    };

    /// The proof as plain data. The points must be canonical and valid.
    pub fn to_proof(&self) -> Proof {
        Proof::Groth16 { curve: S::CURVE, bytes: self.to_bytes() }
    }

    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match S::CURVE {
            Curve::Bn254 => {
                let (a, c) = (point::g1_to_bytes::<S>(&self.a), point::g1_to_bytes::<S>(&self.c));
                [a, point::g2_to_bytes::<S>(&self.b), c].concat()
            }
            Curve::Bls12381 => {
                let mut bytes = Vec::with_capacity(Self::BYTES);
                // arkworks writes BLS12-381 the way zcash and bellperson do. Writing into a vector cannot fail.
                let written = S::g1_to_ark(&self.a)
                    .serialize_compressed(&mut bytes)
                    .and_then(|()| S::g2_to_ark(&self.b).serialize_compressed(&mut bytes))
                    .and_then(|()| S::g1_to_ark(&self.c).serialize_compressed(&mut bytes));
                debug_assert!(written.is_ok() && bytes.len() == Self::BYTES);
                bytes
            }
        }
    }

    /// Reads canonical bytes and checks everything.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProofError> {
        if bytes.len() != Self::BYTES {
            return Err(ProofError::Length { curve: S::CURVE, found: bytes.len(), expected: Self::BYTES });
        }
        let (first, rest) = bytes.split_at(Self::BYTES / 4);
        let (second, third) = rest.split_at(Self::BYTES / 2);
        let points = match S::CURVE {
            Curve::Bn254 => Self {
                a: point::g1_from_bytes::<S>(first).map_err(|error| ProofError::Point { point: "A", error })?,
                b: point::g2_from_bytes::<S>(second).map_err(|error| ProofError::Point { point: "B", error })?,
                c: point::g1_from_bytes::<S>(third).map_err(|error| ProofError::Point { point: "C", error })?,
            },
            Curve::Bls12381 => {
                let a = CanonicalDeserialize::deserialize_compressed(first);
                let b = CanonicalDeserialize::deserialize_compressed(second);
                let c = CanonicalDeserialize::deserialize_compressed(third);
                Self {
                    a: S::g1_from_ark(&a.map_err(|_| ProofError::Compressed { point: "A" })?),
                    b: S::g2_from_ark(&b.map_err(|_| ProofError::Compressed { point: "B" })?),
                    c: S::g1_from_ark(&c.map_err(|_| ProofError::Compressed { point: "C" })?),
                }
            }
        };
        points.check()?;
        Ok(points)
    }

    /// snarkjs's proof.json.
    pub fn to_json(&self) -> String {
        let document = serde_json::json!({
            "pi_a": point::g1_to_json::<S>(&self.a),
            "pi_b": point::g2_to_json::<S>(&self.b),
            "pi_c": point::g1_to_json::<S>(&self.c),
            "protocol": "groth16",
            "curve": S::CURVE.snarkjs_name(),
        });
        format!("{document:#}")
    }

    /// Canonical, on the curve, in the subgroup, not at infinity.
    pub fn check(&self) -> Result<(), ProofError> {
        point::check_g1::<S>(&self.a, false).map_err(|error| ProofError::Point { point: "A", error })?;
        point::check_g2::<S>(&self.b, false).map_err(|error| ProofError::Point { point: "B", error })?;
        point::check_g1::<S>(&self.c, false).map_err(|error| ProofError::Point { point: "C", error })
    }
}

impl Document {
    fn points<S: Suite>(&self) -> Result<ProofPoints<S>, ProofError> {
        let g1 = |point, json| point::g1_from_json::<S>(json).map_err(|error| ProofError::Point { point, error });
        let points = ProofPoints::<S> {
            a: g1("A", &self.pi_a)?,
            b: point::g2_from_json::<S>(&self.pi_b).map_err(|error| ProofError::Point { point: "B", error })?,
            c: g1("C", &self.pi_c)?,
        };
        points.check()?;
        Ok(points)
    }
}
