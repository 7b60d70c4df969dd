//! A job as the operator knows it: its object, and where each partition is.

use std::cmp::Reverse;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proofmill_crds::circuit::CircuitSpec;
use proofmill_crds::conditions::{ConditionStatus, types};
use proofmill_crds::proof_job::{PartitionState as Shown, Priority};
use proofmill_proto::v1;

use super::failure;
use crate::index::{JobObject, Key};

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its object, as last seen.
    pub object: JobObject,
    /// Empty until the circuit is known.
    pub partitions: Vec<Partition>,
    /// When this operator first saw it unsuspended, on this process's clock, and how long it had been under way by then.
    pub started: Option<(Duration, Duration)>,
    /// Decided, maybe not written yet.
    pub outcome: Option<Outcome>,
    /// The operator's own check of the proofs runs.
    pub verifying: bool,
    /// Humans have been told how it ended.
    pub told: bool,
    /// A status write is under way.
    pub writing: bool,
    /// The ConfigMap with the proof is there.
    pub output_written: bool,
    /// No write before this: the last one failed.
    pub write_after: Duration,
    /// How often writes have failed in a row.
    pub write_failures: u32,
    /// How often in a row its output could not be written, or no engine had the verifying key.
    pub delivery_failures: u32,
    /// Since when the reason that a user should read is what it is.
    pub reason: Option<(&'static str, Duration)>,
}

/// One partition.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Where it is.
    pub phase: Phase,
    /// Number of the last try; each has an identity of its own.
    pub attempt: u32,
    /// Tries that ended in a fault.
    pub failures: u32,
    /// The last fault's words.
    pub last_failure: Option<(v1::FailureKind, String)>,
    /// UID of a pod that failed it: others go first.
    pub avoid: Option<String>,
    /// Why it could not be sent, while that lasts.
    pub refusal: Option<Refused>,
}

/// Why a partition could not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// For humans.
    pub message: String,
    /// Its input is not there.
    pub no_input: bool,
    /// How often in a row.
    pub times: u32,
}

/// Where a partition is.
#[derive(Clone, Debug)]
pub enum Phase {
    /// To be sent, not before a time.
    Waiting(Duration),
    /// A pod has it.
    Sent {
        /// The pod's UID.
        pod: String,
        /// The pod's name.
        pod_name: String,
        /// As far as the engine has told.
        state: v1::PartitionState,
    },
    /// Proved; the proof is in hand.
    Proved {
        /// The pod's UID.
        pod: String,
        /// The pod's name.
        pod_name: String,
        /// What the engine sent.
        proof: Box<v1::PartitionProof>,
    },
    /// It will not be proved.
    Failed,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All partitions are proved and verified here.
    Proved,
    /// It failed.
    Failed {
        /// One word.
        reason: &'static str,
        /// For humans.
        message: String,
    },
}

/// A partition's place in the order of its pool: the smallest goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The highest first.
    pub priority: Reverse<Priority>,
    /// The job's creation, seconds since 1970.
    pub created: i64,
    /// The job.
    pub job: Key,
    /// The partition.
    pub partition: u32,
}

impl Job {
    /// Nothing is known but the object.
    pub fn new(object: JobObject) -> Self {
        Self {
            object,
            partitions: Vec::new(),
            started: None,
            outcome: None,
            verifying: false,
            told: false,
            writing: false,
            output_written: false,
            write_after: Duration::ZERO,
            write_failures: 0,
            delivery_failures: 0,
            reason: None,
        }
    }

    /// Whether its outcome is written.
    pub fn is_over(&self) -> bool {
        let conditions = self.object.status.conditions.iter();
        conditions.clone().any(|c| c.type_ == types::SUCCEEDED && c.status != ConditionStatus::Unknown)
    }

