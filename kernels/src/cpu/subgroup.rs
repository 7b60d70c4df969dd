//! Whether points of a curve lie in its subgroup of prime order r: one by one, and many at once.
//!
//! # One point
//! - BN254 G1 has no other points. BN254 G2: \[r\]P = O.
//! - BLS12-381 G1: phi(P) = -\[x^2\]P for phi(x, y) = (beta x, y), beta^3 = 1. It suffices: phi^2 + phi + 1 = 0 on the curve,
//!   so with lambda = -x^2 such a P has \[lambda^2 + lambda + 1\]P = O, and lambda^2 + lambda + 1 = x^4 - x^2 + 1 = r.
//! - BLS12-381 G2: psi(P) = \[x\]P, psi being Frobenius carried over the twist. It suffices: psi^2 - (x + 1) psi + p = 0, so
//!   \[p - x\]P = O; p - x = h1 r, the order of the curve of G1; P's order also divides that of the curve of G2, h2 r; and
//!   gcd(h1, h2) = 1.
//!
//! (Scott, "A note on group membership tests for G1, G2 and GT on BLS pairing-friendly curves", ePrint 2021/1130; El
//! Housni, Guillevic, Piellard, ePrint 2022/352.)
//!
//! # Many points
//! Write each point as its part of order r plus a part Q of an order that divides the cofactor; the points are good when
//! all Q = O. A *pass* makes random sums of the points, of which a bad set leaves all good with a small probability; passes
//! are independent, and are repeated until the product is at most 2^-104.
//! - **Weights** (BN254 G2, whose cofactor's smallest prime factor is 10069 > 2^13): one sum with independent 13-bit
//!   weights d. Fix all weights but that of a bad point: its Q has an order above 2^13, so of 2^13 consecutive values of d at
//!   most one cancels the rest. 2^-13 a pass. (Bellare, Garay, Rabin, "Fast batch verification", EUROCRYPT 1998, "small
//!   exponents".)
//! - **Buckets** (BLS12-381, where G1's cofactor has the factor 3 and G2's 13, so that weights tell little): each point falls
//!   into one of 2^b buckets, each bucket has a sum. Fix all choices but that of a bad point, whose Q is not O: all buckets
//!   come out good only if it falls into the one bucket whose other bad parts sum to -Q, and no other bucket is bad. 2^-b a
//!   pass, whatever the orders. The sums of all passes are again points to test: the same method with smaller b, then one
//!   by one. A union bound over the levels (at most four) keeps the whole below 2^-100.
//!
//! # Randomness
//! The caller gives a seed that whoever made the points could not foresee: from the system's generator, per call.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rayon::prelude::*;

use super::buckets::Idle;
use super::curve::{Affine, CurveField, Xyzz};
use super::field::{Bls12381Fq, Bls12381FqModulus, Bn254Fq, Field, Fp};
use super::fp2::{Bls12381Fq2, Bn254Fq2, Fp2};
use super::limbs::adx_available;
use super::msm::Scratch;

/// A group whose membership can be tested.
pub trait SubgroupField: CurveField {
    /// How many points are tested at once.
    #[doc(hidden)]
    const METHOD: Method;

    /// Whether a point of the curve lies in the subgroup.
    fn contains(p: &Affine<Self>) -> bool;
}

/// How many points are tested at once.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The curve has no other points.
    Trivial,
    /// Random weights of 13 bits.
    Weights,
    /// Random buckets.
    Buckets,
}

/// Whether all points, which must be on the curve, lie in the subgroup of order r. A wrong "yes" has a probability below
/// 2^-100 if the maker of the points could not foresee the seed; "no" is never wrong. Parallel on the current rayon pool.
pub fn all_in_subgroup<F: SubgroupField>(points: &[Affine<F>], seed: &[u8; 32]) -> bool {
    match F::METHOD {
        Method::Trivial => true,
        Method::Weights if points.len() <= FEW => points.par_iter().all(F::contains),
        Method::Weights => points.par_chunks(CHUNK).enumerate().all(|(i, chunk)| weights(chunk, seed, i as u64)),
        Method::Buckets => points.par_chunks(CHUNK).enumerate().all(|(i, chunk)| buckets(chunk, seed, (i as u64) << 2)),
    }
}

/// The index of the first point outside the subgroup, as [`all_in_subgroup`] sees it: costs as much again when there
/// is one.
pub fn first_outside_subgroup<F: SubgroupField>(points: &[Affine<F>], seed: &[u8; 32]) -> Option<usize> {
    if all_in_subgroup(points, seed) {
        return None;
    }
    // The first one is in from..to.
    let (mut from, mut to) = (0, points.len());
    while to - from > FEW {
        let middle = from + (to - from) / 2;
        if all_in_subgroup(&points[from..middle], seed) {
            from = middle;
        } else {
            to = middle;
        }
    }
    points[from..to].par_iter().position_first(|p| !F::contains(p)).map(|i| from + i)
}

/// Up to so many points are tested one by one where a point costs about 70 to 140 additions. Above, the sums of a level
/// must be fewer than its points: 26 passes with 2^4 buckets give 416.
const ONE_BY_ONE: usize = 512;
/// The same for BN254 G2, where a point costs a multiplication by r.
const FEW: usize = 32;
/// Points that share their passes; chunks run in parallel too.
const CHUNK: usize = 1 << 17;
/// Security of each level, in bits.
const BITS: u32 = 104;
/// Bits of a weight: below the smallest factor of BN254 G2's cofactor.
const WEIGHT: u32 = 13;

