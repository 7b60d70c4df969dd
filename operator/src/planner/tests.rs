//! The planner against a world in memory: an API server that refuses stale writes, pods whose engines keep what they have
//! proved until it is acknowledged, and a clock that is set.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use proofmill_crds::proof_job::Priority;
use proofmill_proto::v1::partition_event::Outcome as Ended;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::*;
use crate::index::Meta;

const SECOND: Duration = Duration::from_secs(1);

/// One pod's engine.
#[derive(Default)]
struct Node {
    alive: bool,
    connected: bool,
    draining: bool,
    partitions: BTreeMap<(String, u32, u32), v1::PartitionState>,
    outcomes: BTreeMap<(String, u32, u32), Ended>,
}

struct World {
    planner: Planner,
    now: Duration,
    version: u64,
    jobs: BTreeMap<Key, JobObject>,
    circuits: BTreeMap<Key, CircuitObject>,
    pools: BTreeMap<Key, PoolObject>,
    pods: BTreeMap<Key, PodObject>,
    nodes: BTreeMap<String, Node>,
    /// Every partition that an engine began, in order: pod, job's name, partition.
    starts: Vec<(String, String, u32)>,
    /// What is on its way to the planner.
    inputs: VecDeque<Input>,
    epoch: u64,
    status_writes: usize,
    events: Vec<(String, &'static str)>,
    acked: usize,
    cancelled: usize,
    conflicts: usize,
    /// What a submission is answered with, if not accepted.
    refusal: Option<Refusal>,
    submissions: usize,
    /// What pools needed: how many actions, and the new status.
    tended: Vec<(usize, Option<ProverPoolStatus>)>,
    /// When this operator's process began.
    birth: Duration,
}

fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

fn settings() -> Settings {
    Settings {
        default_ttl: Duration::from_secs(3600),
        namespaces: 0,
        pools: pool::Settings { image: "image".into(), allow_privileged: false },
    }
}

impl World {
    /// Circuit `c` with so many partitions, pool `default`, and pods that are connected once the planner leads.
    fn new(partitions: i32, pods: &[&str]) -> Self {
        let mut world = Self {
            planner: Planner::new(settings()),
            now: SECOND,
            version: 0,
            jobs: BTreeMap::new(),
            circuits: BTreeMap::new(),
            pools: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            starts: Vec::new(),
            inputs: VecDeque::new(),
            epoch: 0,
            status_writes: 0,
            events: Vec::new(),
            acked: 0,
            cancelled: 0,
            conflicts: 0,
            refusal: None,
            submissions: 0,
            tended: Vec::new(),
            birth: Duration::ZERO,
        };
        world.add_circuit(partitions);
        let meta = world.meta("default");
        let spec = serde_json::from_value(json!({"template": {}, "replicas": pods.len()})).unwrap();
        world.pools.insert(key("default"), PoolObject { meta, spec, status: Default::default() });
        for pod in pods {
            world.add_pod(pod);
        }
        world.restart();
        world
    }

    fn meta(&mut self, name: &str) -> Meta {
        self.version += 1;
        Meta {
            key: key(name),
            uid: format!("uid-{name}-{}", self.version),
            generation: 1,
            resource_version: self.version.to_string(),
            created: i64::try_from(self.now.as_secs()).unwrap(),
            deleting: false,
            tracked: false,
        }
    }

    fn add_circuit(&mut self, partitions: i32) {
        let meta = self.meta("c");
        let script =
            json!({"simulated": {"partitions": partitions, "bytes": {"key": 1, "workingSet": 1}, "milliseconds": {}}});
        let object = CircuitObject { meta, spec: serde_json::from_value(script).unwrap(), status: Default::default() };
        self.circuits.insert(key("c"), object.clone());
        self.inputs.push_back(Input::Circuits(Change::Applied(Box::new(object))));
    }

