//! What a partition needs before its synthesis: its input and its circuit.

use std::time::Duration;

use super::budget::{Area, Holdings};
use super::event::{Action, KeyFacts, KeyId, Ticket};
use super::keys::KeyState;
use super::partition::{Order, Stage};
use super::{Core, Grant};
use crate::engine::PartitionEvent;
use crate::job::{Failure, FailureKind, PartitionState};
use crate::snapshot::KeyFailure;
use crate::trace::{Flow, Track};

/// Between two reports of a load's progress: each of them goes to every partition that waits.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What a fetch takes from the budget before the input's size is known.
const UNKNOWN_INPUT: u64 = 1 << 20;

impl Core {
    /// Starts fetches, in order, as far as threads and the inputs' share of memory go.
    pub(super) fn pump_fetches(&mut self) -> bool {
        let mut progress = false;
        while let Some(slot) = self.fetchers.free()
            && let Some(&order) = self.fetch_queue.first()
        {
            let ticket = order.ticket;
            let Some(partition) = self.partitions.get_mut(&ticket) else {
                self.fetch_queue.remove(&order);
                continue;
            };
            if partition.input.is_none() {
                let limit = self.budget.input_limit();
                let bytes = partition.input_bytes.max(UNKNOWN_INPUT.min(limit));
                let Some(grant) = self.budget.take(Area::Inputs, bytes, false) else { break };
                partition.input = Some(grant);
            }
            (partition.fetching, partition.input_refused) = (true, false);
            self.fetch_queue.remove(&order);
            self.fetchers.set(slot, true);
            self.actions.push(Action::FetchInput { ticket, slot });
            self.refresh(ticket);
            progress = true;
        }
        progress
    }

    /// Takes memory for an input whose size is found, or grows, while it is fetched. An error ends the fetch: of inputs that
    /// can never fit for good, else until there is room.
    pub fn reserve_input(&mut self, now: Duration, ticket: Ticket, bytes: u64) -> Result<(), Failure> {
        self.at(now);
        let refused = |message: &str| Err(Failure { kind: FailureKind::MemoryBudget, message: message.to_owned() });
        if bytes > self.budget.input_limit() {
            return Err(self.input_too_large(bytes));
        }
        let Some(partition) = self.partitions.get_mut(&ticket) else { return refused("nobody wants this input") };
        let Some(grant) = &mut partition.input else { return refused("nobody wants this input") };
        if self.budget.grow(grant, bytes) {
            return Ok(());
        }
        // Next time it begins with as much.
        (partition.input_bytes, partition.input_refused) = (bytes, true);
        refused("other inputs have the memory; it is fetched again when there is room")
    }

    fn input_too_large(&self, bytes: u64) -> Failure {
        let (limit, budget) = (self.budget.input_limit(), self.budget.limit());
        let message = format!(
            "the input has {bytes} bytes, more than the {limit} that inputs may take of the memory budget ({budget}); give \
             the engine more memory"
        );
        Failure { kind: FailureKind::MemoryBudget, message }
    }

