//! What the planner knows, for metrics.

use std::time::Duration;

use proofmill_crds::conditions::{ConditionStatus, types};
use proofmill_proto::v1;

use super::Planner;
use crate::account::{Account, LATENCY_BOUNDS, Speaker};
use crate::clock::Now;
use crate::index::{Key, PoolObject};
use crate::jobs::record::Job;
use crate::pool::Demand;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It goes on; the reason that a user reads.
    Waiting(&'static str),
    /// It has ended; whether with a proof.
    Ended(bool),
}

/// A pool and what waits for it.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    /// The pool.
    pub pool: &'a PoolObject,
    /// The work; none while it is not known.
    pub demand: Option<Demand>,
    /// Devices that take work.
    pub devices: usize,
}

/// The state of a job that has not been looked at yet.
const NEW: &str = "New";

impl Planner {
    /// Whether this replica leads.
    pub fn leads(&self) -> bool {
        self.leads.is_some()
    }

    /// The fleet's account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Every job's pool and state.
    pub fn job_states(&self) -> impl Iterator<Item = (Key, JobState)> {
        self.jobs.values().map(|job| (pool_of(job), state(job)))
    }

    /// Every pool.
    pub fn pool_views(&self, now: &Now) -> impl Iterator<Item = PoolView<'_>> {
        let now = now.mono;
        self.pools.iter().map(move |(key, pool)| {
            let engines = self.engines.values().filter(|engine| engine.pool == *key && engine.connected.is_some());
            let devices = engines.filter(|engine| engine.ready && !engine.draining).map(|engine| engine.devices).sum();
            PoolView { pool: &pool.object, demand: self.demand(pool, now), devices }
        })
    }

    /// Puts an engine's report on the account.
    pub(super) fn account_for(&mut self, pod: &str, status: Box<v1::EngineStatus>, now: &Now) {
        let (Some(engine), Some((since, _))) = (self.engines.get(pod), self.leads) else { return };
        let Some(object) = self.pods.get(&engine.pod) else { return };
        let age = now.wall.as_second().saturating_sub(object.meta.created);
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        let speaker = Speaker {
            pod,
            pool: &engine.pool,
            age: (age <= now.mono.saturating_sub(since)).then_some(age),
            backlog: self.waiting.contains_key(&engine.pool),
        };
        self.account.hear(speaker, status, now.mono);
    }

    /// A job's first partition is sent.
    pub(super) fn account_for_start(&mut self, key: &Key, now: &Now) {
        let Some(job) = self.jobs.get(key).filter(|job| !job.was_scheduled()) else { return };
        let Some((seen, before)) = job.started else { return };
        let pool = pool_of(job);
        let latency = now.mono.saturating_sub(seen) + before;
        self.account.pool(&pool).schedule_latency.observe(&LATENCY_BOUNDS, latency);
    }

    /// A partition is sent again.
    pub(super) fn account_for_retry(&mut self, key: &Key, reason: &'static str) {
        if let Some(pool) = self.jobs.get(key).map(pool_of) {
            *self.account.pool(&pool).retries.entry(reason).or_default() += 1;
        }
    }
}

/// The pool of a job.
pub(super) fn pool_of(job: &Job) -> Key {
    job.object.meta.key.sibling(&job.object.spec.pool_ref.name)
}

fn state(job: &Job) -> JobState {
    let conditions = &job.object.status.conditions;
    match conditions.iter().find(|condition| condition.type_ == types::SUCCEEDED).map(|condition| condition.status) {
        Some(ConditionStatus::True) => JobState::Ended(true),
        Some(ConditionStatus::False) => JobState::Ended(false),
        _ => JobState::Waiting(job.reason.map_or(NEW, |(reason, _)| reason)),
    }
}
