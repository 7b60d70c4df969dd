//! Transforms against arkworks: every size from 2^0 to 2^16, both scalar fields, both families of roots, both backends.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use ark_ff::{FftField, Field as _, PrimeField as _, UniformRand};
use ark_poly::EvaluationDomain;
use ark_poly::domain::Radix2EvaluationDomain;
use common::{Mirror, rng};
use proofmill_kernels::field::{Bls12381Fr, Bn254Fr, Field, PrimeField};
use proofmill_kernels::ntt::{Domain, bit_reverse, scale_bit_reversed};

/// generator^t, the root of order 2^TWO_ADICITY that a key format takes, squared down to order 2^log.
fn root<A: ark_ff::PrimeField>(generator: u64, log: u32) -> A {
    (log..A::TWO_ADICITY).fold(A::from(generator).pow(A::TRACE), |w, _| w.square())
}

fn transforms<F: Mirror + PrimeField>()
where
    F::Ark: ark_ff::PrimeField,
{
    let mut rng = rng();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for log in 0..=16 {
        let n = 1usize << log;
        for generator in [5, 7] {
            let w: F::Ark = root(generator, log);
            assert!(w.pow([n as u64]) == F::Ark::from(1u64));
            let v: Vec<F::Ark> = (0..n).map(|_| F::Ark::rand(&mut rng)).collect();
            let own = Domain::new(log, F::from_ark(&w));
            let start: Vec<F> = v.iter().map(F::from_ark).collect();
            let back = |x: &[F]| x.iter().map(Mirror::to_ark).collect::<Vec<_>>();
            let want = reference(&v, w);

            let mut x = start.clone();
            own.dif_serial(&mut x);
            let mut y = start.clone();
            pool.install(|| own.dif(&mut y));
            assert_eq!(back(&x), back(&y));
            bit_reverse(&mut x);
            assert_eq!(back(&x), want, "dif 2^{log}, root of {generator}");

            let mut x = start.clone();
            bit_reverse(&mut x);
            let mut y = x.clone();
            own.dit_serial(&mut x);
            pool.install(|| own.dit(&mut y));
            assert_eq!(back(&x), want, "dit 2^{log}, root of {generator}");
            assert_eq!(back(&y), want);

            for part_log in [0, log / 2, log.saturating_sub(1)].into_iter().filter(|p| log - p <= 6) {
                let cut = Domain::with_part_log(log, F::from_ark(&w), part_log);
                let cuts = (log - part_log) as usize;
                assert_eq!(cut.parts(), cuts + (1 << cuts));
                let (mut x, mut y) = (start.clone(), start.clone());
                own.dif_inverse_serial(&mut x);
                pool.install(|| (0..cut.parts()).for_each(|part| cut.dif_inverse_part(&mut y, part)));
                assert_eq!(back(&x), back(&y), "dif 2^{log} in parts of 2^{part_log}");
                own.dit_serial(&mut x);
                (0..cut.parts()).for_each(|part| cut.dit_part(&mut y, part));
                assert_eq!(back(&x), back(&y), "dit 2^{log} in parts of 2^{part_log}");
                cut.dif_serial(&mut x);
                own.dif(&mut y);
                assert_eq!(back(&x), back(&y));
            }

            // There and back without any permutation, then over a coset.
            let shift = F::Ark::rand(&mut rng);
            let mut x = start.clone();
            own.dif_inverse_serial(&mut x);
            let mut y = start.clone();
            pool.install(|| own.dif_inverse(&mut y));
            assert_eq!(back(&x), back(&y));
            own.dit_serial(&mut x);
            let size = F::Ark::from(n as u64);
            assert_eq!(back(&x), v.iter().map(|a| *a * size).collect::<Vec<_>>(), "inverse 2^{log}");
            let inverse_size = F::from_ark(&size.inverse().unwrap());
            if log <= 12 {
                pool.install(|| scale_bit_reversed(&mut y, &inverse_size, &F::from_ark(&shift)));
            } else {
                scale_bit_reversed(&mut y, &inverse_size, &F::from_ark(&shift));
            }
            bit_reverse(&mut y);
            let mut power = F::Ark::from(1u64);
            let mut coefficients = reference(&v, w.inverse().unwrap());
            for c in &mut coefficients {
                *c *= power / size;
                power *= shift;
            }
            assert_eq!(back(&y), coefficients, "scaled 2^{log}");
        }
    }
}

/// Arkworks' transform; for a root other than its own, by the permutation that takes one to the other.
fn reference<A: ark_ff::PrimeField>(v: &[A], w: A) -> Vec<A> {
    let n = v.len();
    let domain = Radix2EvaluationDomain::<A>::new(n).unwrap();
    let theirs = domain.fft(v);
    let own = domain.group_gen();
    // w = own^e: evaluation i at w is theirs at e i.
    let mut power = A::one();
    let mut e = 0usize;
    if n <= 4096 {
        while power != w {
            power *= own;
            e += 1;
        }
    } else {
        e = discrete_log(own, w, n);
    }
    (0..n).map(|i| theirs[e * i % n]).collect()
}

/// Bit by bit: the group's order is a power of two.
fn discrete_log<A: ark_ff::PrimeField>(base: A, w: A, n: usize) -> usize {
    let log = n.ilog2();
    let inverse = base.inverse().unwrap();
    let mut e = 0usize;
    for bit in 0..log {
        let rest = w * inverse.pow([e as u64]);
        if rest.pow([(n >> (bit + 1)) as u64]) != A::one() {
            e |= 1 << bit;
        }
    }
    e
}

/// snarkjs' roots differ from arkworks' on BLS12-381 (5^t against 7^t): the tests above would not tell if they were one.
#[test]
fn families_of_roots_differ() {
    for log in 6..=16 {
        assert_ne!(root::<ark_bls12_381::Fr>(5, log), root(7, log));
        assert_ne!(root::<ark_bn254::Fr>(5, log), root(7, log));
    }
    assert_eq!(root::<ark_bls12_381::Fr>(7, 32), ark_bls12_381::Fr::TWO_ADIC_ROOT_OF_UNITY);
    assert_eq!(root::<ark_bn254::Fr>(5, 28), ark_bn254::Fr::TWO_ADIC_ROOT_OF_UNITY);
    let decimal = "937917089079007706106976984802249742464848817460758522850752807661925904159";
    assert_eq!(root::<ark_bls12_381::Fr>(5, 32).into_bigint().to_string(), decimal);
}

both_backends! {
    bn254: transforms::<Bn254Fr>;
    bls12_381: transforms::<Bls12381Fr>;
}

#[test]
fn a_mapped_section_casts_in_place() {
    let one = Bn254Fr::ONE;
    let bytes: &[u8] = bytemuck::bytes_of(&one);
    assert_eq!(bytes.len(), 32);
    assert!(bytemuck::try_cast_slice::<u8, Bn254Fr>(&bytes[..31]).is_err());
}
