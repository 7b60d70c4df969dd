//! Constructed cases: pods and engines in, actions and status out.

mod going;
mod model;
mod scaling;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use proofmill_crds::conditions::{Condition, ConditionStatus, types};
use proofmill_crds::prover_pool::ProverPool;
use serde_json::{Value, json};

use super::super::pod::TEMPLATE_HASH;
use super::super::{
    Checked, CircuitSize, Demand, EngineView, KeyLoad, Memory, NodeView, PodInput, PodObject, PoolObject, Settings,
};
use super::*;

const NOW: i64 = 1_800_000_000;
const GRACE: i64 = 600;

/// A pool and its pods, to be planned for again and again.
struct Case {
    pool: PoolObject,
    circuits: Vec<CircuitSize>,
    settings: Settings,
    pods: Vec<(PodObject, EngineView, NodeView)>,
    checked: Option<Checked>,
    refusal: Option<Refusal>,
    demand: Option<Demand>,
    memory: Memory,
    now: i64,
}

impl Case {
    fn new(spec: Value) -> Self {
        let pool = json!({
            "apiVersion": "proofmill.dev/v1alpha1",
            "kind": "ProverPool",
            "metadata": {"name": "default", "namespace": "proofs", "uid": "u-1", "generation": 3},
            "spec": spec,
        });
        let mut case = Self {
            pool: PoolObject::from(serde_json::from_value::<ProverPool>(pool).unwrap()),
            circuits: Vec::new(),
            settings: Settings { image: "prover:1".to_owned(), allow_privileged: false },
            pods: Vec::new(),
            checked: None,
            refusal: None,
            demand: None,
            memory: Memory::default(),
            now: NOW,
        };
        case.checked = Some(Checked { hash: case.hash(), refused: None });
        case
    }

    fn replicas(replicas: i32) -> Self {
        Self::new(json!({"replicas": replicas}))
    }

    fn hash(&self) -> String {
        Template::of(&self.pool, &self.circuits, &self.settings).unwrap().hash().to_owned()
    }

    /// The template changes, and the API server takes the new one.
    fn change_template(&mut self) {
        self.pool.spec.template.engine.threads = Some(7);
        self.checked = Some(Checked { hash: self.hash(), refused: None });
    }

    /// Adds a pod as the operator would make it, with what `changes` lay over it.
    fn pod(&mut self, ordinal: usize, changes: Value) -> &mut (PodObject, EngineView, NodeView) {
        let mut pod =
            Template::of(&self.pool, &self.circuits, &self.settings).unwrap().pod(&format!("default-{ordinal}"));
        let made = json!({
            "metadata": {"uid": format!("p-{ordinal}"), "resourceVersion": "5", "creationTimestamp": "2027-01-15T07:00:00Z"},
            "spec": {"nodeName": "node-1"},
        });
        super::super::overlay::merge(&mut pod, &made);
        super::super::overlay::merge(&mut pod, &changes);
        let pod = PodObject::from(serde_json::from_value::<Pod>(pod).unwrap());
        self.pods.push((pod, EngineView::default(), NodeView::default()));
        self.pods.last_mut().unwrap()
    }

    /// Adds a pod that takes work.
    fn working(&mut self, ordinal: usize) -> &mut (PodObject, EngineView, NodeView) {
        let status =
            json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
        let pod = self.pod(ordinal, json!({"status": status}));
        pod.1 = EngineView { reachable: true, ready: true, devices: 1, idle_since: Some(NOW - 3600), ..pod.1.clone() };
        pod
    }

    /// Adds a pod that works on partitions.
    fn busy(&mut self, ordinal: usize, assigned: u32) {
        let pod = self.working(ordinal);
        (pod.1.assigned, pod.1.idle_since) = (assigned, None);
    }

