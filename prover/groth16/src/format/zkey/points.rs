//! The few points of a zkey that make its verifying key.

use proofmill_kernels::curve::{Affine, CurveField};

use super::{Zkey, ZkeyError, section};
use crate::curve::{Curve, Suite};
use crate::format::source::{ReadAt, read_range};
use crate::point::{self, PointError};
use crate::verifying_key::{VerifyingKey, VerifyingPoints};

/// The points of a zkey's header.
pub struct HeaderPoints<S: Suite> {
    /// alpha in G1.
    pub alpha1: Affine<S::Fq>,
    /// beta in G1.
    pub beta1: Affine<S::Fq>,
    /// beta in G2.
    pub beta2: Affine<S::Fq2>,
    /// gamma in G2.
    pub gamma2: Affine<S::Fq2>,
    /// delta in G1.
    pub delta1: Affine<S::Fq>,
    /// delta in G2.
    pub delta2: Affine<S::Fq2>,
}

/// The verifying key that a zkey holds, checked. Reads the header and IC alone.
pub fn verifying_key(source: &(impl ReadAt + ?Sized)) -> Result<VerifyingKey, ZkeyError> {
    let zkey = Zkey::read(source)?;
    match zkey.header.curve {
        Curve::Bn254 => read_verifying(source, &zkey).map(VerifyingKey::Bn254),
        Curve::Bls12381 => read_verifying(source, &zkey).map(VerifyingKey::Bls12381),
    }
}

fn read_verifying<S: Suite>(source: &(impl ReadAt + ?Sized), zkey: &Zkey) -> Result<VerifyingPoints<S>, ZkeyError> {
    let points = HeaderPoints::<S>::read(zkey.header_points());
    points.check()?;
    let place = zkey.container.section(section::IC, "IC")?;
    let bytes = read_range(source, place.offset, place.length, place.length)?;
    let mut ic = Vec::with_capacity(zkey.header.public as usize + 1);
    for (index, bytes) in (0..).zip(bytes.chunks_exact(size_of::<Affine<S::Fq>>())) {
        let point = bytemuck::pod_read_unaligned(bytes);
        point::check_g1::<S>(&point, true).map_err(|error| ZkeyError::of_point(error, "IC", index))?;
        ic.push(point);
    }
    let HeaderPoints { alpha1, beta2, gamma2, delta2, .. } = points;
    Ok(VerifyingPoints { alpha1, beta2, gamma2, delta2, ic })
}

impl<S: Suite> HeaderPoints<S> {
    /// From the zkey's order; `bytes` has the exact length.
    pub fn read(bytes: &[u8]) -> Self {
        let mut offset = 0;
        let alpha1 = take(bytes, &mut offset);
        let beta1 = take(bytes, &mut offset);
        let beta2 = take(bytes, &mut offset);
        let gamma2 = take(bytes, &mut offset);
        let delta1 = take(bytes, &mut offset);
        let delta2 = take(bytes, &mut offset);
        Self { alpha1, beta1, beta2, gamma2, delta1, delta2 }
    }

    /// Canonical, on the curve, in the subgroup, not at infinity; beta and delta the same scalar in both groups.
    pub fn check(&self) -> Result<(), ZkeyError> {
        let fault = |section: &'static str| move |error| ZkeyError::of_point(error, section, 0);
        point::check_g1::<S>(&self.alpha1, false).map_err(fault("alpha in G1"))?;
        point::check_g1::<S>(&self.beta1, false).map_err(fault("beta in G1"))?;
        point::check_g2::<S>(&self.beta2, false).map_err(fault("beta in G2"))?;
        point::check_g2::<S>(&self.gamma2, false).map_err(fault("gamma in G2"))?;
        point::check_g1::<S>(&self.delta1, false).map_err(fault("delta in G1"))?;
        point::check_g2::<S>(&self.delta2, false).map_err(fault("delta in G2"))?;
        for (name, one, two) in [("beta", &self.beta1, &self.beta2), ("delta", &self.delta1, &self.delta2)] {
            if !point::same_scalar::<S>(one, two) {
                return Err(ZkeyError::Inconsistent { name });
            }
        }
        Ok(())
    }

    /// Whether phase 2 has never been contributed to.
    pub fn delta_is_gamma(&self) -> bool {
        self.delta2 == self.gamma2
    }
}

/// The next point; infinity past the end, which the checks refuse.
fn take<F: CurveField>(bytes: &[u8], offset: &mut usize) -> Affine<F> {
    let size = size_of::<Affine<F>>();
    let point = bytes.get(*offset..*offset + size).map_or(Affine::INFINITY, bytemuck::pod_read_unaligned);
    *offset += size;
    point
}

impl ZkeyError {
    /// A fault of one point.
    fn of_point(error: PointError, section: &'static str, index: u64) -> Self {
        match error {
            PointError::Coordinate => Self::Coordinate { section, index },
            PointError::Infinity => Self::Infinity { section, index },
            PointError::OutsideSubgroup => Self::OutsideSubgroup { section, index },
            PointError::OffCurve | PointError::NotAffine => Self::OffCurve { section, index },
        }
    }
}
