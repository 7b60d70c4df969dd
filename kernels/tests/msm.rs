//! Curves and multi-scalar multiplication against arkworks, on both backends.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use ark_ec::{AffineRepr, CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{BigInt, One, UniformRand, Zero};
use ark_std::rand::Rng;
use ark_std::rand::rngs::StdRng;
use common::{Mirror, mixed_scalar, own, plain, rng, same, same_affine};
use proofmill_kernels::curve::{Affine, CurveField, Xyzz, normalize};
use proofmill_kernels::field::{Bls12381Fq, Bn254Fq};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};
use proofmill_kernels::msm::{Bases, Msm, Plan, Scratch, msm};

/// A group of arkworks over the coordinate field that ours mirrors.
trait Group<F: Mirror>:
    CurveGroup<
        BaseField = F::Ark,
        ScalarField: ark_ff::PrimeField<BigInt = BigInt<4>>,
        Affine: AffineRepr<BaseField = F::Ark, Group = Self, ScalarField = Self::ScalarField>,
    > + VariableBaseMSM
    + PrimeGroup
{
}
impl<F: Mirror, G> Group<F> for G where
    G: CurveGroup<
            BaseField = F::Ark,
            ScalarField: ark_ff::PrimeField<BigInt = BigInt<4>>,
            Affine: AffineRepr<BaseField = F::Ark, Group = G, ScalarField = G::ScalarField>,
        > + VariableBaseMSM
        + PrimeGroup
{
}

fn group_law<F: Mirror + CurveField, G: Group<F>>() {
    let mut rng = rng();
    let few: Vec<G> = (0..3).map(|_| G::rand(&mut rng)).collect();
    let mut v = few.clone();
    v.extend([-few[0], few[0] + few[1], few[0].double(), G::zero()]);
    let own_points: Vec<Affine<F>> = v.iter().map(|p| own::<F, _>(&p.into_affine())).collect();
    // With coordinates of their own, z other than 1.
    let spread: Vec<Xyzz<F>> = own_points.iter().map(|p| Xyzz::from_affine(p).double().add_affine(p)).collect();
    for (i, a) in v.iter().enumerate() {
        assert!(own_points[i].is_on_curve());
        let triple = a.double() + a;
        assert!(same(&spread[i], &triple));
        assert!(same(&spread[i].double(), &triple.double()));
        assert!(same(&spread[i].neg(), &-triple));
        for (j, b) in v.iter().enumerate() {
            assert!(same(&spread[i].add_affine(&own_points[j]), &(triple + b)));
            assert!(same(&spread[i].add(&spread[j]), &(triple + b.double() + b)));
            assert_eq!(spread[i] == spread[j], a == b);
        }
        for _ in 0..4 {
            let s: G::ScalarField = mixed_scalar(&mut rng);
            assert!(same(&spread[i].mul(&plain(&[s])[0]), &(triple * s)));
        }
    }
    for (p, q) in normalize(&spread).iter().zip(&v) {
        assert!(same_affine(p, &(q.double() + q)));
    }
    let off = Affine { x: own_points[0].x.add(&F::ONE), y: own_points[0].y };
    assert!(!off.is_on_curve());
}

/// Few distinct points, their negatives and infinity: doublings and cancellations everywhere.
fn mixed_points<G: CurveGroup>(n: usize, rng: &mut StdRng) -> Vec<G::Affine> {
    let few: Vec<G> = (0..3).map(|_| G::rand(rng)).collect();
    let mut walk = G::rand(rng);
    let v: Vec<G> = (0..n)
        .map(|_| match rng.gen_range(0..8) {
            0 => G::zero(),
            1..=3 => few[rng.gen_range(0..3)],
            4 => -few[rng.gen_range(0..3)],
            _ => {
                walk += few[0];
                walk.double_in_place();
                walk
            }
        })
        .collect();
    G::normalize_batch(&v)
}