    fn add_pod(&mut self, name: &str) {
        let meta = self.meta(name);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n"},
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        }))
        .unwrap();
        self.nodes.insert(meta.uid.clone(), Node { alive: true, ..Node::default() });
        let pod = PodObject {
            meta,
            pool: "default".into(),
            address: Some("10.0.0.1".into()),
            ready: true,
            pod: Box::new(pod),
        };
        self.pods.insert(key(name), pod.clone());
        self.inputs.push_back(Input::Pods(Change::Applied(Box::new(pod))));
    }

    /// The pod and its engine are gone; how many partitions with them.
    fn kill_pod(&mut self, name: &str) -> usize {
        let pod = self.pods.remove(&key(name)).unwrap();
        self.inputs.push_back(Input::Pods(Change::Deleted(key(name))));
        self.nodes.remove(&pod.meta.uid).unwrap().partitions.len()
    }

    fn add_job(&mut self, name: &str, spec: serde_json::Value) {
        let meta = self.meta(name);
        let mut full = json!({"circuitRef": {"name": "c"}, "input": {"inline": "AAAA"}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = JobObject { meta, spec: serde_json::from_value(full).unwrap(), status: Default::default() };
        self.put_job(object);
    }

    fn change_job(&mut self, name: &str, change: impl FnOnce(&mut JobObject)) {
        let mut object = self.jobs[&key(name)].clone();
        change(&mut object);
        self.version += 1;
        object.meta.resource_version = self.version.to_string();
        self.put_job(object);
    }

    fn put_job(&mut self, object: JobObject) {
        self.jobs.insert(object.meta.key.clone(), object.clone());
        self.inputs.push_back(Input::Jobs(Change::Applied(Box::new(object))));
    }

    fn delete_job(&mut self, name: &str) {
        self.jobs.remove(&key(name));
        self.inputs.push_back(Input::Jobs(Change::Deleted(key(name))));
    }

    /// Another operator begins, with nothing but what the cluster holds.
    fn restart(&mut self) {
        self.planner = Planner::new(settings());
        self.inputs.clear();
        self.nodes.values_mut().for_each(|node| node.connected = false);
        self.epoch += 1;
        self.inputs.push_back(Input::Circuits(Change::Listed(None, self.circuits.values().cloned().collect())));
        self.inputs.push_back(Input::Pools(Change::Listed(None, self.pools.values().cloned().collect())));
        self.inputs.push_back(Input::Jobs(Change::Listed(None, self.jobs.values().cloned().collect())));
        self.inputs.push_back(Input::Pods(Change::Listed(None, self.pods.values().cloned().collect())));
        self.inputs.push_back(Input::Leads(self.epoch));
    }

    fn time(&self) -> Now {
        Now {
            mono: self.now - self.birth,
            wall: Timestamp::from_second(1_800_000_000 + self.now.as_secs() as i64).unwrap(),
        }
    }

    /// Lets the planner see and do until nothing is left to do at this moment.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let time = self.time();
            let mut quiet = self.inputs.is_empty();
            while let Some(input) = self.inputs.pop_front() {
                self.planner.see(input, &time);
            }
            for command in self.planner.plan(&time) {
                quiet = false;
                self.obey(command);
            }
            if quiet && self.planner.wake().is_none_or(|at| at > time.mono) {
                return;
            }
        }
        panic!("the planner never comes to rest");
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.settle();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Connect(address) => self.connect(&address.pod),
            Command::Disconnect(_) | Command::ForgetPool(_) | Command::WriteCircuit { .. } => {}
            Command::Tend { pool, actions, status } => {
                self.tended.push((actions.len(), status.as_deref().cloned()));
                let mut news = Tended::default();
                for action in actions {
                    match action {
                        Action::Check { hash, .. } => news.checked = Some(Checked { hash, refused: None }),
                        // Pods come and go as the tests say.
                        _ => news.failed = true,
                    }
                }
                if let Some(status) = status {
                    self.version += 1;
                    let known = self.pools.get_mut(&pool.meta.key).unwrap();
                    known.status = *status;
                    known.meta.resource_version = self.version.to_string();
                    news.written = Some(Ok(known.clone()));
                }
                let news = Box::new(news);
                self.inputs.push_back(Input::Tended { pool: pool.meta.key, uid: pool.meta.uid, news });
            }
            Command::Submit(submission) => self.submit(*submission),
            Command::Cancel { pod, id } => {
                self.cancelled += 1;
                let place = place(&id);
                let node = self.nodes.get_mut(&pod).filter(|node| node.partitions.contains_key(&place));
                if let Some(node) = node.filter(|node| !node.outcomes.contains_key(&place)) {
                    // An engine tells of it, too, and keeps that until it is acknowledged.
                    node.partitions.insert(place.clone(), v1::PartitionState::Cancelled);
                    node.outcomes.insert(place.clone(), failure(v1::FailureKind::Cancelled));
                    let news = EngineNews::Partition(ended(&place, failure(v1::FailureKind::Cancelled)));
                    self.inputs.push_back(Input::Engine { pod, news });
                }
            }
            Command::Ack { pod, id } => {
                self.acked += 1;
                if let Some(node) = self.nodes.get_mut(&pod) {
                    node.partitions.remove(&place(&id));
                    node.outcomes.remove(&place(&id));
                }
            }
            Command::Verify(work) => {
                self.inputs.push_back(Input::Verified { job: work.job, uid: work.uid, fault: None });
            }
            Command::WriteStatus { job, status } => {
                let result = self.write(&job, *status);
                self.inputs.push_back(Input::Written { job: job.key.clone(), uid: job.uid, result });
            }
            Command::WriteOutput { job, .. } => {
                self.inputs.push_back(Input::OutputWritten { job: job.meta.key, uid: job.meta.uid, fault: None });
            }
            Command::DeleteJob(job) => self.delete_job(&job.key.name),
            Command::Tell { job, reason, .. } => self.events.push((job.key.name, reason)),
            Command::Reprioritise { .. } | Command::Preload { .. } | Command::Evict { .. } | Command::KeepPool(_) => {}
            Command::StepDown => panic!("nobody else leads"),
        }
    }

    fn write(&mut self, job: &Meta, status: ProofJobStatus) -> Result<Box<JobObject>, WriteFault> {
        if self.conflicts > 0 {
            self.conflicts -= 1;
            return Err(WriteFault::Failed("the API server is busy".into()));
        }
        let Some(known) = self.jobs.get_mut(&job.key) else { return Err(WriteFault::Gone) };
        if known.meta.resource_version != job.resource_version {
            return Err(WriteFault::Conflict);
        }
        let outcome =
            |status: &ProofJobStatus| status.conditions.iter().find(|c| c.type_ == types::SUCCEEDED).map(|c| c.status);
        if let Some(before @ (ConditionStatus::True | ConditionStatus::False)) = outcome(&known.status) {
            assert_eq!(outcome(&status), Some(before), "the outcome of {} changed", job.key);
        }
        self.status_writes += 1;
        self.version += 1;
        known.status = status;
        known.meta.resource_version = self.version.to_string();
        let object = known.clone();
        self.inputs.push_back(Input::Jobs(Change::Applied(Box::new(object.clone()))));
        Ok(Box::new(object))
    }

    fn connect(&mut self, pod: &str) {
        let Some(node) = self.nodes.get_mut(pod).filter(|node| node.alive) else {
            self.inputs.push_back(Input::Engine { pod: pod.to_owned(), news: EngineNews::Lost });
            return;
        };
        node.connected = true;
        let partitions = node.partitions.iter().map(|(place, state)| v1::PartitionStatus {
            id: Some(id(place)),
            state: (*state).into(),
            ..v1::PartitionStatus::default()
        });
        let list = v1::ListResponse { partitions: partitions.collect(), draining: node.draining, ..Default::default() };
        let status = v1::EngineStatus {
            devices: vec![v1::DeviceStatus { ready: true, ..v1::DeviceStatus::default() }],
            draining: node.draining,
            ..v1::EngineStatus::default()
        };
        let news = |news| Input::Engine { pod: pod.to_owned(), news };
        self.inputs.push_back(news(EngineNews::Status(Box::new(status))));
        self.inputs.push_back(news(EngineNews::Listed(list)));
        for (place, outcome) in &node.outcomes {
            self.inputs.push_back(news(EngineNews::Partition(ended(place, outcome.clone()))));
        }
    }

    fn submit(&mut self, submission: Submission) {
        let id = submission.request.id.clone().unwrap();
        self.submissions += 1;
        if let Some(refusal) = self.refusal.clone() {
            self.inputs.push_back(Input::Submitted { pod: submission.pod, id, refusal: Some(refusal) });
            return;
        }
        let refusal = match self.nodes.get_mut(&submission.pod).filter(|node| node.alive && node.connected) {
            None => Some(Refusal::Later("gone".into())),
            Some(node) if node.draining => Some(Refusal::Later("draining".into())),
            Some(node) => {
                if node.partitions.insert(place(&id), v1::PartitionState::Queued).is_none() {
                    self.starts.push((submission.pod.clone(), submission.job.name.clone(), id.partition));
                }
                None
            }
        };
        self.inputs.push_back(Input::Submitted { pod: submission.pod, id, refusal });
    }

    /// Ends the first partition that an engine works on; whether there was one.
    fn finish(&mut self, pod: &str, outcome: Ended) -> bool {
        let uid = self.pods[&key(pod)].meta.uid.clone();
        let Some(node) = self.nodes.get_mut(&uid) else { return false };
        let first = node.partitions.iter().find(|(place, _)| !node.outcomes.contains_key(*place));
        let Some(place) = first.map(|(place, _)| place.clone()) else { return false };
        let state =
            if matches!(outcome, Ended::Proof(_)) { v1::PartitionState::Succeeded } else { v1::PartitionState::Failed };
        node.partitions.insert(place.clone(), state);
        node.outcomes.insert(place.clone(), outcome.clone());
        if node.connected {
            let news = EngineNews::Partition(ended(&place, outcome));
            self.inputs.push_back(Input::Engine { pod: uid, news });
        }
        true
    }

    /// The condition `Succeeded`: status and reason.
    fn outcome(&self, job: &str) -> Option<(ConditionStatus, String)> {
        let conditions = &self.jobs.get(&key(job))?.status.conditions;
        conditions.iter().find(|c| c.type_ == types::SUCCEEDED).map(|c| (c.status, c.reason.clone()))
    }

    #[track_caller]
    fn expect(&self, job: &str, status: ConditionStatus, reason: &str) {
        assert_eq!(self.outcome(job), Some((status, reason.to_owned())), "{job}");
    }

    fn started(&self) -> Vec<String> {
        self.starts.iter().map(|(_, job, partition)| format!("{job}/{partition}")).collect()
    }
}

