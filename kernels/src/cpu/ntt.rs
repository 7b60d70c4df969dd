//! Number-theoretic transforms over a scalar field, in place.
//!
//! `dif` takes natural order and leaves bit-reversed order, `dit` takes bit-reversed and leaves natural: an inverse
//! transform followed by a forward one needs no permutation.
//!
//! Each block of a stage has one twiddle factor, and block j of every stage has the same one: `w^bitrev(j)`. So one
//! table of n/2 roots (16 n bytes) serves all stages, its head is read again and again, the first block of each stage
//! needs no multiplication, and the inverse root's factor of block j is the negative of that of block j's mirror image
//! within its level. Values are reduced lazily between stages.

use core::ops::Range;

use rayon::prelude::*;

use super::field::PrimeField;
use super::limbs::adx_available;

/// Roots of unity for one domain size. Memory: n/2 field elements.
#[derive(Clone, Debug)]
pub struct Domain<F> {
    log: u32,
    /// log2 of what a part works on, see [`Self::parts`].
    part_log: u32,
    /// `roots[j]` = root^bitrev(j) with log - 1 bits, canonical.
    roots: Vec<F>,
}

impl<F: PrimeField> Domain<F> {
    /// `root` has order 2^`log`: which root is a property of the key format, so the caller gives it.
    pub fn new(log: u32, root: F) -> Self {
        Self::with_part_log(log, root, PART_LOG)
    }

    /// [`Self::new`] with transforms in smaller or larger parts, see [`Self::parts`].
    pub fn with_part_log(log: u32, root: F, part_log: u32) -> Self {
        // squares[i] = root^(2^i)
        let mut squares = vec![root];
        for i in 1..log as usize {
            squares.push(squares[i - 1].sqr());
        }
        let mut roots = Vec::with_capacity((1usize << log).div_ceil(2));
        roots.push(F::ONE.reduced());
        // Level by level: bit k of j stands for the exponent n / 4 / 2^k.
        for level in 0..log.saturating_sub(1) {
            let w = squares[(log - 2 - level) as usize];
            for j in 0..1usize << level {
                roots.push(roots[j].mul(&w).reduced());
            }
        }
        Self { log, part_log, roots }
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        1 << self.log
    }

    /// Never: a domain has at least one point.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The base-2 logarithm of the number of points.
    pub fn log(&self) -> u32 {
        self.log
    }

    /// Evaluations at root^i in bit-reversed order, from coefficients in natural order. Parallel on the current rayon
    /// pool.
    ///
    /// # Panics
    /// When the slice's length is not the domain's, as all transforms.
    pub fn dif(&self, v: &mut [F]) {
        self.run(v, Kind::Dif);
    }

    /// As `dif` with the inverse root: the inverse transform without the division by n, natural in, bit-reversed out.
    pub fn dif_inverse(&self, v: &mut [F]) {
        self.run(v, Kind::DifInverse);
    }

    /// Evaluations at root^i in natural order, from coefficients in bit-reversed order. Parallel on the current rayon
    /// pool.
    pub fn dit(&self, v: &mut [F]) {
        self.run(v, Kind::Dit);
    }

    /// How many parts a transform has, so that a caller can stop between them: each of the first stages is one, then every
    /// block that is left (2^20 points; up to that domain a transform is one part).
    pub fn parts(&self) -> usize {
        let cut = self.cut();
        cut as usize + (1 << cut)
    }

    /// One part of [`Self::dif_inverse`]; a transform is all of them, in order.
    ///
    /// # Panics
    /// When `part` is not below [`Self::parts`].
    pub fn dif_inverse_part(&self, v: &mut [F], part: usize) {
        self.run_parts(v, Kind::DifInverse, part..part + 1);
    }

    /// One part of [`Self::dit`]; a transform is all of them, in order.
    ///
    /// # Panics
    /// When `part` is not below [`Self::parts`].
    pub fn dit_part(&self, v: &mut [F], part: usize) {
        self.run_parts(v, Kind::Dit, part..part + 1);
    }

    /// [`Self::dif`] on the calling thread alone.
    pub fn dif_serial(&self, v: &mut [F]) {
        self.run_serial(v, Kind::Dif);
    }

    /// [`Self::dif_inverse`] on the calling thread alone.
    pub fn dif_inverse_serial(&self, v: &mut [F]) {
        self.run_serial(v, Kind::DifInverse);
    }

    /// [`Self::dit`] on the calling thread alone.
    pub fn dit_serial(&self, v: &mut [F]) {
        self.run_serial(v, Kind::Dit);
    }

    fn run(&self, v: &mut [F], kind: Kind) {
        self.run_parts(v, kind, 0..self.parts());
    }

    fn run_parts(&self, v: &mut [F], kind: Kind, parts: Range<usize>) {
        let parallel = v.len() > PARALLEL && rayon::current_num_threads() > 1;
        self.dispatch(v, kind, parts, parallel);
    }