    fn annotate(&mut self, index: usize, annotations: &[(&str, &str)]) {
        let known = self.pods[index].0.pod.metadata.annotations.get_or_insert_default();
        known.extend(annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    }

    fn plan(&self) -> PoolPlan {
        let pods = self.pods.iter().map(|(pod, engine, node)| PodInput { pod, engine: engine.clone(), node: *node });
        plan(&PoolInput {
            pool: &self.pool,
            known: self.pool.spec.circuits.iter().map(String::as_str).filter(|name| *name != "unknown").collect(),
            circuits: self.circuits.clone(),
            pods: pods.collect(),
            settings: &self.settings,
            checked: self.checked.as_ref(),
            refusal: self.refusal.as_ref(),
            demand: self.demand,
            memory: self.memory,
            now: self.now,
        })
    }

    /// A condition as the plan would have it.
    fn condition(&self, type_: &str) -> Condition {
        let status = self.plan().status.map_or_else(|| self.pool.status.clone(), |write| write.status);
        status.conditions.iter().find(|known| known.type_ == type_).expect(type_).clone()
    }

    /// Plans, and does to the pods and the status what the plan says, as far as a cluster does it at once.
    fn step(&mut self) -> Vec<String> {
        let plan = self.plan();
        let said = words(&plan);
        for action in &plan.actions {
            match action {
                Action::Annotate { pod, annotations } => {
                    let (known, ..) = self.pods.iter_mut().find(|(known, ..)| known.meta.key == pod.key).unwrap();
                    let known = known.pod.metadata.annotations.get_or_insert_default();
                    for (key, value) in annotations {
                        match value {
                            Some(value) => known.insert((*key).to_owned(), value.clone()),
                            None => known.remove(*key),
                        };
                    }
                }
                Action::Drain { pod, .. } => {
                    let (_, engine, _) = self.pods.iter_mut().find(|(known, ..)| known.meta.key == *pod).unwrap();
                    engine.draining = true;
                }
                Action::Delete { pod, .. } => self.pods.retain(|(known, ..)| known.meta.key != pod.key),
                Action::Create { pod } => {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    self.working(name.rsplit('-').next().unwrap().parse().unwrap());
                }
                Action::Check { .. } => {}
            }
        }
        if let Some(write) = plan.status {
            self.pool.status = write.status;
        }
        self.memory = plan.memory;
        said
    }
}

/// The actions in words.
fn words(plan: &PoolPlan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Check { .. } => "check".to_owned(),
        Action::Create { pod } => format!("create {}", pod["metadata"]["name"].as_str().unwrap()),
        Action::Drain { pod, grace } => format!("drain {} {grace}", pod.name),
        Action::Delete { pod, cause } => format!("delete {}: {cause}", pod.key.name),
        Action::Annotate { pod, annotations } => {
            let set = annotations.iter().map(|(key, value)| {
                let key = key.rsplit('/').next().unwrap();
                if value.is_some() { format!("+{key}") } else { format!("-{key}") }
            });
            format!("annotate {} {}", pod.key.name, set.collect::<Vec<_>>().join(" "))
        }
    };
    plan.actions.iter().map(word).collect()
}

#[track_caller]
fn assert_ready(case: &Case, status: ConditionStatus, reason: &str, detail: &str) {
    let ready = case.condition(types::READY);
    assert_eq!((ready.status, ready.reason.as_str()), (status, reason), "{}", ready.message);
    assert!(ready.message.contains(detail), "{}", ready.message);
}

#[track_caller]
fn assert_limited(case: &Case, reason: &str) {
    let limited = case.condition(types::SCALING_LIMITED);
    assert_eq!((limited.status, limited.reason.as_str()), (ConditionStatus::True, reason), "{}", limited.message);
}

const EVICTED: &str = "Evicted";

fn failed_at(reason: &str, at: &str) -> Value {
    let ended = json!([{"name": "prover", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 137, "finishedAt": at}}}]);
    json!({"status": {"phase": "Failed", "reason": reason, "containerStatuses": ended}})
}

/// The end of a log, as the kubelet puts it into a pod's status.
const LOG: &str = "{\"level\":\"INFO\"}\nprover: no memory\n\n";

fn waiting(reason: &str, message: &str) -> Value {
    let status = json!([{"name": "prover", "image": "", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"exitCode": 5, "reason": "Error", "message": LOG}}}]);
    json!({"status": {"phase": "Pending", "containerStatuses": status}})
}

