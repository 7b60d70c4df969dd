//! circom's generator in wasmtime, compiled when the first input needs it: jobs that bring a witness do not wait.

use std::sync::{Arc, OnceLock};

use proofmill_circom::{CircomError, ErrorKind, Limits, WitnessGenerator};
use proofmill_engine::job::{Failure, FailureKind};
use proofmill_engine::parts::Cancel;
use proofmill_groth16::assignment::Witness;
use proofmill_groth16::key::KeyInfo;
use rayon::ThreadPool;

/// Compiled code takes about so many bytes a byte of WebAssembly (measured: 2.9 to 3.4 for npm's circuits).
const COMPILED_RATIO: u64 = 4;

/// What a generation takes before it is known: a fixed part and one per value of the witness. sigV2OnChain (108,310 values)
/// takes 21.5 MB, this says 44.
const WORKING_MEMORY: u64 = 16 << 20;
const WORKING_MEMORY_PER_VALUE: u64 = 256;

/// A generator of one circuit.
pub struct Generator {
    circuit: String,
    key: KeyInfo,
    wasm: Vec<u8>,
    symbols: Option<Vec<u8>>,
    log: bool,
    threads: Arc<ThreadPool>,
    compiled: OnceLock<Result<WitnessGenerator, Failure>>,
}

impl Generator {
    /// For a circuit with this key. `log` prints the circuit's `log()` lines on stderr. With `symbols`, circom's .sym, errors
    /// name the signals that are missing; the module itself knows only hashes of names.
    pub fn new(
        circuit: &str,
        key: &KeyInfo,
        wasm: Vec<u8>,
        symbols: Option<Vec<u8>>,
        log: bool,
        threads: Arc<ThreadPool>,
    ) -> Self {
        Self { circuit: circuit.to_owned(), key: key.clone(), wasm, symbols, log, threads, compiled: OnceLock::new() }
    }

    /// The witness for an input in snarkjs's JSON. The first call compiles, others wait for it.
    pub fn generate(&self, input: &[u8], cancel: &Cancel) -> Result<Witness, Failure> {
        let generator = self.compiled.get_or_init(|| self.compile()).as_ref().map_err(Clone::clone)?;
        let cancelled = || cancel.is_cancelled();
        let made = if self.log {
            generator.generate_logged(input, &cancelled, &mut |line| eprintln!("circuit: {line}"))
        } else {
            generator.generate(input, &cancelled)
        };
        made.map_err(|error| Failure { kind: failure_kind(error.kind()), message: error.to_string() })
    }

    /// Bytes of the module, compiled or not (then an estimate).
    pub fn memory_bytes(&self) -> u64 {
        self.wasm.len() as u64 * (1 + COMPILED_RATIO) + self.symbols.as_ref().map_or(0, |s| s.len() as u64)
    }

    /// Bytes that one generation takes; before the first one, a careful guess.
    pub fn working_memory(&self) -> u64 {
        match self.compiled.get() {
            Some(Ok(generator)) => generator.working_memory(),
            _ => WORKING_MEMORY + u64::from(self.key.variables) * WORKING_MEMORY_PER_VALUE,
        }
    }

    fn compile(&self) -> Result<WitnessGenerator, Failure> {
        let bad = |message| Failure {
            kind: FailureKind::BadKey,
            message: format!("the witness generator of circuit {}: {message}", self.circuit),
        };
        let compile = || -> Result<WitnessGenerator, CircomError> {
            let generator = WitnessGenerator::compile(&self.wasm, Limits::default())?;
            match &self.symbols {
                Some(symbols) => generator.with_symbols(symbols),
                None => Ok(generator),
            }
        };
        let generator = self.threads.install(compile).map_err(|e| bad(e.to_string()))?;
        if generator.curve() != self.key.curve || generator.witness_size() != self.key.variables {
            return Err(bad(format!(
                "it makes {} values on {}, the zkey takes {} on {}; they are of different circuits",
                generator.witness_size(),
                generator.curve(),
                self.key.variables,
                self.key.curve
            )));
        }
        Ok(generator)
    }
}

const fn failure_kind(kind: ErrorKind) -> FailureKind {
    match kind {
        ErrorKind::Input => FailureKind::BadInput,
        ErrorKind::Unsatisfied => FailureKind::UnsatisfiedWitness,
        ErrorKind::Generator | ErrorKind::Limit => FailureKind::BadKey,
        ErrorKind::Cancelled => FailureKind::Cancelled,
        ErrorKind::Internal => FailureKind::Internal,
    }
}
