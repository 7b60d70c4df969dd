//! What the operator knows, and what follows from it.
//!
//! Pure: it is given what was seen ([`Input`]) and the time, and gives back what should be done ([`Command`]). The
//! [`crate::executor`] does it and reports back as further inputs. Nothing is done twice while it is under way, and what
//! failed is planned again from what is then known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use proofmill_crds::circuit::CircuitStatus;
use proofmill_crds::proof_job::ProofJobStatus;
use proofmill_crds::prover_pool::ProverPoolStatus;
use proofmill_proto::v1;

use self::pools::Pool;
use crate::clock::Now;
use crate::fleet::{Engine, Pace};
use crate::index::{CircuitObject, HasMeta, JobObject, Key, Meta, NodeObject, PodObject, PoolObject, upsert};
use crate::jobs::record::{Job, Rank};
use crate::pool::{self, Action, Checked};

mod circuits;
mod engines;
mod jobs;
mod pools;
mod schedule;

/// What is no more than a figure is looked at so long after it has changed: it changes several times in a row.
const SETTLE: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Debug)]
pub enum Input {
    /// Circuits changed.
    Circuits(Change<CircuitObject>),
    /// Jobs changed.
    Jobs(Change<JobObject>),
    /// Pools changed.
    Pools(Change<PoolObject>),
    /// Prover pods changed.
    Pods(Change<PodObject>),
    /// Nodes changed.
    Nodes(Change<NodeObject>),
    /// An engine said something, or was lost.
    Engine {
        /// Its pod's UID.
        pod: String,
        /// What.
        news: EngineNews,
    },
    /// What became of a submission.
    Submitted {
        /// The pod's UID.
        pod: String,
        /// Which partition.
        id: v1::PartitionId,
        /// Nothing, or why not.
        refusal: Option<Refusal>,
    },
    /// The operator's own check of a job's proofs ended.
    Verified {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// Nothing, or what is wrong.
        fault: Option<VerifyFault>,
    },
    /// A status write ended.
    Written {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// The object as it is now, or why not.
        result: Result<Box<JobObject>, WriteFault>,
    },
    /// The ConfigMap of a job's output was written, or why not.
    OutputWritten {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// Nothing, or what is wrong.
        fault: Option<OutputFault>,
    },
    /// What a pool needed was done, as far as it went.
    Tended {
        /// The pool.
        pool: Key,
        /// Its UID.
        uid: String,
        /// How it went.
        news: Box<Tended>,
    },
    /// A Circuit's status write ended.
    CircuitWritten {
        /// The circuit.
        circuit: Key,
        /// Its UID.
        uid: String,
        /// The object as it is now, or why not.
        result: Result<Box<CircuitObject>, WriteFault>,
    },
    /// This replica leads now, by a Lease with so many transitions.
    Leads(u64),
}

/// A change of one kind's objects.
#[derive(Debug)]
pub enum Change<T> {
    /// All there are in a namespace, or anywhere.
    Listed(Option<String>, Vec<T>),
    /// One is new or other than it was.
    Applied(Box<T>),
    /// One is gone.
    Deleted(Key),
}

/// What an engine said.
#[derive(Debug)]
pub enum EngineNews {
    /// It answered: this is all it works on.
    Listed(v1::ListResponse),
    /// A partition changed.
    Partition(Box<v1::PartitionEvent>),
    /// How it is.
    Status(Box<v1::EngineStatus>),
    /// The connection broke, or none came about; why.
    Lost(String),
}

/// How it went with a pool's needs.
#[derive(Debug, Default)]
pub struct Tended {
    /// The API server's word on the template.
    pub checked: Option<Checked>,
    /// A pod was created.
    pub created: bool,
    /// The API server's words when it refused a pod.
    pub refused: Option<String>,
    /// The pool as it is now, if its status was written.
    pub written: Option<Result<PoolObject, WriteFault>>,
    /// What failed otherwise: it is tried again.
    pub failed: bool,
}

