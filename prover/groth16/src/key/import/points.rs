//! A section of points: checked in parallel, infinities dropped, written with the wires that are left.

use proofmill_kernels::check::{first_off_curve, first_point_not_canonical};
use proofmill_kernels::curve::Affine;
use proofmill_kernels::subgroup::{SubgroupField, first_outside_subgroup};

use super::ImportError;
use super::output::Output;
use super::stream::Stream;
use crate::format::zkey::ZkeyError;
use crate::key::layout::Part;

/// How a section of points is treated.
pub(super) struct Rules<'a> {
    /// Its name in errors.
    pub name: &'static str,
    /// Its number of points.
    pub count: u64,
    /// The wire of its first point.
    pub first_wire: u32,
    /// Whether infinities occur, and are dropped. Otherwise they are refused.
    pub infinities: bool,
    /// Seed of the subgroup's test, drawn for this import: whoever made the points could not foresee it.
    pub seed: &'a [u8; 32],
}

/// Copies a section to `part`. The wires of the points that are not at infinity, ascending.
pub(super) fn copy<F: SubgroupField>(
    stream: &mut Stream<'_>,
    output: &mut Output<'_>,
    part: Part,
    rules: &Rules<'_>,
) -> Result<Vec<u32>, ImportError> {
    output.begin(part)?;
    let mut wires = Vec::new();
    let mut kept: Vec<Affine<F>> = Vec::new();
    stream.for_each_step(rules.count, size_of::<Affine<F>>(), |first, points: &[Affine<F>]| {
        check(points, first, rules)?;
        kept.clear();
        for (index, point) in points.iter().enumerate() {
            if !is_zero(point) {
                kept.push(*point);
                // Counts are u32 in the file, so every wire fits.
                wires.push(rules.first_wire + (first + index as u64) as u32);
            }
        }
        output.write(bytemuck::cast_slice(&kept))
    })?;
    output.end();
    Ok(wires)
}

/// Reads a few points into memory, infinities kept.
pub(super) fn read<F: SubgroupField>(
    stream: &mut Stream<'_>,
    rules: &Rules<'_>,
) -> Result<Vec<Affine<F>>, ImportError> {
    let mut all = Vec::new();
    stream.for_each_step(rules.count, size_of::<Affine<F>>(), |first, points: &[Affine<F>]| {
        check(points, first, rules)?;
        all.extend_from_slice(points);
        Ok(())
    })?;
    Ok(all)
}

/// Checks points whose first has number `first`: canonical, on the curve, in the subgroup; infinities by the rules. Each
/// check needs the one before it.
fn check<F: SubgroupField>(points: &[Affine<F>], first: u64, rules: &Rules<'_>) -> Result<(), ZkeyError> {
    let section = rules.name;
    let at = |index: usize| first + index as u64;
    if let Some(index) = first_point_not_canonical(points) {
        return Err(ZkeyError::Coordinate { section, index: at(index) });
    }
    if !rules.infinities
        && let Some(index) = points.iter().position(is_zero)
    {
        return Err(ZkeyError::Infinity { section, index: at(index) });
    }
    if let Some(index) = first_off_curve(points) {
        return Err(ZkeyError::OffCurve { section, index: at(index) });
    }
    match first_outside_subgroup(points, rules.seed) {
        Some(index) => Err(ZkeyError::OutsideSubgroup { section, index: at(index) }),
        None => Ok(()),
    }
}

/// Infinity as files have it: both coordinates zero.
fn is_zero<F: SubgroupField>(point: &Affine<F>) -> bool {
    point.x.is_zero() && point.y.is_zero()
}
