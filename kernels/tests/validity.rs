//! Checks of many points, subgroup tests, and fixed-base multiplication, against arkworks.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use ark_ec::short_weierstrass::{self, SWCurveConfig};
use ark_ec::{AffineRepr, CurveConfig as _, CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup as _, BigInt, UniformRand, Zero};
use ark_std::rand::Rng;
use ark_std::rand::rngs::StdRng;
use common::{Mirror, Portable, mixed_scalar, own, plain, rng, same_affine};
use num_bigint::BigUint;
use proofmill_kernels::batch::fixed_base;
use proofmill_kernels::check::{first_not_canonical, first_off_curve, first_point_not_canonical};
use proofmill_kernels::curve::{Affine, CurveField};
use proofmill_kernels::field::{Bls12381Fq, Bls12381Fr, Bn254Fq, Bn254Fr, Field, PrimeField};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};
use proofmill_kernels::subgroup::{SubgroupField, all_in_subgroup, first_outside_subgroup};

type Projective<P> = short_weierstrass::Projective<P>;

/// Points of the curve whose order is a given prime factor of the cofactor.
fn of_order<P: SWCurveConfig>(factor: u64, rng: &mut StdRng) -> Projective<P> {
    let f = BigUint::from(factor);
    let mut others = BigUint::from_slice(&words(P::COFACTOR));
    assert!((&others % &f).is_zero(), "{factor} divides the cofactor");
    while (&others % &f).is_zero() {
        others /= &f;
    }
    others *= BigUint::from_slice(&words(<P::ScalarField as ark_ff::PrimeField>::MODULUS.as_ref()));
    of_sylow::<P>(&others, &f, rng)
}

/// Points of the cofactor's part without the given factors.
fn of_rest<P: SWCurveConfig>(factors: &[u64], rng: &mut StdRng) -> Projective<P> {
    let mut others = BigUint::from_slice(&words(<P::ScalarField as ark_ff::PrimeField>::MODULUS.as_ref()));
    for &f in factors {
        others *= BigUint::from(f) * BigUint::from(f);
    }
    of_sylow::<P>(&others, &BigUint::zero(), rng)
}

