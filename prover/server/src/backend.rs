//! What the server asks of an engine. All calls return at once but `drain`.

use std::time::Duration;

use proofmill_engine::engine::{Engine, SubmitError, Submitted, Watch};
use proofmill_engine::job::{Circuit, PartitionId, Priority, Submission};
use proofmill_engine::snapshot::Snapshot;

/// An engine as the server sees it; see [`Engine`] for what each call means.
pub trait Backend: Send + Sync + 'static {
    /// Queues a partition, or attaches to it.
    fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError>;
    /// Events of one partition, or of all.
    fn watch(&self, only: Option<PartitionId>) -> Watch;
    /// Cancels a partition.
    fn cancel(&self, id: &PartitionId) -> bool;
    /// Changes the priority of a job.
    fn reprioritise(&self, job: &str, priority: Priority) -> usize;
    /// Forgets a finished result.
    fn acknowledge(&self, id: &PartitionId) -> bool;
    /// Loads a circuit.
    fn preload(&self, circuit: Circuit);
    /// Drops an idle circuit.
    fn evict(&self, circuit: &str) -> bool;
    /// The state of everything.
    fn snapshot(&self) -> Snapshot;
    /// The trace as Chrome/Perfetto JSON.
    fn trace(&self) -> String;
    /// Closes intake; blocks until nothing is left or the grace period has ended.
    fn drain(&self, grace: Duration) -> bool;
}

impl Backend for Engine {
    fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        Self::submit(self, submission)
    }

    fn watch(&self, only: Option<PartitionId>) -> Watch {
        Self::watch(self, only)
    }

    fn cancel(&self, id: &PartitionId) -> bool {
        Self::cancel(self, id)
    }

    fn reprioritise(&self, job: &str, priority: Priority) -> usize {
        Self::reprioritise(self, job, priority)
    }

    fn acknowledge(&self, id: &PartitionId) -> bool {
        Self::acknowledge(self, id)
    }

    fn preload(&self, circuit: Circuit) {
        Self::preload(self, circuit);
    }

    fn evict(&self, circuit: &str) -> bool {
        Self::evict(self, circuit)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn trace(&self) -> String {
        Self::trace(self)
    }

    fn drain(&self, grace: Duration) -> bool {
        Self::drain(self, grace)
    }
}