    fn run_serial(&self, v: &mut [F], kind: Kind) {
        self.dispatch(v, kind, 0..self.parts(), false);
    }

    fn dispatch(&self, v: &mut [F], kind: Kind, parts: Range<usize>, parallel: bool) {
        assert_eq!(v.len(), self.len(), "the slice has the domain's length");
        assert!(parts.end <= self.parts(), "part {} of {}", parts.end - 1, self.parts());
        let cut = self.cut();
        for part in parts {
            if adx_available() {
                let roots = bytemuck::cast_slice(&self.roots);
                run_part::<F::AdxPrime>(bytemuck::cast_slice_mut(v), roots, kind, cut, part, parallel);
            } else {
                let roots = bytemuck::cast_slice(&self.roots);
                run_part::<F::PortablePrime>(bytemuck::cast_slice_mut(v), roots, kind, cut, part, parallel);
            }
        }
    }

    /// How many stages are parts of their own.
    fn cut(&self) -> u32 {
        self.log.saturating_sub(self.part_log)
    }
}

/// In-place bit reversal, for callers that need natural order.
///
/// # Panics
/// When the length is not a power of two.
pub fn bit_reverse<T>(v: &mut [T]) {
    assert!(v.len().is_power_of_two(), "a power of two");
    let log = v.len().ilog2();
    if log == 0 {
        return;
    }
    for i in 0..v.len() {
        let j = i.reverse_bits() >> (usize::BITS - log);
        if i < j {
            v.swap(i, j);
        }
    }
}

