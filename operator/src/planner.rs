//! What the operator knows, and what follows from it.
//!
//! Pure: it is given what was seen ([`Input`]) and the time, and gives back what should be done ([`Command`]). The
//! [`crate::executor`] does it and reports back as further inputs. Nothing is done twice while it is under way, and what
//! failed is planned again from what is then known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

pub use self::command::{Address, Command, Submission, Verification};
pub use self::evidence::{JobState, PoolView};
pub use self::input::{Change, EngineNews, Input, OutputFault, Refusal, Tended, VerifyFault, WriteFault};
use self::pools::Pool;
use crate::account::Account;
use crate::clock::Now;
use crate::fleet::{Engine, Pace};
use crate::index::{CircuitObject, HasMeta, Key, NodeObject, PodObject, upsert};
use crate::jobs::record::{Job, Rank};
use crate::pool;

mod circuits;
mod command;
mod engines;
mod evidence;
mod input;
mod jobs;
mod pools;
mod schedule;

/// What is no more than a figure is looked at so long after it has changed: it changes several times in a row.
const SETTLE: Duration = Duration::from_secs(1);

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
    account: Account,
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
            account: Account::default(),
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