fn place(id: &v1::PartitionId) -> (String, u32, u32) {
    (id.job.clone(), id.partition, id.attempt)
}

fn id((job, partition, attempt): &(String, u32, u32)) -> v1::PartitionId {
    v1::PartitionId { job: job.clone(), partition: *partition, attempt: *attempt }
}

fn ended(place: &(String, u32, u32), outcome: Ended) -> Box<v1::PartitionEvent> {
    let state =
        if matches!(outcome, Ended::Proof(_)) { v1::PartitionState::Succeeded } else { v1::PartitionState::Failed };
    let event =
        v1::PartitionEvent { id: Some(id(place)), state: state.into(), outcome: Some(outcome), ..Default::default() };
    Box::new(event)
}

fn proof() -> Ended {
    Ended::Proof(v1::PartitionProof { proof: vec![1; 8], timings: Some(Default::default()), ..Default::default() })
}

fn failure(kind: v1::FailureKind) -> Ended {
    Ended::Failure(v1::Failure { kind: kind.into(), message: "why".into() })
}

#[test]
fn a_job_is_sent_proved_verified_and_written_once() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.started(), ["a/0"]);
    assert_eq!(world.status_writes, 0, "what is over in a moment is not written");
    assert!(world.finish("p", proof()));
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!((world.status_writes, world.acked), (1, 1));
    assert_eq!(world.events, [("a".to_owned(), reasons::PROVED)]);
    let status = &world.jobs[&key("a")].status;
    assert_eq!(status.progress.as_deref(), Some("1/1"));
    assert!(status.proof.is_some() && status.start_time.is_some() && status.completion_time.is_some());
    // At rest nothing is written.
    for _ in 0..50 {
        world.pass(30 * SECOND);
    }
    assert_eq!(world.status_writes, 1);
}

