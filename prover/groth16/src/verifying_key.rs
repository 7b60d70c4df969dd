//! Verifying keys: their points, snarkjs's verification_key.json, a digest.

use ark_ec::pairing::Pairing;
use ark_serialize::Valid;
use proofmill_kernels::curve::Affine;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::curve::{Bls12381, Bn254, Curve, Suite};
use crate::format::decimal::Decimal;
use crate::format::public::place_of;
use crate::point::{self, PointError};

/// A verifying key on one of the curves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one a circuit, and most of it is behind `ic`")]
pub enum VerifyingKey {
    /// On BN254.
    Bn254(VerifyingPoints<Bn254>),
    /// On BLS12-381.
    Bls12381(VerifyingPoints<Bls12381>),
}

/// A verifying key's points: checked to be on the curve and in the subgroup; alpha to delta are not at infinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingPoints<S: Suite> {
    /// alpha in G1.
    pub alpha1: Affine<S::Fq>,
    /// beta in G2.
    pub beta2: Affine<S::Fq2>,
    /// gamma in G2.
    pub gamma2: Affine<S::Fq2>,
    /// delta in G2.
    pub delta2: Affine<S::Fq2>,
    /// One point for the constant 1, then one a public signal.
    pub ic: Vec<Affine<S::Fq>>,
}

/// What is wrong with a verification_key.json.
#[derive(Debug, thiserror::Error)]
pub enum VerifyingKeyError {
    /// Not a verifying key.
    #[error("this is not a verification_key.json of snarkjs: {0}")]
    Json(String),
    /// Another proof system.
    #[error("the verifying key is for {found}, not for groth16")]
    OtherProtocol {
        /// What it says.
        found: String,
    },
    /// A curve that is not known.
    #[error("the verifying key is on curve {found}; bn128 and bls12381 are supported")]
    UnknownCurve {
        /// What it says.
        found: String,
    },
    /// `IC` has another length than `nPublic` asks for.
    #[error("the verifying key has {found} points in IC, {public} public signals need {}; it is damaged", u64::from(*public) + 1)]
    IcCount {
        /// Points found.
        found: usize,
        /// Public signals claimed.
        public: u32,
    },
    /// A point is wrong.
    #[error("{name} of the verifying key: {error}")]
    Point {
        /// Its name in the file.
        name: String,
        /// What is wrong.
        error: PointError,
    },
}

/// snarkjs's verification_key.json; `vk_alphabeta_12` is ignored, it follows from the rest.
#[derive(Deserialize)]
struct Document {
    protocol: String,
    curve: String,
    #[serde(rename = "nPublic")]
    public: u32,
    vk_alpha_1: [Decimal; 3],
    vk_beta_2: [[Decimal; 2]; 3],
    vk_gamma_2: [[Decimal; 2]; 3],
    vk_delta_2: [[Decimal; 2]; 3],
    #[serde(rename = "IC")]
    ic: Vec<[Decimal; 3]>,
}

impl VerifyingKey {
    /// Reads a verification_key.json strictly: counts, ranges, curve equation, subgroup.
    pub fn from_json(json: &[u8]) -> Result<Self, VerifyingKeyError> {
        let document: Document =
            serde_json::from_slice(json).map_err(|error| VerifyingKeyError::Json(place_of(&error)))?;
        if document.protocol != "groth16" {
            return Err(VerifyingKeyError::OtherProtocol { found: shorten(&document.protocol) });
        }
        if document.ic.len() as u64 != u64::from(document.public) + 1 {
            return Err(VerifyingKeyError::IcCount { found: document.ic.len(), public: document.public });
        }
        match Curve::from_snarkjs_name(&document.curve) {
            Some(Curve::Bn254) => document.points().map(Self::Bn254),
            Some(Curve::Bls12381) => document.points().map(Self::Bls12381),
            None => Err(VerifyingKeyError::UnknownCurve { found: shorten(&document.curve) }),
        }
    }

    /// Writes a verification_key.json that snarkjs reads.
    pub fn to_json(&self) -> String {
        match self {
            Self::Bn254(points) => points.to_json(),
            Self::Bls12381(points) => points.to_json(),
        }
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        match self {
            Self::Bn254(_) => Curve::Bn254,
            Self::Bls12381(_) => Curve::Bls12381,
        }
    }

