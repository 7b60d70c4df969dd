//! Points of short Weierstrass curves y^2 = x^3 + b. Infinity is (0, 0) in affine form, zz = 0 in XYZZ form.

use bytemuck::{Pod, Zeroable};

use super::field::{Bls12381Fq, Bls12381FrModulus, Bn254Fq, Bn254FrModulus, Field, Fp, Modulus};
use super::fp2::{Bls12381Fq2, Bn254Fq2, Fp2};
use super::kernels::Kernels;

/// A field that is the coordinate field of one of the four groups; what that group's curve needs.
pub trait CurveField: Field + Kernels {
    /// The curve's constant b.
    const B: Self;
    /// The order r of the prime subgroup.
    const ORDER: [u64; 4];
    /// About how many nanoseconds one batched affine addition takes: tasks are cut by it.
    #[doc(hidden)]
    const ADD_NS: usize;
}

/// An affine point as zkey files and arkworks store it: x then y, no padding. Keep slices of BN254 G1 points aligned to
/// 64 bytes where speed matters: a point is then one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Affine<F> {
    /// The x coordinate.
    pub x: F,
    /// The y coordinate.
    pub y: F,
}

/// The point (x / zz, y / zzz) with zz^3 = zzz^2.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Xyzz<F> {
    /// x zz.
    pub x: F,
    /// y zzz.
    pub y: F,
    /// z^2.
    pub zz: F,
    /// z^3.
    pub zzz: F,
}

impl<F: Field> Affine<F> {
    /// The neutral element.
    pub const INFINITY: Self = Self { x: F::ZERO, y: F::ZERO };

    /// Whether this is the neutral element. No point of these curves has y = 0: their orders are odd.
    #[inline(always)]
    pub fn is_infinity(&self) -> bool {
        self.y.is_zero()
    }

    /// The negative when `flag` is set.
    #[inline(always)]
    #[must_use]
    pub fn neg_if(&self, flag: bool) -> Self {
        Self { x: self.x, y: self.y.neg_if(flag) }
    }

    /// The same point with canonical coordinates.
    #[must_use]
    pub fn reduced(&self) -> Self {
        Self { x: self.x.reduced(), y: self.y.reduced() }
    }
}

impl<F: CurveField> Affine<F> {
    /// Whether the coordinates satisfy the curve's equation; infinity does.
    pub fn is_on_curve(&self) -> bool {
        self.y.sqr() == self.x.sqr().mul(&self.x).add(&F::B) || (self.x.is_zero() && self.y.is_zero())
    }
}

/// Formulas of <https://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html> with a = 0 (M: product, S: square).
impl<F: Field> Xyzz<F> {
    /// The neutral element.
    pub const INFINITY: Self = Self { x: F::ZERO, y: F::ZERO, zz: F::ZERO, zzz: F::ZERO };

    /// The same point.
    pub fn from_affine(p: &Affine<F>) -> Self {
        if p.is_infinity() {
            return Self::INFINITY;
        }
        Self { x: p.x, y: p.y, zz: F::ONE, zzz: F::ONE }
    }

    /// Whether this is the neutral element.
    pub fn is_infinity(&self) -> bool {
        self.zz.is_zero()
    }

    /// The affine form, canonical. One inversion; [`normalize`] shares it among many.
    pub fn to_affine(&self) -> Affine<F> {
        if self.is_infinity() {
            return Affine::INFINITY;
        }
        let z = self.zz.mul(&self.zzz).inv();
        Affine { x: self.x.mul(&z.mul(&self.zzz)), y: self.y.mul(&z.mul(&self.zz)) }.reduced()
    }

    /// Twice the point: dbl-2008-s-1, 6M + 3S.
    #[must_use]
    pub fn double(&self) -> Self {
        if self.is_infinity() {
            return *self;
        }
        let u = self.y.dbl();
        let v = u.sqr();
        let w = u.mul(&v);
        let s = self.x.mul(&v);
        let xx = self.x.sqr();
        let m = xx.dbl().add(&xx);
        let x = m.sqr().sub(&s.dbl());
        let y = m.mul(&s.sub(&x)).sub(&w.mul(&self.y));
        Self { x, y, zz: v.mul(&self.zz), zzz: w.mul(&self.zzz) }
    }

    /// The sum with an affine point: madd-2008-s, 8M + 2S.
    #[must_use]
    pub fn add_affine(&self, p: &Affine<F>) -> Self {
        if p.is_infinity() {
            return *self;
        }
        if self.is_infinity() {
            return Self::from_affine(p);
        }
        let h = p.x.mul(&self.zz).sub(&self.x);
        let r = p.y.mul(&self.zzz).sub(&self.y);
        if h.is_zero() {
            return if r.is_zero() { self.double() } else { Self::INFINITY };
        }
        let hh = h.sqr();
        let hhh = hh.mul(&h);
        let q = self.x.mul(&hh);
        let x = r.sqr().sub(&hhh).sub(&q.dbl());
        let y = r.mul(&q.sub(&x)).sub(&self.y.mul(&hhh));
        Self { x, y, zz: self.zz.mul(&hh), zzz: self.zzz.mul(&hhh) }
    }

