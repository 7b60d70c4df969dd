//! What is asked of the engine and what comes back: submissions, circuits, inputs, outcomes. Plain data.

use std::time::Duration;

use proofmill_groth16::curve::Curve;
use serde::{Deserialize, Serialize};

/// One try at one partition of one proof job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionId {
    /// The job's identity: its UID in a cluster, a generated one under `run`.
    pub job: String,
    /// Index of the partition within the job, from 0.
    pub partition: u32,
    /// The operator's count of tries, from 0.
    pub attempt: u32,
}

impl std::fmt::Display for PartitionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.job, self.partition, self.attempt)
    }
}

/// Strict priority: a higher one goes first at every queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Priority {
    /// Overtakes everything within two steps, even on a busy device.
    Critical,
    /// Before Normal.
    High,
    /// The default.
    #[default]
    Normal,
    /// When nothing else waits.
    Low,
}

/// A request to prove one partition.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Identity; the same identity with the same digest attaches to work that runs or has succeeded.
    pub id: PartitionId,
    /// The Lease transitions of the operator's leader; a lower one than the engine has seen is refused. 0 under `run`.
    pub epoch: u64,
    /// SHA-256 over circuit and input as the client states them.
    pub digest: [u8; 32],
    /// Urgency.
    pub priority: Priority,
    /// The job's place among those of its priority; lower goes first.
    pub sequence: u64,
    /// Time left until the result is worthless, from now.
    pub deadline: Option<Duration>,
    /// What to prove.
    pub circuit: Circuit,
    /// The partition's input.
    pub input: Input,
}

/// A circuit as a submission names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// The `Circuit` object's name: a label in metrics, a word in messages.
    pub name: String,
    /// Where its parts are.
    pub kind: CircuitKind,
}

/// The kinds of circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitKind {
    /// A snarkjs key with its optional companions.
    Groth16 {
        /// The proving key: a zkey or an imported key.
        zkey: Source,
        /// circom's WebAssembly witness generator.
        witness_generator: Option<Source>,
        /// The constraints, to name those that a witness does not satisfy.
        r1cs: Option<Source>,
        /// circom's symbol file, to name signals in messages.
        symbols: Option<Source>,
        /// The verifying key that the zkey must contain, as snarkjs's JSON.
        verifying_key: Option<Source>,
    },
    /// Scripted durations on a simulated device.
    Simulated(proofmill_groth16::device::simulated::SimulatedCircuit),
}

/// Where bytes come from.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// `file:`, `http(s):`, `s3:`, `gs:` or `az:`. Relative `file:` URLs are resolved by whoever made the submission.
    pub url: String,
    /// The SHA-256 that the bytes must have.
    pub sha256: Option<[u8; 32]>,
}

/// A partition's input. Never printed, logged or traced: it is private.
#[derive(Clone)]
pub enum Input {
    /// The bytes themselves: a `.wtns` file or circom's input JSON, told apart by content.
    Inline(std::sync::Arc<[u8]>),
    /// Fetched by the engine.
    Fetch(Source),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Fetch(source) => write!(f, "Fetch({source:?})"),
        }
    }
}

impl std::fmt::Debug for Source {
    /// Without user name, password, query and fragment: signed URLs keep their secret there.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.url.find(['?', '#']).unwrap_or(self.url.len());
        let (scheme, rest) = self.url[..end].split_once("://").unwrap_or(("", &self.url[..end]));
        let slash = rest.find('/').unwrap_or(rest.len());
        let place = rest[..slash].rfind('@').map_or(rest, |at| &rest[at + 1..]);
        let more = if end < self.url.len() { "?…" } else { "" };
        let separator = if scheme.is_empty() { "" } else { "://" };
        write!(f, "{scheme}{separator}{place}{more}")
    }
}

/// Where a partition is on its way. The names are the reasons that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PartitionState {
    /// Accepted, waiting for its turn.
    Queued,
    /// The input is being fetched.
    FetchingInput,
    /// The proving key is being fetched, imported or mapped.
    LoadingKey,
    /// Waiting for memory.
    MemoryBudget,
    /// From input to assignment.
    Synthesis,
    /// Synthesised, waiting for the device.
    DeviceQueue,
    /// `prove_start` is under way.
    Proving,
    /// `prove_finish` and verification.
    Finishing,
    /// Ended with a verified proof.
    Succeeded,
    /// Ended without a proof.
    Failed,
    /// Ended at the client's wish.
    Cancelled,
}