/// Why a submission did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The engine has no room, drains, or was not reached: elsewhere or later.
    Later(String),
    /// A newer leader is at work.
    StaleEpoch,
    /// The engine does not understand the request: it will not next time either.
    Invalid(String),
    /// The ConfigMap or Secret with the input is not there (yet).
    NoInput(String),
    /// The input can never be sent.
    BadInput(String),
}

/// What is wrong with a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyFault {
    /// The verifying key could not be had from any engine.
    NoKey(String),
    /// It does not verify.
    Wrong(String),
}

/// Why a status was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The object is another one by now; a watch tells.
    Conflict,
    /// It is gone.
    Gone,
    /// The API server did not take it.
    Failed(String),
}

/// Why an output was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFault {
    /// A ConfigMap of that name exists and is not the job's.
    Conflict,
    /// It would never be taken: too large, or invalid.
    Impossible(String),
    /// The API server did not take it.
    Failed(String),
}

/// What should be done.
#[derive(Clone, Debug)]
pub enum Command {
    /// Keep a connection to a pod's engine.
    Connect(Address),
    /// Drop it.
    Disconnect(String),
    /// Send a partition.
    Submit(Box<Submission>),
    /// Cancel a partition.
    Cancel {
        /// The pod's UID.
        pod: String,
        /// Which.
        id: v1::PartitionId,
    },
    /// A result is stored.
    Ack {
        /// The pod's UID.
        pod: String,
        /// Which.
        id: v1::PartitionId,
    },
    /// A job's priority changed.
    Reprioritise {
        /// The pod's UID.
        pod: String,
        /// The job's UID.
        job: String,
        /// The new one.
        priority: v1::Priority,
    },
    /// Check a job's proofs.
    Verify(Box<Verification>),
    /// Write a job's status.
    WriteStatus {
        /// The job's object as it was planned from.
        job: Box<Meta>,
        /// The new status.
        status: Box<ProofJobStatus>,
    },
    /// Do what a pool needs: its actions in order, then its status.
    Tend {
        /// The pool as it was planned from.
        pool: Box<PoolObject>,
        /// In this order.
        actions: Vec<Action>,
        /// The new status, if it is to be written.
        status: Option<Box<ProverPoolStatus>>,
    },
    /// Keep up a pool's certificate from now on.
    KeepPool(Box<PoolObject>),
    /// A pool is gone.
    ForgetPool(Key),
    /// Have an engine forget a circuit that is another one by now.
    Evict {
        /// The pod's UID.
        pod: String,
        /// The circuit.
        circuit: String,
    },
    /// Have an engine keep a circuit in memory.
    Preload {
        /// The pod's UID.
        pod: String,
        /// The circuit.
        circuit: Box<v1::Circuit>,
    },
    /// Write a Circuit's status.
    WriteCircuit {
        /// The circuit's object as it was planned from.
        circuit: Box<Meta>,
        /// The new status.
        status: Box<CircuitStatus>,
    },
    /// Write a job's proof to a ConfigMap.
    WriteOutput {
        /// The job.
        job: Box<JobObject>,
        /// Its proofs.
        proofs: Vec<v1::PartitionProof>,
    },
    /// Delete a job whose time to live is over.
    DeleteJob(Box<Meta>),
    /// Tell humans.
    Tell {
        /// About which job.
        job: Box<Meta>,
        /// One word.
        reason: &'static str,
        /// A sentence.
        note: String,
        /// Something is wrong.
        warning: bool,
    },
    /// A newer leader is at work: stop.
    StepDown,
}

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its pod's UID.
    pub pod: String,
    /// Its pod's name.
    pub key: Key,
    /// Its pool.
    pub pool: String,
    /// Its IP address.
    pub ip: String,
}

/// A partition to be sent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The pod's UID.
    pub pod: String,
    /// The job, whose input is to be read.
    pub job: Key,
    /// All but digest and input.
    pub request: v1::SubmitRequest,
    /// The job's input.
    pub input: proofmill_crds::source::Input,
    /// The digest that the input must have: that of the first fetch.
    pub input_digest: Option<[u8; 32]>,
}

