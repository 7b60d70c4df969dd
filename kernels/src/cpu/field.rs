//! Prime fields in Montgomery form.
//!
//! Where the modulus leaves two spare bits (R > 4p: both base fields and BN254's scalar field) a product of two values
//! below 2p is again below 2p without a final subtraction, so values live in [0, 2p). BLS12-381's scalar field has
//! R = 2.2 r: its values live in [0, r), with one conditional subtraction after each product.

use core::fmt::Debug;
use core::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

use super::limbs::{Auto, LimbOps, add_limbs, portable, pow2, sub_limbs, table};

/// A field that curves and kernels work over: [`Fp`] or [`super::fp2::Fp2`]. Sealed in practice: kernels rely on the
/// layout of these two.
pub trait Field: Copy + Send + Sync + Debug + PartialEq + Eq + Pod {
    /// The same field on the assembly backend (run it only where the processor has BMI2 and ADX).
    #[doc(hidden)]
    type Adx: Field;
    /// The same field on the portable backend.
    #[doc(hidden)]
    type Portable: Field;

    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// The sum.
    #[must_use]
    fn add(&self, b: &Self) -> Self;
    /// The difference.
    #[must_use]
    fn sub(&self, b: &Self) -> Self;
    /// The product.
    #[must_use]
    fn mul(&self, b: &Self) -> Self;
    /// The square.
    #[must_use]
    fn sqr(&self) -> Self;
    /// The inverse; zero for zero.
    #[must_use]
    fn inv(&self) -> Self;
    /// Whether this is zero, in any representation.
    fn is_zero(&self) -> bool;
    /// Cheap: false means surely not zero.
    fn maybe_zero(&self) -> bool;
    /// The same value with limbs below the modulus.
    #[must_use]
    fn reduced(&self) -> Self;
    /// Whether all limbs are below the modulus.
    fn is_canonical(&self) -> bool;
    /// Twice the value.
    #[inline(always)]
    #[must_use]
    fn dbl(&self) -> Self {
        self.add(self)
    }
    /// The negative.
    #[inline(always)]
    #[must_use]
    fn neg(&self) -> Self {
        Self::ZERO.sub(self)
    }
    /// `-self` when `flag` is set, without a branch.
    #[must_use]
    fn neg_if(&self, flag: bool) -> Self;
    /// The power with a little-endian exponent. Variable time.
    #[must_use]
    fn pow(&self, exponent: &[u64]) -> Self {
        let mut r = Self::ONE;
        for i in (0..64 * exponent.len()).rev() {
            r = r.sqr();
            if (exponent[i / 64] >> (i % 64)) & 1 == 1 {
                r = r.mul(self);
            }
        }
        r
    }
}

/// A field of integers modulo a prime.
pub trait PrimeField: Field {
    /// [`Field::Adx`], known to be a prime field.
    #[doc(hidden)]
    type AdxPrime: PrimeField;
    /// [`Field::Portable`], known to be a prime field.
    #[doc(hidden)]
    type PortablePrime: PrimeField;
    /// `[u64; 4]` or `[u64; 6]`, little-endian.
    type Limbs: Copy + Send + Sync + Debug + PartialEq + Eq + Pod + AsRef<[u64]> + AsMut<[u64]>;

    /// The prime.
    const MODULUS: Self::Limbs;

    /// From Montgomery limbs, which must be below the modulus (not checked; a larger value gives wrong results later).
    fn from_montgomery(limbs: Self::Limbs) -> Self;
    /// The Montgomery limbs, below the modulus.
    fn montgomery(&self) -> Self::Limbs;
    /// From a plain integer, reduced modulo the prime.
    fn from_plain(limbs: Self::Limbs) -> Self;
    /// The plain integer below the modulus.
    fn to_plain(&self) -> Self::Limbs;
    /// From a small integer.
    fn from_u64(x: u64) -> Self {
        let mut limbs = Self::Limbs::zeroed();
        limbs.as_mut()[0] = x;
        Self::from_plain(limbs)
    }
    /// Transform butterfly (x, y) -> (x + z y, x - z y); x and y below 2 bound in and out, z canonical.
    #[doc(hidden)]
    fn butterfly_ct(x: &mut Self, y: &mut Self, z: &Self);
    /// Transform butterfly (x, y) -> (x + y, x - y); x and y below 2 bound in and out.
    #[doc(hidden)]
    fn butterfly_ct_one(x: &mut Self, y: &mut Self);
    /// Transform butterfly (x, y) -> (x + y, (x - y) z); x and y below the bound in and out, z canonical.
    #[doc(hidden)]
    fn butterfly_gs(x: &mut Self, y: &mut Self, z: &Self);
    /// From below twice the bound to below the bound.
    #[doc(hidden)]
    #[must_use]
    fn tighten(&self) -> Self;
}

