//! What partitions and circuits of a simulation do: scripts, and the small makers of tests.

use std::time::Duration;

use proofmill_groth16::device::simulated::SimulatedCircuit;
use proofmill_groth16::device::{Activity, BusySpan, Phase, WorkingSet};
use proofmill_groth16::proof::Proof;

use crate::job::{Circuit, CircuitKind, Failure, FailureKind, PartitionId, PartitionProof, Timings};

pub const MIB: u64 = 1 << 20;

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One step of `prove_start`.
#[derive(Clone, Debug)]
pub struct StepScript {
    pub phase: Phase,
    pub length: Duration,
    pub spans: Vec<BusySpan>,
}

/// What one partition does. Faults are consumed one per try.
#[derive(Clone, Debug)]
pub struct Script {
    pub input_bytes: u64,
    pub fetch: Duration,
    pub synthesis: Duration,
    pub synthesis_fails: bool,
    /// From a command to the thread's begin.
    pub wake: Duration,
    pub prepare: Duration,
    pub steps: Vec<StepScript>,
    pub output: Duration,
    pub finish: Duration,
    pub verify: Duration,
    /// Per try: where it fails.
    pub faults: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Prepare,
    Step(usize),
    Output,
    Finish,
    Invalid,
    /// The proof does not verify, and the key is found damaged.
    Damaged,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            input_bytes: 100,
            fetch: ms(1),
            synthesis: ms(1),
            synthesis_fails: false,
            wake: Duration::ZERO,
            prepare: ms(1),
            steps: vec![mk_step(Phase::MsmG1, 1)],
            output: ms(1),
            finish: ms(1),
            verify: ms(1),
            faults: Vec::new(),
        }
    }
}

/// A step that is busy with one phase throughout.
pub fn mk_step(phase: Phase, length: u64) -> StepScript {
    let activity = Activity::Kernel(phase);
    StepScript { phase, length: ms(length), spans: vec![BusySpan { activity, start: Duration::ZERO, end: ms(length) }] }
}

/// What one circuit does.
#[derive(Clone, Debug)]
pub struct KeyScript {
    pub estimated: u64,
    pub resident: u64,
    pub scratch: u64,
    /// What a synthesis finds that it took; as thought if not set.
    pub scratch_found: Option<u64>,
    pub set: WorkingSet,
    pub estimate: Duration,
    pub load: Duration,
    /// So many loads fail first.
    pub failures: u32,
    pub checks_constraints: bool,
}

impl Default for KeyScript {
    fn default() -> Self {
        Self {
            estimated: MIB,
            resident: MIB,
            scratch: 0,
            scratch_found: None,
            set: WorkingSet { evaluations: MIB, host: MIB, device: MIB },
            estimate: Duration::ZERO,
            load: ms(1),
            failures: 0,
            checks_constraints: false,
        }
    }
}

pub fn mk_id(job: &str) -> PartitionId {
    PartitionId { job: job.to_owned(), partition: 0, attempt: 0 }
}

pub fn mk_circuit(name: &str) -> Circuit {
    let zero = Duration::ZERO;
    let circuit = SimulatedCircuit {
        partitions: 1,
        key_bytes: 0,
        working_set: 0,
        key_load: zero,
        synthesis: zero,
        ntt: zero,
        msm_g1: zero,
        msm_g2: zero,
        transfer: zero,
        finish: zero,
    };
    Circuit { name: name.to_owned(), kind: CircuitKind::Simulated(circuit) }
}

pub fn mk_failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "scripted".to_owned() }
}

pub fn mk_proof() -> PartitionProof {
    PartitionProof {
        proof: Proof::Simulated(0),
        public_signals: Vec::new(),
        curve: None,
        input_digest: [0; 32],
        key_digest: [0; 32],
        verifying_key_digest: [0; 32],
        insecure_key: false,
        device: String::new(),
        timings: Timings::default(),
    }
}

pub fn fails(failed: bool) -> Result<(), String> {
    if failed { Err("scripted".to_owned()) } else { Ok(()) }
}
