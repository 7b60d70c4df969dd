//! Validity of many field elements and points at once: canonical limbs, the curve's equation. Parallel on the current
//! rayon pool. (For the subgroup see [`super::subgroup`].)

use rayon::prelude::*;

use super::curve::{Affine, CurveField};
use super::field::Field;

/// The index of the first element whose limbs are not below the modulus.
pub fn first_not_canonical<F: Field>(elements: &[F]) -> Option<usize> {
    first(elements, |v| v.iter().position(|x| !x.is_canonical()))
}

/// The index of the first point with a coordinate whose limbs are not below the modulus.
pub fn first_point_not_canonical<F: Field>(points: &[Affine<F>]) -> Option<usize> {
    first(points, |v| v.iter().position(|p| !p.x.is_canonical() || !p.y.is_canonical()))
}

/// The index of the first point that does not satisfy the curve's equation; infinity, (0, 0), does.
pub fn first_off_curve<F: CurveField>(points: &[Affine<F>]) -> Option<usize> {
    first(points, F::off_curve)
}

/// The first index that `find` reports, piece by piece.
fn first<T: Sync>(v: &[T], find: impl Fn(&[T]) -> Option<usize> + Sync) -> Option<usize> {
    const PIECE: usize = 2048;
    v.par_chunks(PIECE).enumerate().filter_map(|(i, piece)| find(piece).map(|at| i * PIECE + at)).min()
}

/// For the backend `G`, whose curve has the constant `b`.
pub(super) fn off_curve<G: Field>(points: &[Affine<G>], b: &G) -> Option<usize> {
    points.iter().position(|p| p.y.sqr() != p.x.sqr().mul(&p.x).add(b) && !(p.x.is_zero() && p.y.is_zero()))
}
