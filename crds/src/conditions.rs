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
    /// Circuit: its files have been read and are fit for proving. ProverPool: as many pods as desired take work.
    pub const READY: &str = "Ready";
    /// ProverPool: the API server would take the pods that the template makes.
    pub const TEMPLATE_VALID: &str = "TemplateValid";
    /// ProverPool: the pods that take work have loaded the circuits of `spec.circuits`.
    pub const CIRCUITS_LOADED: &str = "CircuitsLoaded";
    /// ProverPool: more or fewer pods are wanted than there will be.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
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

    /// Partitions have been sent to pods.
    pub const SENT: &str = "Sent";

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
    /// Its Circuit was deleted while it was under way.
    pub const CIRCUIT_DELETED: &str = "CircuitDeleted";
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

    // How a pool is.
    /// As many pods as desired take work.
    pub const PODS_READY: &str = "PodsReady";
    /// No pods are desired.
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    /// Pods start, load keys or prove for the first time.
    pub const WARMING_UP: &str = "WarmingUp";
    /// Pods are replaced, one by one, because the template has changed.
    pub const REPLACING: &str = "Replacing";
    /// Pods finish what they work on, and go.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// The API server refuses to create pods: quota, Pod Security, a policy. The message holds its words.
    pub const PODS_REFUSED: &str = "PodsRefused";
    /// Pods end as failed: refused by the node, evicted, out of a resource.
    pub const PODS_FAILED: &str = "PodsFailed";
    /// Pods wait for a node, which a cluster's autoscaler may bring.
    pub const WAITING_FOR_NODE: &str = "WaitingForNode";
    /// Pods have waited for a node for 15 minutes. The message holds the scheduler's words.
    pub const NO_CAPACITY: &str = "NoCapacity";
    /// An image cannot be pulled.
    pub const IMAGE_PULL: &str = "ImagePull";
    /// The prover ends soon after each start.
    pub const CRASH_LOOP: &str = "CrashLoop";
    /// The overlay asks for what a pool must not have, or makes no pod.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// A dry run of the API server took the pods.
    pub const TEMPLATE_ACCEPTED: &str = "TemplateAccepted";

    // How its circuits are.
    /// All pods that take work have loaded them.
    pub const KEYS_LOADED: &str = "KeysLoaded";

    // Why a pool has not as many pods as the work asks for.
    /// It has.
    pub const NOT_LIMITED: &str = "NotLimited";
    /// `autoscaling.maxReplicas`.
    pub const MAX_REPLICAS: &str = "MaxReplicas";
    /// `autoscaling.minReplicas`.
    pub const MIN_REPLICAS: &str = "MinReplicas";
    /// A stabilisation window has not passed.
    pub const STABILIZING: &str = "Stabilizing";
    /// Devices wait for synthesis: more of them would wait too.
    pub const SYNTHESIS_BOUND: &str = "SynthesisBound";
    /// Devices wait for memory: more of them would wait too.
    pub const MEMORY_BOUND: &str = "MemoryBound";
    /// Devices wait for inputs: more of them would wait too.
    pub const INPUT_BOUND: &str = "InputBound";
    /// Pods or their figures cannot be reached, so the number of pods stays as it is.
    pub const EVIDENCE_MISSING: &str = "EvidenceMissing";
}

/// The schema of a point in time.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}