/// Multiplies the coefficient of x^k by `factor` * `shift`^k, where coefficients lie in bit-reversed order: what turns
/// `dit` into the evaluation over the coset `shift` * domain. Parallel on the current rayon pool.
///
/// # Panics
/// When the length is not a power of two.
pub fn scale_bit_reversed<F: PrimeField>(v: &mut [F], factor: &F, shift: &F) {
    assert!(v.len().is_power_of_two(), "a power of two");
    if adx_available() {
        scale::<F::AdxPrime>(bytemuck::cast_slice_mut(v), &bytemuck::cast(*factor), &bytemuck::cast(*shift));
    } else {
        scale::<F::PortablePrime>(bytemuck::cast_slice_mut(v), &bytemuck::cast(*factor), &bytemuck::cast(*shift));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dif,
    DifInverse,
    Dit,
}

/// See [`Domain::parts`]: about 150 ms on one thread.
const PART_LOG: u32 = 20;
/// From here on a transform is shared among threads.
const PARALLEL: usize = 1 << 11;
/// Butterflies per parallel piece.
const GRAIN: usize = 1 << 11;
/// Up to this length (32 KiB: the first-level cache) stages run one after the other.
const FLAT: usize = 1 << 10;

/// One part of a transform whose first (or, of `dit`, last) `cut` stages are parts of their own.
fn run_part<F: PrimeField>(v: &mut [F], roots: &[F], kind: Kind, cut: u32, part: usize, parallel: bool) {
    let stages = cut as usize;
    let level = match kind {
        Kind::Dit => part.checked_sub(1 << cut).map(|at| stages - 1 - at),
        Kind::Dif | Kind::DifInverse => (part < stages).then_some(part),
    };
    if let Some(level) = level {
        let block = v.len() >> level;
        for (at, v) in v.chunks_exact_mut(block).enumerate() {
            match kind {
                Kind::Dif => stage(v, parallel, |a, b| dif_stage::<F, false>(a, b, at, roots)),
                Kind::DifInverse => stage(v, parallel, |a, b| dif_stage::<F, true>(a, b, at, roots)),
                Kind::Dit => stage(v, parallel, |a, b| dit_stage(a, b, at, roots)),
            }
        }
        return;
    }
    let at = if kind == Kind::Dit { part } else { part - stages };
    let n = v.len() >> cut;
    let v = &mut v[at * n..(at + 1) * n];
    match kind {
        Kind::Dif => dif::<F, false>(v, at, roots, parallel),
        Kind::DifInverse => dif::<F, true>(v, at, roots, parallel),
        Kind::Dit => dit(v, at, roots, parallel),
    }
}

/// One stage of a block: pairs of its halves.
#[inline(always)]
fn stage<F: PrimeField>(v: &mut [F], parallel: bool, pairs: impl Fn(&mut [F], &mut [F]) + Sync) {
    let (a, b) = v.split_at_mut(v.len() / 2);
    if parallel && 2 * a.len() > PARALLEL {
        a.par_chunks_mut(GRAIN).zip(b.par_chunks_mut(GRAIN)).for_each(|(a, b)| pairs(a, b));
    } else {
        pairs(a, b);
    }
}

/// Both halves of a block, with their places in it.
#[inline(always)]
fn halves<F: PrimeField>(v: &mut [F], parallel: bool, half: impl Fn(&mut [F], usize) + Sync) {
    let shared = parallel && v.len() > PARALLEL;
    let (a, b) = v.split_at_mut(v.len() / 2);
    if shared {
        rayon::join(|| half(a, 0), || half(b, 1));
    } else {
        half(a, 0);
        half(b, 1);
    }
}

/// Depth first, so that a block that fits a cache is finished before the next one is begun.
fn dif<F: PrimeField, const INVERSE: bool>(v: &mut [F], block: usize, roots: &[F], parallel: bool) {
    let n = v.len();
    if n <= FLAT {
        let mut h = n / 2;
        let mut first = block;
        while h >= 1 {
            for (i, pair) in v.chunks_exact_mut(2 * h).enumerate() {
                let (a, b) = pair.split_at_mut(h);
                dif_stage::<F, INVERSE>(a, b, first + i, roots);
            }
            h /= 2;
            first *= 2;
        }
        v.iter_mut().for_each(|x| *x = x.tighten());
        return;
    }
    stage(v, parallel, |a, b| dif_stage::<F, INVERSE>(a, b, block, roots));
    halves(v, parallel, |v, at| dif::<F, INVERSE>(v, 2 * block + at, roots, parallel));
}

/// (x, y) -> (x + z y, x - z y) with the block's factor z; values below twice the bound.
#[inline(always)]
fn dif_stage<F: PrimeField, const INVERSE: bool>(a: &mut [F], b: &mut [F], block: usize, roots: &[F]) {
    if block == 0 {
        a.iter_mut().zip(b).for_each(|(x, y)| F::butterfly_ct_one(x, y));
    } else if INVERSE {
        // w^-e = -w^(n/2 - e): the mirrored root of the level, with the outputs swapped.
        let z = roots[3 * (1 << block.ilog2()) - 1 - block];
        a.iter_mut().zip(b).for_each(|(x, y)| {
            F::butterfly_ct(x, y, &z);
            core::mem::swap(x, y);
        });
    } else {
        let z = roots[block];
        a.iter_mut().zip(b).for_each(|(x, y)| F::butterfly_ct(x, y, &z));
    }
}

fn dit<F: PrimeField>(v: &mut [F], block: usize, roots: &[F], parallel: bool) {
    let n = v.len();
    if n <= FLAT {
        let mut h = 1;
        let mut first = block * (n / 2);
        while 2 * h <= n {
            for (i, pair) in v.chunks_exact_mut(2 * h).enumerate() {
                let (a, b) = pair.split_at_mut(h);
                dit_stage(a, b, first + i, roots);
            }
            h *= 2;
            first /= 2;
        }
        return;
    }
    halves(v, parallel, |v, at| dit(v, 2 * block + at, roots, parallel));
    stage(v, parallel, |a, b| dit_stage(a, b, block, roots));
}

/// (x, y) -> (x + y, (x - y) z) with the block's factor z; values below the bound.
#[inline(always)]
fn dit_stage<F: PrimeField>(a: &mut [F], b: &mut [F], block: usize, roots: &[F]) {
    if block == 0 {
        a.iter_mut().zip(b).for_each(|(x, y)| {
            let d = x.sub(y);
            *x = x.add(y);
            *y = d;
        });
    } else {
        let z = roots[block];
        a.iter_mut().zip(b).for_each(|(x, y)| F::butterfly_gs(x, y, &z));
    }
}

/// Index i stands for the exponent bitrev(i): the upper half of a block has exponents one (of the block's step) higher.
fn scale<F: PrimeField>(v: &mut [F], factor: &F, shift: &F) {
    const TABLE: usize = 64;
    let pieces = v.len().div_ceil(TABLE).min(v.len());
    let log = pieces.ilog2();
    let piece = v.len() / pieces;
    // Powers of shift^(2^i), then the exponents within a piece (the high bits of k) and of the pieces (the low bits).
    let mut squares = vec![*shift];
    for i in 1..v.len().ilog2() as usize {
        squares.push(squares[i - 1].sqr());
    }
    let reversed = |from: usize, bits: u32, one: F| {
        let mut t = vec![one; 1 << bits];
        for level in 0..bits {
            let step = squares[from + (bits - 1 - level) as usize];
            for j in 0..1usize << level {
                t[(1 << level) + j] = t[j].mul(&step);
            }
        }
        t
    };
    let within = reversed(log as usize, piece.ilog2(), F::ONE);
    let heads = reversed(0, log, *factor);
    let apply = |(v, head): (&mut [F], &F)| {
        for (x, w) in v.iter_mut().zip(&within) {
            *x = x.mul(&head.mul(w));
        }
    };
    if v.len() > PARALLEL && rayon::current_num_threads() > 1 {
        v.par_chunks_mut(piece).zip(&heads).with_min_len(GRAIN / TABLE).for_each(apply);
    } else {
        v.chunks_mut(piece).zip(&heads).for_each(apply);
    }
}
