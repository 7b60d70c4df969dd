//! The protocol: submit, attach, cancel, reprioritise, acknowledge, preload, evict, drain, deadlines, kept results.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proofmill_groth16::proof::Proof;

use super::budget::Area;
use super::event::{Action, Ticket};
use super::keys::KeyState;
use super::partition::{Order, Partition, Stage};
use super::{Core, Grant};
use crate::engine::{PartitionEvent, ResultBounds, SubmitError, Submitted};
use crate::job::{
    Circuit, Failure, FailureKind, Input, Outcome, PartitionId, PartitionState, Priority, Submission, Timings,
};
use crate::meter::Usage;

/// A result that nobody has acknowledged.
#[derive(Debug)]
pub(super) struct Kept {
    pub digest: [u8; 32],
    pub circuit: String,
    pub priority: Priority,
    pub outcome: Outcome,
    pub at: Duration,
    serial: u64,
    bytes: u64,
}

impl Kept {
    pub fn state(&self) -> PartitionState {
        match &self.outcome {
            Ok(_) => PartitionState::Succeeded,
            Err(Failure { kind: FailureKind::Cancelled, .. }) => PartitionState::Cancelled,
            Err(_) => PartitionState::Failed,
        }
    }
}

/// Results until they are acknowledged, bounded in number, bytes and age.
#[derive(Debug, Default)]
pub(super) struct Results {
    kept: BTreeMap<PartitionId, Kept>,
    /// In order of time; an entry whose serial is not that of the kept result is void.
    by_age: VecDeque<(Duration, PartitionId, u64)>,
    bytes: u64,
    next_serial: u64,
}

impl Results {
    pub fn get(&self, id: &PartitionId) -> Option<&Kept> {
        self.kept.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PartitionId, &Kept)> {
        self.by_age
            .iter()
            .filter_map(|(_, id, serial)| self.kept.get_key_value(id).filter(|(_, kept)| kept.serial == *serial))
    }

    pub fn keep(
        &mut self,
        id: PartitionId,
        digest: [u8; 32],
        circuit: String,
        priority: Priority,
        outcome: Outcome,
        at: Duration,
    ) {
        self.remove(&id);
        let serial = self.next_serial;
        self.next_serial += 1;
        let bytes = size(&outcome);
        self.bytes += bytes;
        self.by_age.push_back((at, id.clone(), serial));
        self.kept.insert(id, Kept { digest, circuit, priority, outcome, at, serial, bytes });
    }

    pub fn remove(&mut self, id: &PartitionId) -> bool {
        let Some(kept) = self.kept.remove(id) else { return false };
        self.bytes -= kept.bytes;
        // Void entries must not pile up between those that stay.
        if self.by_age.len() > 2 * self.kept.len() + 16 {
            let current = &self.kept;
            self.by_age.retain(|(_, id, serial)| current.get(id).is_some_and(|kept| kept.serial == *serial));
        }
        true
    }

    /// Forgets what is beyond the bounds, the oldest first.
    pub fn trim(&mut self, bounds: ResultBounds, now: Duration) {
        while let Some((at, id, serial)) = self.by_age.front() {
            let current = self.kept.get(id).is_some_and(|kept| kept.serial == *serial);
            let over = self.kept.len() > bounds.count || self.bytes > bounds.bytes;
            if current && !over && at.saturating_add(bounds.age) > now {
                break;
            }
            let id = id.clone();
            self.by_age.pop_front();
            if current {
                self.remove(&id);
            }
        }
    }

    pub fn next_expiry(&self, age: Duration) -> Option<Duration> {
        self.by_age.front().map(|(at, _, _)| at.saturating_add(age))
    }
}

/// Roughly what a result takes in memory.
fn size(outcome: &Outcome) -> u64 {
    let bytes = match outcome {
        Ok(proof) => {
            let points = match &proof.proof {
                Proof::Groth16 { bytes, .. } => bytes.len(),
                Proof::Simulated(_) => 0,
            };
            size_of_val(proof.as_ref()) + points + proof.public_signals.len() * 32 + proof.device.len()
        }
        Err(failure) => size_of::<Failure>() + failure.message.len(),
    };
    bytes as u64
}

impl Core {
    /// Queues a partition, or attaches to it.
    pub fn submit(&mut self, now: Duration, submission: Submission) -> Result<Submitted, SubmitError> {
        self.at(now);
        self.expire();
        let result = self.take_in(submission);
        // Also after a refusal: what expired just now may have freed a worker.
        self.pump();
        result
    }

