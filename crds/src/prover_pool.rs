//! `ProverPool`: a fleet of identical prover pods.

// The columns of a table rightly repeat their types.
#![allow(clippy::duplicated_attributes)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions::Condition, pool_template::PoolTemplate, rules};

/// A fleet of identical prover pods: exactly one of `replicas` and `autoscaling` says how many.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "proofmill.dev",
    version = "v1alpha1",
    kind = "ProverPool",
    namespaced,
    status = "ProverPoolStatus",
    derive = "PartialEq",
    shortname = "pp",
    category = "proofmill",
    doc = "A fleet of identical prover pods.",
    validation = Rule::new(rules::POOL_NAME).message(rules::POOL_NAME_MESSAGE),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Busy", type_ = "integer", json_path = ".status.busyReplicas"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "BusyPermille", type_ = "integer", json_path = ".status.busyPermille", priority = 1),
    printcolumn(name = "QueueMs", type_ = "integer", json_path = ".status.queueMilliseconds", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::POOL_ONE_OF).message(rules::POOL_ONE_OF_MESSAGE))]
pub struct ProverPoolSpec {
    /// What the pods are like.
    #[serde(default)]
    pub template: PoolTemplate,
    /// Circuits of the namespace whose keys every pod loads before it is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub circuits: Vec<String>,
    // No default: it would set `replicas` in pools that are autoscaled.
    /// How many pods. An HPA, KEDA or `kubectl scale` may own this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = rules::REPLICAS_MAX))]
    pub replicas: Option<i32>,
    /// The operator decides how many pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// When nodes' consolidation and voluntary eviction must spare a pod.
    #[serde(default)]
    pub disruption_protection: DisruptionProtection,
    /// A pod that was protected for so long without a pause is drained once, so that its node can be had.
    #[serde(default = "max_hold")]
    #[schemars(range(min = 60, max = 2_592_000))]
    pub max_hold_seconds: i32,
}

/// How the operator decides on the number of pods: from the device time that waiting work will take.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::AUTOSCALING_BOUNDS).message(rules::AUTOSCALING_BOUNDS_MESSAGE))]
pub struct Autoscaling {
    /// Fewest pods, 0 included.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = rules::REPLICAS_MAX))]
    pub min_replicas: i32,
    /// Most pods.
    #[schemars(range(min = 1, max = rules::REPLICAS_MAX))]
    pub max_replicas: i32,
    /// How long new work may have to wait before a device takes it; more is a reason for another pod.
    #[serde(default = "target_queue")]
    #[schemars(range(min = 1, max = 86_400))]
    pub target_queue_seconds: i32,
    /// How long more pods must have been wanted before there are more.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub scale_up_stabilization_seconds: i32,
    /// How long fewer pods must have been enough before there are fewer.
    #[serde(default = "scale_down_stabilization")]
    #[schemars(range(min = 0, max = 86_400))]
    pub scale_down_stabilization_seconds: i32,
}

/// When a pod is marked as not to be disrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum DisruptionProtection {
    /// While it works on a partition.
    #[default]
    WhileBusy,
    /// As long as it lives.
    Always,
}

/// How the pool is. Figures are written at most every 10 seconds, and only when they have changed by more than 5 %.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProverPoolStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `TemplateValid`, `ScalingLimited`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// How many pods there should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// Pods that are there, starting ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that take work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that are as the template is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Pods that work on a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_replicas: Option<i32>,
    /// Share of the ready pods' device time in the last minute that was busy, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_permille: Option<i32>,
    /// Partitions that wait for a device of this pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_partitions: Option<i32>,
    /// Device time that the waiting partitions will take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_milliseconds: Option<i64>,
    /// The pods' labels, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024))]
    pub selector: Option<String>,
    /// Tells which template the pods are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub template_hash: Option<String>,
}

fn one() -> i32 {
    1
}

fn target_queue() -> i32 {
    60
}

fn scale_down_stabilization() -> i32 {
    600
}

/// A day.
fn max_hold() -> i32 {
    86_400
}