/// Proofs to be checked.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The job.
    pub job: Key,
    /// Its UID.
    pub uid: String,
    /// Its proofs are tags of a simulated device, which prove nothing.
    pub simulated: bool,
    /// Pods that may know the verifying key, by UID.
    pub pods: Vec<String>,
    /// The digest that the Circuit's verifying key has, once known.
    pub verifying_key: Option<[u8; 32]>,
    /// The proofs.
    pub proofs: Vec<v1::PartitionProof>,
}

/// What the operator is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seconds after which an ended job without a `ttlSecondsAfterFinished` is deleted.
    pub default_ttl: Duration,
    /// How many namespaces are watched; 0: all, by one watch.
    pub namespaces: usize,
    /// What holds for all pools.
    pub pools: pool::Settings,
}

/// What is known.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    circuits: BTreeMap<Key, CircuitObject>,
    pools: BTreeMap<Key, Pool>,
    pods: BTreeMap<Key, PodObject>,
    nodes: BTreeMap<Key, NodeObject>,
    /// What engines found out about circuits.
    findings: BTreeMap<Key, circuits::Finding>,
    jobs: BTreeMap<Key, Job>,
    by_uid: HashMap<String, Key>,
    /// How many jobs have ended: counting them anew at every turn took most of the operator's time.
    over: usize,
    /// By pod UID.
    engines: BTreeMap<String, Engine>,
    pace: Pace,
    /// Partitions that may be sent, in order, by pool.
    waiting: BTreeMap<Key, BTreeSet<Rank>>,
    /// What to look at.
    dirty: BTreeSet<Subject>,
    /// When to look at what again, in order of time.
    timers: BTreeSet<(Duration, Subject)>,
    /// The same by subject: each has one timer.
    due: BTreeMap<Subject, Duration>,
    /// The time of the present turn.
    now: Duration,
    /// Since when this replica leads, and its epoch.
    leads: Option<(Duration, u64)>,
    commands: Vec<Command>,
    /// Which kinds (circuits, jobs, pools, pods) have been listed in which namespaces.
    listed: BTreeSet<(u8, Option<String>)>,
}