fn weights<F: SubgroupField>(points: &[Affine<F>], seed: &[u8; 32], domain: u64) -> bool {
    let idle = Idle::default();
    (0..BITS.div_ceil(WEIGHT) as u64).into_par_iter().all(|pass| {
        let draws = draws(seed, domain, pass, points.len(), WEIGHT);
        let sum = idle.with(|scratch: &mut Scratch<F>| F::random_sum(points, &draws, WEIGHT, scratch));
        F::contains(&sum.to_affine())
    })
}

fn buckets<F: SubgroupField>(points: &[Affine<F>], seed: &[u8; 32], domain: u64) -> bool {
    if points.len() <= ONE_BY_ONE {
        return points.par_iter().all(F::contains);
    }
    // About 128 points a bucket: then the next level has a tenth of the points.
    let bits = (points.len().ilog2() - 7).clamp(4, 10);
    let idle = Idle::default();
    let sums: Vec<Affine<F>> = (0..BITS.div_ceil(bits) as u64)
        .into_par_iter()
        .flat_map_iter(|pass| {
            let draws = draws(seed, domain, pass, points.len(), bits);
            idle.with(|scratch: &mut Scratch<F>| F::random_buckets(points, &draws, bits, scratch))
        })
        .collect();
    buckets(&sums, seed, domain + 1)
}

/// `n` numbers of `bits` bits, from a stream of their own.
fn draws(seed: &[u8; 32], domain: u64, pass: u64, n: usize, bits: u32) -> Vec<u16> {
    let mut rng = ChaCha12Rng::from_seed(*seed);
    // Fewer than 2^7 passes per level.
    rng.set_stream(domain << 7 | pass);
    let mask = (1u32 << bits) - 1;
    (0..n).map(|_| (rng.next_u32() & mask) as u16).collect()
}

impl SubgroupField for Bn254Fq {
    const METHOD: Method = Method::Trivial;

    fn contains(_: &Affine<Self>) -> bool {
        true
    }
}

impl SubgroupField for Bn254Fq2 {
    const METHOD: Method = Method::Weights;

    fn contains(p: &Affine<Self>) -> bool {
        Xyzz::from_affine(p).mul(&Self::ORDER).is_infinity()
    }
}

impl SubgroupField for Bls12381Fq {
    const METHOD: Method = Method::Buckets;

    fn contains(p: &Affine<Self>) -> bool {
        if adx_available() { contains_g1::<AdxFq>(&bytemuck::cast(*p)) } else { contains_g1::<Self>(p) }
    }
}

impl SubgroupField for Bls12381Fq2 {
    const METHOD: Method = Method::Buckets;

    fn contains(p: &Affine<Self>) -> bool {
        let psi = Affine { x: p.x.conjugate().mul(&PSI_X), y: p.y.conjugate().mul(&PSI_Y) };
        let product = if adx_available() {
            bytemuck::cast(times_x::<<Self as Field>::Adx>(&Xyzz::from_affine(&bytemuck::cast(*p))))
        } else {
            times_x(&Xyzz::from_affine(p))
        };
        Xyzz::from_affine(&psi) == product.neg()
    }
}

type AdxFq = <Bls12381Fq as Field>::Adx;

fn contains_g1<G: Field>(p: &Affine<G>) -> bool {
    let phi = Affine { x: p.x.mul(&bytemuck::cast(BETA)), y: p.y };
    Xyzz::from_affine(&phi) == times_x(&times_x(&Xyzz::from_affine(p))).neg()
}

/// \[|x|\]P for BLS12-381's parameter x = -0xd201000000010000: 63 doublings, 5 additions.
fn times_x<G: Field>(p: &Xyzz<G>) -> Xyzz<G> {
    const X: u64 = 0xd201_0000_0001_0000;
    (0..63).rev().fold(*p, |r, i| {
        let r = r.double();
        if X >> i & 1 == 1 { r.add(p) } else { r }
    })
}

/// The cube root of one for which phi(P) = -\[x^2\]P in the subgroup.
const BETA: Bls12381Fq = Fp::constant([
    0x2e01fffffffefffe,
    0xde17d813620a0002,
    0xddb3a93be6f89688,
    0xba69c6076a0f77ea,
    0x5f19672fdf76ce51,
    0,
]);

/// 1 / (1 + u)^((p - 1) / 3).
const PSI_X: Bls12381Fq2 = Fp2 {
    c0: Fp::constant([0; 6]),
    c1: Fp::<Bls12381FqModulus, 6>::constant([
        0x8bfd00000000aaad,
        0x409427eb4f49fffd,
        0x897d29650fb85f9b,
        0xaa0d857d89759ad4,
        0xec02408663d4de85,
        0x1a0111ea397fe699,
    ]),
};

/// 1 / (1 + u)^((p - 1) / 2).
const PSI_Y: Bls12381Fq2 = Fp2 {
    c0: Fp::constant([
        0xf1ee7b04121bdea2,
        0x304466cf3e67fa0a,
        0xef396489f61eb45e,
        0x1c3dedd930b1cf60,
        0xe2e9c448d77a2cd9,
        0x135203e60180a68e,
    ]),
    c1: Fp::constant([
        0xc81084fbede3cc09,
        0xee67992f72ec05f4,
        0x77f76e17009241c5,
        0x48395dabc2d3435e,
        0x6831e36d6bd17ffe,
        0x06af0e0437ff400b,
    ]),
};