    fn take_in(&mut self, submission: Submission) -> Result<Submitted, SubmitError> {
        if submission.epoch < self.epoch {
            return Err(SubmitError::StaleEpoch { given: submission.epoch, seen: self.epoch });
        }
        self.epoch = submission.epoch;
        if let Some(attached) = self.attach(&submission)? {
            return Ok(attached);
        }
        if self.draining {
            return Err(SubmitError::Draining);
        }
        if self.live.len() >= self.config.queue_limit {
            return Err(SubmitError::QueueFull { limit: self.config.queue_limit });
        }
        let input = match &submission.input {
            Input::Inline(bytes) => {
                let (need, limit) = (bytes.len() as u64, self.budget.input_limit());
                let full = SubmitError::InputMemory { need, limit, used: self.budget.used(Area::Inputs) };
                Some(self.budget.take(Area::Inputs, need, false).ok_or(full)?)
            }
            Input::Fetch(_) => None,
        };
        self.results.remove(&submission.id);
        self.admit(submission, input);
        Ok(Submitted::Accepted)
    }

    /// The same work that is under way or has succeeded; work that failed starts anew.
    fn attach(&mut self, submission: &Submission) -> Result<Option<Submitted>, SubmitError> {
        let conflict = || SubmitError::Conflict { id: submission.id.clone() };
        if let Some(&ticket) = self.live.get(&submission.id) {
            if self.partitions.get(&ticket).is_some_and(|known| known.digest != submission.digest) {
                return Err(conflict());
            }
            self.reorder(ticket, submission.priority, submission.sequence);
            return Ok(Some(Submitted::Attached));
        }
        match self.results.get(&submission.id) {
            Some(kept) if kept.digest != submission.digest => Err(conflict()),
            Some(kept) if kept.outcome.is_ok() => Ok(Some(Submitted::Attached)),
            _ => Ok(None),
        }
    }

    fn admit(&mut self, submission: Submission, input: Option<Grant>) {
        let now = self.now;
        let Submission { id, digest, priority, sequence, deadline, circuit, input: source, .. } = submission;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let order = Order { priority, sequence, partition: id.partition, ticket };
        let (key, new) = self.keys.intern(&circuit, now);
        if new {
            self.actions.push(Action::Learn { key, circuit: Box::new(circuit) });
        }
        let has_input = input.is_some();
        if let Some(key) = self.keys.get_mut(key) {
            key.join(order, has_input);
        }
        if !has_input {
            self.fetch_queue.insert(order);
        }
        let deadline = deadline.map(|left| now.saturating_add(left));
        if let Some(at) = deadline {
            self.deadlines.insert((at, ticket));
        }
        self.actions.push(Action::Admit { ticket, key, partition: id.partition, input: source });
        self.live.insert(id.clone(), ticket);
        let state = PartitionState::Queued;
        self.actions.push(Action::Emit(PartitionEvent {
            id: id.clone(),
            state,
            at: now,
            progress: None,
            outcome: None,
        }));
        self.partitions.insert(
            ticket,
            Partition {
                name: id.to_string().into(),
                id,
                digest,
                order,
                deadline,
                key,
                submitted: now,
                stage: Stage::Gathering,
                ended: false,
                fetching: false,
                has_input,
                input_bytes: 0,
                input_refused: false,
                blocked: false,
                leased: false,
                input,
                scratch: None,
                evaluations: None,
                host: None,
                on_device: None,
                parked_on: None,
                next_phase: None,
                avoid: Vec::new(),
                bad_proofs: Vec::new(),
                faults: 0,
                last_device: None,
                device_time: Duration::ZERO,
                visible: state,
                since: now,
                mark: now,
                timings: Timings::default(),
                usage: Usage::default(),
            },
        );
        self.advance(ticket);
    }

    /// Cancels a partition in whatever stage it is.
    pub fn cancel(&mut self, now: Duration, id: &PartitionId) -> bool {
        self.at(now);
        let Some(&ticket) = self.live.get(id) else { return false };
        self.fail(ticket, FailureKind::Cancelled, "cancelled at the client's wish".to_owned());
        self.pump();
        true
    }