/// A prime modulus of `N` limbs with R = 2^(64 N) > 2p.
pub trait Modulus<const N: usize>: Copy + Send + Sync + Debug + PartialEq + Eq + 'static {
    /// The prime.
    const P: [u64; N];
    /// p, then at index 7 the value of -1/p mod 2^64: what the limb operations read.
    #[doc(hidden)]
    const TABLE: &'static [u64; 8];
}

/// An element of the field modulo `M::P`; `B` is the backend.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Fp<M, const N: usize, B = Auto>(pub(super) [u64; N], PhantomData<(M, B)>);

impl<M: Modulus<N>, const N: usize, B> Fp<M, N, B> {
    /// Whether R > 4p, so that values may stay below 2p.
    const LAZY: bool = M::P[N - 1] >> 62 == 0;
    /// Whether R > 8p.
    pub(super) const ROOMY: bool = M::P[N - 1] >> 61 == 0;
    /// Values are below this: 2p, or p where the limbs have no room.
    pub const BOUND: &'static [u64; N] = &if Self::LAZY { add_limbs(&M::P, &M::P) } else { M::P };
    /// R^2 mod p, to enter Montgomery form.
    const R2: [u64; N] = pow2(&M::P, 128 * N);

    #[inline(always)]
    pub(super) const fn raw(limbs: [u64; N]) -> Self {
        Self(limbs, PhantomData)
    }

    /// A constant from a plain integer below the modulus.
    pub const fn constant(plain: [u64; N]) -> Self {
        let limbs = portable::mul(&Self::R2, &plain, M::TABLE);
        let (d, borrow) = sub_limbs(&limbs, &M::P);
        Self::raw(if borrow { limbs } else { d })
    }

    #[inline(always)]
    pub(super) fn canon(&self) -> [u64; N] {
        let (d, borrow) = sub_limbs(&self.0, &M::P);
        if borrow { self.0 } else { d }
    }
}

impl<M: Modulus<N>, const N: usize, B: LimbOps<N>> Fp<M, N, B> {
    /// From below twice the bound to below the bound.
    #[inline(always)]
    fn below_bound(limbs: &[u64; N]) -> Self {
        Self::raw(B::add(limbs, &[0; N], Self::BOUND))
    }

    /// What a product needs to get below the bound: nothing, or one conditional subtraction.
    #[inline(always)]
    fn product(limbs: [u64; N]) -> Self {
        if Self::LAZY { Self::raw(limbs) } else { Self::below_bound(&limbs) }
    }

    /// a - b + bound, not reduced.
    #[inline(always)]
    fn sub_raw(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        sub_limbs(&add_limbs(a, Self::BOUND), b).0
    }
}

impl<M: Modulus<N>, const N: usize, B: LimbOps<N>> Field for Fp<M, N, B> {
    type Adx = Fp<M, N, B::Adx>;
    type Portable = Fp<M, N, B::Portable>;

    const ZERO: Self = Self::raw([0; N]);
    const ONE: Self = Self::raw(pow2(&M::P, 64 * N));

    #[inline(always)]
    fn add(&self, b: &Self) -> Self {
        Self::raw(B::add(&self.0, &b.0, Self::BOUND))
    }

    #[inline(always)]
    fn sub(&self, b: &Self) -> Self {
        Self::raw(B::sub(&self.0, &b.0, Self::BOUND))
    }

    #[inline(always)]
    fn mul(&self, b: &Self) -> Self {
        Self::product(B::mul(&self.0, &b.0, M::TABLE))
    }

    #[inline(always)]
    fn sqr(&self) -> Self {
        Self::product(B::sqr(&self.0, M::TABLE))
    }

    /// Fermat, with a window of 4 bits.
    fn inv(&self) -> Self {
        let mut two = [0; N];
        two[0] = 2;
        let (e, _) = sub_limbs(&M::P, &two);
        let mut pow = [Self::ONE; 16];
        for i in 1..16 {
            pow[i] = pow[i - 1].mul(self);
        }
        let mut r = Self::ONE;
        for i in (0..16 * N).rev() {
            for _ in 0..4 {
                r = r.sqr();
            }
            let w = (e[i / 16] >> (4 * (i % 16))) & 15;
            if w != 0 {
                r = r.mul(&pow[w as usize]);
            }
        }
        r
    }

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.0 == [0; N] || self.0 == M::P
    }

    #[inline(always)]
    fn maybe_zero(&self) -> bool {
        self.0[0] == 0 || self.0[0] == M::P[0]
    }

    #[inline(always)]
    fn reduced(&self) -> Self {
        Self::raw(self.canon())
    }

    #[inline(always)]
    fn is_canonical(&self) -> bool {
        sub_limbs(&self.0, &M::P).1
    }

    #[inline(always)]
    fn neg_if(&self, flag: bool) -> Self {
        let n = self.neg();
        let mut r = self.0;
        for (r, n) in r.iter_mut().zip(&n.0) {
            *r = if flag { *n } else { *r };
        }
        Self::raw(r)
    }
}

