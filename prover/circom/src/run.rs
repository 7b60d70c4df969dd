//! One instance of a generator: what it says of itself, and one generation.

use std::collections::HashMap;
use std::sync::Arc;

use proofmill_groth16::curve::Curve;
use wasmtime::{Engine, InstancePre, Store, Trap, UpdateDeadline};

use crate::abi::{Exports, SignalHash, WORDS};
use crate::error::CircomError;
use crate::field::{self, Limbs};
use crate::host::{Exception, Host, Log};
use crate::input::Signal;
use crate::limits::Limits;
use crate::symbols;
use crate::watch::Stop;

/// Values between two looks at the flag to stop.
const CHUNK: u32 = 4096;

/// `exceptionHandler`'s codes.
mod code {
    pub(super) const SIGNAL_NOT_FOUND: i32 = 1;
    pub(super) const TOO_MANY_SIGNALS: i32 = 2;
    pub(super) const SIGNAL_ALREADY_SET: i32 = 3;
    pub(super) const ASSERT_FAILED: i32 = 4;
    pub(super) const NOT_ENOUGH_MEMORY: i32 = 5;
    pub(super) const INDEX_PAST_SIGNAL: i32 = 6;
}

/// What a generator says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) curve: Curve,
    pub(crate) witness_size: u32,
    pub(crate) input_size: u32,
}

/// An instance with its store.
pub(crate) struct Run {
    store: Store<Host>,
    exports: Exports,
    limits: Limits,
}

impl Run {
    /// Instantiates the module; runs its start function, if it has one.
    pub(crate) fn new(
        engine: &Engine,
        module: &InstancePre<Host>,
        limits: &Limits,
        stop: Arc<Stop>,
        log: Option<Log>,
    ) -> Result<Self, CircomError> {
        let mut store = Store::new(engine, Host::new(limits, stop, log));
        store.limiter(|host| host);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            Ok(if context.data().stop.is_set() { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
        });
        let instance = module.instantiate(&mut store);
        let instance = instance.map_err(|error| failure(&mut store, limits, &error))?;
        let exports = Exports::new(&instance, &mut store)?;
        Ok(Self { store, exports, limits: limits.clone() })
    }

    /// Asks for version, prime and sizes.
    pub(crate) fn describe(&mut self) -> Result<Description, CircomError> {
        let major = self.call(|exports, store| exports.version.call(store, ()))?;
        if major != 2 {
            return Err(CircomError::UnsupportedVersion { major });
        }
        // A prime of any size is read to be refused by name, but not of any length.
        let words = self.call(|exports, store| exports.field_words.call(store, ()))?.clamp(0, 2 * WORDS);
        self.call(|exports, store| exports.raw_prime.call(store, ()))?;
        let prime = self.call(|exports, store| exports.shared(store, words))?;
        let curve = match field::curve_of_prime(&prime) {
            Ok(curve) if words == WORDS => Ok(curve),
            Ok(_) => Err(format!("values of {words} words")),
            Err(name) => Err(name),
        };
        let curve = curve.map_err(|name| CircomError::UnsupportedPrime { name })?;
        let witness_size = self.call(|exports, store| exports.witness_size.call(store, ()))?.cast_unsigned();
        if witness_size == 0 || witness_size > self.limits.witness_values {
            return Err(CircomError::WitnessSize { actual: witness_size, limit: self.limits.witness_values });
        }
        let input_size = self.call(|exports, store| exports.input_size.call(store, ()))?.cast_unsigned();
        Ok(Description { curve, witness_size, input_size })
    }

    /// Values of an input signal; 0 also if there is none of this name.
    pub(crate) fn signal_size(&mut self, name: &str) -> Result<u32, CircomError> {
        let hash = SignalHash::of(name);
        let size = self.call(|exports, store| exports.signal_size.call(store, (hash.high, hash.low)))?;
        Ok(size.max(0).cast_unsigned())
    }

    /// Computes the witness. `names` are the circuit's inputs with their sizes, if known.
    pub(crate) fn generate(
        &mut self,
        signals: &[Signal],
        description: &Description,
        names: Option<&[(String, u32)]>,
    ) -> Result<Vec<Limbs>, CircomError> {
        // Without sanity checks, as snarkjs; circom 2 checks its assertions either way.
        self.call(|exports, store| exports.init.call(store, 0))?;
        self.check_sizes(signals, description.input_size, names)?;
        for signal in signals {
            let hash = SignalHash::of(&signal.name);
            for (index, value) in (0..).zip(&signal.values) {
                self.check_stop()?;
                self.set(signal, hash, index, value)?;
            }
        }
        self.read_witness(description)
    }

