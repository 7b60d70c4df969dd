//! A world in memory for the planner: an API server that refuses stale writes, pods whose engines keep what they have
//! proved until it is acknowledged, and a clock that is set.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use proofmill_crds::conditions::{ConditionStatus, types};
use proofmill_crds::proof_job::ProofJobStatus;
use proofmill_crds::prover_pool::ProverPoolStatus;
use proofmill_proto::v1;
use proofmill_proto::v1::partition_event::Outcome as Ended;
use serde_json::json;

use super::super::*;
use crate::index::{JobObject, Meta, PoolObject};
use crate::pool::{Action, Checked};

pub const SECOND: Duration = Duration::from_secs(1);

/// One pod's engine.
#[derive(Default)]
pub struct Node {
    pub alive: bool,
    pub connected: bool,
    pub draining: bool,
    pub partitions: BTreeMap<(String, u32, u32), v1::PartitionState>,
    pub outcomes: BTreeMap<(String, u32, u32), Ended>,
}

pub struct World {
    pub planner: Planner,
    pub now: Duration,
    pub version: u64,
    pub jobs: BTreeMap<Key, JobObject>,
    pub circuits: BTreeMap<Key, CircuitObject>,
    pub pools: BTreeMap<Key, PoolObject>,
    pub pods: BTreeMap<Key, PodObject>,
    pub nodes: BTreeMap<String, Node>,
    /// Every partition that an engine began, in order: pod, job's name, partition.
    pub starts: Vec<(String, String, u32)>,
    /// What is on its way to the planner.
    pub inputs: VecDeque<Input>,
    pub epoch: u64,
    pub status_writes: usize,
    pub events: Vec<(String, &'static str)>,
    pub acked: usize,
    pub cancelled: usize,
    pub conflicts: usize,
    /// What a submission is answered with, if not accepted.
    pub refusal: Option<Refusal>,
    pub submissions: usize,
    /// How often an engine was told to load a circuit.
    pub preloads: usize,
    /// What pools needed: how many actions, and the new status.
    pub tended: Vec<(usize, Option<ProverPoolStatus>)>,
    /// When this operator's process began.
    pub birth: Duration,
}

pub fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

pub fn settings() -> Settings {
    Settings {
        default_ttl: Duration::from_secs(3600),
        namespaces: 0,
        pools: pool::Settings { image: "image".into(), allow_privileged: false },
    }
}

impl World {
    /// Circuit `c` with so many partitions, pool `default`, and pods that are connected once the planner leads.
    pub fn new(partitions: i32, pods: &[&str]) -> Self {
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
            preloads: 0,
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

    pub fn meta(&mut self, name: &str) -> Meta {
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

    pub fn add_circuit(&mut self, partitions: i32) {
        let meta = self.meta("c");
        let script =
            json!({"simulated": {"partitions": partitions, "bytes": {"key": 1, "workingSet": 1}, "milliseconds": {}}});
        let object = CircuitObject { meta, spec: serde_json::from_value(script).unwrap(), status: Default::default() };
        self.circuits.insert(key("c"), object.clone());
        self.inputs.push_back(Input::Circuits(Change::Applied(Box::new(object))));
    }

    pub fn add_pod(&mut self, name: &str) {
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
    pub fn kill_pod(&mut self, name: &str) -> usize {
        let pod = self.pods.remove(&key(name)).unwrap();
        self.inputs.push_back(Input::Pods(Change::Deleted(key(name))));
        self.nodes.remove(&pod.meta.uid).unwrap().partitions.len()
    }

    pub fn add_job(&mut self, name: &str, spec: serde_json::Value) {
        let meta = self.meta(name);
        let mut full = json!({"circuitRef": {"name": "c"}, "input": {"inline": "AAAA"}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = JobObject { meta, spec: serde_json::from_value(full).unwrap(), status: Default::default() };
        self.put_job(object);
    }

    pub fn change_job(&mut self, name: &str, change: impl FnOnce(&mut JobObject)) {
        let mut object = self.jobs[&key(name)].clone();
        change(&mut object);
        self.version += 1;
        object.meta.resource_version = self.version.to_string();
        self.put_job(object);
    }

    pub fn put_job(&mut self, object: JobObject) {
        self.jobs.insert(object.meta.key.clone(), object.clone());
        self.inputs.push_back(Input::Jobs(Change::Applied(Box::new(object))));
    }

    pub fn delete_job(&mut self, name: &str) {
        self.jobs.remove(&key(name));
        self.inputs.push_back(Input::Jobs(Change::Deleted(key(name))));
    }

    /// Another operator begins, with nothing but what the cluster holds.
    pub fn restart(&mut self) {
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

    pub fn time(&self) -> Now {
        Now {
            mono: self.now - self.birth,
            wall: Timestamp::from_second(1_800_000_000 + self.now.as_secs() as i64).unwrap(),
        }
    }

    /// Lets the planner see and do until nothing is left to do at this moment.
    pub fn settle(&mut self) {
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

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.settle();
    }

    pub fn obey(&mut self, command: Command) {
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
            Command::Preload { .. } => self.preloads += 1,
            Command::Reprioritise { .. } | Command::Evict { .. } | Command::KeepPool(_) => {}
            Command::StepDown => panic!("nobody else leads"),
        }
    }

    pub fn write(&mut self, job: &Meta, status: ProofJobStatus) -> Result<Box<JobObject>, WriteFault> {
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

    pub fn connect(&mut self, pod: &str) {
        let Some(node) = self.nodes.get_mut(pod).filter(|node| node.alive) else {
            self.inputs.push_back(Input::Engine { pod: pod.to_owned(), news: EngineNews::Lost("refused".to_owned()) });
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

    pub fn submit(&mut self, submission: Submission) {
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
    pub fn finish(&mut self, pod: &str, outcome: Ended) -> bool {
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
    pub fn outcome(&self, job: &str) -> Option<(ConditionStatus, String)> {
        let conditions = &self.jobs.get(&key(job))?.status.conditions;
        conditions.iter().find(|c| c.type_ == types::SUCCEEDED).map(|c| (c.status, c.reason.clone()))
    }

    #[track_caller]
    pub fn expect(&self, job: &str, status: ConditionStatus, reason: &str) {
        assert_eq!(self.outcome(job), Some((status, reason.to_owned())), "{job}");
    }

    /// The job has not ended.
    #[track_caller]
    pub fn expect_active(&self, job: &str) {
        assert!(self.outcome(job).is_none_or(|(status, _)| status == ConditionStatus::Unknown), "{job}");
    }

    /// An engine says that its device has worked for so many seconds.
    pub fn work(&mut self, pod: &str, seconds: u64) {
        let entry = v1::LedgerEntry { state: "busy".into(), cause: "msm_g1".into(), duration_us: seconds * 1_000_000 };
        let device = v1::DeviceStatus { ready: true, ledger: vec![entry], ..v1::DeviceStatus::default() };
        let status = v1::EngineStatus { devices: vec![device], ..v1::EngineStatus::default() };
        let pod = self.pods[&key(pod)].meta.uid.clone();
        self.inputs.push_back(Input::Engine { pod, news: EngineNews::Status(Box::new(status)) });
    }

    /// An engine says that it could not load circuit `c`.
    pub fn fail_key(&mut self, pod: &str, kind: v1::FailureKind) {
        let failure = v1::Failure { kind: kind.into(), message: "why".into() };
        let failure = v1::KeyFailureStatus { circuit: "c".into(), failure: Some(failure), too_large_bytes: 0 };
        let status = v1::EngineStatus { key_failures: vec![failure], ..v1::EngineStatus::default() };
        let pod = self.pods[&key(pod)].meta.uid.clone();
        self.inputs.push_back(Input::Engine { pod, news: EngineNews::Status(Box::new(status)) });
    }

    pub fn started(&self) -> Vec<String> {
        self.starts.iter().map(|(_, job, partition)| format!("{job}/{partition}")).collect()
    }
}

pub fn place(id: &v1::PartitionId) -> (String, u32, u32) {
    (id.job.clone(), id.partition, id.attempt)
}

pub fn id((job, partition, attempt): &(String, u32, u32)) -> v1::PartitionId {
    v1::PartitionId { job: job.clone(), partition: *partition, attempt: *attempt }
}

pub fn ended(place: &(String, u32, u32), outcome: Ended) -> Box<v1::PartitionEvent> {
    let state =
        if matches!(outcome, Ended::Proof(_)) { v1::PartitionState::Succeeded } else { v1::PartitionState::Failed };
    let event =
        v1::PartitionEvent { id: Some(id(place)), state: state.into(), outcome: Some(outcome), ..Default::default() };
    Box::new(event)
}

pub fn proof() -> Ended {
    Ended::Proof(v1::PartitionProof { proof: vec![1; 8], timings: Some(Default::default()), ..Default::default() })
}

pub fn failure(kind: v1::FailureKind) -> Ended {
    Ended::Failure(v1::Failure { kind: kind.into(), message: "why".into() })
}
