//! What the operator knows, and what follows from it.
//!
//! Pure: it is given what was seen ([`Input`]) and the time, and gives back what should be done ([`Command`]). The
//! [`crate::executor`] does it and reports back as further inputs. Nothing is done twice while it is under way, and what
//! failed is planned again from what is then known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use proofmill_crds::proof_job::ProofJobStatus;
use proofmill_proto::v1;

use crate::clock::Now;
use crate::fleet::{Engine, Pace};
use crate::index::{CircuitObject, HasMeta, JobObject, Key, PodObject, upsert};
use crate::jobs::record::{Job, Rank};

mod engines;
mod jobs;
mod schedule;

/// What was seen.
#[derive(Debug)]
pub enum Input {
    /// Circuits changed.
    Circuits(Change<CircuitObject>),
    /// Jobs changed.
    Jobs(Change<JobObject>),
    /// Pools changed: their keys.
    Pools(Change<PoolObject>),
    /// Prover pods changed.
    Pods(Change<PodObject>),
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
    /// This replica leads now, by a Lease with so many transitions.
    Leads(u64),
}

/// A change of one kind's objects.
#[derive(Debug)]
pub enum Change<T> {
    /// All there are.
    Listed(Vec<T>),
    /// One is new or other than it was.
    Applied(Box<T>),
    /// One is gone.
    Deleted(Key),
}

/// A pool, as far as jobs care.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolObject {
    /// What every object has.
    pub meta: crate::index::Meta,
}

/// What an engine said.
#[derive(Debug)]
pub enum EngineNews {
    /// It answered: this is all it works on.
    Listed(v1::ListResponse),
    /// A partition changed.
    Partition(v1::PartitionEvent),
    /// How it is.
    Status(Box<v1::EngineStatus>),
    /// The connection broke, or none came about.
    Lost,
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
        /// The job as it was planned from.
        job: Box<JobObject>,
        /// The new status.
        status: Box<ProofJobStatus>,
    },
    /// Write a job's proof to a ConfigMap.
    WriteOutput {
        /// The job.
        job: Box<JobObject>,
        /// Its proofs.
        proofs: Vec<v1::PartitionProof>,
    },
    /// Delete a job whose time to live is over.
    DeleteJob(Box<JobObject>),
    /// Tell humans.
    Tell {
        /// About which job.
        job: Box<JobObject>,
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
}

/// What is known.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    circuits: BTreeMap<Key, CircuitObject>,
    pools: BTreeMap<Key, PoolObject>,
    pods: BTreeMap<Key, PodObject>,
    jobs: BTreeMap<Key, Job>,
    by_uid: HashMap<String, Key>,
    /// By pod UID.
    engines: BTreeMap<String, Engine>,
    pace: Pace,
    /// Partitions that may be sent, in order, by pool.
    waiting: BTreeMap<Key, BTreeSet<Rank>>,
    /// Jobs to look at.
    dirty: BTreeSet<Key>,
    /// When to look at which job again.
    timers: BTreeSet<(Duration, Key)>,
    /// Since when this replica leads, and its epoch.
    leads: Option<(Duration, u64)>,
    commands: Vec<Command>,
    /// Which kinds have been listed: circuits, jobs, pods.
    listed: [bool; 3],
}

impl HasMeta for PoolObject {
    fn meta(&self) -> &crate::index::Meta {
        &self.meta
    }
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            circuits: BTreeMap::new(),
            pools: BTreeMap::new(),
            pods: BTreeMap::new(),
            jobs: BTreeMap::new(),
            by_uid: HashMap::new(),
            engines: BTreeMap::new(),
            pace: Pace::default(),
            waiting: BTreeMap::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            leads: None,
            commands: Vec::new(),
            listed: [false; 3],
        }
    }

    /// Takes in what was seen.
    pub fn see(&mut self, input: Input, now: &Now) {
        match &input {
            Input::Circuits(Change::Listed(_)) => self.listed[0] = true,
            Input::Jobs(Change::Listed(_)) => self.listed[1] = true,
            Input::Pods(Change::Listed(_)) => self.listed[2] = true,
            _ => {}
        }
        match input {
            Input::Circuits(change) => {
                for key in apply(&mut self.circuits, change) {
                    if !self.circuits.contains_key(&key) {
                        self.pace.forget(&key);
                    }
                    self.touch_jobs_of(|job| job.object.meta.key.sibling(&job.object.spec.circuit_ref.name) == key);
                }
            }
            Input::Pools(change) => {
                for key in apply(&mut self.pools, change) {
                    self.touch_jobs_of(|job| job.object.meta.key.sibling(&job.object.spec.pool_ref.name) == key);
                }
            }
            Input::Jobs(change) => self.see_jobs(change),
            Input::Pods(change) => {
                apply(&mut self.pods, change);
                self.match_engines(now);
            }
            Input::Engine { pod, news } => self.see_engine(&pod, news, now),
            Input::Submitted { pod, id, refusal } => self.see_submitted(&pod, &id, refusal, now),
            Input::Verified { job, uid, fault } => self.see_verified(&job, &uid, fault, now),
            Input::Written { job, uid, result } => self.see_written(&job, &uid, result, now),
            Input::OutputWritten { job, uid, fault } => self.see_output(&job, &uid, fault, now),
            Input::Leads(epoch) => {
                self.leads = Some((now.mono, epoch));
                self.match_engines(now);
                self.dirty.extend(self.jobs.keys().cloned());
            }
        }
    }

    /// What should be done now. To be called after inputs, and when [`Self::wake`] has come.
    pub fn plan(&mut self, now: &Now) -> Vec<Command> {
        while let Some((at, _)) = self.timers.first()
            && *at <= now.mono
        {
            self.dirty.extend(self.timers.pop_first().map(|(_, key)| key));
        }
        // Half an index would look like a cluster with half of its objects gone.
        if self.leads.is_none() || !self.is_synced() {
            return Vec::new();
        }
        for key in std::mem::take(&mut self.dirty) {
            self.look_at(&key, now);
        }
        self.send_waiting(now);
        std::mem::take(&mut self.commands)
    }

    /// When to plan again, if nothing is seen before.
    pub fn wake(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether every kind has been listed once.
    pub fn is_synced(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    /// How many jobs are known, and how many of them have not ended.
    pub fn job_counts(&self) -> (usize, usize) {
        (self.jobs.len(), self.jobs.values().filter(|job| !job.is_over()).count())
    }

    fn touch_jobs_of(&mut self, concerned: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.iter().filter(|(_, job)| !job.is_over() && concerned(job));
        self.dirty.extend(jobs.map(|(key, _)| key.clone()));
    }

    fn look_again(&mut self, key: &Key, at: Duration) {
        self.timers.insert((at, key.clone()));
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
        Change::Listed(all) => {
            let there: BTreeSet<Key> = all.iter().map(|object| object.meta().key.clone()).collect();
            let mut concerned: Vec<Key> = objects.keys().filter(|key| !there.contains(key)).cloned().collect();
            objects.retain(|key, _| there.contains(key));
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
