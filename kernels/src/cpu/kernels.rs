//! The heavy loops, compiled here once per group and backend instead of in every crate that uses them, and the choice of
//! the backend: one look at the processor per call.

use super::batch;
use super::buckets::Buckets;
use super::check;
use super::curve::{Affine, Xyzz};
use super::field::{Bls12381Fq, Bls12381FqModulus, Bn254Fq, Bn254FqModulus, Field, Fp};
use super::fp2::{Bls12381Fq2, Bn254Fq2, Fp2};
use super::limbs::{Portable, adx_available};
use super::msm::{Plan, Scratch};

/// What each of the four groups implements. Sealed: the module is private.
pub trait Kernels: Field {
    /// One task of a multi-scalar multiplication.
    fn msm_task(plan: &Plan<Self>, points: &[Affine<Self>], task: usize, scratch: &mut Scratch<Self>) -> Xyzz<Self>;

    /// The sum of `draws[i]` - 2^(bits - 1) times `points[i]`.
    fn random_sum(points: &[Affine<Self>], draws: &[u16], bits: u32, scratch: &mut Scratch<Self>) -> Xyzz<Self>;

    /// For each value of `bits` bits the sum of the points that drew it.
    fn random_buckets(
        points: &[Affine<Self>],
        draws: &[u16],
        bits: u32,
        scratch: &mut Scratch<Self>,
    ) -> Vec<Affine<Self>>;

    /// See [`batch::fixed_base`].
    fn fixed_base(base: &Affine<Self>, scalars: &[[u64; 4]]) -> Vec<Affine<Self>>;

    /// The first point off the curve.
    fn off_curve(points: &[Affine<Self>]) -> Option<usize>;
}

macro_rules! kernels {
    ($($field:ty),* $(,)?) => {
        $(impl Kernels for $field {
            fn msm_task(
                plan: &Plan<Self>,
                points: &[Affine<Self>],
                task: usize,
                scratch: &mut Scratch<Self>,
            ) -> Xyzz<Self> {
                if adx_available() {
                    bytemuck::cast(plan.run_on(bytemuck::cast_slice(points), task, &mut scratch.adx))
                } else {
                    bytemuck::cast(plan.run_on(bytemuck::cast_slice(points), task, &mut scratch.portable))
                }
            }

            fn random_sum(
                points: &[Affine<Self>],
                draws: &[u16],
                bits: u32,
                scratch: &mut Scratch<Self>,
            ) -> Xyzz<Self> {
                if adx_available() {
                    bytemuck::cast(random_sum(&mut scratch.adx, bytemuck::cast_slice(points), draws, bits))
                } else {
                    bytemuck::cast(random_sum(&mut scratch.portable, bytemuck::cast_slice(points), draws, bits))
                }
            }

            fn random_buckets(
                points: &[Affine<Self>],
                draws: &[u16],
                bits: u32,
                scratch: &mut Scratch<Self>,
            ) -> Vec<Affine<Self>> {
                if adx_available() {
                    let sums = random_buckets(&mut scratch.adx, bytemuck::cast_slice(points), draws, bits);
                    bytemuck::cast_slice(sums).to_vec()
                } else {
                    let sums = random_buckets(&mut scratch.portable, bytemuck::cast_slice(points), draws, bits);
                    bytemuck::cast_slice(sums).to_vec()
                }
            }

            fn fixed_base(base: &Affine<Self>, scalars: &[[u64; 4]]) -> Vec<Affine<Self>> {
                if adx_available() {
                    let multiples =
                        batch::multiples::<Self, <Self as Field>::Adx>(&bytemuck::cast(*base), scalars);
                    bytemuck::allocation::cast_vec(multiples)
                } else {
                    let multiples =
                        batch::multiples::<Self, <Self as Field>::Portable>(&bytemuck::cast(*base), scalars);
                    bytemuck::allocation::cast_vec(multiples)
                }
            }

            fn off_curve(points: &[Affine<Self>]) -> Option<usize> {
                let b = <Self as super::curve::CurveField>::B;
                if adx_available() {
                    check::off_curve::<<Self as Field>::Adx>(bytemuck::cast_slice(points), &bytemuck::cast(b))
                } else {
                    check::off_curve::<<Self as Field>::Portable>(bytemuck::cast_slice(points), &bytemuck::cast(b))
                }
            }
        })*
    };
}

kernels! {
    Bn254Fq,
    Bn254Fq2,
    Bls12381Fq,
    Bls12381Fq2,
    Fp<Bn254FqModulus, 4, Portable>,
    Fp2<Fp<Bn254FqModulus, 4, Portable>>,
    Fp<Bls12381FqModulus, 6, Portable>,
    Fp2<Fp<Bls12381FqModulus, 6, Portable>>,
}

/// Weights are centred: half as many buckets, the same number of values.
fn random_sum<G: Field>(buckets: &mut Buckets<G>, points: &[Affine<G>], draws: &[u16], bits: u32) -> Xyzz<G> {
    let half = 1i32 << (bits - 1);
    buckets.weighted_sum(points, 0..half as usize, || draws.iter().zip(0u32..).map(|(&d, i)| (d as i32 - half, i)))
}

fn random_buckets<'a, G: Field>(
    buckets: &'a mut Buckets<G>,
    points: &[Affine<G>],
    draws: &[u16],
    bits: u32,
) -> &'a [Affine<G>] {
    buckets.bucket_sums(points, 1 << bits, || draws.iter().zip(0u32..).map(|(&d, i)| (d as i32 + 1, i)))
}
