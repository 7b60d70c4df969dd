//! A proving key as plain slices: all that a prover needs, whatever file they lie in.

use proofmill_kernels::curve::Affine;

use crate::curve::{Reduction, Suite};

/// A proving key of suite `S`. Points are affine, canonical, in Montgomery form, checked at import to lie on the curve and
/// in the subgroup.
#[derive(Clone, Copy)]
pub struct KeyView<'a, S: Suite> {
    /// Wires, the constant 1 included: the length of a witness.
    pub variables: usize,
    /// Public signals, the constant 1 not included: wires `1..=public`.
    pub public: usize,
    /// Base-2 logarithm of the domain.
    pub domain_log: u32,
    /// Which roots of unity and which basis of H.
    pub reduction: Reduction,
    /// alpha in G1.
    pub alpha1: Affine<S::Fq>,
    /// beta in G1.
    pub beta1: Affine<S::Fq>,
    /// delta in G1.
    pub delta1: Affine<S::Fq>,
    /// beta in G2.
    pub beta2: Affine<S::Fq2>,
    /// gamma in G2.
    pub gamma2: Affine<S::Fq2>,
    /// delta in G2.
    pub delta2: Affine<S::Fq2>,
    /// A_i(tau) in G1.
    pub a: Points<'a, S::Fq>,
    /// B_i(tau) in G1. Has the same wires as `b2` (the very same slice).
    pub b1: Points<'a, S::Fq>,
    /// B_i(tau) in G2.
    pub b2: Points<'a, S::Fq2>,
    /// (beta A_i + alpha B_i + C_i)(tau) / delta of the private wires in G1; `wires` are wire numbers, all above `public`.
    pub c: Points<'a, S::Fq>,
    /// The basis of the quotient polynomial in G1; shape: the domain. No infinities.
    pub h: &'a [Affine<S::Fq>],
    /// The constraints' matrix A, the rows of the public inputs included.
    pub matrix_a: Csr<'a, S::Fr>,
    /// The constraints' matrix B.
    pub matrix_b: Csr<'a, S::Fr>,
}

/// A section of points without its infinities.
#[derive(Clone, Copy)]
pub struct Points<'a, F> {
    /// The points that are not at infinity.
    pub points: &'a [Affine<F>],
    /// The wire whose value multiplies the point of the same place; strictly ascending, below the key's `variables`.
    pub wires: &'a [u32],
}

/// A sparse matrix, compressed by rows; shape: the domain x the wires. Entries of a row are merged (no wire twice) and
/// sorted by wire.
#[derive(Clone, Copy)]
pub struct Csr<'a, Fr> {
    /// Shape: the domain + 1. Row i's entries are `row_start[i]..row_start[i + 1]`.
    pub row_start: &'a [u32],
    /// The wire of each entry.
    pub wires: &'a [u32],
    /// The entry's place in `coefficients`.
    pub coefficient: &'a [u32],
    /// The distinct values, each v R^2 mod r (a zkey's form): a Montgomery multiplication by the **plain** value of a wire
    /// gives the Montgomery form of the product. Both matrices share this table.
    pub coefficients: &'a [Fr],
}

impl<Fr> Csr<'_, Fr> {
    /// Rows, empty ones included: the domain.
    pub fn rows(&self) -> usize {
        self.row_start.len().saturating_sub(1)
    }

    /// The entries of a row as (wire, place in the table of coefficients); empty past the last row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let bounds = self.row_start.get(row).zip(self.row_start.get(row + 1));
        let range = bounds.map_or(0..0, |(&start, &end)| start as usize..end as usize);
        let wires = self.wires.get(range.clone()).unwrap_or_default();
        let coefficients = self.coefficient.get(range).unwrap_or_default();
        wires.iter().copied().zip(coefficients.iter().copied())
    }
}