#[test]
fn missing_pods_are_created_once_the_template_is_checked() {
    let mut case = Case::replicas(2);
    case.checked = None;
    assert_eq!(words(&case.plan()), ["check"]);
    case.checked = Some(Checked { hash: "another".to_owned(), refused: None });
    assert_eq!(words(&case.plan()), ["check"]);
    case.checked = Some(Checked { hash: case.hash(), refused: None });
    assert_eq!(case.step(), ["create default-0", "create default-1"]);
    assert!(case.step().is_empty());
    let plan = case.plan();
    assert_eq!((plan.status, plan.wake, plan.desired), (None, None, Some(2)), "at rest nothing is written");
}

#[test]
fn names_are_the_lowest_free_ordinals() {
    let mut case = Case::replicas(3);
    case.working(1);
    // Of a pool of the same name that was deleted.
    case.pod(0, json!({})).0.pod.metadata.owner_references.as_mut().unwrap()[0].uid = "u-0".to_owned();
    assert_eq!(words(&case.plan()), ["create default-2", "create default-3"]);
}

#[test]
fn a_pool_that_is_going_is_left_to_the_garbage_collector() {
    let mut case = Case::replicas(2);
    case.pool.meta.deleting = true;
    assert_eq!(case.plan(), PoolPlan::default());
}

#[test]
fn a_large_pool_is_filled_in_bursts() {
    let mut case = Case::replicas(100);
    assert_eq!((case.plan().actions.len(), case.plan().wake), (BURST, Some(NOW + 1)));
    case.step();
    assert_eq!(case.plan().actions.len(), 100 - BURST);
}

#[test]
fn an_invalid_template_changes_no_pod() {
    let mut case = Case::replicas(2);
    case.working(0);
    case.pool.spec.template.pod_template = serde_json::from_value(json!({"spec": {"hostNetwork": true}})).unwrap();
    let plan = case.plan();
    assert!(words(&plan).is_empty());
    let valid = case.condition(types::TEMPLATE_VALID);
    assert_eq!((valid.status, valid.reason.as_str()), (ConditionStatus::False, reasons::TEMPLATE_INVALID));
    assert!(valid.message.starts_with("spec.template.podTemplate.spec.hostNetwork:"), "{}", valid.message);
    assert_ready(&case, ConditionStatus::False, reasons::TEMPLATE_INVALID, "1 of 2 pods");

    case.pool.spec.template.pod_template = None;
    case.checked = Some(Checked { hash: case.hash(), refused: Some("unknown field \"spec.foo\"".to_owned()) });
    assert_ready(&case, ConditionStatus::False, reasons::TEMPLATE_INVALID, "unknown field");
    assert!(words(&case.plan()).is_empty());
}

#[test]
fn refused_creations_back_off_and_say_why() {
    let mut case = Case::replicas(3);
    let at = |times: u32| Some(Refusal { message: "exceeded quota: gpus".to_owned(), at: NOW, times });
    case.refusal = at(1);
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + 5)));
    assert_ready(&case, ConditionStatus::False, reasons::PODS_REFUSED, "exceeded quota: gpus");
    case.now = NOW + 5;
    assert_eq!(words(&case.plan()), ["create default-0"], "one shows whether it has changed its mind");
    case.now = NOW;
    for (times, wait) in [(2, 10), (3, 20), (6, 160), (7, 300), (u32::MAX, 300)] {
        case.refusal = at(times);
        assert_eq!(case.plan().wake, Some(NOW + wait), "{times}");
    }
}

