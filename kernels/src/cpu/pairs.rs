//! Batches of affine additions that share one inversion (Montgomery's trick: 5M + 1S and a 1000th of an inversion each).

use core::hint::black_box;

use super::curve::Affine;
use super::field::Field;

/// A pair to add: `dst[to] = src[a] + src[b]`.
#[derive(Clone, Copy)]
pub struct Pair {
    pub a: u32,
    pub b: u32,
    pub to: u32,
}

/// Where operands come from.
pub trait Source<F> {
    /// The point and whether its negative is meant.
    fn at(&self, i: u32) -> (&Affine<F>, bool);
    /// Asks the caches for the point.
    fn touch(&self, i: u32);

    #[inline(always)]
    fn get(&self, i: u32) -> Affine<F>
    where
        F: Field,
    {
        let (p, sign) = self.at(i);
        p.neg_if(sign)
    }
}

/// Points of a table, in the order of entries (index << 1 | sign).
pub struct Gather<'a, F> {
    pub table: &'a [Affine<F>],
    pub entries: &'a [u32],
}

/// Points in their own order.
pub struct Direct<'a, F>(pub &'a [Affine<F>]);

/// Working memory of [`add_pairs`].
pub struct PairScratch<F> {
    prefix: Vec<F>,
    delta: Vec<F>,
    rare: Vec<usize>,
}

/// Independent chains per batch: neighbouring multiplications then never wait for each other.
const LANES: usize = 8;
/// How many pairs ahead operands are prefetched (32: no gain; 64: worse).
const AHEAD: usize = 16;

/// Adds all pairs with one inversion. Equal, opposite and infinite operands are found by a cheap test on their lowest
/// limbs and go a cold path.
#[inline(never)]
pub fn add_pairs<F: Field, S: Source<F>>(src: &S, dst: &mut [Affine<F>], pairs: &[Pair], scratch: &mut PairScratch<F>) {
    let n = pairs.len();
    scratch.reserve(n);
    let (prefix, delta, rare) = (&mut scratch.prefix[..n], &mut scratch.delta[..n], &mut scratch.rare);
    rare.clear();
    let mut acc = [F::ONE; LANES];
    for t in 0..n {
        let Pair { a, b, .. } = pairs[t];
        if let Some(ahead) = pairs.get(t + AHEAD) {
            src.touch(ahead.a);
            src.touch(ahead.b);
        }
        let (xa, xb) = (&src.at(a).0.x, &src.at(b).0.x);
        delta[t] = xb.sub(xa);
        if delta[t].maybe_zero() || xa.maybe_zero() || xb.maybe_zero() {
            delta[t] = rare_denominator(&src.get(a), &src.get(b));
            rare.push(t);
        }
        let acc = &mut acc[t % LANES];
        prefix[t] = *acc;
        *acc = acc.mul(&delta[t]);
    }
    let mut inv = invert_all(&acc);
    let mut end = n;
    let mut l = [F::ZERO; LANES];
    let mut x = [F::ZERO; LANES];
    let mut ya = [F::ZERO; LANES];
    while end > 0 {
        let at = (end - 1) / LANES * LANES;
        // Opaque, so that the loops stay loops: unrolled they would not fit the instruction cache.
        let m = black_box(end - at);
        let group = &pairs[at..end];
        for k in 0..m {
            l[k] = inv[k].mul(&prefix[at + k]);
            inv[k] = inv[k].mul(&delta[at + k]);
        }
        end = at;
        if rare.last().is_some_and(|&t| t >= at) {
            for (pair, l) in group.iter().zip(&l) {
                dst[pair.to as usize] = any_sum(&src.get(pair.a), &src.get(pair.b), l);
            }
            while rare.last().is_some_and(|&t| t >= at) {
                rare.pop();
            }
            continue;
        }
        for k in 0..m {
            let (a, sa) = src.at(group[k].a);
            let (b, sb) = src.at(group[k].b);
            ya[k] = a.y.neg_if(sa);
            l[k] = l[k].mul(&b.y.neg_if(sb).sub(&ya[k]));
        }
        for k in 0..m {
            x[k] = l[k].sqr().sub(&src.at(group[k].a).0.x).sub(&src.at(group[k].b).0.x);
        }
        for k in 0..m {
            let to = &mut dst[group[k].to as usize];
            to.y = src.at(group[k].a).0.x.sub(&x[k]).mul(&l[k]).sub(&ya[k]);
            to.x = x[k];
        }
    }
}

impl<F: Field> Source<F> for Gather<'_, F> {
    #[inline(always)]
    fn at(&self, i: u32) -> (&Affine<F>, bool) {
        let e = self.entries[i as usize];
        (&self.table[(e >> 1) as usize], e & 1 == 1)
    }

    #[inline(always)]
    fn touch(&self, i: u32) {
        let e = self.entries[i as usize];
        prefetch(self.table.as_ptr().wrapping_add((e >> 1) as usize));
    }
}

impl<F: Field> Source<F> for Direct<'_, F> {
    #[inline(always)]
    fn at(&self, i: u32) -> (&Affine<F>, bool) {
        (&self.0[i as usize], false)
    }

    #[inline(always)]
    fn touch(&self, _: u32) {}
}

impl<F: Field> PairScratch<F> {
    fn reserve(&mut self, n: usize) {
        if self.prefix.len() < n {
            self.prefix.resize(n, F::ZERO);
            self.delta.resize(n, F::ZERO);
        }
    }
}

impl<F> Default for PairScratch<F> {
    fn default() -> Self {
        Self { prefix: Vec::new(), delta: Vec::new(), rare: Vec::new() }
    }
}

/// The inverses of non-zero values, with one inversion.
fn invert_all<F: Field>(v: &[F; LANES]) -> [F; LANES] {
    let mut r = [F::ONE; LANES];
    let mut acc = F::ONE;
    for k in 0..LANES {
        r[k] = acc;
        acc = acc.mul(&v[k]);
    }
    acc = acc.inv();
    for k in (0..LANES).rev() {
        r[k] = r[k].mul(&acc);
        acc = acc.mul(&v[k]);
    }
    r
}

/// The denominator when the operands are equal, opposite or infinite: one where none is needed.
#[cold]
#[inline(never)]
fn rare_denominator<F: Field>(a: &Affine<F>, b: &Affine<F>) -> F {
    if a.is_infinity() || b.is_infinity() {
        return F::ONE;
    }
    let d = b.x.sub(&a.x);
    if !d.is_zero() {
        return d;
    }
    if b.y.sub(&a.y).is_zero() { a.y.dbl() } else { F::ONE }
}

/// The sum of any two points, given the inverse of `rare_denominator`.
#[cold]
#[inline(never)]
fn any_sum<F: Field>(a: &Affine<F>, b: &Affine<F>, inverse: &F) -> Affine<F> {
    if a.is_infinity() {
        return *b;
    }
    if b.is_infinity() {
        return *a;
    }
    let numerator = if !b.x.sub(&a.x).is_zero() {
        b.y.sub(&a.y)
    } else if b.y.sub(&a.y).is_zero() {
        let xx = a.x.sqr();
        xx.dbl().add(&xx)
    } else {
        return Affine::INFINITY;
    };
    let l = numerator.mul(inverse);
    let x = l.sqr().sub(&a.x).sub(&b.x);
    Affine { x, y: l.mul(&a.x.sub(&x)).sub(&a.y) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch<T>(p: *const T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in 0..size_of::<T>().div_ceil(64) {
        // SAFETY: a prefetch reads nothing; any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast::<i8>().wrapping_add(64 * line)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch<T>(_: *const T) {}
