//! The engine's handle: what `run` and `serve` call. Cheap to clone; all methods return at once but [`Engine::drain`].

use std::sync::Arc;
use std::time::Duration;

use proofmill_groth16::device::SharedDevice;

use crate::job::{Circuit, Outcome, PartitionId, PartitionState, Priority, Submission};
use crate::parts::{Canary, Clock, InputSource, KeySource};
use crate::runtime::Runtime;
use crate::snapshot::Snapshot;
use crate::trace::TraceSnapshot;

/// Settings, fixed at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes for everything: keys, working sets, inputs, compiled wasm. See `memory::detect`.
    pub memory_budget: u64,
    /// Bytes of it kept for one Critical partition.
    pub reserve_critical: u64,
    /// Synthesis workers (one more takes only Critical partitions).
    pub synthesis_workers: usize,
    /// Finalizers.
    pub finalizers: usize,
    /// Refuse keys whose proofs anyone can forge.
    pub refuse_insecure_keys: bool,
    /// Device faults of one partition before it fails.
    pub device_attempts: u32,
    /// Finished results kept until acknowledged: number and bytes.
    pub results: ResultBounds,
    /// Consecutive verification failures that quarantine a device.
    pub quarantine_after: u32,
    /// How much of the trace is kept.
    pub trace_window: Duration,
    /// Partitions that have not ended; more are refused.
    pub queue_limit: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_budget: 4 << 30,
            reserve_critical: 0,
            synthesis_workers: 1,
            finalizers: 1,
            refuse_insecure_keys: true,
            device_attempts: 3,
            results: ResultBounds { count: 10_000, bytes: 256 << 20, age: Duration::from_secs(24 * 3600) },
            quarantine_after: 3,
            trace_window: Duration::from_secs(300),
            queue_limit: 10_000,
        }
    }
}

/// Bounds on results that nobody has fetched yet.
#[derive(Clone, Copy, Debug)]
pub struct ResultBounds {
    /// At most this many.
    pub count: usize,
    /// At most this many bytes.
    pub bytes: u64,
    /// At most this old.
    pub age: Duration,
}

/// What the engine is made of.
pub struct Parts {
    /// At least one.
    pub devices: Vec<SharedDevice>,
    /// Where keys come from.
    pub keys: Arc<dyn KeySource>,
    /// Where inputs come from.
    pub inputs: Arc<dyn InputSource>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// A small proof with a known statement. With it, a device gets no work before one has passed; without it (`None`)
    /// a device counts as sound until it fails, and a quarantined one comes back at once.
    pub canary: Option<Canary>,
}

/// A running engine.
///
/// The last clone to go stops the threads; what has not ended then never will. Call [`Engine::drain`] before.
#[derive(Clone)]
pub struct Engine {
    runtime: Arc<Runtime>,
}

/// What [`Engine::submit`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// New work.
    Accepted,
    /// The same work is under way or done; its events follow.
    Attached,
}

/// Why a submission was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The same id with another digest exists.
    #[error("{id} is known with another circuit or input; a changed request needs a new id")]
    Conflict {
        /// The id.
        id: PartitionId,
    },
    /// A leader of an older epoch.
    #[error(
        "leader epoch {given} is older than {seen}, which this engine has seen; only the current leader may submit"
    )]
    StaleEpoch {
        /// The submission's.
        given: u64,
        /// The highest seen.
        seen: u64,
    },
    /// Intake is closed.
    #[error("this engine is draining and takes no new work; submit to another one")]
    Draining,
    /// The queue is full.
    #[error("the queue holds {limit} partitions, its limit; try again when some have finished")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// The inputs that wait take the memory that inputs may take.
    #[error(
        "the input has {need} bytes, and the inputs that wait take {used} of the {limit} bytes that inputs may take of \
         the memory budget; try again when some have finished, or give the engine more memory"
    )]
    InputMemory {
        /// Bytes of this input.
        need: u64,
        /// Bytes for all inputs together.
        limit: u64,
        /// Bytes taken.
        used: u64,
    },
}

/// A change of one partition, as [`Engine::watch`] streams it.
#[derive(Clone, Debug)]
pub struct PartitionEvent {
    /// Which.
    pub id: PartitionId,
    /// Its new state.
    pub state: PartitionState,
    /// When, by the engine's clock.
    pub at: Duration,
    /// Bytes (done, total) while a key is imported or fetched.
    pub progress: Option<(u64, u64)>,
    /// Present once `state` is final.
    pub outcome: Option<Outcome>,
}

/// A stream of events: first the current state of every partition it covers, then each change.
pub type Watch = tokio::sync::mpsc::UnboundedReceiver<PartitionEvent>;

impl Engine {
    /// Starts the engine's threads.
    pub fn start(config: Config, parts: Parts) -> Self {
        Self { runtime: Arc::new(Runtime::start(config, parts)) }
    }

    /// Queues a partition, or attaches to it.
    pub fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        self.runtime.shared.with_core(|core, now| core.submit(now, submission))
    }

    /// Events of one partition, or of all. The stream of one partition ends after its outcome.
    pub fn watch(&self, only: Option<PartitionId>) -> Watch {
        self.runtime.shared.watch(only)
    }

    /// Cancels a partition in whatever stage it is; false if it is unknown or has ended.
    pub fn cancel(&self, id: &PartitionId) -> bool {
        self.runtime.shared.with_core(|core, now| core.cancel(now, id))
    }

    /// Changes the priority of every partition of a job that has not ended; the number changed.
    pub fn reprioritise(&self, job: &str, priority: Priority) -> usize {
        self.runtime.shared.with_core(|core, now| core.reprioritise(now, job, priority))
    }

    /// Forgets a finished result; false if there is none.
    pub fn acknowledge(&self, id: &PartitionId) -> bool {
        self.runtime.shared.with_core(|core, now| core.acknowledge(now, id))
    }

    /// Loads a circuit and keeps it resident while memory allows.
    pub fn preload(&self, circuit: Circuit) {
        self.runtime.shared.with_core(|core, now| core.preload(now, circuit));
    }

    /// Drops an idle circuit from memory; false if it is in use or not resident.
    pub fn evict(&self, circuit: &str) -> bool {
        self.runtime.shared.with_core(|core, now| core.evict(now, circuit))
    }

    /// The state of everything, consistent at one instant.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.shared.snapshot()
    }

    /// The trace of the last minutes as Chrome/Perfetto JSON.
    pub fn trace(&self) -> String {
        let mut text = Vec::new();
        match self.trace_snapshot().write(&mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            // Writing into memory can't fail.
            Err(_) => String::new(),
        }
    }

    /// The trace of the last minutes, to be written as a stream without holding up the engine.
    pub fn trace_snapshot(&self) -> TraceSnapshot {
        self.runtime.shared.trace()
    }

    /// Closes intake and waits until nothing is left or the grace period ends; what is left then is handed back as
    /// `Draining`. True if everything finished.
    pub fn drain(&self, grace: Duration) -> bool {
        self.runtime.shared.drain(grace)
    }
}
