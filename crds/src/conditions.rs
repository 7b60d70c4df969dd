//! Condition types and reasons: the words that users see in `kubectl get`, and in the results of `prover run`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules;

/// One condition: the fields of Kubernetes's own, with bounds.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// One of [`types`].
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::CAMEL_CASE))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// The generation of the spec that this condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` changed last.
    #[schemars(schema_with = "date_time")]
    pub last_transition_time: Time,
    /// One of [`reasons`].
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::CAMEL_CASE))]
    pub reason: String,
    /// For humans; holds nothing of an input.
    #[schemars(length(max = 4096))]
    pub message: String,
}

/// A condition's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known, or not yet.
    Unknown,
}

/// Types of conditions.
pub mod types {
    /// ProofJob: the outcome; Unknown while the job is active, never changes once True or False.
    pub const SUCCEEDED: &str = "Succeeded";
    /// ProofJob: partitions have been sent to pods.
    pub const SCHEDULED: &str = "Scheduled";
    /// ProofJob: the assembled proof passed the operator's own check.
    pub const VERIFIED: &str = "Verified";
    /// ProofJob: the backlog ahead is longer than the time left.
    pub const DEADLINE_AT_RISK: &str = "DeadlineAtRisk";
    /// Circuit: its files have been read and are fit for proving.
    pub const READY: &str = "Ready";
}

/// Reasons of conditions.
pub mod reasons {
    // Why a job waits.
    /// Its Circuit does not exist or is not ready.
    pub const WAITING_FOR_CIRCUIT: &str = "WaitingForCircuit";
    /// Its ProverPool does not exist.
    pub const WAITING_FOR_POOL: &str = "WaitingForPool";
    /// No pod of the pool has room.
    pub const WAITING_FOR_CAPACITY: &str = "WaitingForCapacity";
    /// A pod loads the proving key.
    pub const LOADING_KEY: &str = "LoadingKey";
    /// A pod fetches the input.
    pub const FETCHING_INPUT: &str = "FetchingInput";
    /// A pod waits for memory; as a failure: it can never fit.
    pub const MEMORY_BUDGET: &str = "MemoryBudget";
    /// A device works on it.
    pub const PROVING: &str = "Proving";
    /// `spec.suspend` is set.
    pub const SUSPENDED: &str = "Suspended";

    // How a job ended.
    /// All partitions are proved and verified.
    pub const PROVED: &str = "Proved";
    /// The input is malformed or does not belong to the circuit.
    pub const BAD_INPUT: &str = "BadInput";
    /// The key or another file of the circuit is malformed or unfit.
    pub const BAD_KEY: &str = "BadKey";
    /// Anyone can forge proofs of this key, and `allowInsecureKeys` is not set.
    pub const INSECURE_KEY: &str = "InsecureKey";
    /// An input or key could not be fetched.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// The witness does not satisfy the circuit.
    pub const UNSATISFIED_WITNESS: &str = "UnsatisfiedWitness";
    /// Devices failed too often.
    pub const DEVICE_FAULT: &str = "DeviceFault";
    /// Proofs did not verify although the witness should satisfy the circuit.
    pub const VERIFICATION_FAILED: &str = "VerificationFailed";
    /// `activeDeadlineSeconds` passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The job was cancelled.
    pub const CANCELLED: &str = "Cancelled";
    /// The engine is shutting down.
    pub const DRAINING: &str = "Draining";
    /// The ConfigMap of `output` exists and is not the job's.
    pub const OUTPUT_CONFLICT: &str = "OutputConflict";
    /// A fault of Proofmill itself.
    pub const INTERNAL: &str = "Internal";

    // How a circuit is.
    /// Its files are being read.
    pub const INSPECTING: &str = "Inspecting";
    /// Its files have been read.
    pub const INSPECTED: &str = "Inspected";
    /// Pools found different files behind its URLs.
    pub const DIGEST_MISMATCH: &str = "DigestMismatch";
    /// Its key does not fit into the key cache.
    pub const KEY_CACHE_FULL: &str = "KeyCacheFull";
}

/// The schema of a point in time.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}
