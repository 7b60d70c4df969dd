//! Many multiples of one base.

use proofmill_kernels::curve::{Affine, CurveField, Xyzz, normalize};
use rayon::prelude::*;

/// scalars[i] * base, canonical; in parallel on the current rayon pool. A table of the multiples of every window's base,
/// with windows of 8 bits, or of 4 where the table would cost more than it saves.
pub(super) fn fixed_base<F: CurveField>(base: &Affine<F>, scalars: &[[u64; 4]]) -> Vec<Affine<F>> {
    let window = if scalars.len() < 512 { 4 } else { 8 };
    let mut heads = vec![Xyzz::from_affine(base)];
    for at in 1..256 / window {
        heads.push((0..window).fold(heads[at - 1], |point, _| point.double()));
    }
    let row = |head: &Affine<F>| {
        let mut multiples = vec![Xyzz::INFINITY];
        for at in 1..1 << window {
            multiples.push(multiples[at - 1].add_affine(head));
        }
        normalize(&multiples)
    };
    let table: Vec<_> = normalize(&heads).par_iter().map(row).collect();
    let multiple = |scalar: &[u64; 4]| {
        table.iter().enumerate().fold(Xyzz::INFINITY, |sum, (at, row)| {
            let bit = at * window;
            let digit = scalar[bit / 64] >> (bit % 64) & ((1 << window) - 1);
            sum.add_affine(&row[digit as usize])
        })
    };
    let some = |scalars: &[[u64; 4]]| normalize(&scalars.iter().map(multiple).collect::<Vec<_>>());
    // One inversion a piece, and pieces for all threads.
    scalars.par_chunks(if scalars.len() < 512 { 32 } else { 1024 }).flat_map_iter(some).collect()
}
