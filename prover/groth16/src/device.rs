//! Where the heavy mathematics runs. A device takes a partition's assignment through `prove_start`, a sequence of short
//! steps under the device lease; what comes out is plain data that `prove_finish` turns into a proof on the host.
//!
//! The engine drives devices through these traits alone: a CUDA device and a simulated one fit beside the CPU.

use std::sync::Arc;
use std::time::Duration;

use crate::assignment::Assignment;
use crate::key::CircuitKey;
use crate::proof::Proof;

pub mod cpu;
pub mod simulated;

/// The longest that one step should take: a Critical partition waits for at most two of them.
pub const MAX_STEP: Duration = Duration::from_millis(250);

/// What a step of `prove_start` computes. The ledger's busy states carry these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// A multi-scalar multiplication in G2.
    MsmG2,
    /// A multi-scalar multiplication in G1.
    MsmG1,
    /// A number-theoretic transform.
    Ntt,
    /// Any other kernel.
    OtherKernel,
}

/// What one step did with the device's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepReport {
    /// The device was busy with this phase from the call to the return: the CPU.
    Busy(Phase),
    /// The device itself tells, as offsets from the call: a GPU's events, a simulated device's script.
    Spans(Vec<BusySpan>),
}

/// A stretch of device time, as offsets from the begin of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusySpan {
    /// What ran.
    pub activity: Activity,
    /// Begin, from the begin of the step.
    pub start: Duration,
    /// End, from the begin of the step.
    pub end: Duration,
}

/// What a [`BusySpan`] was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// A kernel.
    Kernel(Phase),
    /// A copy between host and device.
    Transfer,
}

/// Bytes that a partition needs while it is worked on, known before any of them is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// Host bytes of the assignment's evaluations (a, b, c), free after `prove_start`.
    pub evaluations: u64,
    /// The other host bytes (witness, scratch, partial sums), free after `prove_finish`.
    pub host: u64,
    /// Bytes in the device's own memory, free after `prove_start`; 0 for the CPU.
    pub device: u64,
}

/// Why a device could not do its work. All of these count as faults of the device, never of the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The device reported an error; the same partition may succeed elsewhere.
    #[error("device {device}: {message}")]
    Fault {
        /// The device's identifier.
        device: String,
        /// What it said.
        message: String,
    },
    /// Key and assignment belong to different circuits or kinds of device.
    #[error("device {device} cannot prove this: {message}")]
    Mismatch {
        /// The device's identifier.
        device: String,
        /// What does not fit.
        message: String,
    },
}

/// A place where partitions are proved: one GPU, the CPU, or a simulated device.
pub trait Device: Send + Sync {
    /// A stable identifier: a GPU's UUID, `cpu`, `simulated-0`.
    fn id(&self) -> &str;

    /// The device's own memory in bytes; `None` where it is the host's.
    fn memory(&self) -> Option<u64>;

    /// What one partition of this circuit takes.
    fn working_set(&self, key: &CircuitKey) -> WorkingSet;

    /// CPU time since its start of threads of its own, besides those that call it; `None` if it has none.
    fn cpu_time(&self) -> Option<Duration> {
        None
    }

    /// Host work before the lease is needed (`host_prep`): consumes the assignment, sets up the steps.
    fn prepare(
        &self,
        key: &CircuitKey,
        assignment: Assignment,
        blinding: Blinding,
    ) -> Result<Box<dyn ProveStart>, DeviceError>;

    /// The host part after the last step: combines partial sums into a proof. Needs no lease.
    fn prove_finish(&self, key: &CircuitKey, output: StartOutput) -> Result<Proof, DeviceError>;
}

/// The device part of one partition, as a sequence of steps of at most 250 ms. Between steps the lease may go to
/// another partition and come back; the state stays here.
pub trait ProveStart: Send {
    /// The phase of the next step, or `None` when all have run.
    fn next_phase(&self) -> Option<Phase>;

    /// Steps that remain.
    fn remaining(&self) -> usize;

    /// Runs the next step. The caller holds the device lease.
    fn step(&mut self) -> Result<StepReport, DeviceError>;

    /// What `prove_finish` needs, as plain data. Called once, after the last step.
    fn into_output(self: Box<Self>) -> Result<StartOutput, DeviceError>;
}

/// What `prove_start` leaves for `prove_finish`.
pub enum StartOutput {
    /// Partial sums of the Groth16 multi-scalar multiplications.
    Groth16(Box<crate::prove::PartialSums>),
    /// Nothing but the simulated circuit and its partition's seed.
    Simulated(simulated::SimulatedOutput),
}

/// The blinding scalars r and s of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blinding {
    /// Fresh from the system's CSPRNG, uniform over the full range by rejection.
    Random,
    /// Derived from a seed. **For tests only**: whoever knows the seed can break zero knowledge.
    SeededForTests([u8; 32]),
    /// Both zero. **For tests only**: the proof hides nothing.
    ZeroForTests,
}

/// A device shared by its workers.
pub type SharedDevice = Arc<dyn Device>;