    pub(super) fn on_input(&mut self, ticket: Ticket, slot: usize, started: Duration, result: Result<u64, Failure>) {
        self.fetchers.set(slot, false);
        let (now, limit) = (self.now, self.budget.input_limit());
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.fetching = false;
        partition.timings.fetch += now.saturating_sub(started);
        let (name, order, ended) = (partition.name.clone(), partition.order, partition.ended);
        let refused = partition.input_refused;
        self.span(Track::Fetcher(slot), "fetch", started, Some(name.clone()), None, Flow::None);
        if ended {
            return self.reap(ticket);
        }
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(_) if refused => return self.fetch_again(ticket, order),
            Err(failure) => return self.end(ticket, Err(failure)),
        };
        if bytes > limit {
            return self.end(ticket, Err(self.input_too_large(bytes)));
        }
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        if let Some(grant) = partition.input.take() {
            self.budget.give(grant);
        }
        partition.input_bytes = bytes;
        partition.input = self.budget.take(Area::Inputs, bytes, false);
        partition.has_input = partition.input.is_some();
        if partition.has_input {
            let key = partition.key;
            if let Some(key) = self.keys.get_mut(key) {
                key.join(order, true);
            }
        } else {
            // Larger than was reserved, and others have the memory.
            self.actions.push(Action::DropInput { ticket, subject: name });
            return self.fetch_again(ticket, order);
        }
        self.advance(ticket);
    }

    /// An input for which there was no memory is fetched once more when there is room.
    fn fetch_again(&mut self, ticket: Ticket, order: Order) {
        if let Some(grant) = self.partitions.get_mut(&ticket).and_then(|partition| partition.input.take()) {
            self.budget.give(grant);
        }
        self.fetch_queue.insert(order);
        self.refresh(ticket);
    }

    /// Finds the sizes of circuits that partitions wait for.
    pub(super) fn pump_keys(&mut self) -> bool {
        let mut progress = false;
        while let Some(slot) = self.loaders.free()
            && let Some(id) = self.keys.next_estimate()
            && let Some(key) = self.keys.get_mut(id)
        {
            key.state = KeyState::Estimating;
            key.cancelled = false;
            self.loaders.set(slot, true);
            self.actions.push(Action::EstimateKey { key: id, slot });
            self.refresh_users(id);
            progress = true;
        }
        progress
    }

    pub(super) fn on_estimate(&mut self, id: KeyId, slot: usize, result: Result<u64, Failure>) {
        self.loaders.set(slot, false);
        let Some(key) = self.keys.get_mut(id) else { return };
        match result {
            Ok(bytes) => {
                key.state = KeyState::Sized(bytes);
                self.refresh_users(id);
            }
            Err(failure) => {
                key.state = KeyState::Unknown;
                self.key_failed(id, &failure);
            }
        }
        self.forget(id);
    }

    /// Loads a circuit whose memory is there.
    pub(super) fn start_load(&mut self, id: KeyId, slot: usize, grant: Grant) {
        let Some(key) = self.keys.get_mut(id) else { return self.budget.give(grant) };
        key.grant = Some(grant);
        key.state = KeyState::Loading;
        key.cancelled = false;
        self.loaders.set(slot, true);
        self.actions.push(Action::LoadKey { key: id, slot });
        self.refresh_users(id);
    }

    pub(super) fn on_progress(&mut self, id: KeyId, done: u64, total: u64) {
        let at = self.now;
        let Some(key) = self.keys.get_mut(id) else { return };
        key.progress = Some((done, total));
        if done < total && key.progress_at.is_some_and(|last| at < last + PROGRESS_EVERY) {
            return;
        }
        key.progress_at = Some(at);
        for order in &key.users {
            if let Some(partition) = self.partitions.get(&order.ticket)
                && partition.visible == PartitionState::LoadingKey
            {
                let (id, state) = (partition.id.clone(), PartitionState::LoadingKey);
                let progress = Some((done, total));
                self.actions.push(Action::Emit(PartitionEvent { id, state, at, progress, outcome: None }));
            }
        }
    }

    pub(super) fn on_load(&mut self, id: KeyId, slot: usize, started: Duration, result: Result<KeyFacts, Failure>) {
        self.loaders.set(slot, false);
        let now = self.now;
        let Some(key) = self.keys.get_mut(id) else { return };
        (key.progress, key.progress_at) = (None, None);
        key.last_used = now;
        let name = key.circuit.name.clone();
        let was = key.grant.take();
        self.span(Track::Loader(slot), "key_load", started, Some(name.as_str().into()), None, Flow::None);
        match result {
            Err(failure) => {
                if let Some(key) = self.keys.get_mut(id) {
                    key.state = KeyState::Unknown;
                }
                if let Some(grant) = was {
                    self.budget.give(grant);
                }
                self.key_failed(id, &failure);
                self.forget(id);
            }
            Ok(facts) => self.key_loaded(id, was, facts),
        }
    }

    fn key_loaded(&mut self, id: KeyId, was: Option<Grant>, facts: KeyFacts) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let critical = key.users.first().is_some_and(|order| order.is_critical());
        if let Some(grant) = was {
            self.budget.give(grant);
        }
        let bytes = facts.resident;
        let grant = self.budget.take(Area::Keys, bytes, critical);
        let users: Vec<Order> = key.users.iter().copied().collect();
        key.facts = facts;
        key.cancelled = false;
        match grant {
            Some(grant) => {
                key.state = KeyState::Loaded;
                key.grant = Some(grant);
                let name = key.circuit.name.clone();
                self.keys.failures.remove(&name);
                for order in users {
                    self.advance(order.ticket);
                }
            }
            None => {
                // Larger than its estimate, and others have the memory: loaded once more when there is room.
                key.state = KeyState::Sized(bytes);
                let subject = key.circuit.name.as_str().into();
                self.actions.push(Action::Evict { key: id, subject, holdings: Holdings::default() });
                self.refresh_users(id);
            }
        }
    }

    /// Tells everybody who waits for a circuit that it can't be had.
    fn key_failed(&mut self, id: KeyId, failure: &Failure) {
        let Some(key) = self.keys.get_mut(id) else { return };
        // A load that was asked to stop says nothing about the circuit: whoever came since gets a new one.
        if std::mem::take(&mut key.cancelled) {
            return self.refresh_users(id);
        }
        key.warm = false;
        let name = key.circuit.name.clone();
        let users: Vec<Order> = key.users.iter().copied().collect();
        self.keys.failed(name, KeyFailure { failure: failure.clone(), too_large: None });
        for order in users {
            self.end(order.ticket, Err(failure.clone()));
        }
    }

    /// Drops an idle circuit; partitions that wait for it will have it loaded again.
    pub(super) fn evict_key(&mut self, id: KeyId) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let holdings = Holdings { grants: key.grant.take().into_iter().collect(), device: None };
        key.state = KeyState::Sized(key.facts.resident);
        let users: Vec<Order> = key.users.iter().copied().collect();
        let subject = key.circuit.name.as_str().into();
        self.releasing += holdings.work_bytes();
        self.actions.push(Action::Evict { key: id, subject, holdings });
        self.back_to_gathering(&users);
        self.forget(id);
    }

    /// Nobody starts with a damaged key any more; those who wait for it get it anew.
    pub(super) fn on_key_damaged(&mut self, id: KeyId) {
        let Some(key) = self.keys.get_mut(id).filter(|key| key.state == KeyState::Loaded) else { return };
        key.state = KeyState::Leaving;
        let users: Vec<Order> = key.users.iter().copied().collect();
        self.back_to_gathering(&users);
        self.let_go(id);
    }

    /// Drops a damaged key that no partition has any more.
    pub(super) fn let_go(&mut self, id: KeyId) {
        if self.keys.get(id).is_some_and(|key| key.state == KeyState::Leaving && key.leases == 0) {
            self.evict_key(id);
        }
    }

    fn back_to_gathering(&mut self, users: &[Order]) {
        for order in users {
            self.ready.remove(order);
            self.enter(order.ticket, Stage::Gathering);
        }
    }

    /// Moves a partition with input and circuit to the queue for synthesis.
    pub(super) fn advance(&mut self, ticket: Ticket) {
        let Some(partition) = self.partitions.get(&ticket) else { return };
        let resident = self.keys.get(partition.key).is_some_and(|key| key.state == KeyState::Loaded);
        if partition.stage == Stage::Gathering && partition.has_input && resident && !partition.ended {
            self.ready.insert(partition.order);
            self.enter(ticket, Stage::Ready);
        } else {
            self.refresh(ticket);
        }
    }

    /// Takes a partition off a circuit's waiting list; a load that nobody waits for is stopped.
    pub(super) fn leave_key(&mut self, id: KeyId, order: Order) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let was_user = key.leave(order);
        let loading = matches!(key.state, KeyState::Estimating | KeyState::Loading);
        if was_user && loading && !key.is_awaited() && !key.cancelled {
            key.cancelled = true;
            self.actions.push(Action::CancelKey { key: id });
        }
    }

    pub(super) fn refresh_users(&mut self, id: KeyId) {
        let Some(key) = self.keys.get(id) else { return };
        let users: Vec<Order> = key.users.iter().copied().collect();
        for order in users {
            self.refresh(order.ticket);
        }
    }
}
