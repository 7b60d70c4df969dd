//! What the engine needs of the outside: keys, inputs, synthesis, time. The `prover` crate plugs them in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proofmill_groth16::assignment::Assignment;
use proofmill_groth16::device::{DeviceError, SharedDevice};
use proofmill_groth16::key::CircuitKey;

use crate::job::{Circuit, Failure, Source};

/// A flag that long work looks at between its parts.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the work to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Makes and verifies small proofs of known statements on a device; an error means that the device is not sound.
pub type Canary = Arc<dyn Fn(&SharedDevice) -> Result<(), DeviceError> + Send + Sync>;

/// Fetches inputs. Called on threads that may block.
pub trait InputSource: Send + Sync {
    /// The whole content of `source`, its digest checked, its size bounded. `reserve` is asked for the input's size in
    /// memory before the bytes come: in all, as soon as that is known, else again and again a little ahead of them. What it
    /// refuses with, the fetch ends with; the engine fetches again when there is room.
    fn fetch(
        &self,
        source: &Source,
        cancel: &Cancel,
        reserve: &dyn Fn(u64) -> Result<(), Failure>,
    ) -> Result<Arc<[u8]>, Failure>;
}

/// What a circuit takes before it is loaded, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEstimate {
    /// Bytes of the key when mapped.
    pub resident: u64,
}

/// Loads circuits: fetches, imports, maps. Called on threads that may block.
pub trait KeySource: Send + Sync {
    /// Bytes that the loaded circuit will take; may fetch the head of a file, or more, to know.
    fn estimate(&self, circuit: &Circuit, cancel: &Cancel) -> Result<KeyEstimate, Failure>;

    /// The circuit, ready to prove with. `progress` is called with (done, total) bytes now and then.
    fn load(
        &self,
        circuit: &Circuit,
        progress: &(dyn Fn(u64, u64) + Sync),
        cancel: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure>;

    /// The circuit's key was found damaged: whatever it was loaded from must not be used again. Partitions may still have
    /// it. The next load then starts from the source.
    fn discard(&self, _circuit: &LoadedCircuit) {}
}

/// A circuit in memory.
pub struct LoadedCircuit {
    /// The proving key.
    pub key: CircuitKey,
    /// Turns an input into an assignment.
    pub synthesizer: Box<dyn Synthesizer>,
    /// Bytes that stay while it is resident: the mapped key, matrices, compiled wasm.
    pub resident: u64,
}

/// From a partition's input to its assignment, on the CPU.
pub trait Synthesizer: Send + Sync {
    /// Bytes that one synthesis takes besides the assignment itself: a careful guess, and once some have run the most that
    /// one took. Asked at load and after each synthesis.
    fn working_memory(&self) -> u64;

    /// The assignment of `partition`. A failed assertion or constraint is an `UnsatisfiedWitness`.
    fn synthesize(&self, partition: u32, input: &[u8], cancel: &Cancel) -> Result<Assignment, Failure>;

    /// Whether `synthesize` proves that the witness satisfies every constraint (it has the r1cs). If two proofs do not
    /// verify and the device passes its canary, then the r1cs is not the key's; else the witness is to blame.
    fn checks_constraints(&self) -> bool {
        false
    }
}

/// Monotonic time since an origin of its own.
pub trait Clock: Send + Sync {
    /// Time since the clock's origin.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock; its origin is its making.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(std::time::Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