#[test]
fn failed_pods_are_counted_kept_for_a_while_and_replaced_ever_more_slowly() {
    let mut case = Case::replicas(1);
    // NOW is 2027-01-15T08:00:00Z.
    case.pod(0, failed_at(EVICTED, "2027-01-15T07:59:55Z"));
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + 5)));
    assert_eq!(plan.failures, BTreeMap::from([(EVICTED.to_owned(), 1)]));
    assert_ready(&case, ConditionStatus::False, reasons::PODS_FAILED, "1 Evicted");
    case.now = NOW + 5;
    assert_eq!(case.step(), ["create default-1"]);
    case.pods.remove(1);
    case.now = NOW;
    case.pod(1, failed_at("OutOfcpu", "2027-01-15T08:00:00Z"));
    assert_eq!(case.plan().wake, Some(NOW + 20), "twice as long");
    assert_ready(&case, ConditionStatus::False, reasons::PODS_FAILED, "1 Evicted, 1 OutOfcpu");

    for ordinal in 2..7 {
        case.pod(ordinal, failed_at(EVICTED, &format!("2027-01-15T08:00:0{ordinal}Z")));
    }
    case.now = NOW + 10;
    let deleted: Vec<_> = words(&case.plan());
    assert_eq!(deleted, ["delete default-1: it had failed: OutOfcpu", "delete default-0: it had failed: Evicted"]);
    case.now = NOW + 605;
    let deleted = words(&case.plan());
    assert!(deleted.contains(&"delete default-2: it had failed: Evicted".to_owned()), "{deleted:?}");
    assert!(!deleted.contains(&"delete default-6: it had failed: Evicted".to_owned()), "{deleted:?}");
}

#[test]
fn pods_of_lost_nodes_and_those_that_never_end_are_no_capacity() {
    let mut case = Case::replicas(2);
    case.working(0);
    case.working(1).2.lost_since = Some(NOW - 10);
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + 20)), "a short absence is none");
    case.now = NOW + 20;
    assert_eq!(words(&case.plan()), ["create default-2"]);

    let mut case = Case::replicas(1);
    case.pod(0, json!({"metadata": {"deletionTimestamp": "2027-01-15T07:58:59Z"}}));
    assert_eq!(words(&case.plan()), ["create default-1"], "its kubelet is gone");
}

#[test]
fn pending_pods_are_supply_and_the_scheduler_is_quoted() {
    let mut case = Case::replicas(1);
    let since = |time: &str| {
        json!({"spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled",
            "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no gpu", "lastTransitionTime": time}]}})
    };
    case.pod(0, since("2027-01-15T07:50:00Z"));
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + 300)));
    assert_ready(&case, ConditionStatus::False, reasons::WAITING_FOR_NODE, "0/3 nodes: no gpu");
    case.now += 300;
    assert_ready(&case, ConditionStatus::False, reasons::NO_CAPACITY, "0/3 nodes: no gpu");
    assert!(words(&case.plan()).is_empty(), "it is how nodes get bought");
}

const WORDS: &str = "do not answer the operator, such as default-0 (certificate expired)";

#[test]
fn ready_pods_count_until_they_have_not_answered_for_a_while() {
    let mut case = Case::replicas(1);
    case.working(0).1 = EngineView::default();
    assert_ready(&case, ConditionStatus::True, reasons::PODS_READY, "1 of 1");
    case.pods[0].1.silent_since = Some(NOW);
    case.pods[0].1.silence = "certificate expired".to_owned();
    assert_ready(&case, ConditionStatus::True, reasons::PODS_READY, "1 of 1");
    assert_eq!(case.plan().wake, Some(NOW + 30));
    case.now += 30;
    assert_ready(&case, ConditionStatus::False, reasons::WARMING_UP, WORDS);
}

#[test]
fn starting_pods_warm_up() {
    let mut case = Case::replicas(1);
    case.pod(0, json!({"status": {"phase": "Running"}}));
    assert_ready(&case, ConditionStatus::False, reasons::WARMING_UP, "0 of 1");
}

#[test]
fn pods_with_less_memory_than_their_circuits_need_make_room_for_larger_ones() {
    let mut case = Case::new(json!({"replicas": 2, "circuits": ["large"]}));
    case.working(0);
    case.working(1);
    assert!(case.step().is_empty());
    case.circuits = vec![CircuitSize { key: 10 << 30, partition: Some(1 << 30) }];
    assert_eq!(case.step(), ["annotate default-0 +drain +drain-since"], "one by one");
    assert_ready(&case, ConditionStatus::False, reasons::REPLACING, "less memory");
    // One that is larger than it need be stays.
    let mut case = Case::new(json!({"replicas": 1, "circuits": ["large"]}));
    case.circuits = vec![CircuitSize { key: 10 << 30, partition: Some(1 << 30) }];
    case.working(0);
    case.circuits.clear();
    assert!(case.step().is_empty());
}