    /// Public signals, the constant 1 not included.
    pub fn public(&self) -> usize {
        match self {
            Self::Bn254(points) => points.public(),
            Self::Bls12381(points) => points.public(),
        }
    }

    /// SHA-256 over the curve's snarkjs name, the number of points in IC (u64, little-endian), then alpha1, beta2, gamma2,
    /// delta2 and IC: plain coordinates big-endian, c1 before c0. The same key has the same digest whatever file it is from.
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::Bn254(points) => points.digest(),
            Self::Bls12381(points) => points.digest(),
        }
    }
}

impl<S: Suite> VerifyingPoints<S> {
    /// Public signals, the constant 1 not included.
    pub fn public(&self) -> usize {
        self.ic.len().saturating_sub(1)
    }

    /// Checks that every point is on the curve and in the subgroup, and that alpha to delta are not at infinity.
    pub fn check(&self) -> Result<(), VerifyingKeyError>
    where
        <S::Ark as Pairing>::G1Affine: Valid,
    {
        let name = |name: &str| {
            let name = name.to_owned();
            move |error| VerifyingKeyError::Point { name, error }
        };
        point::check_g1::<S>(&self.alpha1, false).map_err(name("alpha"))?;
        point::check_g2::<S>(&self.beta2, false).map_err(name("beta"))?;
        point::check_g2::<S>(&self.gamma2, false).map_err(name("gamma"))?;
        point::check_g2::<S>(&self.delta2, false).map_err(name("delta"))?;
        for (index, ic) in self.ic.iter().enumerate() {
            point::check_g1::<S>(ic, true).map_err(name(&format!("IC[{index}]")))?;
        }
        Ok(())
    }

    fn to_json(&self) -> String {
        let ic: Vec<_> = self.ic.iter().map(point::g1_to_json::<S>).collect();
        let document = serde_json::json!({
            "protocol": "groth16",
            "curve": S::CURVE.snarkjs_name(),
            "nPublic": self.public(),
            "vk_alpha_1": point::g1_to_json::<S>(&self.alpha1),
            "vk_beta_2": point::g2_to_json::<S>(&self.beta2),
            "vk_gamma_2": point::g2_to_json::<S>(&self.gamma2),
            "vk_delta_2": point::g2_to_json::<S>(&self.delta2),
            "IC": ic,
        });
        format!("{document:#}")
    }

    fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(S::CURVE.snarkjs_name());
        hasher.update((self.ic.len() as u64).to_le_bytes());
        hasher.update(point::g1_to_bytes::<S>(&self.alpha1));
        for point in [&self.beta2, &self.gamma2, &self.delta2] {
            hasher.update(point::g2_to_bytes::<S>(point));
        }
        for ic in &self.ic {
            hasher.update(point::g1_to_bytes::<S>(ic));
        }
        hasher.finalize().into()
    }
}

impl Document {
    fn points<S: Suite>(&self) -> Result<VerifyingPoints<S>, VerifyingKeyError> {
        let g1 = |name: String, json| {
            point::g1_from_json::<S>(json).map_err(|error| VerifyingKeyError::Point { name, error })
        };
        let g2 = |name: &str, json| {
            point::g2_from_json::<S>(json).map_err(|error| VerifyingKeyError::Point { name: name.to_owned(), error })
        };
        let ic = self.ic.iter().enumerate().map(|(index, json)| g1(format!("IC[{index}]"), json));
        let points = VerifyingPoints::<S> {
            alpha1: g1("vk_alpha_1".to_owned(), &self.vk_alpha_1)?,
            beta2: g2("vk_beta_2", &self.vk_beta_2)?,
            gamma2: g2("vk_gamma_2", &self.vk_gamma_2)?,
            delta2: g2("vk_delta_2", &self.vk_delta_2)?,
            ic: ic.collect::<Result<_, _>>()?,
        };
        points.check()?;
        Ok(points)
    }
}

/// A foreign word for an error message, at most 32 characters, printable.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(32).collect()
}
