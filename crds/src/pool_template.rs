//! What the pods of a `ProverPool` are like: a small typed set, and an overlay for everything else of a pod.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    quantity::{Quantity, quantities, size},
    rules,
    source::KeyRef,
};

/// The pods of a pool. A change replaces them one by one, each drained first.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::GPU_DEVICE).message(rules::GPU_DEVICE_MESSAGE))]
pub struct PoolTemplate {
    /// The prover's image. Without it, the one of the operator's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024), regex(pattern = rules::NO_SPACE))]
    pub image: Option<String>,
    /// When the image is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with the registry's credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<SecretRef>,
    /// The engine within each pod.
    #[serde(default)]
    pub engine: Engine,
    /// What each pod asks of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    #[x_kube(validation = Rule::new(rules::MAP_KEYS).message(rules::MAP_KEYS_MESSAGE))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
    /// The volume beneath which `file:` URLs are opened, mounted at `/data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<DataVolume>,
    /// Where keys are kept once they have been checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_cache: Option<KeyCache>,
    /// Environment of the prover, such as credentials for an object store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// A ServiceAccount for cloud identity. It needs no rights: its token is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub service_account_name: Option<String>,
    /// How long a pod that is to go may finish what it works on: at least as long as one partition takes.
    #[serde(default = "grace_period")]
    #[schemars(range(min = 30, max = 86_400))]
    pub termination_grace_period_seconds: i64,
    /// Laid over the pods that the fields above make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum ImagePullPolicy {
    /// At each start of a pod.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// A Secret by name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub name: String,
}

/// Settings of the engine: the flags of `prover serve`. What is left out is as the prover's own defaults have it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::SIMULATED_DEVICES).message(rules::SIMULATED_DEVICES_MESSAGE))]
pub struct Engine {
    /// Where proofs are computed.
    #[serde(default)]
    pub device: Device,
    /// Threads of the CPU device; by default all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_024))]
    pub threads: Option<i32>,
    /// Number of simulated devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub simulated_devices: Option<i32>,
    /// Threads that turn inputs into assignments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub synthesis_workers: Option<i32>,
    /// Memory for everything; by default what the container's limit allows, less a reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub memory: Option<Quantity>,
    /// Memory of that kept for one Critical job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub reserve_critical: Option<Quantity>,
    /// The largest input that is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub input_limit: Option<Quantity>,
    /// The largest key that is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub key_limit: Option<Quantity>,
    /// How long the trace reaches back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub trace_window_seconds: Option<i32>,
    /// URL prefixes that jobs and circuits may name, such as `https://keys.example.com/` or `s3://bucket/keys/`. Without
    /// any, they can only name files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = rules::URL_MAX), regex(pattern = rules::URL_PREFIX)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allow_urls: Vec<String>,
    /// Prove also with keys whose proofs anyone can forge, for Circuits that allow it too.
    #[serde(default)]
    pub allow_insecure_keys: bool,
}

/// Where the heavy mathematics runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum Device {
    /// The CPU's cores.
    #[default]
    Cpu,
    /// The GPUs that `resources` ask for.
    Cuda,
    /// Scripted durations instead of mathematics, for Circuits of the kind `simulated` only.
    Simulated,
}

/// What a pod asks of its node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the node must have free, by the resource's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    #[x_kube(validation = Rule::new(rules::MAP_KEYS).message(rules::MAP_KEYS_MESSAGE))]
    pub requests: BTreeMap<String, Quantity>,
    /// What the pod may use at most, by the resource's name; GPUs belong here, such as `nvidia.com/gpu: 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    #[x_kube(validation = Rule::new(rules::MAP_KEYS).message(rules::MAP_KEYS_MESSAGE))]
    pub limits: BTreeMap<String, Quantity>,
    /// A ResourceClaimTemplate in the namespace, for devices of dynamic resource allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub resource_claim_template_name: Option<String>,
}

/// A taint that is tolerated, as in a pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key; without it, all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::LABEL_KEY_MAX))]
    pub key: Option<String>,
    /// How key and value are compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The taint's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = rules::LABEL_VALUE_MAX))]
    pub value: Option<String>,
    /// The taint's effect; without it, all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a pod stays on a node that gets a NoExecute taint; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration is compared with a taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Key and value are the same.
    #[default]
    Equal,
    /// The key is there.
    Exists,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// No new pods if there is another node.
    PreferNoSchedule,
    /// Pods go.
    NoExecute,
}

/// Where `file:` URLs lead: exactly one of `persistentVolumeClaim` and `emptyDir`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::DATA_VOLUME_ONE_OF).message(rules::DATA_VOLUME_ONE_OF_MESSAGE))]
pub struct DataVolume {
    /// A claim in the namespace, mounted read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimRef>,
    /// A folder that lives as long as the pod, to be filled by an init container of the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
}

/// A PersistentVolumeClaim by name.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRef {
    /// Its name.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub claim_name: String,
}

/// A folder that lives as long as its pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDir {
    /// What it may hold at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub size_limit: Option<Quantity>,
}

/// Where imported keys are kept: in a folder that lives as long as the pod, unless there is a claim.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyCache {
    /// What the keys may take; the least recently used go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size")]
    pub size_limit: Option<Quantity>,
    /// A claim that the pods share, so that a new pod finds the keys there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimRef>,
}

/// A variable of the environment: exactly one of `value` and `valueFrom`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::ENV_ONE_OF).message(rules::ENV_ONE_OF_MESSAGE))]
pub struct EnvVar {
    /// Its name.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::ENV_NAME))]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_096))]
    pub value: Option<String>,
    /// Where its value is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvSource>,
}

/// Where a variable's value is: exactly one of `configMapKeyRef` and `secretKeyRef`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::ENV_SOURCE_ONE_OF).message(rules::ENV_SOURCE_ONE_OF_MESSAGE))]
pub struct EnvSource {
    /// A key of a ConfigMap in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// A merge patch for the pods, in which lists of named objects merge by name. The operator checks it with a dry run of the
/// server, and imposes security context, token setting, probes and TLS mounts after it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodMetadata>,
    /// Any part of a pod's spec.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "overlay")]
    pub spec: Map<String, Value>,
}

/// What the overlay may add to a pod's metadata.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    /// Labels; those of the operator stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    #[x_kube(validation = Rule::new(rules::MAP_KEYS).message(rules::MAP_KEYS_MESSAGE))]
    pub labels: BTreeMap<String, String>,
    /// Annotations; those of the operator stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations")]
    #[x_kube(validation = Rule::new(rules::MAP_KEYS).message(rules::MAP_KEYS_MESSAGE))]
    pub annotations: BTreeMap<String, String>,
}

fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": rules::LABEL_VALUE_MAX,
            "pattern": rules::LABEL_VALUE,
        },
        "maxProperties": rules::LABELS_MAX,
    })
}

fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 4_096},
        "maxProperties": rules::LABELS_MAX,
    })
}

/// A mapping of anything: the 300 KB of a pod's schema stay out of ours.
fn overlay(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn grace_period() -> i64 {
    600
}

impl Default for PoolTemplate {
    fn default() -> Self {
        Self {
            image: None,
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            engine: Engine::default(),
            resources: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            data_volume: None,
            key_cache: None,
            env: Vec::new(),
            service_account_name: None,
            termination_grace_period_seconds: grace_period(),
            pod_template: None,
        }
    }
}