/// What the planner looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Circuit(Key),
    Pool(Key),
    Job(Key),
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            circuits: BTreeMap::new(),
            pools: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            findings: BTreeMap::new(),
            jobs: BTreeMap::new(),
            by_uid: HashMap::new(),
            over: 0,
            engines: BTreeMap::new(),
            pace: Pace::default(),
            waiting: BTreeMap::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            now: Duration::ZERO,
            leads: None,
            commands: Vec::new(),
            listed: BTreeSet::new(),
        }
    }

    /// Takes in what was seen.
    pub fn see(&mut self, input: Input, now: &Now) {
        self.now = now.mono;
        let listed = match &input {
            Input::Circuits(Change::Listed(namespace, _)) => Some((0, namespace.clone())),
            Input::Jobs(Change::Listed(namespace, _)) => Some((1, namespace.clone())),
            Input::Pools(Change::Listed(namespace, _)) => Some((2, namespace.clone())),
            Input::Pods(Change::Listed(namespace, _)) => Some((3, namespace.clone())),
            _ => None,
        };
        self.listed.extend(listed);
        match input {
            Input::Circuits(change) => self.see_circuits(change),
            Input::Pools(change) => self.see_pools(change),
            Input::Jobs(change) => self.see_jobs(change),
            Input::Pods(change) => {
                self.touch_pools_of(&change);
                apply(&mut self.pods, change);
                self.match_engines(now);
            }
            Input::Nodes(change) => {
                if !apply(&mut self.nodes, change).is_empty() {
                    self.match_engines(now);
                    self.dirty.extend(self.pools.keys().cloned().map(Subject::Pool));
                }
            }
            Input::Tended { pool, uid, news } => self.see_tended(&pool, &uid, *news, now),
            Input::CircuitWritten { circuit, uid, result } => self.see_circuit_written(&circuit, &uid, result),
            Input::Engine { pod, news } => self.see_engine(&pod, news, now),
            Input::Submitted { pod, id, refusal } => self.see_submitted(&pod, &id, refusal, now),
            Input::Verified { job, uid, fault } => self.see_verified(&job, &uid, fault, now),
            Input::Written { job, uid, result } => self.see_written(&job, &uid, result, now),
            Input::OutputWritten { job, uid, fault } => self.see_output(&job, &uid, fault, now),
            Input::Leads(epoch) => {
                self.leads = Some((now.mono, epoch));
                self.pools.values_mut().for_each(|pool| pool.kept = false);
                self.match_engines(now);
                self.dirty.extend(self.circuits.keys().cloned().map(Subject::Circuit));
                self.dirty.extend(self.pools.keys().cloned().map(Subject::Pool));
                self.dirty.extend(self.jobs.keys().cloned().map(Subject::Job));
            }
        }
    }

    /// What should be done now. To be called after inputs, and when [`Self::wake`] has come.
    pub fn plan(&mut self, now: &Now) -> Vec<Command> {
        self.now = now.mono;
        while let Some((at, _)) = self.timers.first()
            && *at <= now.mono
            && let Some((_, subject)) = self.timers.pop_first()
        {
            self.due.remove(&subject);
            self.dirty.insert(subject);
        }
        // Half an index would look like a cluster with half of its objects gone.
        if self.leads.is_none() || !self.is_synced() {
            return Vec::new();
        }
        for subject in std::mem::take(&mut self.dirty) {
            match subject {
                Subject::Circuit(key) => self.look_at_circuit(&key, now),
                Subject::Pool(key) => self.look_at_pool(&key, now),
                Subject::Job(key) => self.look_at_job(&key, now),
            }
        }
        self.send_waiting(now);
        std::mem::take(&mut self.commands)
    }

    /// When to plan again, if nothing is seen before.
    pub fn wake(&self) -> Option<Duration> {
        if self.leads.is_none() || !self.is_synced() {
            return None;
        }
        if self.dirty.is_empty() { self.timers.first().map(|(at, _)| *at) } else { Some(self.now) }
    }

    /// Whether every kind has been listed once, everywhere. Nodes are only advice, and not everyone may see them.
    pub fn is_synced(&self) -> bool {
        self.listed.len() == 4 * self.settings.namespaces.max(1)
    }

    /// How many jobs are known, and how many of them have not ended.
    pub fn job_counts(&self) -> (usize, usize) {
        (self.jobs.len(), self.jobs.len() - self.over)
    }

    fn touch_jobs_of(&mut self, concerned: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.iter().filter(|(_, job)| !job.is_over() && concerned(job));
        self.dirty.extend(jobs.map(|(key, _)| Subject::Job(key.clone())));
    }

    /// Looks at a subject at `at`, or before. Every look says anew what it waits for: the earliest counts.
    fn look_again(&mut self, subject: Subject, at: Duration) {
        match self.due.get(&subject) {
            Some(known) if *known <= at => return,
            Some(known) => {
                self.timers.remove(&(*known, subject.clone()));
            }
            None => {}
        }
        self.due.insert(subject.clone(), at);
        self.timers.insert((at, subject));
    }
}

/// Applies a change and tells which objects it concerned.
fn apply<T: HasMeta>(objects: &mut BTreeMap<Key, T>, change: Change<T>) -> Vec<Key> {
    match change {
        Change::Applied(object) => {
            let key = object.meta().key.clone();
            if upsert(objects, *object) { vec![key] } else { Vec::new() }
        }
        Change::Deleted(key) => objects.remove(&key).map(|_| key).into_iter().collect(),
        Change::Listed(namespace, all) => {
            let there: BTreeSet<Key> = all.iter().map(|object| object.meta().key.clone()).collect();
            let gone = |key: &Key| !there.contains(key) && namespace.as_ref().is_none_or(|only| *only == key.namespace);
            let mut concerned: Vec<Key> = objects.keys().filter(|key| gone(key)).cloned().collect();
            objects.retain(|key, _| !gone(key));
            for object in all {
                let key = object.meta().key.clone();
                if upsert(objects, object) {
                    concerned.push(key);
                }
            }
            concerned
        }
    }
}

#[cfg(test)]
mod tests;
