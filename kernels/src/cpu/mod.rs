//! The CPU's kernels. From the bottom: `limbs` (two backends), `field`, `fp2`, `curve`; `pairs` (batches of affine
//! additions) and `buckets` (sums of many points per bucket), on which `msm`, `batch` and `subgroup` stand;
//! `kernels` compiles them for each group and backend; `ntt`.

pub mod batch;
pub mod check;
pub mod curve;
pub mod field;
pub mod fp2;
pub mod msm;
pub mod ntt;
pub mod subgroup;

mod aligned;
mod buckets;
mod digits;
mod kernels;
mod limbs;
mod pairs;
