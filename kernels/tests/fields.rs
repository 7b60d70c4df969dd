//! Fields against arkworks, on both backends.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use ark_ff::{AdditiveGroup as _, Field as _, One, UniformRand, Zero};
use common::{Mirror, Portable, rng};
use proofmill_kernels::field::{Bls12381Fq, Bls12381Fr, Bn254Fq, Bn254Fr, Field, PrimeField};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};

fn field<F: Mirror>() {
    let mut rng = rng();
    let mut v: Vec<F::Ark> = (0..40).map(|_| F::Ark::rand(&mut rng)).collect();
    let one = F::Ark::one();
    v.extend([F::Ark::zero(), one, -one, one + one, -one - one, one.double().inverse().unwrap()]);
    for x in &v {
        let a = F::from_ark(x);
        for y in &v {
            let b = F::from_ark(y);
            // Chains, so that values between p and 2p turn up as operands.
            let s = a.add(&b).add(&b).sub(&a).sub(&a).sub(&a);
            let t = *y + y - x - x;
            assert_eq!(s.to_ark(), t);
            assert_eq!(a.mul(&b).to_ark(), *x * y);
            assert_eq!(s.mul(&s).to_ark(), t * t);
            assert_eq!(s.sqr().to_ark(), t * t);
            assert_eq!(s.mul(&a).mul(&s.sqr()).to_ark(), t * x * t * t);
            assert_eq!(s.dbl().dbl().mul(&s.neg()).to_ark(), -(t.double().double() * t));
            assert_eq!(s.is_zero(), t.is_zero());
            assert!(s.maybe_zero() || !t.is_zero());
            assert_eq!(s == a, t == *x);
            assert!(s.reduced().is_canonical());
        }
        assert_eq!(a.neg_if(true).to_ark(), -*x);
        assert_eq!(a.neg_if(false).to_ark(), *x);
        assert_eq!(a.inv().to_ark(), x.inverse().unwrap_or(F::Ark::zero()));
        assert_eq!(a.pow(&[5, 1]).to_ark(), x.pow([5, 1]));
    }
    assert!(F::from_ark(&v[0]).sub(&F::from_ark(&v[0])).is_zero());
    assert!(F::ZERO.is_canonical() && F::ONE.is_canonical());
}

/// Long random walks whose operands reach every corner of the lazy range.
fn walk<F: Mirror>() {
    let mut rng = rng();
    let (mut x, mut y) = (F::Ark::rand(&mut rng), F::Ark::rand(&mut rng));
    let (mut a, mut b) = (F::from_ark(&x), F::from_ark(&y));
    for i in 0..20_000 {
        (x, y, a, b) = match i % 5 {
            0 => (x + y, x - y, a.add(&b), a.sub(&b)),
            1 => (x * y, y.square(), a.mul(&b), b.sqr()),
            2 => (-x, y.double(), a.neg(), b.dbl()),
            3 => (y * y - x, x, b.mul(&b).sub(&a), a),
            _ => (x + x, x * y, a.add(&a), b.mul(&a)),
        };
        assert!(a.to_ark() == x && b.to_ark() == y, "step {i}");
    }
}

fn integers<F: Mirror + PrimeField>()
where
    F::Ark: ark_ff::PrimeField,
{
    use ark_ff::{BigInteger, PrimeField as _};
    let mut rng = rng();
    let limbs = |x: &F::Ark| {
        let mut l = F::MODULUS;
        l.as_mut().copy_from_slice(x.into_bigint().as_ref());
        l
    };
    for _ in 0..100 {
        let x = F::Ark::rand(&mut rng);
        assert_eq!(F::from_plain(limbs(&x)).to_ark(), x);
        assert_eq!(F::from_ark(&x).to_plain(), limbs(&x));
    }
    // Any integer of the limbs is reduced.
    let mut all = F::MODULUS;
    all.as_mut().fill(u64::MAX);
    let bytes: Vec<u8> = vec![0xff; 8 * all.as_ref().len()];
    assert_eq!(F::from_plain(all).to_ark(), F::Ark::from_le_bytes_mod_order(&bytes));
    assert!(F::from_plain(F::MODULUS).is_zero());
    assert_eq!(F::from_u64(77).to_ark(), F::Ark::from(77u64));
    assert_eq!(F::MODULUS.as_ref(), F::Ark::MODULUS.as_ref());
    assert!(F::Ark::MODULUS.num_bits() > 200);
}

both_backends! {
    bn254_fq: field::<Bn254Fq>;
    bn254_fr: field::<Bn254Fr>;
    bls12_381_fq: field::<Bls12381Fq>;
    bls12_381_fr: field::<Bls12381Fr>;
    bn254_fq2: field::<Bn254Fq2>;
    bls12_381_fq2: field::<Bls12381Fq2>;
    walk_bn254_fq: walk::<Bn254Fq>;
    walk_bn254_fr: walk::<Bn254Fr>;
    walk_bls12_381_fq: walk::<Bls12381Fq>;
    walk_bls12_381_fr: walk::<Bls12381Fr>;
    walk_bn254_fq2: walk::<Bn254Fq2>;
    walk_bls12_381_fq2: walk::<Bls12381Fq2>;
    integers_bn254_fq: integers::<Bn254Fq>;
    integers_bn254_fr: integers::<Bn254Fr>;
    integers_bls12_381_fq: integers::<Bls12381Fq>;
    integers_bls12_381_fr: integers::<Bls12381Fr>;
}

#[test]
fn debug_output_hides_values() {
    assert_eq!(format!("{:?}", Bn254Fr::from_u64(12345)), "Fp(..)");
    let _: Portable<Bn254Fr> = Field::ONE;
}