#[test]
fn strict_order_by_priority_then_age_then_name() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for (name, priority) in [("b", "Low"), ("a", "Low"), ("z", "Normal"), ("h", "High")] {
        world.add_job(name, json!({"priority": priority}));
    }
    world.now += SECOND;
    world.add_job("0", json!({"priority": "Low"}));
    world.settle();
    assert_eq!(world.started(), ["h/0", "z/0"], "two lie ahead of a device");
    for _ in 0..5 {
        world.finish("p", proof());
        world.settle();
    }
    assert_eq!(world.started(), ["h/0", "z/0", "a/0", "b/0", "0/0"]);
}

#[test]
fn a_critical_job_comes_through_a_full_engine() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for name in ["a", "b", "c", "d"] {
        world.add_job(name, json!({}));
    }
    world.settle();
    world.add_job("urgent", json!({"priority": "Critical"}));
    world.settle();
    assert_eq!(world.started(), ["a/0", "b/0", "urgent/0"]);
}

#[test]
fn waiting_has_a_reason_once_it_lasts() {
    let mut world = World::new(1, &[]);
    world.circuits.clear();
    world.pools.clear();
    world.restart();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.outcome("a"), None);
    world.pass(SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::WAITING_FOR_CIRCUIT);
    world.add_circuit(1);
    world.settle();
    world.pass(2 * SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::WAITING_FOR_POOL);
    assert!(world.starts.is_empty());
}