    /// Makes the partitions, once the circuit says how many there are.
    pub fn set_circuit(&mut self, circuit: &CircuitSpec) {
        if self.partitions.is_empty() {
            let count = circuit.simulated.as_ref().map_or(1, |simulated| simulated.partitions.unsigned_abs());
            self.partitions = (0..count.max(1)).map(|_| Partition::new()).collect();
            self.restore(circuit.simulated.is_some());
        }
    }

    /// Takes over what the status says that is done: an operator before this one may have written it. A proof whose public
    /// signals are not stored beside it (`whole` is false) cannot be checked again: it is asked for again, or made again.
    fn restore(&mut self, whole: bool) {
        for stored in &self.object.status.partitions {
            let index = usize::try_from(stored.index).unwrap_or(usize::MAX);
            let Some(partition) = self.partitions.get_mut(index) else { continue };
            partition.attempt = u32::try_from(stored.attempts - 1).unwrap_or(0);
            let text = stored.proof.as_deref().filter(|_| whole);
            let Some(proof) = text.and_then(|text| BASE64.decode(text).ok()) else { continue };
            let proof = Box::new(v1::PartitionProof { proof, ..v1::PartitionProof::default() });
            let pod_name = stored.pod.clone().unwrap_or_default();
            partition.phase = Phase::Proved { pod: String::new(), pod_name, proof };
        }
    }

    /// Whether a partition has been sent to a pod, by this operator or one before it.
    pub fn was_scheduled(&self) -> bool {
        self.object.status.conditions.iter().any(|c| c.type_ == types::SCHEDULED)
            || self.partitions.iter().any(|partition| !matches!(partition.phase, Phase::Waiting(_)))
    }

    /// A partition's place in the order.
    pub fn rank(&self, partition: u32) -> Rank {
        Rank {
            priority: Reverse(self.object.spec.priority),
            created: self.object.meta.created,
            job: self.object.meta.key.clone(),
            partition,
        }
    }

    /// A partition's identity towards engines.
    pub fn id(&self, partition: u32) -> v1::PartitionId {
        let attempt = self.partitions.get(partition as usize).map_or(0, |p| p.attempt);
        v1::PartitionId { job: self.object.meta.uid.clone(), partition, attempt }
    }

    /// Whether every partition's proof is in hand.
    pub fn is_proved(&self) -> bool {
        !self.partitions.is_empty() && self.partitions.iter().all(|p| matches!(p.phase, Phase::Proved { .. }))
    }

    /// Partitions with a proof.
    pub fn proved(&self) -> usize {
        self.partitions.iter().filter(|p| matches!(p.phase, Phase::Proved { .. })).count()
    }

    /// The partitions that a pod has.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &str, v1::PartitionState)> {
        (0..).zip(&self.partitions).filter_map(|(index, partition)| match &partition.phase {
            Phase::Sent { pod, state, .. } => Some((index, pod.as_str(), *state)),
            _ => None,
        })
    }
}

impl Partition {
    fn new() -> Self {
        Self {
            phase: Phase::Waiting(Duration::ZERO),
            attempt: 0,
            failures: 0,
            last_failure: None,
            avoid: None,
            refusal: None,
        }
    }

    /// As the API shows it.
    pub fn shown(&self) -> Shown {
        match self.phase {
            Phase::Waiting(_) => Shown::Pending,
            Phase::Sent { .. } => Shown::Running,
            Phase::Proved { .. } => Shown::Succeeded,
            Phase::Failed => Shown::Failed,
        }
    }

    /// It was not taken: the same try goes on later, ever later.
    pub fn refused(&mut self, message: String, no_input: bool, now: Duration) {
        let times = self.refusal.as_ref().map_or(0, |refusal| refusal.times) + 1;
        self.refusal = Some(Refused { message, no_input, times });
        self.phase = Phase::Waiting(now + failure::pause(times));
    }

    /// Lost by its pod, or handed back: the next try is another one.
    pub fn send_again(&mut self, not_before: Duration) {
        self.phase = Phase::Waiting(not_before);
        self.attempt += 1;
    }
}
