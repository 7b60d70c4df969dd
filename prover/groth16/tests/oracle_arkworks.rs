//! Differential: with r and s known, A, B and C must be the very points that a slow reference on arkworks computes from the
//! key's own points: other field arithmetic, other transforms, other multi-scalar multiplications.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod proving;

use ark_ec::pairing::Pairing;
use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_ff::{BigInteger, Field, PrimeField, Zero};
use proofmill_groth16::curve::{Bls12381, Bn254, Curve, Suite};
use proofmill_groth16::device::Blinding;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::key::view::{Csr, KeyView, Points};
use proofmill_groth16::proof::{Proof, ProofPoints};
use proofmill_groth16::prove::blinding::BlindingScalars;
use proving::{Case, chain, squares};

type Fr<S> = <<S as Suite>::Ark as Pairing>::ScalarField;
type G1<S> = <<S as Suite>::Ark as Pairing>::G1;
type G2<S> = <<S as Suite>::Ark as Pairing>::G2;

#[test]
fn chain_proofs_are_the_references() {
    for curve in Curve::ALL {
        assert_equal(&chain(curve));
    }
}

#[test]
fn dev_key_proofs_are_the_references() {
    for curve in Curve::ALL {
        for rounds in [61, 62, 500] {
            let (circuit, values) = squares(curve, rounds, 3, 5);
            assert_equal(&circuit.case(curve, values));
        }
    }
}

fn assert_equal(case: &Case) {
    for blinding in [Blinding::ZeroForTests, Blinding::SeededForTests([9; 32])] {
        let expected = match &*case.key {
            ProvingKey::Bn254(key) => reference::<Bn254>(&key.view(), &case.witness.values, &blinding),
            ProvingKey::Bls12381(key) => reference::<Bls12381>(&key.view(), &case.witness.values, &blinding),
        };
        assert_eq!(case.prove(&CpuDevice::new(2).unwrap(), blinding), expected);
    }
}

fn reference<S: Suite>(key: &KeyView<'_, S>, witness: &[[u64; 4]], blinding: &Blinding) -> Proof {
    let values: Vec<Fr<S>> = witness.iter().map(plain::<S>).collect();
    let h = quotient::<S>(key, &values);
    let blinding = BlindingScalars::draw::<S>(blinding).unwrap();
    let (r, s) = (plain::<S>(&blinding.r), plain::<S>(&blinding.s));
    let g1 = |point| -> G1<S> { S::g1_to_ark(point).into() };
    let sum = |points: &Points<'_, S::Fq>| {
        let bases: Vec<_> = points.points.iter().map(S::g1_to_ark).collect();
        G1::<S>::msm_unchecked(&bases, &select::<S>(&values, points.wires))
    };
    let bases2: Vec<_> = key.b2.points.iter().map(S::g2_to_ark).collect();
    let sum2 = G2::<S>::msm_unchecked(&bases2, &select::<S>(&values, key.b2.wires));
    let bases_h: Vec<_> = key.h.iter().map(S::g1_to_ark).collect();
    let delta1 = g1(&key.delta1);
    let beta2: G2<S> = S::g2_to_ark(&key.beta2).into();
    let delta2: G2<S> = S::g2_to_ark(&key.delta2).into();
    let a = g1(&key.alpha1) + sum(&key.a) + delta1 * r;
    let b1 = g1(&key.beta1) + sum(&key.b1) + delta1 * s;
    let b2 = beta2 + sum2 + delta2 * s;
    let c = sum(&key.c) + G1::<S>::msm_unchecked(&bases_h, &h) + a * s + b1 * r - delta1 * (r * s);
    ProofPoints::<S> {
        a: S::g1_from_ark(&a.into_affine()),
        b: S::g2_from_ark(&b2.into_affine()),
        c: S::g1_from_ark(&c.into_affine()),
    }
    .to_proof()
}

/// a b - c at the odd powers of omega, omega of order 2n being 5^((r - 1) / 2n).
fn quotient<S: Suite>(key: &KeyView<'_, S>, values: &[Fr<S>]) -> Vec<Fr<S>> {
    let n = 1usize << key.domain_log;
    let mut exponent = Fr::<S>::MODULUS;
    exponent.sub_with_borrow(&1u64.into());
    let omega = Fr::<S>::from(5u64).pow(exponent >> (key.domain_log + 1));
    assert_eq!(omega.pow([n as u64]), -Fr::<S>::ONE);
    let root = omega.square();
    let a = rows::<S>(&key.matrix_a, values);
    let b = rows::<S>(&key.matrix_b, values);
    let c: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a * b).collect();
    let [a, b, c] = [a, b, c].map(|values| {
        let mut coefficients = fourier(&values, root.inverse().unwrap());
        let mut factor = Fr::<S>::from(n as u64).inverse().unwrap();
        for coefficient in &mut coefficients {
            *coefficient *= factor;
            factor *= omega;
        }
        fourier(&coefficients, root)
    });
    a.iter().zip(&b).zip(&c).map(|((a, b), c)| *a * b - c).collect()
}

fn fourier<F: Field>(values: &[F], root: F) -> Vec<F> {
    if values.len() == 1 {
        return values.to_vec();
    }
    let half = |odd| values.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
    let (even, odd) = (fourier(&half(0), root.square()), fourier(&half(1), root.square()));
    let mut power = F::ONE;
    let mut result = vec![F::ZERO; values.len()];
    for i in 0..even.len() {
        result[i] = even[i] + power * odd[i];
        result[i + even.len()] = even[i] - power * odd[i];
        power *= root;
    }
    result
}

fn rows<S: Suite>(matrix: &Csr<'_, S::Fr>, values: &[Fr<S>]) -> Vec<Fr<S>> {
    // The table's limbs are v R^2, which arkworks reads as the Montgomery form of v R.
    let by_r = Fr::<S>::from(2u64).pow([256]).inverse().unwrap();
    let row = |row| {
        let terms = matrix
            .row(row)
            .map(|(wire, place)| S::fr_to_ark(&matrix.coefficients[place as usize]) * by_r * values[wire as usize]);
        terms.fold(Fr::<S>::zero(), |sum, term| sum + term)
    };
    (0..matrix.rows()).map(row).collect()
}

fn select<S: Suite>(values: &[Fr<S>], wires: &[u32]) -> Vec<Fr<S>> {
    wires.iter().map(|wire| values[*wire as usize]).collect()
}

fn plain<S: Suite>(limbs: &[u64; 4]) -> Fr<S> {
    let bytes: Vec<u8> = limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    Fr::<S>::from_le_bytes_mod_order(&bytes)
}
