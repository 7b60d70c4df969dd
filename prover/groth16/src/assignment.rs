//! A partition's assignment: the witness and the constraints' evaluations a and b over the domain.

use crate::key::CircuitKey;

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

/// Witness and evaluations for one Groth16 key.
pub struct Groth16Assignment {
    /// The values of all wires.
    pub witness: Witness,
    /// Row sums of matrix A: `domain` values, Montgomery limbs below the modulus.
    pub a: Vec<[u64; 4]>,
    /// Row sums of matrix B: `domain` values, Montgomery limbs below the modulus.
    pub b: Vec<[u64; 4]>,
}
