//! Arkworks as the mirror of our types; random data with printed seeds.
#![allow(dead_code)]

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInt, UniformRand};
use ark_std::rand::rngs::StdRng;
use ark_std::rand::{Rng, SeedableRng};
use proofmill_kernels::curve::{Affine, Xyzz};
use proofmill_kernels::field::{
    Bls12381FqModulus, Bls12381FrModulus, Bn254FqModulus, Bn254FrModulus, Field, Fp, PrimeField,
};
use proofmill_kernels::fp2::Fp2;

/// A field of ours, on any backend, and the one of arkworks that it mirrors.
pub trait Mirror: Field {
    type Ark: ark_ff::Field + UniformRand;
    fn from_ark(x: &Self::Ark) -> Self;
    fn to_ark(&self) -> Self::Ark;
}

macro_rules! mirror {
    ($modulus:ty, $n:literal, $ark:ty) => {
        impl<B> Mirror for Fp<$modulus, $n, B>
        where
            Self: PrimeField<Limbs = [u64; $n]>,
        {
            type Ark = $ark;
            fn from_ark(x: &$ark) -> Self {
                Self::from_montgomery(x.0.0)
            }
            fn to_ark(&self) -> $ark {
                <$ark>::new_unchecked(BigInt(self.montgomery()))
            }
        }
    };
}
mirror!(Bn254FqModulus, 4, ark_bn254::Fq);
mirror!(Bn254FrModulus, 4, ark_bn254::Fr);
mirror!(Bls12381FqModulus, 6, ark_bls12_381::Fq);
mirror!(Bls12381FrModulus, 4, ark_bls12_381::Fr);

macro_rules! mirror2 {
    ($modulus:ty, $n:literal, $ark:ty) => {
        impl<B> Mirror for Fp2<Fp<$modulus, $n, B>>
        where
            Self: Field,
            Fp<$modulus, $n, B>: PrimeField<Limbs = [u64; $n]>,
        {
            type Ark = $ark;
            fn from_ark(x: &$ark) -> Self {
                Self { c0: Fp::from_ark(&x.c0), c1: Fp::from_ark(&x.c1) }
            }
            fn to_ark(&self) -> $ark {
                <$ark>::new(self.c0.to_ark(), self.c1.to_ark())
            }
        }
    };
}
mirror2!(Bn254FqModulus, 4, ark_bn254::Fq2);
mirror2!(Bls12381FqModulus, 6, ark_bls12_381::Fq2);

/// The same type on the portable backend, whatever the processor.
pub type Portable<F> = <F as Field>::Portable;

/// Runs a generic test for the default backend and for the portable one.
#[macro_export]
macro_rules! both_backends {
    ($($name:ident: $f:ident::<$field:ty $(, $g:ty)?>;)*) => {
        $(mod $name {
            use super::*;
            #[test]
            fn native() {
                $f::<$field $(, $g)?>();
            }
            #[test]
            fn portable() {
                $f::<common::Portable<$field> $(, $g)?>();
            }
        })*
    };
}

/// A fresh generator; its seed is printed, so that a failure can be repeated by putting it here.
pub fn rng() -> StdRng {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    StdRng::seed_from_u64(seed)
}

pub fn own<F: Mirror, A: AffineRepr<BaseField = F::Ark>>(p: &A) -> Affine<F> {
    p.xy().map_or(Affine::INFINITY, |(x, y)| Affine { x: F::from_ark(&x), y: F::from_ark(&y) })
}

pub fn same<F: Mirror, G: CurveGroup<BaseField = F::Ark>>(got: &Xyzz<F>, want: &G) -> bool {
    same_affine::<F, G>(&got.to_affine(), want)
}

pub fn same_affine<F: Mirror, G: CurveGroup<BaseField = F::Ark>>(got: &Affine<F>, want: &G) -> bool {
    match want.into_affine().xy() {
        None => got.is_infinity(),
        Some((x, y)) => !got.is_infinity() && got.x.to_ark() == x && got.y.to_ark() == y,
    }
}

pub fn plain<S: ark_ff::PrimeField<BigInt = BigInt<4>>>(scalars: &[S]) -> Vec<[u64; 4]> {
    scalars.iter().map(|s| s.into_bigint().0).collect()
}

/// 0, 1, -1, small, minus small, and uniform scalars.
pub fn mixed_scalar<S: ark_ff::PrimeField>(rng: &mut StdRng) -> S {
    match rng.gen_range(0..10) {
        0 | 1 => S::zero(),
        2 | 3 => S::one(),
        4 => -S::one(),
        5 => S::from(rng.r#gen::<u16>()),
        6 => -S::from(rng.r#gen::<u64>()),
        _ => S::rand(rng),
    }
}
