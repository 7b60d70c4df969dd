//! No generator is built in: circuits that name one load, and only inputs that need it fail, saying how to get it.

use std::sync::Arc;

use proofmill_engine::job::{Failure, FailureKind};
use proofmill_engine::parts::Cancel;
use proofmill_groth16::assignment::Witness;
use proofmill_groth16::key::KeyInfo;
use rayon::ThreadPool;

/// Stands for a generator that can't be run.
pub struct Generator;

impl Generator {
    /// Keeps nothing.
    pub fn new(
        _circuit: &str,
        _key: &KeyInfo,
        _wasm: Vec<u8>,
        _symbols: Option<Vec<u8>>,
        _log: bool,
        _threads: Arc<ThreadPool>,
    ) -> Self {
        Self
    }

    /// Says how to get a prover that can.
    pub fn generate(&self, _input: &[u8], _cancel: &Cancel) -> Result<Witness, Failure> {
        Err(Failure {
            kind: FailureKind::BadKey,
            message:
                "the input is JSON, and this prover was built without WebAssembly: build it with --features wasm, \
                      or give a .wtns file"
                    .into(),
        })
    }

    /// None.
    pub fn memory_bytes(&self) -> u64 {
        0
    }

    /// None.
    pub fn working_memory(&self) -> u64 {
        0
    }
}