    /// Changes the priority of a job's partitions; the number changed.
    pub fn reprioritise(&mut self, now: Duration, job: &str, priority: Priority) -> usize {
        self.at(now);
        let tickets: Vec<Ticket> =
            self.live.iter().filter(|(id, _)| id.job == job).map(|(_, &ticket)| ticket).collect();
        let mut changed = 0;
        for ticket in tickets {
            let Some(sequence) = self.partitions.get(&ticket).map(|partition| partition.order.sequence) else {
                continue;
            };
            changed += usize::from(self.reorder(ticket, priority, sequence));
        }
        self.pump();
        changed
    }

    /// Moves a partition to another place in whatever queue it is; false if it has that place already.
    fn reorder(&mut self, ticket: Ticket, priority: Priority, sequence: u64) -> bool {
        let Some(partition) = self.partitions.get_mut(&ticket) else { return false };
        let old = partition.order;
        let new = Order { priority, sequence, ..old };
        if old == new {
            return false;
        }
        partition.order = new;
        let queues = [&mut self.fetch_queue, &mut self.ready, &mut self.device_queue, &mut self.finish_queue];
        let users = self.keys.get_mut(partition.key).map(|key| [&mut key.users, &mut key.fed]);
        for queue in queues.into_iter().chain(users.into_iter().flatten()) {
            if queue.remove(&old) {
                queue.insert(new);
            }
        }
        true
    }

    /// Forgets a finished result.
    pub fn acknowledge(&mut self, now: Duration, id: &PartitionId) -> bool {
        self.at(now);
        self.results.remove(id)
    }

    /// Loads a circuit and keeps it while memory allows.
    pub fn preload(&mut self, now: Duration, circuit: Circuit) {
        self.at(now);
        if self.draining {
            return;
        }
        let (id, new) = self.keys.intern(&circuit, now);
        if new {
            self.actions.push(Action::Learn { key: id, circuit: Box::new(circuit) });
        }
        if let Some(key) = self.keys.get_mut(id) {
            key.warm = true;
        }
        self.pump();
    }

    /// Drops an idle circuit; false if it is in use or not resident.
    pub fn evict(&mut self, now: Duration, circuit: &str) -> bool {
        self.at(now);
        let mut evicted = false;
        self.keys.failures.remove(circuit);
        for id in self.keys.named(circuit) {
            let Some(key) = self.keys.get_mut(id) else { continue };
            if key.state == KeyState::Loaded && key.leases == 0 && key.users.is_empty() {
                key.warm = false;
                self.evict_key(id);
                evicted = true;
            }
        }
        self.pump();
        evicted
    }

    /// Closes intake.
    pub fn close(&mut self, now: Duration) {
        self.at(now);
        if !self.draining {
            self.draining = true;
            self.trace.mark(self.now, "draining".to_owned());
            for key in self.keys.iter_mut() {
                key.warm = false;
            }
        }
        self.pump();
    }

    /// Hands everything back that has not ended.
    pub fn abandon(&mut self, now: Duration) {
        self.at(now);
        let tickets: Vec<Ticket> = self.live.values().copied().collect();
        for ticket in tickets {
            let message = "the engine is shutting down before this could finish; submit it to another engine";
            self.fail(ticket, FailureKind::Draining, message.to_owned());
        }
        self.pump();
    }

    /// What a new watcher must know: the state of every partition, or of one.
    pub fn current(&self, only: Option<&PartitionId>) -> Vec<PartitionEvent> {
        let wanted = |id: &PartitionId| only.is_none_or(|only| only == id);
        let live = self.live.iter().filter(|(id, _)| wanted(id)).filter_map(|(id, ticket)| {
            let partition = self.partitions.get(ticket)?;
            let (state, at) = (partition.visible, partition.since);
            let loading = state == PartitionState::LoadingKey;
            let progress = self.keys.get(partition.key).filter(|_| loading).and_then(|key| key.progress);
            Some(PartitionEvent { id: id.clone(), state, at, progress, outcome: None })
        });
        let done = self.results.iter().filter(|(id, _)| wanted(id)).map(|(id, kept)| PartitionEvent {
            id: id.clone(),
            state: kept.state(),
            at: kept.at,
            progress: None,
            outcome: Some(kept.outcome.clone()),
        });
        live.chain(done).collect()
    }

    /// Ends what is past its deadline and forgets results past their bounds.
    pub(super) fn expire(&mut self) {
        while let Some(&(at, ticket)) = self.deadlines.first()
            && at <= self.now
        {
            self.deadlines.remove(&(at, ticket));
            let message = "the deadline passed before the proof was ready".to_owned();
            self.fail(ticket, FailureKind::DeadlineExceeded, message);
        }
        self.results.trim(self.config.results, self.now);
    }
}