#[test]
fn bad_input_is_final_and_faults_are_tried_again_elsewhere() {
    let mut world = World::new(1, &["p", "q"]);
    world.settle();
    world.add_job("bad", json!({}));
    world.settle();
    assert!(world.finish("p", failure(v1::FailureKind::UnsatisfiedWitness)));
    world.settle();
    world.expect("bad", ConditionStatus::False, reasons::UNSATISFIED_WITNESS);
    world.pass(600 * SECOND);
    assert_eq!(world.starts.len(), 1);

    world.add_job("faulty", json!({"backoffLimit": 2}));
    world.settle();
    let first = world.starts.last().unwrap().0.clone();
    for pod in ["p", "q", "p"] {
        assert!(world.finish(pod, failure(v1::FailureKind::DeviceFault)), "{pod}");
        world.settle();
        world.pass(61 * SECOND);
    }
    world.expect("faulty", ConditionStatus::False, reasons::DEVICE_FAULT);
    let pods: Vec<&String> = world.starts[1..].iter().map(|(pod, ..)| pod).collect();
    assert_eq!(pods.len(), 3);
    assert!(*pods[0] == first && *pods[1] != first, "{pods:?}");
}

#[test]
fn an_input_that_is_not_there_is_waited_for_ever_more_patiently() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.refusal = Some(Refusal::NoInput("there is no ConfigMap `x` with the input".into()));
    world.add_job("a", json!({}));
    for _ in 0..600 {
        world.pass(SECOND);
    }
    world.expect("a", ConditionStatus::Unknown, reasons::FETCHING_INPUT);
    assert!(world.submissions < 20, "{}", world.submissions);
    assert!(world.status_writes < 5, "{}", world.status_writes);
    world.refusal = None;
    world.pass(61 * SECOND);
    world.finish("p", proof());
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.jobs[&key("a")].status.partitions[0].attempts, 1, "nothing has failed");
}

#[test]
fn a_dead_pods_partitions_move_and_finished_ones_stay() {
    let mut world = World::new(4, &["p", "q"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.starts.len(), 4);
    assert!(world.finish("p", proof()));
    world.settle();
    assert_eq!(world.jobs[&key("a")].status.progress.as_deref(), Some("1/4"), "kept at once");
    world.kill_pod("p");
    world.settle();
    while world.finish("q", proof()) {
        world.settle();
    }
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.starts.len(), 5, "only what the dead pod had not finished is proved again");
}

