//! Membership in the prime subgroup.

use proofmill_kernels::curve::{Affine, CurveField};
use proofmill_kernels::field::{Bls12381Fq, Bn254Fq};
use proofmill_kernels::fp2::{Bls12381Fq2, Bn254Fq2};

use crate::curve::{Bls12381, Bn254, Suite};

/// Membership in the prime subgroup, for many points at once.
pub trait SubgroupCheck: CurveField {
    /// The first point outside the subgroup, of points that are on the curve; infinity is inside.
    fn first_outside_subgroup(points: &[Affine<Self>]) -> Option<usize>;
}

impl SubgroupCheck for Bn254Fq {
    /// The curve's order is prime.
    fn first_outside_subgroup(_: &[Affine<Self>]) -> Option<usize> {
        None
    }
}

impl SubgroupCheck for Bn254Fq2 {
    fn first_outside_subgroup(points: &[Affine<Self>]) -> Option<usize> {
        points.iter().position(|p| !Bn254::g2_to_ark(p).is_in_correct_subgroup_assuming_on_curve())
    }
}

impl SubgroupCheck for Bls12381Fq {
    fn first_outside_subgroup(points: &[Affine<Self>]) -> Option<usize> {
        points.iter().position(|p| !Bls12381::g1_to_ark(p).is_in_correct_subgroup_assuming_on_curve())
    }
}

impl SubgroupCheck for Bls12381Fq2 {
    fn first_outside_subgroup(points: &[Affine<Self>]) -> Option<usize> {
        points.iter().position(|p| !Bls12381::g2_to_ark(p).is_in_correct_subgroup_assuming_on_curve())
    }
}
