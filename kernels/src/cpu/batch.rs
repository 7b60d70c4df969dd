//! Many multiples of one base: what a key setup with a known trapdoor does.

use rayon::prelude::*;

use super::aligned::AlignedVec;
use super::buckets::{Buckets, Idle};
use super::curve::{Affine, CurveField, Xyzz, normalize};
use super::digits::{self, Recoding};
use super::field::Field;

/// `scalars[i]` times `base`, canonical. The base lies in the subgroup of order r, scalars are plain integers. Parallel
/// on the current rayon pool.
///
/// A table holds the multiples of the base for every signed digit of every window; each result is the sum of one entry
/// per window, as a tree of batched affine additions (about 20 of them at 2^17 scalars).
pub fn fixed_base<F: CurveField>(base: &Affine<F>, scalars: &[[u64; 4]]) -> Vec<Affine<F>> {
    F::fixed_base(base, scalars)
}

/// For the backend `G` of `F`.
pub(super) fn multiples<F: CurveField, G: Field>(base: &Affine<G>, scalars: &[[u64; 4]]) -> Vec<Affine<G>> {
    let recoding = Recoding::new(best_window(scalars.len()), 255);
    let half = 1usize << (recoding.window - 1);
    let table = table(base, &recoding, half);
    let idle = Idle::default();
    // As many scalars as give about a tile of entries.
    let piece = (8192 / recoding.windows as usize).max(1);
    let mut out = vec![Affine::INFINITY; scalars.len()];
    out.par_chunks_mut(piece).zip(scalars.par_chunks(piece)).for_each(|(out, scalars)| {
        idle.with(|buckets: &mut Buckets<G>| {
            buckets.begin_groups();
            for s in scalars {
                let (s, negative) = digits::shorter::<F>(s);
                buckets.push_group(recoding.digits(&s).enumerate().filter(|(_, d)| *d != 0).map(|(w, d)| {
                    let at = w * half + d.unsigned_abs() as usize - 1;
                    (at as u32) << 1 | ((d < 0) != negative) as u32
                }));
            }
            for (to, sum) in out.iter_mut().zip(buckets.group_sums(table.as_slice())) {
                *to = sum.reduced();
            }
        });
    });
    out
}

/// Multiples 1..=half of the base times 2^(window w), for every w, one after the other.
fn table<G: Field>(base: &Affine<G>, recoding: &Recoding, half: usize) -> AlignedVec<Affine<G>> {
    let mut heads = vec![Xyzz::from_affine(base)];
    for w in 1..recoding.windows as usize {
        heads.push((0..recoding.window).fold(heads[w - 1], |p, _| p.double()));
    }
    let mut table = AlignedVec::default();
    table.resize(half * heads.len());
    table.as_mut_slice().par_chunks_mut(half).zip(normalize(&heads)).for_each(|(row, head)| {
        let mut p = Xyzz::INFINITY;
        let multiples: Vec<_> = (0..half)
            .map(|_| {
                p = p.add_affine(&head);
                p
            })
            .collect();
        row.copy_from_slice(&normalize(&multiples));
    });
    table
}

/// One addition per scalar and window; about two per table entry.
fn best_window(scalars: usize) -> u32 {
    let cost = |c: u32| 256u32.div_ceil(c) as usize * (scalars + (2 << (c - 1)));
    (2..=digits::MAX_WINDOW).min_by_key(|&c| cost(c)).unwrap_or(digits::MAX_WINDOW)
}
