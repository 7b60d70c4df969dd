//! A section of points: checked in parallel, infinities dropped, written with the wires that are left.

use proofmill_kernels::curve::{Affine, CurveField};
use rayon::prelude::*;

use super::output::Output;
use super::stream::Stream;
use super::{ImportError, SubgroupCheck};
use crate::format::zkey::ZkeyError;
use crate::key::layout::Part;

/// Points that one thread checks in one go.
const BATCH: usize = 2048;

/// How a section of points is treated.
pub(super) struct Rules {
    /// Its name in errors.
    pub name: &'static str,
    /// Its number of points.
    pub count: u64,
    /// The wire of its first point.
    pub first_wire: u32,
    /// Whether infinities occur, and are dropped. Otherwise they are refused.
    pub infinities: bool,
}

/// Copies a section to `part`. The wires of the points that are not at infinity, ascending.
pub(super) fn copy<F: SubgroupCheck>(
    stream: &mut Stream<'_>,
    output: &mut Output<'_>,
    part: Part,
    rules: &Rules,
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
pub(super) fn read<F: SubgroupCheck>(stream: &mut Stream<'_>, rules: &Rules) -> Result<Vec<Affine<F>>, ImportError> {
    let mut all = Vec::new();
    stream.for_each_step(rules.count, size_of::<Affine<F>>(), |first, points: &[Affine<F>]| {
        check(points, first, rules)?;
        all.extend_from_slice(points);
        Ok(())
    })?;
    Ok(all)
}

/// Checks points whose first has number `first`: canonical, on the curve, in the subgroup; infinities by the rules.
pub(super) fn check<F: SubgroupCheck>(points: &[Affine<F>], first: u64, rules: &Rules) -> Result<(), ZkeyError> {
    let section = rules.name;
    points
        .par_chunks(BATCH)
        .enumerate()
        .map(|(batch, points)| {
            let start = first + (batch * BATCH) as u64;
            for (index, point) in (start..).zip(points) {
                check_alone(point, index, rules)?;
            }
            let bad = F::first_outside_subgroup(points);
            bad.map_or(Ok(()), |bad| Err(ZkeyError::OutsideSubgroup { section, index: start + bad as u64 }))
        })
        // The first fault in the file's order, whichever thread is faster.
        .collect::<Vec<_>>()
        .into_iter()
        .collect()
}

fn check_alone<F: CurveField>(point: &Affine<F>, index: u64, rules: &Rules) -> Result<(), ZkeyError> {
    let section = rules.name;
    if !point.x.is_canonical() || !point.y.is_canonical() {
        return Err(ZkeyError::Coordinate { section, index });
    }
    if is_zero(point) {
        return if rules.infinities { Ok(()) } else { Err(ZkeyError::Infinity { section, index }) };
    }
    if !point.is_on_curve() {
        return Err(ZkeyError::OffCurve { section, index });
    }
    Ok(())
}

/// Infinity as files have it: both coordinates zero.
fn is_zero<F: CurveField>(point: &Affine<F>) -> bool {
    point.x.is_zero() && point.y.is_zero()
}