    /// The largest memory that the instance has had, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.store.data().memory
    }

    /// All signals exist, have as many values as they should, and are all that the circuit takes. Checked before any is
    /// set: the last value starts the computation.
    fn check_sizes(
        &mut self,
        signals: &[Signal],
        input_size: u32,
        names: Option<&[(String, u32)]>,
    ) -> Result<(), CircomError> {
        let mut given = 0;
        for signal in signals {
            self.check_stop()?;
            let expected = self.signal_size(&signal.name)?;
            if expected == 0 && !self.has_empty_signal(&signal.name)? {
                return Err(CircomError::UnknownSignal { signal: signal.shown() });
            }
            if signal.values.len() != expected as usize {
                let given = signal.values.len();
                return Err(CircomError::SignalSize { signal: signal.shown(), expected, given });
            }
            given += signal.values.len();
        }
        if given < input_size as usize {
            let signals = names.map(|names| missing(names, signals));
            return Err(CircomError::MissingSignals { given, expected: input_size, signals });
        }
        Ok(())
    }

    /// Whether a signal of size 0 exists: the generator gives unknown names the same size, but another exception.
    fn has_empty_signal(&mut self, name: &str) -> Result<bool, CircomError> {
        let result = self.exports.set(&mut self.store, SignalHash::of(name), 0, &[0; 4]);
        match result {
            Ok(()) => Ok(false),
            Err(error) => match error.downcast_ref::<Exception>() {
                Some(Exception(code::INDEX_PAST_SIGNAL)) => Ok(true),
                // All values are there already: a circuit without inputs.
                Some(Exception(code::SIGNAL_NOT_FOUND | code::TOO_MANY_SIGNALS)) => Ok(false),
                _ => Err(failure(&mut self.store, &self.limits, &error)),
            },
        }
    }

    fn set(&mut self, signal: &Signal, hash: SignalHash, index: i32, value: &Limbs) -> Result<(), CircomError> {
        let result = self.exports.set(&mut self.store, hash, index, value);
        result.map_err(|error| match error.downcast_ref::<Exception>() {
            // A bus given as a whole and by its fields.
            Some(Exception(code::SIGNAL_ALREADY_SET | code::TOO_MANY_SIGNALS)) => {
                CircomError::DuplicateSignal { signal: signal.shown() }
            }
            Some(Exception(code::SIGNAL_NOT_FOUND)) => CircomError::UnknownSignal { signal: signal.shown() },
            _ => failure(&mut self.store, &self.limits, &error),
        })
    }

    fn read_witness(&mut self, description: &Description) -> Result<Vec<Limbs>, CircomError> {
        let modulus = field::modulus(description.curve);
        let mut values = Vec::new();
        values
            .try_reserve_exact(description.witness_size as usize)
            .map_err(|_| CircomError::Machine { message: "no memory for the witness".to_owned() })?;
        for index in 0..description.witness_size {
            if index.is_multiple_of(CHUNK) {
                self.check_stop()?;
            }
            let value = self.call(|exports, store| exports.value(store, index))?;
            if !field::is_below(&value, &modulus) {
                return Err(CircomError::WitnessValue { index });
            }
            values.push(value);
        }
        match values.first() {
            Some([1, 0, 0, 0]) => Ok(values),
            _ => Err(CircomError::WitnessConstant),
        }
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&Exports, &mut Store<Host>) -> wasmtime::Result<T>,
    ) -> Result<T, CircomError> {
        call(&self.exports, &mut self.store).map_err(|error| failure(&mut self.store, &self.limits, &error))
    }

    fn check_stop(&self) -> Result<(), CircomError> {
        // The watcher knows the reason and replaces this error.
        if self.store.data().stop.is_set() { Err(CircomError::Cancelled) } else { Ok(()) }
    }
}

/// The inputs whose values are not all there, as far as they are there.
fn missing(names: &[(String, u32)], signals: &[Signal]) -> Vec<String> {
    let mut given: HashMap<&str, usize> = HashMap::new();
    for signal in signals {
        *given.entry(symbols::top_of(&signal.name)).or_default() += signal.values.len();
    }
    names
        .iter()
        .filter_map(|(name, size)| match given.get(name.as_str()).copied().unwrap_or(0) {
            0 => Some(name.clone()),
            given if given < *size as usize => Some(format!("{name} ({given} of {size} values given)")),
            _ => None,
        })
        .collect()
}

/// Why a call into the generator ended.
fn failure(store: &mut Store<Host>, limits: &Limits, error: &wasmtime::Error) -> CircomError {
    let host = store.data_mut();
    match error.downcast_ref::<Exception>() {
        Some(Exception(code::ASSERT_FAILED)) => {
            return CircomError::UnsatisfiedWitness { at: std::mem::take(&mut host.lines) };
        }
        Some(Exception(code)) => {
            return match host.denied.take() {
                Some(denied) => denied,
                None if *code == code::NOT_ENOUGH_MEMORY => CircomError::MemoryLimit { limit: limits.memory_bytes },
                None => CircomError::Exception { code: *code },
            };
        }
        None => {}
    }
    // A generator whose memory may not grow fails in whatever way it likes.
    if let Some(denied) = host.denied.take() {
        return denied;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => CircomError::StackLimit { limit: limits.stack_bytes },
        Some(Trap::Interrupt) => CircomError::Cancelled,
        Some(trap) => CircomError::Trap { message: trap.to_string() },
        None => CircomError::Machine { message: error.root_cause().to_string() },
    }
}
