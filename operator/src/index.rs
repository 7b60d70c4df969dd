//! What the cluster holds, as far as the operator cares: plain data, folded from watches.
//!
//! Every replica keeps it hot, leader or not. An object that comes older than the one that is known (a watch that lags behind
//! the answer to our own write) changes nothing.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proofmill_crds::circuit::{Circuit, CircuitSpec, CircuitStatus};
use proofmill_crds::proof_job::{ProofJob, ProofJobSpec, ProofJobStatus};
use proofmill_crds::prover_pool::{ProverPool, ProverPoolSpec, ProverPoolStatus};

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What every object has.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Namespace and name.
    pub key: Key,
    /// Unique over time.
    pub uid: String,
    /// Of the spec.
    pub generation: i64,
    /// What writes are planned from.
    pub resource_version: String,
    /// When it was created, seconds since 1970.
    pub created: i64,
    /// Someone has deleted it, it is not gone yet.
    pub deleting: bool,
    /// Argo CD, Flux or the like would make it again.
    pub tracked: bool,
}

/// A kind that the index holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<Spec, Status> {
    /// What every object has.
    pub meta: Meta,
    /// What a user wants.
    pub spec: Spec,
    /// What is, as the API server has it.
    pub status: Status,
}

/// A [`Circuit`].
pub type CircuitObject = Object<CircuitSpec, CircuitStatus>;
/// A [`ProofJob`].
pub type JobObject = Object<ProofJobSpec, ProofJobStatus>;
/// A [`ProverPool`].
pub type PoolObject = Object<ProverPoolSpec, ProverPoolStatus>;

/// A prover pod, or what the operator needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodObject {
    /// What every object has.
    pub meta: Meta,
    /// The pool that it belongs to, in its namespace.
    pub pool: String,
    /// Its address, once it has one.
    pub address: Option<String>,
    /// Ready by its readiness probe.
    pub ready: bool,
    /// The whole object, without managed fields.
    pub pod: Box<Pod>,
}

/// A node, or what the operator needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeObject {
    /// What every object has.
    pub meta: Meta,
    /// Cordoned, or tainted by what removes nodes.
    pub leaving: bool,
    /// Since when it has been NotReady, seconds since 1970.
    pub lost_since: Option<i64>,
}

/// Taints of nodes that are about to be removed.
const LEAVING_TAINTS: [&str; 3] =
    ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/out-of-service"];

/// The label that names a prover pod's pool.
pub const POOL_LABEL: &str = "proofmill.dev/pool";

impl Key {
    /// Of an object's metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }

    /// Another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self { namespace: self.namespace.clone(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Meta {
    /// What the operator needs of an object's metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        let tracking = ["argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance"];
        let labels = ["kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name", "argocd.argoproj.io/instance"];
        let annotated = meta.annotations.iter().flatten().any(|(key, _)| tracking.contains(&key.as_str()));
        let labelled = meta.labels.iter().flatten().any(|(key, _)| labels.contains(&key.as_str()));
        Self {
            key: Key::of(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(0, |Time(time)| time.as_second()),
            deleting: meta.deletion_timestamp.is_some(),
            tracked: annotated || labelled,
        }
    }

    /// Whether `self` is not newer than `known`. Resource versions of one kind are numbers that only grow.
    fn is_stale(&self, known: &Self) -> bool {
        let number = |meta: &Self| meta.resource_version.parse::<u64>().unwrap_or(0);
        self.uid == known.uid && number(self) <= number(known)
    }
}

impl From<Circuit> for CircuitObject {
    fn from(circuit: Circuit) -> Self {
        Self { meta: Meta::of(&circuit.metadata), spec: circuit.spec, status: circuit.status.unwrap_or_default() }
    }
}

impl From<ProofJob> for JobObject {
    fn from(job: ProofJob) -> Self {
        Self { meta: Meta::of(&job.metadata), spec: job.spec, status: job.status.unwrap_or_default() }
    }
}

impl From<ProverPool> for PoolObject {
    fn from(pool: ProverPool) -> Self {
        Self { meta: Meta::of(&pool.metadata), spec: pool.spec, status: pool.status.unwrap_or_default() }
    }
}

impl From<Pod> for PodObject {
    fn from(mut pod: Pod) -> Self {
        pod.metadata.managed_fields = None;
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let ready = |condition: &k8s_openapi::api::core::v1::PodCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        };
        Self {
            meta: Meta::of(&pod.metadata),
            pool: labels.get(POOL_LABEL).cloned().unwrap_or_default(),
            address: status.pod_ip.filter(|address| !address.is_empty()),
            ready: status.conditions.iter().flatten().any(ready),
            pod: Box::new(pod),
        }
    }
}

impl From<Node> for NodeObject {
    fn from(node: Node) -> Self {
        let spec = node.spec.unwrap_or_default();
        let doomed = spec.taints.iter().flatten().any(|taint| LEAVING_TAINTS.contains(&taint.key.as_str()));
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let unready = conditions.into_iter().find(|c| c.type_ == "Ready" && c.status != "True");
        Self {
            meta: Meta::of(&node.metadata),
            leaving: spec.unschedulable.unwrap_or_default() || doomed,
            lost_since: unready.map(|c| c.last_transition_time.map_or(0, |Time(time)| time.as_second())),
        }
    }
}

/// Objects of one kind that have a [`Meta`].
pub trait HasMeta {
    /// It.
    fn meta(&self) -> &Meta;
}

impl<Spec, Status> HasMeta for Object<Spec, Status> {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl HasMeta for NodeObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl HasMeta for PodObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// Adds or replaces an object, unless what is known is as new; whether anything changed.
pub fn upsert<T: HasMeta>(objects: &mut BTreeMap<Key, T>, object: T) -> bool {
    let key = object.meta().key.clone();
    if objects.get(&key).is_some_and(|known| object.meta().is_stale(known.meta())) {
        return false;
    }
    objects.insert(key, object);
    true
}
