//! Which waiting partition goes to which engine.

use std::collections::BTreeSet;
use std::time::Duration;

use proofmill_proto::v1;

use super::{Command, Planner, SETTLE, Subject, Submission};
use crate::clock::Now;
use crate::fleet::{Engine, LOST_AFTER, pick};
use crate::index::Key;
use crate::jobs::message;
use crate::jobs::record::{Phase, Rank};

impl Planner {
    /// Sends what waits, in strict order, as far as engines have room.
    pub(super) fn send_waiting(&mut self, now: &Now) {
        if self.is_waiting_for_engines(now.mono) {
            let first = self.waiting.values().find_map(BTreeSet::first).map(|rank| rank.job.clone());
            if let (Some(job), Some((since, _))) = (first, self.leads) {
                self.look_again(Subject::Job(job), since + LOST_AFTER);
            }
            return;
        }
        for pool in self.waiting.keys().cloned().collect::<Vec<_>>() {
            while let Some((rank, pod)) = self.next(&pool, now) {
                self.send(&pool, &rank, &pod, now);
            }
        }
    }

    /// A new leader sends nothing before it has asked every engine that may be at work what it works on, or has waited for so
    /// long that the engine counts as lost.
    pub(super) fn is_waiting_for_engines(&self, now: Duration) -> bool {
        let Some((since, _)) = self.leads else { return true };
        let ready = |pod: &Key| self.pods.get(pod).is_some_and(|pod| pod.ready);
        let silent = |engine: &Engine| !engine.listed && (!engine.tried || ready(&engine.pod));
        now < since + LOST_AFTER && self.engines.values().any(silent)
    }

    /// The first partition of a pool's queue that may go, and the engine for it. What waits out a pause lets others pass;
    /// what finds no engine does not.
    fn next(&mut self, pool: &Key, now: &Now) -> Option<(Rank, String)> {
        let mut pauses = Vec::new();
        let found = self.waiting.get(pool)?.iter().find_map(|rank| {
            let job = self.jobs.get(&rank.job)?;
            let partition = job.partitions.get(rank.partition as usize)?;
            let Phase::Waiting(not_before) = partition.phase else { return None };
            if not_before > now.mono {
                pauses.push((not_before, rank.job.clone()));
                return None;
            }
            let circuit = rank.job.sibling(&job.object.spec.circuit_ref.name);
            let engines = self.engines.iter().filter(|(_, engine)| engine.pool == *pool);
            let priority = job.object.spec.priority;
            let pod = pick(engines, priority, &self.pace, &circuit, partition.avoid.as_deref());
            Some(pod.map(|pod| (rank.clone(), pod.clone())))
        });
        for (at, job) in pauses {
            self.look_again(Subject::Job(job), at);
        }
        found.flatten()
    }

    fn send(&mut self, pool: &Key, rank: &Rank, pod: &str, now: &Now) {
        if let Some(waiting) = self.waiting.get_mut(pool) {
            waiting.remove(rank);
        }
        self.account_for_start(&rank.job, now);
        let Some(circuit) = self.circuit_of(&rank.job) else { return };
        let circuit = message::circuit(&circuit.meta.key.name, &circuit.spec);
        let epoch = self.leads.map_or(0, |(_, epoch)| epoch);
        let (Some(job), Some(engine)) = (self.jobs.get_mut(&rank.job), self.engines.get_mut(pod)) else { return };
        let id = job.id(rank.partition);
        let spec = &job.object.spec;
        let deadline_ms = job.deadline_left(now).map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let request = v1::SubmitRequest {
            epoch,
            id: Some(id),
            digest: Vec::new(),
            priority: message::priority(spec.priority).into(),
            sequence: job.object.meta.created.unsigned_abs(),
            deadline_ms,
            circuit,
            input: None,
        };
        engine.assign((rank.job.clone(), rank.partition));
        self.commands.push(Command::Submit(Box::new(Submission {
            pod: pod.to_owned(),
            job: rank.job.clone(),
            request,
            input: spec.input.clone(),
            input_digest: job.input_digest(),
        })));
        let state = v1::PartitionState::Queued;
        if let Some(partition) = job.partitions.get_mut(rank.partition as usize) {
            partition.phase = Phase::Sent { pod: pod.to_owned(), pod_name: engine.pod.name.clone(), state };
        }
        self.dirty.insert(Subject::Job(rank.job.clone()));
        self.engine_changed(pod);
    }

    /// Puts a job's waiting partitions into its pool's queue.
    pub(super) fn queue(&mut self, key: &Key) {
        let Some(job) = self.jobs.get(key) else { return };
        let pool = key.sibling(&job.object.spec.pool_ref.name);
        let waiting = (0..).zip(&job.partitions).filter(|(_, partition)| matches!(partition.phase, Phase::Waiting(_)));
        let ranks: Vec<Rank> = waiting.map(|(index, _)| job.rank(index)).collect();
        let queue = self.waiting.entry(pool.clone()).or_default();
        let before = queue.len();
        queue.extend(ranks);
        if queue.len() > before {
            // More pods may be wanted.
            self.look_again(Subject::Pool(pool), self.now + SETTLE);
        }
    }

    /// Takes all of a job's partitions out of its pool's queue.
    pub(super) fn unqueue_all(&mut self, key: &Key) {
        let count = self.jobs.get(key).map_or(0, |job| job.partitions.len());
        (0..u32::try_from(count).unwrap_or(0)).for_each(|index| self.unqueue(key, index));
    }

    /// Takes a partition out of its pool's queue.
    pub(super) fn unqueue(&mut self, key: &Key, partition: u32) {
        let Some(job) = self.jobs.get(key) else { return };
        let pool = key.sibling(&job.object.spec.pool_ref.name);
        let rank = job.rank(partition);
        if let Some(waiting) = self.waiting.get_mut(&pool) {
            let removed = waiting.remove(&rank);
            if waiting.is_empty() {
                self.waiting.remove(&pool);
            }
            if removed {
                self.look_again(Subject::Pool(pool), self.now + SETTLE);
            }
        }
    }

    /// How many partitions stand before a job in its pool's queue.
    pub(super) fn ahead_of(&self, key: &Key) -> usize {
        let Some(job) = self.jobs.get(key) else { return 0 };
        let pool = key.sibling(&job.object.spec.pool_ref.name);
        self.waiting.get(&pool).map_or(0, |waiting| waiting.range(..job.rank(0)).count())
    }
}
