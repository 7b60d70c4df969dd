//! Quadratic extensions Fq\[u\] / (u^2 + 1): Karatsuba's product with one reduction per coefficient.

use bytemuck::{Pod, Zeroable};

use super::field::{Bls12381Fq, Bn254Fq, Field, Fp, Modulus};
use super::limbs::{LimbOps, Wide, add_limbs, sub_limbs};

/// c0 + c1 u with u^2 = -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fp2<F> {
    /// The coefficient of 1.
    pub c0: F,
    /// The coefficient of u.
    pub c1: F,
}

/// The field of BN254's G2 coordinates.
pub type Bn254Fq2 = Fp2<Bn254Fq>;
/// The field of BLS12-381's G2 coordinates.
pub type Bls12381Fq2 = Fp2<Bls12381Fq>;

impl<F: Field> Fp2<F> {
    /// c0 - c1 u, which is also the p-th power.
    #[must_use]
    pub fn conjugate(&self) -> Self {
        Self { c0: self.c0, c1: self.c1.neg() }
    }
}

impl<M: Modulus<N>, const N: usize, B: LimbOps<N>> Fp2<Fp<M, N, B>> {
    /// From values that may pass the bound by less than p when R is not above 8p.
    #[inline(always)]
    fn coefficient(limbs: [u64; N]) -> Fp<M, N, B> {
        let x = Fp::raw(limbs);
        if Fp::<M, N, B>::ROOMY { x } else { Fp::raw(B::add(&x.0, &[0; N], Fp::<M, N, B>::BOUND)) }
    }
}

impl<M: Modulus<N>, const N: usize, B: LimbOps<N>> Field for Fp2<Fp<M, N, B>> {
    type Adx = Fp2<Fp<M, N, B::Adx>>;
    type Portable = Fp2<Fp<M, N, B::Portable>>;

    const ZERO: Self = Self { c0: Fp::ZERO, c1: Fp::ZERO };
    const ONE: Self = Self { c0: Fp::ONE, c1: Fp::ZERO };

    #[inline(always)]
    fn add(&self, b: &Self) -> Self {
        Self { c0: self.c0.add(&b.c0), c1: self.c1.add(&b.c1) }
    }

    #[inline(always)]
    fn sub(&self, b: &Self) -> Self {
        Self { c0: self.c0.sub(&b.c0), c1: self.c1.sub(&b.c1) }
    }

    #[inline(always)]
    fn mul(&self, b: &Self) -> Self {
        let v0 = B::wide(&self.c0.0, &b.c0.0);
        let v1 = B::wide(&self.c1.0, &b.c1.0);
        // (2p + 2p)^2 = 16 p^2 < R^2.
        let s = B::wide(&add_limbs(&self.c0.0, &self.c1.0), &add_limbs(&b.c0.0, &b.c1.0));
        // t < 8 p^2, so t / R + p is below 2p where R > 8p, below 3p where R > 4p.
        let t = wide_sub(&wide_sub(&s, &v0).0, &v1).0;
        let c1 = Self::coefficient(B::redc(&t, M::TABLE));
        // v0 - v1, with p R added when negative: below p R either way.
        let (mut d, borrow) = wide_sub(&v0, &v1);
        let mask = (borrow as u64).wrapping_neg();
        d.hi = add_limbs(&d.hi, &core::array::from_fn(|i| M::P[i] & mask));
        let c0 = Fp::raw(B::redc(&d, M::TABLE));
        Self { c0, c1 }
    }

    #[inline(always)]
    fn sqr(&self) -> Self {
        // (a + b)(a - b), only the second factor not reduced: 2p 4p / R + p.
        let s = self.c0.add(&self.c1);
        let d = sub_limbs(&add_limbs(&self.c0.0, Fp::<M, N, B>::BOUND), &self.c1.0).0;
        let c0 = Self::coefficient(B::mul(&s.0, &d, M::TABLE));
        let c1 = self.c0.dbl().mul(&self.c1);
        Self { c0, c1 }
    }

    fn inv(&self) -> Self {
        let n = self.c0.sqr().add(&self.c1.sqr()).inv();
        Self { c0: self.c0.mul(&n), c1: self.c1.mul(&n).neg() }
    }

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.c0.is_zero() && self.c1.is_zero()
    }

    #[inline(always)]
    fn maybe_zero(&self) -> bool {
        self.c0.maybe_zero()
    }

    #[inline(always)]
    fn reduced(&self) -> Self {
        Self { c0: self.c0.reduced(), c1: self.c1.reduced() }
    }

    #[inline(always)]
    fn is_canonical(&self) -> bool {
        self.c0.is_canonical() && self.c1.is_canonical()
    }

    #[inline(always)]
    fn neg_if(&self, flag: bool) -> Self {
        // A coefficient may be zero here, so subtract properly.
        let n = self.neg();
        if flag { n } else { *self }
    }
}

// SAFETY: two fields without padding between or after them; zero is a value.
unsafe impl<F: Field> Zeroable for Fp2<F> {}
// SAFETY: repr(C), two fields of one Pod type: no padding.
unsafe impl<F: Field> Pod for Fp2<F> {}

#[inline(always)]
fn wide_sub<const N: usize>(a: &Wide<N>, b: &Wide<N>) -> (Wide<N>, bool) {
    let (lo, mut borrow) = sub_limbs(&a.lo, &b.lo);
    let hi = core::array::from_fn(|i| {
        let (d, b1) = a.hi[i].overflowing_sub(b.hi[i]);
        let (d, b2) = d.overflowing_sub(borrow as u64);
        borrow = b1 | b2;
        d
    });
    (Wide { lo, hi }, borrow)
}
