//! `ProofJob`: one request for a proof.

// The columns of a table rightly repeat their types.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conditions::{Condition, date_time},
    rules,
    source::Input,
};

/// What to prove and how urgently. Immutable, but for `suspend`, `priority` and `ttlSecondsAfterFinished`.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "proofmill.dev",
    version = "v1alpha1",
    kind = "ProofJob",
    namespaced,
    status = "ProofJobStatus",
    derive = "PartialEq",
    shortname = "pj",
    category = "proofmill",
    doc = "One request for a proof.",
    validation = Rule::new(rules::SUCCEEDED_MONOTONIC).message(rules::SUCCEEDED_MONOTONIC_MESSAGE),
    printcolumn(name = "Circuit", type_ = "string", json_path = ".spec.circuitRef.name"),
    printcolumn(name = "Priority", type_ = "string", json_path = ".spec.priority"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(
        name = "Succeeded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Succeeded\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Succeeded\")].reason"
    ),
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::job_immutable()).message(rules::JOB_IMMUTABLE_MESSAGE))]
pub struct ProofJobSpec {
    /// The Circuit, in the same namespace.
    pub circuit_ref: CircuitRef,
    /// The input.
    pub input: Input,
    /// The ProverPool, in the same namespace.
    #[serde(default)]
    pub pool_ref: PoolRef,
    /// A higher priority goes first at every queue, always: there is no ageing.
    #[serde(default)]
    pub priority: Priority,
    /// The job fails when it has not ended this long after it was first seen unsuspended, waiting included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub active_deadline_seconds: Option<i64>,
    /// Retries per partition that faults may cause; the loss or drain of a pod does not count.
    #[serde(default = "backoff_limit")]
    #[schemars(range(min = 0, max = 100))]
    pub backoff_limit: i32,
    /// Do not start, or stop what has started.
    #[serde(default)]
    pub suspend: bool,
    /// The object is deleted this long after it has ended. Without it the operator's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Where the proof is written beside `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

/// A Circuit by name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitRef {
    /// Its name.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub name: String,
}

/// A ProverPool by name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Its name.
    #[serde(default = "default_pool")]
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub name: String,
}

/// Strict priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
pub enum Priority {
    /// When nothing else waits.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before Normal.
    High,
    /// Overtakes everything within two steps, even on a busy device.
    Critical,
}

/// Where the proof goes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// A ConfigMap that gets `proof.json`, `public.json` and `proof.bin`. It is created, never adopted: an existing one
    /// that the job does not own gives `OutputConflict`.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub config_map_name: String,
}

/// How far the job is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProofJobStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Succeeded`, `Scheduled`, `Verified`, `DeadlineAtRisk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Proved partitions of all, `3/10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub progress: Option<String>,
    /// The partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub partitions: Vec<Partition>,
    /// The proof, base64: 256 bytes per partition on BN254 (uncompressed, big-endian, the order of EIP-197), 192 on
    /// BLS12-381 (compressed), partitions one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43_692), regex(pattern = rules::BASE64))]
    pub proof: Option<String>,
    /// The public signals in decimal, unless there are more than 1,024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1_024), inner(length(max = 78), regex(pattern = rules::DECIMAL)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub public_signals: Vec<String>,
    /// SHA-256 of the public signals when they are too many to be listed: of their 32-byte little-endian forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub public_signals_digest: Option<String>,
    /// SHA-256 of the input as first fetched; holds for all partitions and attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub input_digest: Option<String>,
    /// Whether anyone could have forged this proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_key: Option<bool>,
    /// Milliseconds per phase, summed over the partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// When the job was first seen unsuspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub start_time: Option<Time>,
    /// When the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub completion_time: Option<Time>,
}

/// One partition.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// From 0.
    #[schemars(range(min = 0, max = 127))]
    pub index: i32,
    /// How far it is.
    pub state: PartitionState,
    /// The pod that works on it or has proved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::NAME_MAX))]
    pub pod: Option<String>,
    /// Tries so far.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempts: i32,
    /// The proof, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 344), regex(pattern = rules::BASE64))]
    pub proof: Option<String>,
}

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum PartitionState {
    /// Not sent to a pod.
    Pending,
    /// A pod has it.
    Running,
    /// Its proof is here and verified.
    Succeeded,
    /// It will not be proved.
    Failed,
}

/// Milliseconds per phase.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timings {
    /// Fetching the input.
    #[serde(default)]
    pub fetch: i64,
    /// Waiting in the queue for its turn.
    #[serde(default)]
    pub queue: i64,
    /// Waiting for the key.
    #[serde(default)]
    pub key_load: i64,
    /// Waiting for memory.
    #[serde(default)]
    pub budget_wait: i64,
    /// From input to assignment.
    #[serde(default)]
    pub synthesis: i64,
    /// Waiting for a device worker.
    #[serde(default)]
    pub device_queue: i64,
    /// Waiting for the device lease.
    #[serde(default)]
    pub lease_wait: i64,
    /// Host work before the device's steps.
    #[serde(default)]
    pub host_prep: i64,
    /// Copies between host and device.
    #[serde(default)]
    pub transfer: i64,
    /// NTT steps.
    #[serde(default)]
    pub ntt: i64,
    /// G1 MSM steps.
    #[serde(default)]
    pub msm_g1: i64,
    /// G2 MSM steps.
    #[serde(default)]
    pub msm_g2: i64,
    /// `prove_finish`.
    #[serde(default)]
    pub finish: i64,
    /// Verification.
    #[serde(default)]
    pub verify: i64,
    /// From submission to result.
    #[serde(default)]
    pub total: i64,
}

fn backoff_limit() -> i32 {
    3
}

fn default_pool() -> String {
    "default".to_owned()
}

impl Default for PoolRef {
    fn default() -> Self {
        Self { name: default_pool() }
    }
}

impl ProofJobSpec {
    /// A job of `circuit` on `input`, all else as the schema's defaults have it.
    pub fn new(circuit: impl Into<String>, input: Input) -> Self {
        Self {
            circuit_ref: CircuitRef { name: circuit.into() },
            input,
            pool_ref: PoolRef::default(),
            priority: Priority::default(),
            active_deadline_seconds: None,
            backoff_limit: backoff_limit(),
            suspend: false,
            ttl_seconds_after_finished: None,
            output: None,
        }
    }
}
