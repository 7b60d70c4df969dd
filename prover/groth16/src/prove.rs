//! The host part of a proof: from the sums that `prove_start` leaves to the blinded proof.

use proofmill_kernels::curve::Xyzz;
use proofmill_kernels::field::{Field, PrimeField};

use crate::curve::{Bls12381, Bn254, Suite};
use crate::key::view::KeyView;
use crate::proof::ProofPoints;
use blinding::BlindingScalars;

pub mod blinding;

/// The sums that `prove_start` leaves, with the blinding scalars that were drawn for them.
#[expect(clippy::large_enum_variant, reason = "one per partition, and always boxed")]
pub enum PartialSums {
    /// On BN254.
    Bn254(Sums<Bn254>),
    /// On BLS12-381.
    Bls12381(Sums<Bls12381>),
}

/// The results of the five multi-scalar multiplications of one proof.
#[derive(Clone)]
pub struct Sums<S: Suite> {
    /// sum w_i A_i
    pub a: Xyzz<S::Fq>,
    /// sum w_i B_i in G1
    pub b1: Xyzz<S::Fq>,
    /// sum w_i B_i in G2
    pub b2: Xyzz<S::Fq2>,
    /// sum w_i C_i over the private wires
    pub c: Xyzz<S::Fq>,
    /// sum h_i H_i
    pub h: Xyzz<S::Fq>,
    /// r and s.
    pub blinding: BlindingScalars,
}

/// `prove_finish` on a suite. With r, s the blinding (Groth16, 2016, section 3.2; the letters are the paper's):
///
/// A = alpha + sum w_i A_i + r delta, B = beta + sum w_i B_i + s delta,
/// C = sum w_i C_i + sum h_i H_i + s A + r B - r s delta.
pub fn finish<S: Suite>(key: &KeyView<'_, S>, sums: &Sums<S>) -> ProofPoints<S> {
    let BlindingScalars { r, s } = &sums.blinding;
    let rs = S::Fr::from_plain(*r).mul(&S::Fr::from_plain(*s));
    let minus_rs = S::Fr::ZERO.sub(&rs).to_plain();
    let delta1 = Xyzz::from_affine(&key.delta1);
    let delta2 = Xyzz::from_affine(&key.delta2);
    let a = sums.a.add_affine(&key.alpha1).add(&multiple(&delta1, r));
    let b1 = sums.b1.add_affine(&key.beta1).add(&multiple(&delta1, s));
    let b2 = sums.b2.add_affine(&key.beta2).add(&multiple(&delta2, s));
    let c = sums.c.add(&sums.h).add(&multiple(&a, s)).add(&multiple(&b1, r)).add(&multiple(&delta1, &minus_rs));
    ProofPoints { a: a.to_affine(), b: b2.to_affine(), c: c.to_affine() }
}

/// scalar * point, by double and add.
fn multiple<F: Field>(point: &Xyzz<F>, scalar: &[u64; 4]) -> Xyzz<F> {
    let mut sum = Xyzz::INFINITY;
    for limb in scalar.iter().rev() {
        for bit in (0..64).rev() {
            sum = sum.double();
            if limb >> bit & 1 == 1 {
                sum = sum.add(point);
            }
        }
    }
    sum
}