fn check<F: Mirror + CurveField, G: Group<F>>(bases: &[G::Affine], scalars: &[G::ScalarField], rng: &mut StdRng) {
    let want = if bases.len() <= 64 {
        bases.iter().zip(scalars).map(|(b, s)| *b * s).fold(G::zero(), |a, b| a + b)
    } else {
        G::msm_unchecked(bases, scalars)
    };
    let points: Vec<Affine<F>> = bases.iter().map(own::<F, _>).collect();
    let limbs = plain(scalars);
    assert!(same(&msm(Bases { points: &points, wires: None }, &limbs, 255), &want), "n = {}", bases.len());
    // Infinities dropped, scalars shuffled behind an index.
    let mut at: Vec<u32> = (0..limbs.len() as u32).collect();
    for i in (1..at.len()).rev() {
        at.swap(i, rng.gen_range(0..=i));
    }
    let mut shuffled = vec![[0; 4]; limbs.len()];
    at.iter().zip(&limbs).for_each(|(&i, s)| shuffled[i as usize] = *s);
    let (kept, wires): (Vec<_>, Vec<_>) = points.iter().zip(&at).filter(|(p, _)| !p.is_infinity()).unzip();
    let bases = Bases { points: &kept, wires: Some(&wires) };
    let job = Msm::new(bases, &shuffled, 255);
    let mut scratch = Scratch::default();
    let mut parts: Vec<_> = (0..job.tasks()).rev().map(|t| job.run(t, &mut scratch)).collect();
    parts.reverse();
    assert!(same(&job.combine(&parts), &want), "n = {} by tasks", kept.len());
    // As many tasks as there can be, none of them without work.
    let plan = Plan::<F>::with_task_additions(kept.len(), Some(&wires), &shuffled, 255, 1);
    assert!(plan.tasks() >= job.tasks() && (1..plan.tasks()).all(|t| plan.additions(t) <= plan.additions(t - 1)));
    assert!((0..plan.tasks()).all(|t| plan.additions(t) > 0));
    let parts: Vec<_> = (0..plan.tasks()).map(|t| plan.run(&kept, t, &mut scratch)).collect();
    assert!(same(&plan.combine(&parts), &want), "n = {} by the smallest tasks", kept.len());
}

fn sums<F: Mirror + CurveField, G: Group<F>>() {
    let mut rng = rng();
    let one = G::ScalarField::one();
    for n in [0usize, 1, 2, 3, 5, 17, 100, 800] {
        let bases = mixed_points::<G>(n, &mut rng);
        let scalars: Vec<G::ScalarField> = (0..n).map(|_| mixed_scalar(&mut rng)).collect();
        check::<F, G>(&bases, &scalars, &mut rng);
        for s in [G::ScalarField::zero(), one, -one, one + one, -(one + one)] {
            check::<F, G>(&bases, &vec![s; n], &mut rng);
        }
        let bound = 1u64 << rng.gen_range(1..60);
        let small: Vec<G::ScalarField> = (0..n).map(|_| rng.gen_range(0..bound).into()).collect();
        check::<F, G>(&bases, &small, &mut rng);
        let uniform: Vec<G::ScalarField> = (0..n).map(|_| G::ScalarField::rand(&mut rng)).collect();
        check::<F, G>(&bases, &uniform, &mut rng);
        // The same scalar everywhere: one bucket a window.
        check::<F, G>(&bases, &vec![G::ScalarField::rand(&mut rng); n], &mut rng);
        // Around r/2, where scalars begin to be negated.
        let half = -one / (one + one);
        let near: Vec<G::ScalarField> = (0..n as u64).map(|i| half + G::ScalarField::from(i / 2) - one).collect();
        check::<F, G>(&bases, &near, &mut rng);
    }
}

/// Sizes from 2^0 to 2^13, so that every window width is met, and tiles are cut.
fn sizes<F: Mirror + CurveField, G: Group<F>>() {
    let mut rng = rng();
    for log in 0..=13 {
        let n = (1usize << log) + rng.gen_range(0..(1usize << log).div_ceil(2));
        let bases = mixed_points::<G>(n, &mut rng);
        let uniform: Vec<G::ScalarField> = (0..n).map(|_| G::ScalarField::rand(&mut rng)).collect();
        check::<F, G>(&bases, &uniform, &mut rng);
    }
}

both_backends! {
    group_law_bn254_g1: group_law::<Bn254Fq, ark_bn254::G1Projective>;
    group_law_bn254_g2: group_law::<Bn254Fq2, ark_bn254::G2Projective>;
    group_law_bls12_381_g1: group_law::<Bls12381Fq, ark_bls12_381::G1Projective>;
    group_law_bls12_381_g2: group_law::<Bls12381Fq2, ark_bls12_381::G2Projective>;
    sums_bn254_g1: sums::<Bn254Fq, ark_bn254::G1Projective>;
    sums_bn254_g2: sums::<Bn254Fq2, ark_bn254::G2Projective>;
    sums_bls12_381_g1: sums::<Bls12381Fq, ark_bls12_381::G1Projective>;
    sums_bls12_381_g2: sums::<Bls12381Fq2, ark_bls12_381::G2Projective>;
    sizes_bn254_g1: sizes::<Bn254Fq, ark_bn254::G1Projective>;
    sizes_bn254_g2: sizes::<Bn254Fq2, ark_bn254::G2Projective>;
    sizes_bls12_381_g1: sizes::<Bls12381Fq, ark_bls12_381::G1Projective>;
    sizes_bls12_381_g2: sizes::<Bls12381Fq2, ark_bls12_381::G2Projective>;
}
