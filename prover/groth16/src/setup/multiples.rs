//! Many multiples of one base.

use proofmill_kernels::curve::{Affine, CurveField, Xyzz, normalize};
use rayon::prelude::*;

/// Bits per window.
const WINDOW: usize = 8;

/// scalars[i] * base, canonical; in parallel on the current rayon pool.
pub(super) fn fixed_base<F: CurveField>(base: &Affine<F>, scalars: &[[u64; 4]]) -> Vec<Affine<F>> {
    let mut windows = Vec::new();
    let mut first = Xyzz::from_affine(base);
    for _ in 0..256 / WINDOW {
        let mut multiple = Xyzz::INFINITY;
        let row: Vec<_> = (0..1 << WINDOW)
            .map(|_| {
                let this = multiple;
                multiple = multiple.add(&first);
                this
            })
            .collect();
        first = multiple;
        windows.push(normalize(&row));
    }
    let multiple = |scalar: &[u64; 4]| {
        windows.iter().enumerate().fold(Xyzz::INFINITY, |sum, (window, row)| {
            let digit = scalar[window / 8] >> (8 * (window % 8)) & 0xff;
            sum.add_affine(&row[digit as usize])
        })
    };
    scalars
        .par_chunks(1024)
        .flat_map_iter(|scalars| normalize(&scalars.iter().map(multiple).collect::<Vec<_>>()))
        .collect()
}
