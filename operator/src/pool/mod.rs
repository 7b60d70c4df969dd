//! From a ProverPool and what is known of its pods to what should be done: pure, no clock, no cluster.
//!
//! Call [`plan()`] with a [`PoolInput`] whenever something of the pool has changed, and at the [`PoolPlan::wake`] of the last
//! plan; do its [`Action`]s, write its status, keep its memory. All that must survive a change of leader is on the pods
//! themselves ([`DRAIN`], [`DRAIN_SINCE`], [`PROTECTED_SINCE`]); what is lost with the [`Memory`] only makes the operator wait
//! for a stabilisation window once more.
//!
//! | input | from where |
//! |---|---|
//! | [`PodInput::pod`] | the index: every pod of the namespace with the pool's label, of whatever owner |
//! | [`PodInput::engine`] | the engine link; `assigned` is the scheduler's figure, so that it is known of unreachable pods too |
//! | [`PodInput::node`] | the nodes' watch; the default for a node that is not known |
//! | [`PoolInput::checked`], [`PoolInput::refusal`] | how the last [`Action::Check`] and [`Action::Create`] went, per pool |
//! | [`PoolInput::demand`] | the scheduler; none while it is not known, e.g. before a new leader has heard all pods |
//!
//! | action | how to do it |
//! |---|---|
//! | [`Action::Check`] | POST the pod with `dryRun=All&fieldValidation=Strict`; the answer is the next input's `checked` |
//! | [`Action::Create`] | POST the pod with `fieldValidation=Strict`; a 409 is as good as success, another refusal is the next input's `refusal` |
//! | [`Action::Annotate`] | merge patch of `metadata.annotations`, with the resourceVersion |
//! | [`Action::Drain`] | `Drain` over gRPC |
//! | [`Action::Delete`] | DELETE with the UID as precondition |
//!
//! Actions are levels, not edges: one that failed comes again with the next plan. A pod that [`is_draining`] must get no
//! new work. Pods have names with ordinals, `POOL-0` and so on: a plan from an index that lags behind asks for a pod that is
//! already there, which the API server refuses, instead of for one too many.
//!
//! - `pod`: what a pod is like; `resources`: what it asks of its node; `overlay`: merge by name; `harden`: what no overlay may ask for or take away.
//! - `standing`: how one pod is. `scale`: how many there should be. `plan`: what to do. `status`: what to say.

mod harden;
mod overlay;
mod plan;
pub mod pod;
mod resources;
mod scale;
mod standing;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proofmill_crds::prover_pool::ProverPoolStatus;
use serde_json::Value;

pub use plan::plan;
pub use scale::Memory;
pub use standing::{is_draining, memory_of};

pub use crate::index::{Key, PodObject, PoolObject};

/// The annotation that drains a pod, with the cause: one of [`DrainCause`], or whatever a user put there.
pub const DRAIN: &str = "proofmill.dev/drain";
/// The annotation that tells since when a pod drains.
pub const DRAIN_SINCE: &str = "proofmill.dev/drain-since";
/// The annotation that tells since when a pod has been protected from disruption without a pause.
pub const PROTECTED_SINCE: &str = "proofmill.dev/protected-since";

/// The operator's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The image of pools that name none.
    pub image: String,
    /// Overlays may ask for power over nodes.
    pub allow_privileged: bool,
}

/// All that a plan is made from.
#[derive(Clone, Debug)]
pub struct PoolInput<'a> {
    /// The pool.
    pub pool: &'a PoolObject,
    /// The circuits of `spec.circuits` that exist.
    pub known: BTreeSet<&'a str>,
    /// Of those, the ones whose sizes are known.
    pub circuits: Vec<CircuitSize>,
    /// Pods with its label.
    pub pods: Vec<PodInput<'a>>,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// How the API server liked a template in a dry run.
    pub checked: Option<&'a Checked>,
    /// That the API server refused to create a pod; none again after it has taken one.
    pub refusal: Option<&'a Refusal>,
    /// The work that there is; none if that is not known.
    pub demand: Option<Demand>,
    /// What the last plan remembered.
    pub memory: Memory,
    /// Now, seconds since 1970.
    pub now: i64,
}

/// What a circuit takes of an engine's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSize {
    /// Its key, resident.
    pub key: u64,
    /// One partition's working set; none of a key that no engine has loaded yet.
    pub partition: Option<u64>,
}

/// A pod and what else is known of it.
#[derive(Clone, Debug)]
pub struct PodInput<'a> {
    /// The pod.
    pub pod: &'a PodObject,
    /// Its engine.
    pub engine: EngineView,
    /// Its node.
    pub node: NodeView,
}

