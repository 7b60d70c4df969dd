//! Verification of proofs. No proof leaves the engine that did not pass here.
//!
//! e(A, B) = e(alpha, beta) e(IC(publics), gamma) e(C, delta), as one product of Miller loops and one final
//! exponentiation. A [`Verifier`] keeps what depends on the key alone.

use ark_ec::VariableBaseMSM;
use ark_ec::pairing::{Pairing, PairingOutput};
use proofmill_kernels::field::PrimeField;

use crate::assignment::below;
use crate::curve::{Bls12381, Bn254, Curve, Suite};
use crate::device::simulated::SimulatedCircuit;
use crate::key::{CircuitKey, ProvingKey};
use crate::proof::{Proof, ProofError, ProofPoints};
use crate::verifying_key::{VerifyingKey, VerifyingPoints};

/// A verifying key, prepared.
pub enum Verifier {
    /// On BN254.
    Bn254(Prepared<Bn254>),
    /// On BLS12-381.
    Bls12381(Prepared<Bls12381>),
}

/// A verifying key of one suite, prepared.
pub struct Prepared<S: Suite> {
    alpha_beta: PairingOutput<S::Ark>,
    minus_gamma: <S::Ark as Pairing>::G2Prepared,
    minus_delta: <S::Ark as Pairing>::G2Prepared,
    ic: Vec<<S::Ark as Pairing>::G1Affine>,
}

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
    /// A public signal that is not below the modulus.
    #[error("public signal {index} is not below the scalar field's modulus: signals are given reduced")]
    PublicNotReduced {
        /// Which, from 0.
        index: usize,
    },
    /// The proof's points are not what they must be.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A real proof for a simulated circuit.
    #[error("the proof is a real one, the circuit is simulated: they do not belong together")]
    NotSimulated,
}

/// Whether `proof` proves the statement `publics` (plain limbs, without the constant 1) under `key`, which keeps its
/// verifying key prepared. For a simulated
/// circuit the only public signal is the partition's seed.
pub fn verify_partition(key: &CircuitKey, proof: &Proof, publics: &[[u64; 4]]) -> Result<bool, VerifyError> {
    match (key, proof) {
        (CircuitKey::Groth16(key), proof) => match &**key {
            ProvingKey::Bn254(key) => key.verifier().verify(&proof.points()?, publics),
            ProvingKey::Bls12381(key) => key.verifier().verify(&proof.points()?, publics),
        },
        (CircuitKey::Simulated(_), Proof::Simulated(_)) => match publics {
            [[seed, 0, 0, 0]] => Ok(SimulatedCircuit::verify(proof, *seed)),
            _ => Err(VerifyError::PublicCount { given: publics.len(), expected: 1 }),
        },
        (CircuitKey::Simulated(_), Proof::Groth16 { .. }) => Err(VerifyError::NotSimulated),
    }
}

/// Whether `proof` proves the statement `publics` under `key`; [`Verifier`] is faster for several proofs of one key.
pub fn verify(key: &VerifyingKey, proof: &Proof, publics: &[[u64; 4]]) -> Result<bool, VerifyError> {
    Verifier::new(key).verify(proof, publics)
}

impl Verifier {
    /// Prepares a verifying key: two to three milliseconds.
    pub fn new(key: &VerifyingKey) -> Self {
        match key {
            VerifyingKey::Bn254(points) => Self::Bn254(Prepared::new(points)),
            VerifyingKey::Bls12381(points) => Self::Bls12381(Prepared::new(points)),
        }
    }

    /// Prepares the verifying key that a proving key holds.
    pub fn of_key(key: &ProvingKey) -> Self {
        Self::new(&key.verifying_key())
    }

    /// The key's curve.
    pub const fn curve(&self) -> Curve {
        match self {
            Self::Bn254(_) => Curve::Bn254,
            Self::Bls12381(_) => Curve::Bls12381,
        }
    }

    /// Public signals, the constant 1 not included.
    pub fn public(&self) -> usize {
        match self {
            Self::Bn254(key) => key.public(),
            Self::Bls12381(key) => key.public(),
        }
    }

    /// Whether the proof proves the statement (plain limbs, without the constant 1). An error if it is no proof on this
    /// curve at all: points outside the curve or its subgroup, another number of signals, signals not reduced.
    pub fn verify(&self, proof: &Proof, publics: &[[u64; 4]]) -> Result<bool, VerifyError> {
        match self {
            Self::Bn254(key) => key.verify(&proof.points()?, publics),
            Self::Bls12381(key) => key.verify(&proof.points()?, publics),
        }
    }
}

impl<S: Suite> Prepared<S> {
    /// Prepares a verifying key.
    pub fn new(points: &VerifyingPoints<S>) -> Self {
        let minus = |point| -> <S::Ark as Pairing>::G2Affine {
            let point: <S::Ark as Pairing>::G2 = S::g2_to_ark(point).into();
            (-point).into()
        };
        Self {
            alpha_beta: S::Ark::pairing(S::g1_to_ark(&points.alpha1), S::g2_to_ark(&points.beta2)),
            minus_gamma: minus(&points.gamma2).into(),
            minus_delta: minus(&points.delta2).into(),
            ic: points.ic.iter().map(S::g1_to_ark).collect(),
        }
    }

    /// Public signals, the constant 1 not included.
    pub fn public(&self) -> usize {
        self.ic.len().saturating_sub(1)
    }

    /// See [`Verifier::verify`]. The proof's points must be on the curve and in the subgroup.
    pub fn verify(&self, proof: &ProofPoints<S>, publics: &[[u64; 4]]) -> Result<bool, VerifyError> {
        let Some((constant, ic)) = self.ic.split_first().filter(|(_, ic)| ic.len() == publics.len()) else {
            return Err(VerifyError::PublicCount { given: publics.len(), expected: self.public() });
        };
        if let Some(index) = publics.iter().position(|value| !below(value, &S::Fr::MODULUS)) {
            return Err(VerifyError::PublicNotReduced { index });
        }
        let scalars: Vec<_> = publics.iter().map(|value| S::fr_to_ark(&S::Fr::from_plain(*value))).collect();
        let statement = <S::Ark as Pairing>::G1::msm_unchecked(ic, &scalars) + constant;
        let g1: [<S::Ark as Pairing>::G1Affine; 3] = [S::g1_to_ark(&proof.a), statement.into(), S::g1_to_ark(&proof.c)];
        let b: <S::Ark as Pairing>::G2Prepared = S::g2_to_ark(&proof.b).into();
        let product = S::Ark::multi_pairing(g1, [b, self.minus_gamma.clone(), self.minus_delta.clone()]);
        Ok(product == self.alpha_beta)
    }
}
