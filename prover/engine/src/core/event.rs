//! What goes into the core and what comes out: events with plain facts, actions for worker threads.

use std::sync::Arc;
use std::time::Duration;

use proofmill_groth16::device::{Phase, StepReport, WorkingSet};

use super::budget::Holdings;
use crate::engine::PartitionEvent;
use crate::job::{Circuit, Failure, Input, PartitionId, PartitionProof, Timings};
use crate::meter::Usage;
use crate::snapshot::CircuitFacts;

/// A submission's number: the engine's own name for one try at one partition.
pub type Ticket = u64;

/// The engine's own name for a circuit.
pub type KeyId = u64;

/// One of the two workers of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId {
    /// The device's index.
    pub device: usize,
    /// 0 or 1.
    pub slot: usize,
}

/// What is known of a circuit once it is loaded.
#[derive(Clone, Debug, Default)]
pub struct KeyFacts {
    /// Bytes that stay while it is resident.
    pub resident: u64,
    /// Bytes of one synthesis besides the assignment: a guess until one has run.
    pub scratch: u64,
    /// One partition's working set, per device.
    pub working_sets: Vec<WorkingSet>,
    /// Synthesis proves that the witness satisfies all constraints.
    pub checks_constraints: bool,
    /// What the key says of itself; `None` for simulated circuits.
    pub circuit: Option<CircuitFacts>,
}

/// How the verification of a proof ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The proof is right; `timings` and `device` are filled by the core.
    Valid(Box<PartitionProof>),
    /// The proof does not verify.
    Invalid,
    /// It could not be verified at all.
    Error(Failure),
}