    /// The sum: add-2008-s, 12M + 2S.
    #[must_use]
    pub fn add(&self, p: &Self) -> Self {
        if p.is_infinity() {
            return *self;
        }
        if self.is_infinity() {
            return *p;
        }
        let u = self.x.mul(&p.zz);
        let s = self.y.mul(&p.zzz);
        let h = p.x.mul(&self.zz).sub(&u);
        let r = p.y.mul(&self.zzz).sub(&s);
        if h.is_zero() {
            return if r.is_zero() { self.double() } else { Self::INFINITY };
        }
        let hh = h.sqr();
        let hhh = hh.mul(&h);
        let q = u.mul(&hh);
        let x = r.sqr().sub(&hhh).sub(&q.dbl());
        let y = r.mul(&q.sub(&x)).sub(&s.mul(&hhh));
        Self { x, y, zz: self.zz.mul(&p.zz).mul(&hh), zzz: self.zzz.mul(&p.zzz).mul(&hhh) }
    }

    /// The negative.
    #[must_use]
    pub fn neg(&self) -> Self {
        Self { y: self.y.neg(), ..*self }
    }

    /// The multiple by a plain integer, in windows of 4 bits. Variable time.
    #[must_use]
    pub fn mul(&self, scalar: &[u64; 4]) -> Self {
        let mut multiples = [Self::INFINITY; 16];
        for i in 1..16 {
            multiples[i] = if i % 2 == 0 { multiples[i / 2].double() } else { multiples[i - 1].add(self) };
        }
        let mut r = Self::INFINITY;
        for i in (0..64).rev() {
            for _ in 0..4 {
                r = r.double();
            }
            r = r.add(&multiples[(scalar[i / 16] >> (4 * (i % 16))) as usize & 15]);
        }
        r
    }
}

impl<F: Field> PartialEq for Xyzz<F> {
    /// Equality of points, whatever the coordinates.
    fn eq(&self, other: &Self) -> bool {
        match (self.is_infinity(), other.is_infinity()) {
            (false, false) => {
                self.x.mul(&other.zz) == other.x.mul(&self.zz) && self.y.mul(&other.zzz) == other.y.mul(&self.zzz)
            }
            (a, b) => a == b,
        }
    }
}

impl<F: Field> Eq for Xyzz<F> {}

/// Canonical affine copies with one inversion.
pub fn normalize<F: Field>(points: &[Xyzz<F>]) -> Vec<Affine<F>> {
    let mut acc = F::ONE;
    let mut prefix = Vec::with_capacity(points.len());
    for p in points {
        prefix.push(acc);
        if !p.is_infinity() {
            acc = acc.mul(&p.zz.mul(&p.zzz));
        }
    }
    let mut inv = acc.inv();
    let mut out = vec![Affine::INFINITY; points.len()];
    for (i, p) in points.iter().enumerate().rev() {
        if !p.is_infinity() {
            let z = inv.mul(&prefix[i]);
            inv = inv.mul(&p.zz.mul(&p.zzz));
            out[i] = Affine { x: p.x.mul(&z.mul(&p.zzz)), y: p.y.mul(&z.mul(&p.zz)) }.reduced();
        }
    }
    out
}

impl<B> CurveField for Fp<super::field::Bn254FqModulus, 4, B>
where
    Self: Kernels,
{
    const B: Self = Self::constant([3, 0, 0, 0]);
    const ORDER: [u64; 4] = Bn254FrModulus::P;
    const ADD_NS: usize = 170;
}

impl<B> CurveField for Fp<super::field::Bls12381FqModulus, 6, B>
where
    Self: Kernels,
{
    const B: Self = Self::constant([4, 0, 0, 0, 0, 0]);
    const ORDER: [u64; 4] = Bls12381FrModulus::P;
    const ADD_NS: usize = 370;
}

/// b = 3 / (9 + u).
impl<B> CurveField for Fp2<Fp<super::field::Bn254FqModulus, 4, B>>
where
    Self: Kernels,
{
    const B: Self = Self {
        c0: Fp::constant([0x3267e6dc24a138e5, 0xb5b4c5e559dbefa3, 0x81be18991be06ac3, 0x2b149d40ceb8aaae]),
        c1: Fp::constant([0xe4a2bd0685c315d2, 0xa74fa084e52d1852, 0xcd2cafadeed8fdf4, 0x009713b03af0fed4]),
    };
    const ORDER: [u64; 4] = Bn254FrModulus::P;
    const ADD_NS: usize = 430;
}

/// b = 4 (1 + u).
impl<B> CurveField for Fp2<Fp<super::field::Bls12381FqModulus, 6, B>>
where
    Self: Kernels,
{
    const B: Self = Self { c0: Fp::constant([4, 0, 0, 0, 0, 0]), c1: Fp::constant([4, 0, 0, 0, 0, 0]) };
    const ORDER: [u64; 4] = Bls12381FrModulus::P;
    const ADD_NS: usize = 950;
}

const _: () = {
    assert!(size_of::<Affine<Bn254Fq>>() == 64);
    assert!(size_of::<Affine<Bn254Fq2>>() == 128);
    assert!(size_of::<Affine<Bls12381Fq>>() == 96);
    assert!(size_of::<Affine<Bls12381Fq2>>() == 192);
};

// SAFETY: two fields, of which zero is a value.
unsafe impl<F: Field> Zeroable for Affine<F> {}
// SAFETY: repr(C); a field is a multiple of 16 bytes, so two are a multiple of the alignment and leave no padding
// (asserted above for each of the four).
unsafe impl<F: Field> Pod for Affine<F> {}
// SAFETY: four fields, of which zero is a value.
unsafe impl<F: Field> Zeroable for Xyzz<F> {}
// SAFETY: repr(C), four fields of one Pod type: no padding.
unsafe impl<F: Field> Pod for Xyzz<F> {}