impl PartitionState {
    /// Whether nothing will happen any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A verified proof with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProof {
    /// The proof; `proof.to_bytes()` are the canonical bytes of the API.
    pub proof: proofmill_groth16::proof::Proof,
    /// The public signals, plain little-endian limbs below the scalar field's modulus.
    pub public_signals: Vec<[u64; 4]>,
    /// The curve; `None` for simulated circuits.
    pub curve: Option<Curve>,
    /// SHA-256 of the input as fetched.
    pub input_digest: [u8; 32],
    /// SHA-256 of the zkey as fetched.
    pub key_digest: [u8; 32],
    /// SHA-256 of the verifying key.
    pub verifying_key_digest: [u8; 32],
    /// Whether anyone could have forged this proof.
    pub insecure_key: bool,
    /// The device that made it.
    pub device: String,
    /// Where its time went.
    pub timings: Timings,
}

/// Wall time per phase of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Fetching the input.
    pub fetch: Duration,
    /// Waiting in the queue for its turn.
    pub queue: Duration,
    /// Waiting for the key.
    pub key_load: Duration,
    /// Waiting for memory.
    pub budget_wait: Duration,
    /// From input to assignment.
    pub synthesis: Duration,
    /// Waiting for a device worker.
    pub device_queue: Duration,
    /// A worker's wait for the lease.
    pub lease_wait: Duration,
    /// Host work before the steps.
    pub host_prep: Duration,
    /// Copies between host and device.
    pub transfer: Duration,
    /// NTT steps.
    pub ntt: Duration,
    /// G1 MSM steps.
    pub msm_g1: Duration,
    /// G2 MSM steps.
    pub msm_g2: Duration,
    /// `prove_finish`.
    pub finish: Duration,
    /// Verification of the proof.
    pub verify: Duration,
    /// From submission to result.
    pub total: Duration,
}

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of cause, which decides about retries and exit codes.
    pub kind: FailureKind,
    /// For humans: what is wrong and what to do. Holds no value of an input or a witness.
    pub message: String,
}

/// Kinds of failure, each a one-word reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureKind {
    /// The input is malformed or does not belong to the circuit.
    BadInput,
    /// The key, witness generator or another part of the circuit is malformed or unfit.
    BadKey,
    /// The key's proofs can be forged by anyone and the engine does not allow that.
    InsecureKey,
    /// An input or key could not be fetched.
    Unavailable,
    /// The witness does not satisfy the circuit.
    UnsatisfiedWitness,
    /// Devices failed too often.
    DeviceFault,
    /// Proofs did not verify although the witness should satisfy the circuit.
    VerificationFailed,
    /// It can never fit into the memory budget.
    MemoryBudget,
    /// The deadline passed.
    DeadlineExceeded,
    /// The client cancelled.
    Cancelled,
    /// The engine is shutting down.
    Draining,
    /// A fault of the engine itself.
    Internal,
}

/// How a partition ended.
pub type Outcome = Result<std::sync::Arc<PartitionProof>, Failure>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn debug_shows_no_secret_of_a_url_and_no_input() {
        for (url, shown) in [
            ("https://me:pw@host/a/b?X-Amz-Signature=abc#x", "https://host/a/b?…"),
            ("https://host?token=abc", "https://host?…"),
            ("https://host/a@b", "https://host/a@b"),
            ("file:input.json", "file:input.json"),
            ("s3://bucket/key", "s3://bucket/key"),
        ] {
            let source = Source { url: url.to_owned(), sha256: None };
            assert_eq!(format!("{source:?}"), shown);
            assert_eq!(format!("{:?}", Input::Fetch(source)), format!("Fetch({shown})"));
        }
        assert_eq!(format!("{:?}", Input::Inline(Arc::from(&b"secret"[..]))), "Inline(6 bytes)");
    }
}