#[test]
fn whether_circuits_are_loaded_is_a_condition() {
    let mut case = Case::new(json!({"replicas": 2, "circuits": ["a", "b"]}));
    let expect = |case: &Case, status, reason: &str, words: &str| {
        let loaded = case.condition(types::CIRCUITS_LOADED);
        assert_eq!((loaded.status, loaded.reason.as_str()), (status, reason), "{}", loaded.message);
        assert!(loaded.message.contains(words), "{}", loaded.message);
    };
    expect(&case, ConditionStatus::Unknown, reasons::WARMING_UP, "no pod");
    case.working(0);
    case.working(1);
    expect(&case, ConditionStatus::False, reasons::LOADING_KEY, "a by 0 of 2, b by 0 of 2");
    for (_, engine, _) in &mut case.pods {
        engine.key_loads.insert("a".to_owned(), KeyLoad::Done);
    }
    case.pods[1].1.key_loads.insert("b".to_owned(), KeyLoad::Failed(reasons::BAD_KEY, "no key".to_owned()));
    expect(&case, ConditionStatus::False, reasons::BAD_KEY, "b: 1 of 2 pods cannot load it, such as default-1: no key");
    for (_, engine, _) in &mut case.pods {
        engine.key_loads.insert("b".to_owned(), KeyLoad::Done);
    }
    expect(&case, ConditionStatus::True, reasons::KEYS_LOADED, "");
    case.pool.spec.circuits.push("unknown".to_owned());
    expect(&case, ConditionStatus::False, reasons::WAITING_FOR_CIRCUIT, "no Circuit unknown");
}

#[test]
fn the_status_counts_and_keeps_transition_times() {
    let mut case = Case::replicas(2);
    case.busy(0, 2);
    case.pod(1, json!({"status": {"phase": "Running"}}));
    let plan = case.plan();
    let write = plan.status.clone().unwrap();
    assert!(write.urgent);
    let status = &write.status;
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!((status.desired_replicas, status.replicas, status.ready_replicas), (Some(2), Some(2), Some(1)));
    assert_eq!((status.updated_replicas, status.busy_replicas), (Some(2), Some(1)));
    assert_eq!(status.selector.as_deref(), Some("proofmill.dev/pool=default"));
    assert_eq!(status.template_hash, Some(case.hash()));
    let first = case.condition(types::READY).last_transition_time;

    case.step();
    case.now += 100;
    assert_eq!(case.plan().status, None, "nothing but the clock has changed");
    case.pods[1].0.ready = true;
    case.pods[1].1 = EngineView { reachable: true, ready: true, ..EngineView::default() };
    let ready = case.condition(types::READY);
    assert_eq!(ready.status, ConditionStatus::True);
    assert_ne!(ready.last_transition_time, first);
    case.step();
    case.now += 100;
    case.pool.spec.replicas = Some(1);
    case.pool.meta.generation = 4;
    let later = case.condition(types::READY);
    assert_eq!(
        later.last_transition_time, ready.last_transition_time,
        "the status is the same, only its reason is not"
    );
    assert_eq!(later.observed_generation, Some(4));
}

#[test]
fn figures_alone_are_not_urgent_and_small_changes_are_none() {
    let mut case = Case::replicas(0);
    let figures = |ms: u64| Some(Demand { waiting: 7, queue_milliseconds: ms, busy_permille: Some(500) });
    case.demand = figures(100_000);
    case.step();
    assert_eq!(case.plan().status, None);
    case.demand = figures(105_000);
    assert_eq!(case.plan().status, None);
    case.demand = figures(106_000);
    let write = case.plan().status.unwrap();
    assert_eq!((write.urgent, write.status.queue_milliseconds), (false, Some(106_000)));
    case.demand = figures(0);
    assert_eq!(case.plan().status.unwrap().status.queue_milliseconds, Some(0));
    case.demand = None;
    assert_eq!(case.plan().status, None, "unknown figures stay");
}