/// What is known of an engine. The default: nothing, it has not been reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineView {
    /// It answers.
    pub reachable: bool,
    /// Since when it has been tried without an answer, seconds since 1970.
    pub silent_since: Option<i64>,
    /// Why the last try failed.
    pub silence: String,
    /// It takes work, by its own word.
    pub ready: bool,
    /// Its intake is closed for good.
    pub draining: bool,
    /// Partitions that were sent to it and have not ended.
    pub assigned: u32,
    /// Since when it has had none, seconds since 1970.
    pub idle_since: Option<i64>,
    /// Circuits whose keys it has in memory.
    pub resident: BTreeSet<String>,
    /// How it went with those of `spec.circuits`; none yet of the others.
    pub key_loads: BTreeMap<String, KeyLoad>,
    /// Devices.
    pub devices: u32,
}

/// How an engine's first load of a circuit went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyLoad {
    /// Well.
    Done,
    /// It failed: a reason of conditions, and words.
    Failed(&'static str, String),
}

/// What is known of a node. The default: it is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Cordoned, or tainted by what removes nodes.
    pub leaving: bool,
    /// Since when it has been NotReady, or gone.
    pub lost_since: Option<i64>,
}

/// How a dry run of a template's pod went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The template.
    pub hash: String,
    /// The API server's words, if it would refuse the pod.
    pub refused: Option<String>,
}

/// Refused creations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The API server's words.
    pub message: String,
    /// When it refused last.
    pub at: i64,
    /// How often, one after the other.
    pub times: u32,
}

/// The work that there is for a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Partitions that wait for a device.
    pub waiting: u32,
    /// Device time that they will take, milliseconds.
    pub queue_milliseconds: u64,
    /// Share of the devices' time in the last minute that was busy, in thousandths.
    pub busy_permille: Option<u16>,
}

/// What should be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolPlan {
    /// In this order.
    pub actions: Vec<Action>,
    /// What the status should be, if it is not.
    pub status: Option<StatusWrite>,
    /// How many pods there should be; none for a pool that is going.
    pub desired: Option<i32>,
    /// Pods that ended as failed, by reason, of those that still exist.
    pub failures: BTreeMap<String, u32>,
    /// For the next plan.
    pub memory: Memory,
    /// When to plan again although nothing has happened, seconds since 1970.
    pub wake: Option<i64>,
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// All of it.
    pub status: ProverPoolStatus,
    /// More than figures has changed: write it now. Figures alone are written at most every ten seconds.
    pub urgent: bool,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the API server whether it would take the pods of a template.
    Check {
        /// The template.
        hash: String,
        /// One of its pods.
        pod: Value,
    },
    /// Create a pod.
    Create {
        /// The pod.
        pod: Value,
    },
    /// Set or remove annotations.
    Annotate {
        /// Of which pod.
        pod: Target,
        /// By key; none removes.
        annotations: BTreeMap<&'static str, Option<String>>,
    },
    /// Close the engine's intake.
    Drain {
        /// Of which pod.
        pod: Key,
        /// How long what it works on may take, seconds.
        grace: i64,
    },
    /// Delete a pod.
    Delete {
        /// Which.
        pod: Target,
        /// Why, for the event.
        cause: DeleteCause,
    },
}

/// A pod, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Namespace and name.
    pub key: Key,
    /// Unique over time.
    pub uid: String,
    /// Of this version.
    pub resource_version: String,
}

/// Why a pod is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCause {
    /// There are more pods than desired.
    ScaleDown,
    /// The template has changed.
    Replace,
    /// Its node is cordoned, going or gone.
    Node,
    /// It was protected for too long.
    Held,
    /// A user asked for it.
    User,
}

/// Why a pod is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteCause {
    /// It was drained, and is empty or out of time.
    Drained(DrainCause),
    /// It ended as failed some time ago, or too many have; the reason.
    Failed(String),
}

impl DrainCause {
    /// As in the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScaleDown => "ScaleDown",
            Self::Replace => "Replace",
            Self::Node => "Node",
            Self::Held => "Held",
            Self::User => "User",
        }
    }

    /// From the annotation; what is not ours is a user's.
    fn parse(text: &str) -> Self {
        [Self::ScaleDown, Self::Replace, Self::Node, Self::Held]
            .into_iter()
            .find(|cause| cause.as_str() == text)
            .unwrap_or(Self::User)
    }
}

impl fmt::Display for DeleteCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained(DrainCause::ScaleDown) => f.write_str("there are more pods than desired"),
            Self::Drained(DrainCause::Replace) => f.write_str("the template has changed"),
            Self::Drained(DrainCause::Node) => f.write_str("its node is going or gone"),
            Self::Drained(DrainCause::Held) => f.write_str("it had been protected for maxHoldSeconds"),
            Self::Drained(DrainCause::User) => f.write_str("the annotation proofmill.dev/drain was set"),
            Self::Failed(reason) => write!(f, "it had failed: {reason}"),
        }
    }
}
