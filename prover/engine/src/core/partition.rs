//! One partition on its way: its place in every order, what it holds, where its time went.

use std::sync::Arc;
use std::time::Duration;

use proofmill_groth16::device::Phase;

use super::budget::{Grant, Holdings};
use super::event::{KeyId, Ticket, WorkerId};
use crate::job::{PartitionId, PartitionState, Priority, Timings};
use crate::meter::Usage;

/// The place in every queue. The ticket makes it unique, so no two partitions ever collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// First the urgent ones.
    pub priority: Priority,
    /// Then the older jobs.
    pub sequence: u64,
    /// Then the partition's index.
    pub partition: u32,
    /// Then the number of the submission.
    pub ticket: Ticket,
}

impl Order {
    /// Whether it may use what is kept for Critical partitions.
    pub const fn is_critical(self) -> bool {
        matches!(self.priority, Priority::Critical)
    }
}

/// Where a partition is, to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for its input, its key or both.
    Gathering,
    /// Waits for memory and a synthesis worker.
    Ready,
    /// In a synthesis worker.
    Synthesizing,
    /// Waits for a device worker.
    DeviceQueue,
    /// With a device worker.
    OnWorker(WorkerId),
    /// Waits for a finalizer.
    FinishQueue,
    /// In a finalizer.
    Finishing,
    /// Its proof did not verify twice; the device's canary decides why.
    Judging,
}

/// A partition that has not ended, or whose worker has not come back since.
#[derive(Debug)]
pub(super) struct Partition {
    pub id: PartitionId,
    /// The id as text, shared by its spans.
    pub name: Arc<str>,
    pub digest: [u8; 32],
    pub order: Order,
    pub deadline: Option<Duration>,
    pub key: KeyId,
    pub submitted: Duration,

    pub stage: Stage,
    /// The outcome is out; only its worker still has to come back.
    pub ended: bool,
    /// A fetcher works on its input.
    pub fetching: bool,
    pub has_input: bool,
    /// Bytes of the input as far as known.
    pub input_bytes: u64,
    /// The fetch under way was refused memory, and will say so.
    pub input_refused: bool,
    /// First in line for memory that is not there.
    pub blocked: bool,
    /// The key may not be evicted: it is in use.
    pub leased: bool,

    pub input: Option<Grant>,
    pub scratch: Option<Grant>,
    pub evaluations: Option<Grant>,
    pub host: Option<Grant>,
    /// Bytes taken of a device's own memory.
    pub on_device: Option<(usize, u64)>,

    /// Prepared on this device and put back in favour of a Critical partition.
    pub parked_on: Option<usize>,
    pub next_phase: Option<Phase>,
    /// Devices that failed it; others go first.
    pub avoid: Vec<usize>,
    /// Devices whose proof of it did not verify.
    pub bad_proofs: Vec<usize>,
    pub faults: u32,
    pub last_device: Option<usize>,
    /// Time in steps since its last preparation.
    pub device_time: Duration,

    /// What the user sees, and since when.
    pub visible: PartitionState,
    pub since: Duration,
    /// When the present phase on a worker began.
    pub mark: Duration,
    pub timings: Timings,
    pub usage: Usage,
}

impl Partition {
    /// Adds the time since the last change of the visible state to its phase.
    pub fn charge(&mut self, now: Duration) {
        let spent = now.saturating_sub(self.since);
        let timings = &mut self.timings;
        match self.visible {
            PartitionState::Queued => timings.queue += spent,
            PartitionState::LoadingKey => timings.key_load += spent,
            PartitionState::MemoryBudget => timings.budget_wait += spent,
            PartitionState::Synthesis => timings.synthesis += spent,
            PartitionState::DeviceQueue => timings.device_queue += spent,
            // Their workers report these.
            PartitionState::FetchingInput | PartitionState::Proving | PartitionState::Finishing => {}
            PartitionState::Succeeded | PartitionState::Failed | PartitionState::Cancelled => {}
        }
        self.since = now;
    }

    /// Everything it holds but its input.
    pub fn take_holdings(&mut self) -> Holdings {
        let grants = [self.scratch.take(), self.evaluations.take(), self.host.take()];
        Holdings { grants: grants.into_iter().flatten().collect(), device: self.on_device.take() }
    }
}

/// Numbered places in a pool of threads.
#[derive(Debug)]
pub(super) struct Slots(Vec<bool>);

impl Slots {
    pub fn new(count: usize) -> Self {
        Self(vec![false; count])
    }

    /// The first free place below `end`.
    pub fn free_below(&self, end: usize) -> Option<usize> {
        self.0.iter().take(end).position(|&taken| !taken)
    }

    pub fn free(&self) -> Option<usize> {
        self.free_below(self.0.len())
    }

    pub fn set(&mut self, slot: usize, taken: bool) {
        if let Some(place) = self.0.get_mut(slot) {
            *place = taken;
        }
    }

    pub fn taken(&self) -> usize {
        self.0.iter().filter(|&&taken| taken).count()
    }
}