fn of_sylow<P: SWCurveConfig>(others: &BigUint, f: &BigUint, rng: &mut StdRng) -> Projective<P> {
    loop {
        let x = P::BaseField::rand(rng);
        let Some(p) = short_weierstrass::Affine::<P>::get_point_from_x_unchecked(x, rng.r#gen()) else { continue };
        let mut q = times(&p.into_group(), others);
        if q.is_zero() {
            continue;
        }
        while !f.is_zero() {
            let next = times(&q, f);
            if next.is_zero() {
                break;
            }
            q = next;
        }
        return q;
    }
}

/// Plain double and add: arkworks' own product reduces the scalar modulo r first, where it uses an endomorphism.
fn times<P: SWCurveConfig>(p: &Projective<P>, n: &BigUint) -> Projective<P> {
    (0..n.bits()).rev().fold(Projective::zero(), |r, i| {
        let r = r.double();
        if n.bit(i) { r + p } else { r }
    })
}

fn words(limbs: &[u64]) -> Vec<u32> {
    limbs.iter().flat_map(|l| [*l as u32, (*l >> 32) as u32]).collect()
}

fn planted<F, P>(factors: &[u64])
where
    F: Mirror<Ark = P::BaseField> + SubgroupField,
    P: SWCurveConfig,
{
    let mut rng = rng();
    let r = BigUint::from_slice(&words(<P::ScalarField as ark_ff::PrimeField>::MODULUS.as_ref()));
    let mut strangers: Vec<Projective<P>> = factors.iter().map(|&f| of_order::<P>(f, &mut rng)).collect();
    strangers.push(of_rest::<P>(factors, &mut rng));
    let convert = |p: &Projective<P>| own::<F, _>(&p.into_affine());
    for n in [1usize, 40, 600, 5000] {
        let step = Projective::<P>::rand(&mut rng);
        let mut p = Projective::<P>::rand(&mut rng);
        let good: Vec<Affine<F>> = Projective::normalize_batch(
            &(0..n)
                .map(|i| {
                    p += step;
                    if i % 50 == 7 { Projective::zero() } else { p }
                })
                .collect::<Vec<_>>(),
        )
        .iter()
        .map(own::<F, _>)
        .collect();
        let seed: [u8; 32] = rng.r#gen();
        assert!(all_in_subgroup(&good, &seed));
        assert_eq!(first_outside_subgroup(&good, &seed), None);
        for (k, q) in strangers.iter().enumerate() {
            assert!(!times(q, &r).is_zero() && convert(q).is_on_curve());
            let seed: [u8; 32] = rng.r#gen();
            let at = rng.gen_range(0..n);
            // The small part alone, or beside a part of order r.
            let mixed = if rng.r#gen() { *q } else { *q + step };
            assert!(!F::contains(&convert(&mixed)));
            let mut bad = good.clone();
            bad[at] = convert(&mixed);
            assert!(!all_in_subgroup(&bad, &seed), "n = {n}, stranger {k} at {at}");
            assert_eq!(first_outside_subgroup(&bad, &seed), Some(at), "n = {n}, stranger {k}");
            // A pair that cancels, and a third of all points, each with a stranger part.
            if n > 1 {
                let other = (at + 1 + rng.gen_range(0..n - 1)) % n;
                bad[other] = convert(&(-mixed));
                assert!(!all_in_subgroup(&bad, &seed), "n = {n}, stranger {k} at {at}, its negative at {other}");
                bad.iter_mut().step_by(3).for_each(|b| *b = convert(q));
                assert_eq!(first_outside_subgroup(&bad, &seed), Some(0));
            }
        }
    }
}

#[test]
fn subgroup_bn254_g2() {
    planted::<Bn254Fq2, ark_bn254::g2::Config>(&[10069, 5864401]);
}

#[test]
fn subgroup_bls12_381_g1() {
    planted::<Bls12381Fq, ark_bls12_381::g1::Config>(&[3, 11, 10177, 859267]);
    // 52437899 is what then remains.
}

#[test]
fn subgroup_bls12_381_g2() {
    planted::<Bls12381Fq2, ark_bls12_381::g2::Config>(&[13, 23, 2713, 11953, 262069]);
}

#[test]
fn bn254_g1_has_no_other_points() {
    assert!(ark_bn254::g1::Config::cofactor_is_one());
    assert!(all_in_subgroup(&[Affine { x: Bn254Fq::ONE, y: Bn254Fq::from_u64(2) }], &[0; 32]));
}

fn validity<F: Mirror + CurveField, G: CurveGroup<BaseField = F::Ark>>() {
    let mut rng = rng();
    let mut points: Vec<Affine<F>> = (0..5000).map(|_| Affine::INFINITY).collect();
    for p in points.iter_mut().step_by(3) {
        *p = own(&G::rand(&mut rng).into_affine());
    }
    assert_eq!(first_off_curve(&points), None);
    assert_eq!(first_point_not_canonical(&points), None);
    for at in [0, 1, 2046, 2049, 4998] {
        let good = points[at];
        points[at] = Affine { x: F::ONE, y: F::ZERO };
        assert_eq!(first_off_curve(&points), Some(at), "y = 0");
        points[at] = Affine { x: F::ZERO, y: F::ONE };
        assert_eq!(first_off_curve(&points), Some(at), "x = 0");
        // All ones: far above the modulus.
        bytemuck::bytes_of_mut(&mut points[at].y).fill(0xff);
        assert_eq!(first_point_not_canonical(&points), Some(at));
        assert_eq!(first_not_canonical::<F>(bytemuck::cast_slice(&points)), Some(2 * at + 1));
        points[at] = good;
    }
}

fn canonical<F: PrimeField>() {
    let mut limit = F::MODULUS;
    let mut v = vec![F::ONE; 3000];
    v[2500] = F::from_montgomery(limit);
    assert_eq!(first_not_canonical(&v), Some(2500), "the modulus itself");
    limit.as_mut()[0] -= 1;
    v[2500] = F::from_montgomery(limit);
    assert_eq!(first_not_canonical(&v), None, "the modulus minus one");
    assert_eq!(first_not_canonical::<F>(&[]), None);
}

fn multiples<F: Mirror + CurveField, G>()
where
    G: CurveGroup<BaseField = F::Ark, ScalarField: ark_ff::PrimeField<BigInt = BigInt<4>>> + PrimeGroup,
{
    let mut rng = rng();
    for n in [0usize, 1, 2, 5, 100, 1500] {
        let base = G::rand(&mut rng);
        let scalars: Vec<G::ScalarField> = (0..n).map(|_| mixed_scalar(&mut rng)).collect();
        let got = fixed_base(&own::<F, _>(&base.into_affine()), &plain(&scalars));
        assert_eq!(got.len(), n);
        for (p, s) in got.iter().zip(&scalars) {
            assert!(same_affine(p, &(base * s)), "n = {n}");
            assert!(p.x.is_canonical() && p.y.is_canonical());
        }
    }
}

both_backends! {
    validity_bn254_g1: validity::<Bn254Fq, ark_bn254::G1Projective>;
    validity_bn254_g2: validity::<Bn254Fq2, ark_bn254::G2Projective>;
    validity_bls12_381_g1: validity::<Bls12381Fq, ark_bls12_381::G1Projective>;
    validity_bls12_381_g2: validity::<Bls12381Fq2, ark_bls12_381::G2Projective>;
    multiples_bn254_g1: multiples::<Bn254Fq, ark_bn254::G1Projective>;
    multiples_bn254_g2: multiples::<Bn254Fq2, ark_bn254::G2Projective>;
    multiples_bls12_381_g1: multiples::<Bls12381Fq, ark_bls12_381::G1Projective>;
    multiples_bls12_381_g2: multiples::<Bls12381Fq2, ark_bls12_381::G2Projective>;
    canonical_bn254_fq: canonical::<Bn254Fq>;
    canonical_bn254_fr: canonical::<Bn254Fr>;
    canonical_bls12_381_fq: canonical::<Bls12381Fq>;
    canonical_bls12_381_fr: canonical::<Bls12381Fr>;
}

#[test]
fn portable_types_have_the_same_layout() {
    assert_eq!(size_of::<Affine<Portable<Bls12381Fq>>>(), 96);
    assert_eq!(align_of::<Affine<Bn254Fq>>(), 32);
}
