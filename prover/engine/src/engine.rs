//! The engine's handle: what `run` and `serve` call. Cheap to clone; all methods return at once but [`Engine::drain`].

use std::sync::Arc;
use std::time::Duration;

use proofmill_groth16::device::SharedDevice;

use crate::job::{Circuit, Outcome, PartitionId, PartitionState, Priority, Submission};
use crate::parts::{Clock, InputSource, KeySource};
use crate::snapshot::Snapshot;

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
}

/// A running engine.
#[derive(Clone)]
pub struct Engine {}

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
    #[error("leader epoch {given} is older than {seen}, which this engine has seen; only the current leader may submit")]
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
    pub fn start(_config: Config, _parts: Parts) -> Self {
        Self {}
    }

    /// Queues a partition, or attaches to it.
    pub fn submit(&self, _submission: Submission) -> Result<Submitted, SubmitError> {
        Ok(Submitted::Accepted)
    }

    /// Events of one partition, or of all.
    pub fn watch(&self, _only: Option<PartitionId>) -> Watch {
        tokio::sync::mpsc::unbounded_channel().1
    }

    /// Cancels a partition in whatever stage it is; false if it is unknown or has ended.
    pub fn cancel(&self, _id: &PartitionId) -> bool {
        false
    }

    /// Changes the priority of every partition of a job that has not ended; the number changed.
    pub fn reprioritise(&self, _job: &str, _priority: Priority) -> usize {
        0
    }

    /// Forgets a finished result; false if there is none.
    pub fn acknowledge(&self, _id: &PartitionId) -> bool {
        false
    }

    /// Loads a circuit and keeps it resident while memory allows.
    pub fn preload(&self, _circuit: Circuit) {}

    /// Drops an idle circuit from memory; false if it is in use or not resident.
    pub fn evict(&self, _circuit: &str) -> bool {
        false
    }

    /// The state of everything, consistent at one instant.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    /// The trace of the last minutes as Chrome/Perfetto JSON.
    pub fn trace(&self) -> String {
        String::new()
    }

    /// Closes intake and waits until nothing is left or the grace period ends; what is left then is handed back as
    /// `Draining`. True if everything finished.
    pub fn drain(&self, _grace: Duration) -> bool {
        true
    }
}
