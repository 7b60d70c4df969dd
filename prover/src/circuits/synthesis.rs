//! From a partition's input to its assignment: a finished witness is read, an input of signals goes through the circuit's
//! generator; then the constraints are checked where they are given, and a and b evaluated.

use std::sync::Arc;

use proofmill_engine::job::{Failure, FailureKind};
use proofmill_engine::parts::{Cancel, Synthesizer};
use proofmill_groth16::assignment::{self, Assignment, Witness};
use proofmill_groth16::format::r1cs::{R1cs, R1csError};
use proofmill_groth16::format::sym;
use proofmill_groth16::format::wtns::WitnessFile;
use proofmill_groth16::key::ProvingKey;
use rayon::ThreadPool;

use super::download::Part;
use super::generator::Generator;
use crate::content;

/// The first bytes of a witness file.
const WTNS_MAGIC: &[u8] = b"wtns";

/// Synthesis for one Groth16 circuit.
pub struct GrothSynthesizer {
    /// The circuit's name, for messages.
    pub circuit: String,
    /// Its key.
    pub key: Arc<ProvingKey>,
    /// circom's generator, if the circuit has one.
    pub generator: Option<Generator>,
    /// Its constraints, if they are given.
    pub constraints: Option<Constraints>,
    /// Threads for evaluating the constraints.
    pub threads: Arc<ThreadPool>,
}

/// The constraints as circom wrote them.
pub struct Constraints {
    /// The constraints.
    pub r1cs: R1cs<Part>,
    /// The names of signals.
    pub symbols: Option<Part>,
}

impl Synthesizer for GrothSynthesizer {
    fn working_memory(&self) -> u64 {
        self.generator.as_ref().map_or(0, Generator::working_memory)
    }

    fn synthesize(&self, _partition: u32, input: &[u8], cancel: &Cancel) -> Result<Assignment, Failure> {
        let witness = self.witness(input, cancel)?;
        if let Some(constraints) = &self.constraints {
            constraints.check(&self.circuit, &self.threads, &witness, cancel)?;
        }
        self.threads
            .install(|| assignment::evaluate_key(&self.key, witness))
            .map(Assignment::Groth16)
            .map_err(|e| bad_input(e.to_string()))
    }

    fn checks_constraints(&self) -> bool {
        self.constraints.is_some()
    }
}

impl GrothSynthesizer {
    fn witness(&self, input: &[u8], cancel: &Cancel) -> Result<Witness, Failure> {
        if input.starts_with(WTNS_MAGIC) {
            let file = self
                .threads
                .install(|| WitnessFile::read(input))
                .map_err(|e| bad_input(format!("the witness: {e}")))?;
            let info = self.key.info();
            file.check(info.curve, info.variables).map_err(|e| bad_input(format!("the witness: {e}")))?;
            return Ok(file.witness);
        }
        match &self.generator {
            Some(generator) => generator.generate(input, cancel),
            None if content::is_json_object(input) => Err(bad_input(format!(
                "the input is JSON, and circuit {} has no witness generator: set spec.groth16.witnessGenerator to \
                 circom's .wasm, or give a .wtns file",
                self.circuit
            ))),
            None => Err(bad_input(
                "the input is neither a .wtns file nor JSON: give one of the two, uncompressed".to_owned(),
            )),
        }
    }
}

impl Constraints {
    /// Refuses a witness that does not satisfy all constraints, naming the first and its signals, but no value.
    fn check(&self, circuit: &str, threads: &ThreadPool, witness: &Witness, cancel: &Cancel) -> Result<(), Failure> {
        let failed = |kind, e: String| Failure { kind, message: format!("the r1cs of circuit {circuit}: {e}") };
        let checked = threads.install(|| self.r1cs.unsatisfied(witness, &|| cancel.is_cancelled()));
        let unsatisfied = match checked {
            Ok(None) => return Ok(()),
            Ok(Some(unsatisfied)) => unsatisfied,
            Err(e @ R1csError::Cancelled) => return Err(failed(FailureKind::Cancelled, e.to_string())),
            Err(e) => return Err(failed(FailureKind::BadKey, e.to_string())),
        };
        let names = match &self.symbols {
            Some(symbols) => sym::names(symbols, &unsatisfied.wires)
                .map_err(|e| failed(FailureKind::BadKey, format!("its symbols: {e}")))?,
            None => Default::default(),
        };
        Err(Failure {
            kind: FailureKind::UnsatisfiedWitness,
            message: format!(
                "the witness does not satisfy circuit {circuit}: {}; check the input, or that generator, r1cs and zkey \
                 come from the same compilation",
                unsatisfied.describe(&names)
            ),
        })
    }
}

fn bad_input(message: String) -> Failure {
    Failure { kind: FailureKind::BadInput, message }
}