#[test]
fn an_operator_that_starts_adopts_what_is_under_way() {
    let mut world = World::new(2, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.add_job("b", json!({}));
    world.settle();
    assert!(world.finish("p", proof()));
    world.restart();
    // One ends while nobody listens.
    assert!(world.finish("p", proof()));
    world.settle();
    while world.finish("p", proof()) {
        world.settle();
    }
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    world.expect("b", ConditionStatus::True, reasons::PROVED);
    let mut starts = world.started();
    starts.sort();
    assert_eq!(starts, ["a/0", "a/1", "b/0", "b/1"], "nothing is proved twice");
}

#[test]
fn a_new_leader_waits_for_an_engine_that_may_be_at_work() {
    let mut world = World::new(1, &["p", "q"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    let busy = world.starts[0].0.clone();
    world.nodes.get_mut(&busy).unwrap().alive = false;
    world.restart();
    world.settle();
    world.pass(29 * SECOND);
    assert_eq!(world.starts.len(), 1, "it may be at work still");
    world.pass(2 * SECOND);
    assert_eq!(world.starts.len(), 2, "it counts as lost");
    assert_ne!(world.starts[1].0, busy);
}

#[test]
fn suspended_jobs_wait_and_deleted_ones_are_cancelled() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.change_job("a", |job| job.spec.suspend = true);
    world.settle();
    assert_eq!(world.cancelled, 1);
    world.pass(2 * SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::SUSPENDED);
    world.change_job("a", |job| job.spec.suspend = false);
    world.settle();
    assert_eq!(world.starts.len(), 2);
    world.delete_job("a");
    world.settle();
    assert_eq!(world.cancelled, 2);
    assert!(!world.finish("p", proof()), "the engine works on nothing");
}

#[test]
fn a_deadline_ends_a_job_wherever_it_is() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for name in ["a", "b", "c"] {
        world.add_job(name, json!({"activeDeadlineSeconds": 10}));
    }
    world.settle();
    world.pass(9 * SECOND);
    assert_eq!(world.outcome("c").unwrap().0, ConditionStatus::Unknown);
    world.pass(SECOND);
    for name in ["a", "b", "c"] {
        world.expect(name, ConditionStatus::False, reasons::DEADLINE_EXCEEDED);
    }
    assert_eq!(world.cancelled, 2);
}

#[test]
fn a_deadline_goes_on_over_operators() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({"activeDeadlineSeconds": 100}));
    world.pass(2 * SECOND);
    world.pass(2 * SECOND);
    assert!(world.jobs[&key("a")].status.start_time.is_some());
    world.pass(90 * SECOND);
    world.restart();
    // A process of its own, with a clock of its own.
    world.birth = world.now;
    world.settle();
    assert_eq!(world.outcome("a").unwrap().0, ConditionStatus::Unknown);
    world.pass(8 * SECOND);
    world.expect("a", ConditionStatus::False, reasons::DEADLINE_EXCEEDED);
}

#[test]
fn only_proofs_that_can_be_checked_again_are_taken_from_a_status() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.change_job("a", |job| {
        let partition = json!([{"index": 0, "state": "Succeeded", "attempts": 1, "proof": "AAAA"}]);
        job.status.partitions = serde_json::from_value(partition).unwrap();
    });
    let object = world.jobs[&key("a")].clone();
    let spec = |kind: serde_json::Value| serde_json::from_value::<proofmill_crds::circuit::CircuitSpec>(kind).unwrap();
    let mut job = Job::new(object.clone());
    job.set_circuit(&spec(json!({"groth16": {"zkey": {"url": "file:x"}}})));
    assert!(!job.is_proved(), "its public signals are not there");
    let mut job = Job::new(object);
    job.set_circuit(&world.circuits[&key("c")].spec.clone());
    assert!(job.is_proved());
}

#[test]
fn a_pool_is_looked_at_when_jobs_wait_for_it() {
    let mut world = World::new(1, &[]);
    let spec = json!({"template": {}, "autoscaling": {"minReplicas": 0, "maxReplicas": 2}});
    world.pools.get_mut(&key("default")).unwrap().spec = serde_json::from_value(spec).unwrap();
    world.restart();
    world.settle();
    world.pass(60 * SECOND);
    world.tended.clear();
    world.add_job("a", json!({}));
    world.settle();
    world.pass(2 * SECOND);
    let status = &world.pools[&key("default")].status;
    assert_eq!((status.waiting_partitions, status.desired_replicas), (Some(1), Some(1)));
}

#[test]
fn what_comes_to_an_engine_too_late_is_cancelled() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.delete_job("a");
    world.settle();
    let before = world.cancelled;
    let pod = world.pods[&key("p")].meta.uid.clone();
    let id = v1::PartitionId { job: "gone".into(), partition: 0, attempt: 0 };
    world.inputs.push_back(Input::Submitted { pod, id, refusal: None });
    world.settle();
    assert_eq!(world.cancelled, before + 1);
}