impl<M: Modulus<N>, const N: usize, B: LimbOps<N>> PrimeField for Fp<M, N, B> {
    type AdxPrime = Fp<M, N, B::Adx>;
    type PortablePrime = Fp<M, N, B::Portable>;
    type Limbs = [u64; N];

    const MODULUS: [u64; N] = M::P;

    #[inline(always)]
    fn from_montgomery(limbs: [u64; N]) -> Self {
        Self::raw(limbs)
    }

    #[inline(always)]
    fn montgomery(&self) -> [u64; N] {
        self.canon()
    }

    #[inline(always)]
    fn from_plain(limbs: [u64; N]) -> Self {
        // R2 < p is the operand with a bound, the other may be any integer of N limbs.
        Self::product(B::mul(&Self::R2, &limbs, M::TABLE))
    }

    #[inline(always)]
    fn to_plain(&self) -> [u64; N] {
        let mut one = [0; N];
        one[0] = 1;
        Self::product(B::mul(&one, &self.0, M::TABLE)).canon()
    }

    #[inline(always)]
    fn butterfly_ct(x: &mut Self, y: &mut Self, z: &Self) {
        let a = Self::below_bound(&x.0).0;
        // z < p and y < 4p, or y < 2p where R > 2p only: below 2p either way.
        let t = Self::product(B::mul(&z.0, &y.0, M::TABLE)).0;
        x.0 = add_limbs(&a, &t);
        y.0 = Self::sub_raw(&a, &t);
    }

    #[inline(always)]
    fn butterfly_ct_one(x: &mut Self, y: &mut Self) {
        let a = Self::below_bound(&x.0).0;
        let t = Self::below_bound(&y.0).0;
        x.0 = add_limbs(&a, &t);
        y.0 = Self::sub_raw(&a, &t);
    }

    #[inline(always)]
    fn butterfly_gs(x: &mut Self, y: &mut Self, z: &Self) {
        let d = Self::sub_raw(&x.0, &y.0);
        *x = x.add(y);
        *y = Self::product(B::mul(&z.0, &d, M::TABLE));
    }

    #[inline(always)]
    fn tighten(&self) -> Self {
        Self::below_bound(&self.0)
    }
}

impl<M: Modulus<N>, const N: usize, B: Copy> PartialEq for Fp<M, N, B> {
    /// Equality of values, whatever the representatives.
    fn eq(&self, other: &Self) -> bool {
        self.canon() == other.canon()
    }
}

impl<M: Modulus<N>, const N: usize, B: Copy> Eq for Fp<M, N, B> {}

impl<M, const N: usize, B> Debug for Fp<M, N, B> {
    /// Says nothing of the value: witnesses must not reach logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Fp(..)")
    }
}

// SAFETY: a transparent wrapper of [u64; N], for which zero is a value.
unsafe impl<M: Modulus<N>, const N: usize, B: Copy + 'static> Zeroable for Fp<M, N, B> {}
// SAFETY: a transparent wrapper of [u64; N]; limbs beyond the bound give wrong sums, never undefined behaviour.
unsafe impl<M: Modulus<N>, const N: usize, B: Copy + 'static> Pod for Fp<M, N, B> {}

macro_rules! modulus {
    ($name:ident, $n:literal, $doc:literal, $p:expr) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl Modulus<$n> for $name {
            const P: [u64; $n] = $p;
            const TABLE: &'static [u64; 8] = {
                static T: [u64; 8] = table::<$n>($p);
                &T
            };
        }
    };
}
modulus!(
    Bn254FqModulus,
    4,
    "BN254's base field modulus.",
    [0x3c208c16d87cfd47, 0x97816a916871ca8d, 0xb85045b68181585d, 0x30644e72e131a029]
);
modulus!(
    Bn254FrModulus,
    4,
    "BN254's group order.",
    [0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029]
);
modulus!(
    Bls12381FqModulus,
    6,
    "BLS12-381's base field modulus.",
    [
        0xb9feffffffffaaab,
        0x1eabfffeb153ffff,
        0x6730d2a0f6b0f624,
        0x64774b84f38512bf,
        0x4b1ba7b6434bacd7,
        0x1a0111ea397fe69a
    ]
);
modulus!(
    Bls12381FrModulus,
    4,
    "BLS12-381's group order.",
    [0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805, 0x73eda753299d7d48]
);

/// BN254's base field.
pub type Bn254Fq = Fp<Bn254FqModulus, 4>;
/// BN254's scalar field.
pub type Bn254Fr = Fp<Bn254FrModulus, 4>;
/// BLS12-381's base field.
pub type Bls12381Fq = Fp<Bls12381FqModulus, 6>;
/// BLS12-381's scalar field.
pub type Bls12381Fr = Fp<Bls12381FrModulus, 4>;