/// Something happened in a worker thread. `started` is when the thread began, by the engine's clock.
#[derive(Debug)]
pub enum Event {
    /// A fetch ended, with the input's size.
    InputFetched {
        /// Whose input.
        ticket: Ticket,
        /// The fetcher.
        slot: usize,
        /// Begin.
        started: Duration,
        /// Bytes.
        result: Result<u64, Failure>,
    },
    /// An estimate ended.
    KeyEstimated {
        /// Which circuit.
        key: KeyId,
        /// The loader.
        slot: usize,
        /// Bytes when resident.
        result: Result<u64, Failure>,
    },
    /// A load goes on.
    KeyProgress {
        /// Which circuit.
        key: KeyId,
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A load ended.
    KeyLoaded {
        /// Which circuit.
        key: KeyId,
        /// The loader.
        slot: usize,
        /// Begin.
        started: Duration,
        /// What it takes.
        result: Result<KeyFacts, Failure>,
    },
    /// A resident key is not what was imported.
    KeyDamaged {
        /// Which circuit.
        key: KeyId,
    },
    /// A synthesis ended.
    Synthesized {
        /// Whose.
        ticket: Ticket,
        /// The synthesis worker.
        slot: usize,
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
        /// Bytes that a synthesis of this circuit takes besides the assignment, as known now.
        scratch: Option<u64>,
        /// Whether there is an assignment.
        result: Result<(), Failure>,
    },
    /// `Device::prepare` ended; `next` is the first step.
    Prepared {
        /// Which worker.
        worker: WorkerId,
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
        /// The first step, or the device's words.
        result: Result<Option<Phase>, String>,
    },
    /// A step ended.
    StepDone {
        /// Which worker.
        worker: WorkerId,
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
        /// What it did and the next step, or the device's words.
        result: Result<(StepReport, Option<Phase>), String>,
    },
    /// `into_output` ended.
    OutputReady {
        /// Which worker.
        worker: WorkerId,
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
        /// Or the device's words.
        result: Result<(), String>,
    },
    /// `prove_finish` ended; after a success the same finalizer goes on to verify.
    Finished {
        /// Whose.
        ticket: Ticket,
        /// The finalizer.
        slot: usize,
        /// Begin.
        started: Duration,
        /// End, before the thread waited for the engine's lock.
        finished: Duration,
        /// What the thread used.
        usage: Usage,
        /// Or the device's words.
        result: Result<(), String>,
    },
    /// The verification ended.
    Verified {
        /// Whose.
        ticket: Ticket,
        /// The finalizer.
        slot: usize,
        /// Begin.
        started: Duration,
        /// End, before the thread waited for the engine's lock.
        finished: Duration,
        /// What the thread used.
        usage: Usage,
        /// The verdict.
        verdict: Verdict,
    },
    /// A finalizer has handed a verdict over.
    Stored {
        /// Which finalizer.
        slot: usize,
        /// The partition, for the trace.
        subject: Arc<str>,
        /// When it had the engine's lock.
        started: Duration,
        /// When it was done.
        finished: Duration,
    },
    /// A canary proof ended.
    CanaryDone {
        /// Which worker.
        worker: WorkerId,
        /// Begin.
        started: Duration,
        /// Whether the device is sound.
        result: Result<(), String>,
    },
    /// Memory was given back to the system.
    Released {
        /// Whose: a partition or a circuit.
        subject: Arc<str>,
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
        /// What counted as taken until now.
        holdings: Holdings,
    },
    /// The heap's free memory was given back to the system.
    Trimmed {
        /// Begin.
        started: Duration,
        /// What the thread used.
        usage: Usage,
    },
    /// A time that [`super::Core::next_timer`] named has come.
    Tick,
}

/// What a fetch or a load needs to know.
#[derive(Debug)]
pub enum Action {
    /// A new partition's input and circuit, to be kept for its workers.
    Admit {
        /// Whose.
        ticket: Ticket,
        /// Which circuit.
        key: KeyId,
        /// The index within the job.
        partition: u32,
        /// The input.
        input: Input,
    },
    /// A new circuit, to be kept for the loader.
    Learn {
        /// Its name.
        key: KeyId,
        /// Where it is.
        circuit: Box<Circuit>,
    },
    /// Forget an unused circuit.
    Forget {
        /// Its name.
        key: KeyId,
    },
    /// Fetch an input.
    FetchInput {
        /// Whose.
        ticket: Ticket,
        /// The fetcher.
        slot: usize,
    },
    /// Drop a fetched input that did not fit; it is fetched again later.
    DropInput {
        /// Whose.
        ticket: Ticket,
        /// Its name, for the trace.
        subject: Arc<str>,
    },
    /// Find a circuit's size.
    EstimateKey {
        /// Which circuit.
        key: KeyId,
        /// The loader.
        slot: usize,
    },
    /// Load a circuit.
    LoadKey {
        /// Which circuit.
        key: KeyId,
        /// The loader.
        slot: usize,
    },
    /// Nobody needs this load any more.
    CancelKey {
        /// Which circuit.
        key: KeyId,
    },
    /// Drop a resident circuit, then give back what it held with [`Event::Released`].
    Evict {
        /// Which circuit.
        key: KeyId,
        /// Its name, for the trace.
        subject: Arc<str>,
        /// Its bytes.
        holdings: Holdings,
    },
    /// Synthesise.
    Synthesize {
        /// Whose.
        ticket: Ticket,
        /// The synthesis worker.
        slot: usize,
    },
    /// Prepare on a device.
    Prepare {
        /// Whose.
        ticket: Ticket,
        /// Which worker.
        worker: WorkerId,
    },
    /// Run the next step.
    RunStep {
        /// Whose.
        ticket: Ticket,
        /// Which worker.
        worker: WorkerId,
    },
    /// Turn the finished steps into their output.
    TakeOutput {
        /// Whose.
        ticket: Ticket,
        /// Which worker.
        worker: WorkerId,
    },
    /// Finish and verify.
    Finish {
        /// Whose.
        ticket: Ticket,
        /// The finalizer.
        slot: usize,
        /// The device that made the partial sums.
        device: usize,
    },
    /// Prove the canary.
    Canary {
        /// Which worker.
        worker: WorkerId,
    },
    /// Ask whoever works on this partition to stop.
    Cancel {
        /// Whose.
        ticket: Ticket,
    },
    /// Drop what a partition holds, then give it back with [`Event::Released`].
    Release {
        /// Whose.
        ticket: Ticket,
        /// Its name, for the trace.
        subject: Arc<str>,
        /// Keep the input: the partition starts over.
        keep_input: bool,
        /// What it held.
        holdings: Holdings,
    },
    /// Tell the watchers.
    Emit(PartitionEvent),
    /// One line in the log per partition.
    Log(Box<TimingLine>),
    /// A device went out of service or came back.
    DeviceHealth {
        /// Its index.
        device: usize,
        /// `None`: in service; else why not.
        problem: Option<String>,
    },
}

/// What the log tells of an ended partition.
#[derive(Clone, Debug)]
pub struct TimingLine {
    /// Which.
    pub id: PartitionId,
    /// Its circuit.
    pub circuit: String,
    /// How it ended.
    pub outcome: &'static str,
    /// On which device, if it came so far.
    pub device: Option<usize>,
    /// Where its time went.
    pub timings: Timings,
    /// What its threads used.
    pub usage: Usage,
}