#[test]
fn a_circuit_that_is_deleted_ends_its_jobs() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.circuits.clear();
    world.inputs.push_back(Input::Circuits(Change::Deleted(key("c"))));
    world.settle();
    world.expect("a", ConditionStatus::False, reasons::CIRCUIT_DELETED);
    assert_eq!(world.cancelled, 1);
}

#[test]
fn a_change_of_an_ended_job_is_acknowledged_and_changes_nothing_else() {
    let mut world = World::new(1, &["a"]);
    world.add_job("j", json!({}));
    world.settle();
    assert!(world.finish("a", proof()));
    world.settle();
    let before = world.planner.jobs[&key("j")].object.status.clone();
    world.change_job("j", |job| {
        job.meta.generation += 1;
        job.spec.suspend = true;
    });
    world.settle();
    let job = &world.planner.jobs[&key("j")].object;
    assert_eq!(job.status.observed_generation, Some(job.meta.generation));
    assert_ne!(job.status.observed_generation, before.observed_generation);
    assert_eq!(job.status, ProofJobStatus { observed_generation: job.status.observed_generation, ..before });
}

#[test]
fn ended_jobs_are_deleted_in_time() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("default", json!({}));
    world.add_job("short", json!({"ttlSecondsAfterFinished": 5}));
    world.settle();
    while world.finish("p", proof()) {
        world.settle();
    }
    world.pass(6 * SECOND);
    assert_eq!(world.jobs.len(), 1);
    world.pass(3600 * SECOND);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_busy_api_server_is_asked_again() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.conflicts = 3;
    world.finish("p", proof());
    world.settle();
    assert_eq!((world.status_writes, world.acked), (0, 0), "an engine keeps what is not written");
    for _ in 0..10 {
        world.pass(SECOND);
    }
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.acked, 1);
}

/// Pods die and come, operators start anew, the API server is busy, jobs are deleted: in the end every job that is left is
/// proved, and a partition was begun twice only if a pod that had it was lost.
#[test]
fn whatever_happens_nothing_is_lost_and_little_is_done_twice() {
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(rng.random_range(1..5), &["p0", "p1"]);
        let mut pods = 2;
        let mut lost = 0;
        for step in 0..200 {
            match rng.random_range(0..20) {
                0..5 => {
                    let priority = ["Low", "Normal", "Critical"][step % 3];
                    world.add_job(&format!("j{step}"), json!({"priority": priority}));
                }
                5..14 => {
                    let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
                    if !live.is_empty() {
                        world.finish(&live[rng.random_range(0..live.len())], proof());
                    }
                }
                14 => {
                    let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
                    if live.len() > 1 {
                        lost += world.kill_pod(&live[rng.random_range(0..live.len())]);
                    }
                }
                15 => {
                    world.add_pod(&format!("p{pods}"));
                    pods += 1;
                }
                16 => world.restart(),
                17 => world.conflicts = rng.random_range(0..3),
                18 => {
                    let all: Vec<String> = world.jobs.keys().map(|job| job.name.clone()).collect();
                    if !all.is_empty() {
                        world.delete_job(&all[rng.random_range(0..all.len())]);
                    }
                }
                _ => world.now += Duration::from_millis(rng.random_range(0..3000)),
            }
            if rng.random_bool(0.7) {
                world.settle();
            }
        }
        world.conflicts = 0;
        for _ in 0..2000 {
            world.pass(Duration::from_millis(500));
            let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
            live.iter().for_each(|pod| while world.finish(pod, proof()) {});
        }
        for name in world.jobs.keys() {
            world.expect(&name.name, ConditionStatus::True, reasons::PROVED);
        }
        let held: usize = world.nodes.values().map(|node| node.partitions.len()).sum();
        assert_eq!(held, 0, "seed {seed}: engines keep nothing for ever");
        let mut starts = world.starts.clone();
        starts.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        let again = starts.windows(2).filter(|pair| (&pair[0].1, pair[0].2) == (&pair[1].1, pair[1].2)).count();
        assert!(again <= lost, "seed {seed}: {again} of {} begun again, pods had {lost}", starts.len());
    }
}

#[test]
fn priorities_compare_as_they_are_named() {
    assert!(
        Priority::Critical > Priority::High && Priority::High > Priority::Normal && Priority::Normal > Priority::Low
    );
}
