//! Whether an r1cs is that of a key: every row of A and B must be the same, and the rows of the public signals, which the
//! setup adds to A, must be what a setup makes of them.
//!
//! A key holds no C. An r1cs with other products than the key's passes here; a witness that satisfies it then gives a
//! proof that does not verify. The engine lets the device's canary speak before it believes that.

use proofmill_kernels::field::{Field, PrimeField};

use super::file::KeyFile;
use super::view::Csr;
use super::{KeyInfo, ProvingKey};
use crate::curve::Suite;
use crate::format::r1cs::{R1cs, R1csError, Term};
use crate::format::source::ReadAt;

/// Why an r1cs is not that of a key.
#[derive(Debug, thiserror::Error)]
pub enum ConstraintsError {
    /// The r1cs cannot be read.
    #[error(transparent)]
    R1cs(#[from] R1csError),
    /// Other sizes.
    #[error(
        "it has {r1cs}, the zkey {key}; they are of different circuits: give both from the same compilation and setup"
    )]
    Sizes {
        /// The r1cs's sizes.
        r1cs: Sizes,
        /// The key's sizes.
        key: Sizes,
    },
    /// The same sizes, but another constraint.
    #[error(
        "{factor} of its constraint {constraint} is not the zkey's; they are of different circuits, or compiled with \
         different options: give both from the same compilation and setup"
    )]
    Constraint {
        /// The first constraint that differs, from 0 as circom counts.
        constraint: u32,
        /// Which factor of it.
        factor: Factor,
    },
    /// The key has more rows, or others, behind the constraints than a setup adds.
    #[error(
        "the zkey's row {row} is not what a setup makes of public signals; the zkey is damaged, or not made by snarkjs"
    )]
    PublicRow {
        /// The row in the key's matrices.
        row: u64,
    },
}

/// Curve and counts of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The curve.
    pub curve: crate::curve::Curve,
    /// Wires, the constant 1 included.
    pub wires: u32,
    /// Public signals, the constant 1 not included.
    pub public: u64,
    /// Constraints.
    pub constraints: u32,
}

/// A factor of a constraint's left side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// The left one.
    A,
    /// The right one.
    B,
}

impl ProvingKey {
    /// Compares A and B row by row, in parallel on the current rayon pool, with a few MiB of memory. `cancelled` is asked
    /// many times a second.
    pub fn check_constraints<R: ReadAt>(
        &self,
        r1cs: &R1cs<R>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), ConstraintsError> {
        let (found, key) = (Sizes::of_r1cs(r1cs), Sizes::of_key(self.info()));
        if found != key {
            return Err(ConstraintsError::Sizes { r1cs: found, key });
        }
        match self {
            Self::Bn254(key) => check(key, r1cs, cancelled),
            Self::Bls12381(key) => check(key, r1cs, cancelled),
        }
    }
}

fn check<S: Suite, R: ReadAt>(
    key: &KeyFile<S>,
    r1cs: &R1cs<R>,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), ConstraintsError> {
    let view = key.view();
    let (a, b) = (&view.matrix_a, &view.matrix_b);
    let constraints = r1cs.header().constraints;
    let differs = r1cs.find_first(cancelled, |constraint, terms| {
        let row = constraint as usize;
        let factors = [(Factor::A, a, &terms.a), (Factor::B, b, &terms.b)];
        let other = factors.into_iter().find(|(_, matrix, terms)| !is_row::<S>(matrix, row, terms));
        other.map(|(factor, ..)| (constraint, factor))
    })?;
    if let Some((constraint, factor)) = differs {
        return Err(ConstraintsError::Constraint { constraint, factor });
    }
    // Behind the constraints A has each public signal once, the constant first, and then nothing; B has nothing.
    let public_row = |wire: u32| [Term { wire, coefficient: [1, 0, 0, 0] }];
    let is_right = |row: usize| {
        let wire = (row - constraints as usize) as u64;
        let expected = if wire <= view.public as u64 { &public_row(wire as u32)[..] } else { &[] };
        is_row::<S>(a, row, expected) && is_row::<S>(b, row, &[])
    };
    match (constraints as usize..a.rows()).find(|&row| !is_right(row)) {
        Some(row) => Err(ConstraintsError::PublicRow { row: row as u64 }),
        None => Ok(()),
    }
}

/// Whether a row of the key is `terms`, which are in any order, with repeats that add up and zeros, as an import takes
/// them too.
fn is_row<S: Suite>(matrix: &Csr<'_, S::Fr>, row: usize, terms: &[Term]) -> bool {
    let mut sorted;
    let mut terms = terms;
    if !terms.is_sorted_by(|one, other| one.wire < other.wire) {
        sorted = terms.to_vec();
        sorted.sort_by_key(|term| term.wire);
        terms = &sorted;
    }
    let mut sums = terms.chunk_by(|one, other| one.wire == other.wire).filter_map(|same| {
        let sum = same.iter().fold(S::Fr::ZERO, |sum, term| sum.add(&S::Fr::from_plain(term.coefficient)));
        // The key's form: v R^2.
        let stored = S::Fr::from_plain(sum.montgomery());
        same.first().filter(|_| !sum.is_zero()).map(|term| (term.wire, stored))
    });
    matrix.row(row).all(|(wire, place)| {
        sums.next().is_some_and(|(other, sum)| wire == other && matrix.coefficients.get(place as usize) == Some(&sum))
    }) && sums.next().is_none()
}

impl Sizes {
    fn of_r1cs<R: ReadAt>(r1cs: &R1cs<R>) -> Self {
        let header = r1cs.header();
        let public = u64::from(header.public_outputs) + u64::from(header.public_inputs);
        Self { curve: header.curve, wires: header.wires, public, constraints: header.constraints }
    }

    fn of_key(key: &KeyInfo) -> Self {
        let KeyInfo { curve, variables, public, constraints, .. } = *key;
        Self { curve, wires: variables, public: u64::from(public), constraints }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { curve, wires, public, constraints } = self;
        write!(f, "{constraints} constraints and {wires} wires, {public} of them public, on {curve}")
    }
}

impl std::fmt::Display for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::A => "the left factor",
            Self::B => "the right factor",
        })
    }
}
