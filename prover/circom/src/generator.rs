//! A compiled witness generator.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use proofmill_groth16::assignment::Witness;
use proofmill_groth16::curve::Curve;
use wasmtime::{Config, Engine, InstancePre, Linker, Module};

use crate::error::CircomError;
use crate::field;
use crate::host::{self, Host, Log};
use crate::input;
use crate::inspect::{self, Layout};
use crate::limits::Limits;
use crate::run::{Description, Run};
use crate::symbols;
use crate::watch::Watch;

/// Bytes of a witness value, and of an input value once read.
const VALUE: u64 = 32;

/// Stack that a generation touches, at most times far less than its limit.
const TOUCHED_STACK: u64 = 256 << 10;

/// A circuit's witness generator, compiled to machine code that lives in memory only. Any number of threads may generate
/// with one at the same time; each generation has an instance, a memory and a thread of its own.
pub struct WitnessGenerator {
    engine: Engine,
    module: InstancePre<Host>,
    layout: Layout,
    description: Description,
    limits: Limits,
    /// Top-level input signals and their sizes, if the circuit's symbols are known.
    names: Option<Vec<(String, u32)>>,
    /// The largest memory that an instance has had so far, in bytes.
    memory: AtomicUsize,
}

impl WitnessGenerator {
    /// Checks and compiles a module. Takes CPU time in proportion to the module's size (about a second a megabyte)
    /// and cannot be cut short.
    ///
    /// # Errors
    /// Of kind [`crate::ErrorKind::Generator`] if it is not a generator of circom 2 for BN254 or BLS12-381, of kind
    /// [`crate::ErrorKind::Limit`] if it takes more than it may.
    pub fn compile(wasm: &[u8], limits: Limits) -> Result<Self, CircomError> {
        let layout = inspect::inspect(wasm, &limits)?;
        let engine = Engine::new(&config(&limits)).map_err(machine)?;
        let module = Module::from_binary(&engine, wasm)
            .map_err(|error| CircomError::InvalidModule { message: error.root_cause().to_string() })?;
        let mut linker = Linker::new(&engine);
        host::link(&mut linker).map_err(machine)?;
        let module = linker
            .instantiate_pre(&module)
            .map_err(|error| CircomError::InvalidModule { message: error.root_cause().to_string() })?;
        let watch = Watch { engine: &engine, stack: limits.stack_bytes, time: limits.time, cancel: &|| false };
        let (description, memory) = watch.run(&mut |_| {}, |stop, _| {
            let mut run = Run::new(&engine, &module, &limits, stop, None)?;
            Ok((run.describe()?, run.memory()))
        })?;
        let memory = AtomicUsize::new(memory);
        Ok(Self { engine, module, layout, description, limits, names: None, memory })
    }

    /// Takes the circuit's `.sym` file, so that missing signals are named.
    ///
    /// # Errors
    /// [`CircomError::Symbols`] if it is malformed; those of [`Self::compile`] if the generator misbehaves.
    pub fn with_symbols(mut self, symbols: &[u8]) -> Result<Self, CircomError> {
        let candidates = symbols::top_level(symbols)?;
        let names = self.watch(&|| false).run(&mut |_| {}, |stop, _| {
            let mut run = Run::new(&self.engine, &self.module, &self.limits, stop, None)?;
            let mut names = Vec::new();
            for name in candidates {
                let size = run.signal_size(name)?;
                if size > 0 {
                    names.push((name.to_owned(), size));
                }
            }
            Ok(names)
        })?;
        self.names = Some(names);
        Ok(self)
    }

    /// The witness of an input in snarkjs's JSON form. Output of `log()` is dropped: it prints values of signals.
    ///
    /// `cancel` is asked every few milliseconds, on the calling thread.
    ///
    /// # Errors
    /// Any [`CircomError`]; [`CircomError::kind`] tells the input's faults from the generator's. None holds a value of
    /// the input.
    pub fn generate(&self, input_json: &[u8], cancel: &dyn Fn() -> bool) -> Result<Witness, CircomError> {
        self.run(input_json, cancel, None)
    }

    /// As [`Self::generate`], with each line of the circuit's `log()` handed to `log` on the calling thread as it comes.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn generate_logged(
        &self,
        input_json: &[u8],
        cancel: &dyn Fn() -> bool,
        log: &mut dyn FnMut(&str),
    ) -> Result<Witness, CircomError> {
        self.run(input_json, cancel, Some(log))
    }

    /// The curve whose scalar field the circuit computes in.
    pub fn curve(&self) -> Curve {
        self.description.curve
    }

    /// Values of a witness, the constant 1 included: a key's number of variables.
    pub fn witness_size(&self) -> u32 {
        self.description.witness_size
    }

    /// Values of an input, over all signals.
    pub fn input_size(&self) -> u32 {
        self.description.input_size
    }

    /// Bytes that the compiled module holds as long as it lives (an estimate: code, tables and initial data).
    pub fn memory_bytes(&self) -> u64 {
        let image = self.module.module().image_range();
        (image.end.addr() - image.start.addr()) as u64 + self.layout.data
    }

    /// Bytes that one generation takes besides the JSON itself, the witness included (an estimate from the module's
    /// initial memory, and from the largest that a generation has needed so far).
    pub fn working_memory(&self) -> u64 {
        let memory = (self.memory.load(Ordering::Relaxed) as u64).max(self.layout.initial_memory);
        let values = u64::from(self.description.witness_size) + u64::from(self.description.input_size);
        memory + values * VALUE + TOUCHED_STACK
    }

    fn run(
        &self,
        input_json: &[u8],
        cancel: &dyn Fn() -> bool,
        log: Option<&mut dyn FnMut(&str)>,
    ) -> Result<Witness, CircomError> {
        let modulus = field::modulus(self.description.curve);
        let signals = input::read(input_json, &modulus, self.description.input_size, &self.limits, cancel)?;
        let logged = log.is_some();
        let mut ignore = |_: &str| {};
        let log = log.unwrap_or(&mut ignore);
        let values = self.watch(cancel).run(log, |stop, events| {
            let log = logged.then(|| Log::new(events, self.layout.log_has_lines));
            let mut run = Run::new(&self.engine, &self.module, &self.limits, stop, log)?;
            let values = run.generate(&signals, &self.description, self.names.as_deref());
            self.memory.fetch_max(run.memory(), Ordering::Relaxed);
            values
        })?;
        Ok(Witness { values })
    }

    fn watch<'a>(&'a self, cancel: &'a dyn Fn() -> bool) -> Watch<'a> {
        Watch { engine: &self.engine, stack: self.limits.stack_bytes, time: self.limits.time, cancel }
    }
}

/// The WebAssembly that circom and `wasm-opt` emit, and machine code without what only debuggers need.
fn config(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .max_wasm_stack(limits.stack_bytes)
        // Not used, but compared with the other where a feature of the whole build brings it in.
        .async_stack_size(limits.stack_bytes)
        .epoch_interruption(true)
        .generate_address_map(false)
        .wasm_backtrace_max_frames(None::<NonZeroUsize>)
        .wasm_simd(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_tail_call(false);
    config
}

fn machine(error: wasmtime::Error) -> CircomError {
    CircomError::Machine { message: error.root_cause().to_string() }
}
