//! A partition's assignment: the witness and the constraints' evaluations a and b over the domain.

use proofmill_kernels::field::PrimeField;
use rayon::prelude::*;

use crate::curve::Suite;
use crate::key::view::{Csr, KeyView};
use crate::key::{CircuitKey, ProvingKey};

/// Rows that one task sums: a few hundred microseconds.
const ROWS: usize = 1024;

/// The values of all wires as plain integers below the scalar field's modulus, little-endian limbs; `values[0] == 1`,
/// then outputs, public inputs, private ones.
#[derive(Clone)]
pub struct Witness {
    /// Shape: the circuit's variables.
    pub values: Vec<[u64; 4]>,
}

/// What `prove_start` consumes.
pub enum Assignment {
    /// For a Groth16 key.
    Groth16(Groth16Assignment),
    /// For a simulated circuit.
    Simulated {
        /// Tag that the simulated proof will carry.
        seed: u64,
    },
}

/// Witness and evaluations for one Groth16 key.
pub struct Groth16Assignment {
    /// The values of all wires.
    pub witness: Witness,
    /// Row sums of matrix A: `domain` values, Montgomery limbs below the modulus.
    pub a: Vec<[u64; 4]>,
    /// Row sums of matrix B: `domain` values, Montgomery limbs below the modulus.
    pub b: Vec<[u64; 4]>,
}

/// Why a witness cannot belong to a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// Another number of wires.
    #[error(
        "the witness has {given} values, the key's circuit {expected} wires: it is the witness of another circuit, or of \
         another version of this one"
    )]
    Length {
        /// Of the witness.
        given: usize,
        /// Of the key.
        expected: usize,
    },
    /// Wire 0 is not the constant 1.
    #[error("the witness's first value is not 1, as it must be: the file is damaged or not a witness")]
    NotOne,
    /// A value that is not below the modulus.
    #[error(
        "the value of wire {wire} is not below the scalar field's modulus: the witness is damaged or of another curve"
    )]
    NotReduced {
        /// Which.
        wire: usize,
    },
    /// The key proves nothing real.
    #[error("a simulated circuit takes no witness")]
    Simulated,
}

impl Assignment {
    /// The public signals, plain limbs, without the constant 1: what [`crate::verify::verify_partition`] takes. To be
    /// read before `prepare` consumes the assignment.
    pub fn public_signals(&self, key: &CircuitKey) -> Vec<[u64; 4]> {
        match (self, key) {
            (Self::Groth16(assignment), CircuitKey::Groth16(key)) => {
                assignment.witness.values.iter().skip(1).take(key.info().public as usize).copied().collect()
            }
            (Self::Simulated { seed }, CircuitKey::Simulated(_)) => vec![[*seed, 0, 0, 0]],
            _ => Vec::new(),
        }
    }
}

/// Checks the witness against the key and evaluates the constraints, in parallel on the current rayon pool.
pub fn evaluate<S: Suite>(key: &KeyView<'_, S>, witness: Witness) -> Result<Groth16Assignment, AssignmentError> {
    check::<S>(key.variables, &witness.values)?;
    let a = row_sums(&key.matrix_a, key.domain_log, &witness.values);
    let b = row_sums(&key.matrix_b, key.domain_log, &witness.values);
    Ok(Groth16Assignment { witness, a, b })
}

/// [`evaluate`] for a key of either curve. The witness must be over the key's curve: a `.wtns` says which it is over.
pub fn evaluate_key(key: &ProvingKey, witness: Witness) -> Result<Groth16Assignment, AssignmentError> {
    match key {
        ProvingKey::Bn254(key) => evaluate(&key.view(), witness),
        ProvingKey::Bls12381(key) => evaluate(&key.view(), witness),
    }
}

fn check<S: Suite>(variables: usize, values: &[[u64; 4]]) -> Result<(), AssignmentError> {
    if values.len() != variables {
        return Err(AssignmentError::Length { given: values.len(), expected: variables });
    }
    if values.first() != Some(&[1, 0, 0, 0]) {
        return Err(AssignmentError::NotOne);
    }
    match values.iter().position(|value| !below(value, &S::Fr::MODULUS)) {
        Some(wire) => Err(AssignmentError::NotReduced { wire }),
        None => Ok(()),
    }
}

/// Whether `value < modulus`, little-endian limbs.
pub(crate) fn below(value: &[u64; 4], modulus: &[u64; 4]) -> bool {
    value.iter().rev().lt(modulus.iter().rev())
}

/// Every row's sum of coefficient times wire; Montgomery limbs below the modulus, shape: the domain.
fn row_sums<F: PrimeField<Limbs = [u64; 4]>>(
    matrix: &Csr<'_, F>,
    domain_log: u32,
    values: &[[u64; 4]],
) -> Vec<[u64; 4]> {
    let mut sums = vec![[0; 4]; 1 << domain_log];
    // One task a chunk: rows differ much, and the last ones are empty.
    sums.par_chunks_mut(ROWS).enumerate().with_max_len(1).for_each(|(chunk, sums)| {
        for (row, sum) in (chunk * ROWS..).zip(sums) {
            *sum = row_sum(matrix, row, values).montgomery();
        }
    });
    sums
}

/// Zeros cost nothing, ones an addition. Coefficients carry R^2 (see [`Csr`]), so that the product with a **plain** value
/// is in Montgomery form; the sum of those that meet a one is multiplied by the plain 1 at the end.
#[inline]
fn row_sum<F: PrimeField<Limbs = [u64; 4]>>(matrix: &Csr<'_, F>, row: usize, values: &[[u64; 4]]) -> F {
    let (mut sum, mut ones) = (F::ZERO, F::ZERO);
    for (wire, place) in matrix.row(row) {
        // The importer has checked both; a damaged key ends in a proof that fails verification, not in a panic.
        let (Some(value), Some(coefficient)) = (values.get(wire as usize), matrix.coefficients.get(place as usize))
        else {
            continue;
        };
        match value {
            [0, 0, 0, 0] => {}
            [1, 0, 0, 0] => ones = ones.add(coefficient),
            value => sum = sum.add(&coefficient.mul(&F::from_montgomery(*value))),
        }
    }
    sum.add(&ones.mul(&F::from_montgomery([1, 0, 0, 0])))
}
