//! The pure core: a state machine without threads, clocks or I/O. Events go in with their time, actions come out.
//!
//! - `intake`: submissions, attaching, cancelling, results, drain, deadlines
//! - `gather`: inputs and keys; `synthesis`: memory, synthesis workers, run-ahead
//! - `device`: device workers, the lease, preemption; `health`: faults, canaries, quarantine
//! - `finish`: finalizers, verdicts
//! - `causes`: why a device is idle; `stats`: histograms; `view`: snapshots
//!
//! After each event `pump` starts whatever can start, from the far end of the pipeline to the near one, until nothing
//! more can. So no wake-up can be lost: nobody waits for a signal, only for the next event.

mod budget;
mod causes;
mod device;
mod event;
mod finish;
mod gather;
mod health;
mod intake;
mod keys;
mod partition;
mod stats;
mod synthesis;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use budget::{Area, Budget, Grant, Holdings};
pub use event::{Action, Event, KeyFacts, KeyId, Ticket, TimingLine, Verdict, WorkerId};
pub use partition::Order;

use self::device::{DeviceState, Work};
use self::intake::Results;
use self::keys::{KeyState, Keys};
use self::partition::{Partition, Slots, Stage};
use self::stats::Stats;
use self::synthesis::RunAhead;
use crate::engine::{Config, PartitionEvent};
use crate::job::{Failure, FailureKind, Outcome, PartitionId, PartitionState};
use crate::meter::Usage;
use crate::trace::{Flow, Span, Trace, Track};

/// Threads that load circuits: a second one, so that a slow key does not hold up the others.
pub const LOADERS: usize = 2;

/// Threads that fetch inputs.
pub const FETCHERS: usize = 4;

/// What the core knows of a device beforehand.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// Its identifier.
    pub id: String,
    /// Its own memory, if it has one.
    pub memory: Option<u64>,
}

/// The state of the whole engine.
#[derive(Debug)]
pub struct Core {
    config: Config,
    now: Duration,
    /// Partitions that live, or whose worker has not come back.
    partitions: BTreeMap<Ticket, Partition>,
    /// Those that have not ended.
    live: BTreeMap<PartitionId, Ticket>,
    deadlines: BTreeSet<(Duration, Ticket)>,
    results: Results,
    next_ticket: Ticket,
    epoch: u64,
    draining: bool,

    budget: Budget,
    /// Grants of keys and working sets that are on their way back.
    releasing: u64,
    /// Somebody waits for memory.
    memory_blocked: bool,
    keys: Keys,
    loaders: Slots,
    fetchers: Slots,
    /// Partitions whose input must be fetched.
    fetch_queue: BTreeSet<Order>,

    /// Partitions with input and key.
    ready: BTreeSet<Order>,
    /// The last one takes only Critical partitions.
    synthesizers: Slots,
    run_ahead: RunAhead,

    device_queue: BTreeSet<Order>,
    devices: Vec<DeviceState>,
    finish_queue: BTreeSet<Order>,
    finalizers: Slots,

    stats: Stats,
    trace: Trace,
    actions: Vec<Action>,
}

impl Core {
    /// An engine at rest.
    pub fn new(config: Config, devices: Vec<DeviceFacts>, now: Duration) -> Self {
        let mut core = Self {
            now,
            partitions: BTreeMap::new(),
            live: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            results: Results::default(),
            next_ticket: 0,
            epoch: 0,
            draining: false,
            budget: Budget::new(config.memory_budget, config.reserve_critical),
            releasing: 0,
            memory_blocked: false,
            keys: Keys::default(),
            loaders: Slots::new(LOADERS),
            fetchers: Slots::new(FETCHERS),
            fetch_queue: BTreeSet::new(),
            ready: BTreeSet::new(),
            synthesizers: Slots::new(config.synthesis_workers.max(1) + 1),
            run_ahead: RunAhead::default(),
            device_queue: BTreeSet::new(),
            devices: devices.into_iter().map(|facts| DeviceState::new(facts, now)).collect(),
            finish_queue: BTreeSet::new(),
            finalizers: Slots::new(config.finalizers.max(1)),
            stats: Stats::default(),
            trace: Trace::new(config.trace_window),
            actions: Vec::new(),
            config,
        };
        core.trace.mark(now, core.settings());
        core.pump();
        core
    }

    /// Version and settings, for the trace.
    fn settings(&self) -> String {
        let Config { memory_budget, reserve_critical, synthesis_workers, finalizers, .. } = &self.config;
        format!(
            "proofmill-engine {}: memory_budget={memory_budget} reserve_critical={reserve_critical} \
             synthesis_workers={synthesis_workers} finalizers={finalizers} devices={}",
            env!("CARGO_PKG_VERSION"),
            self.devices.len()
        )
    }

    /// Takes in an event that happened at `now`.
    pub fn handle(&mut self, now: Duration, event: Event) {
        self.at(now);
        match event {
            Event::InputFetched { ticket, slot, started, result } => self.on_input(ticket, slot, started, result),
            Event::KeyEstimated { key, slot, result } => self.on_estimate(key, slot, result),
            Event::KeyProgress { key, done, total } => self.on_progress(key, done, total),
            Event::KeyLoaded { key, slot, started, result } => self.on_load(key, slot, started, result),
            Event::KeyDamaged { key } => self.on_key_damaged(key),
            Event::Synthesized { ticket, slot, started, usage, scratch, result } => {
                self.learn_scratch(ticket, scratch);
                self.on_synthesized(ticket, slot, started, usage, result);
            }
            Event::Prepared { worker, started, usage, result } => self.on_prepared(worker, started, usage, result),
            Event::StepDone { worker, started, usage, result } => self.on_step(worker, started, usage, result),
            Event::OutputReady { worker, started, usage, result } => self.on_output(worker, started, usage, result),
            Event::Finished { ticket, slot, started, finished, usage, result } => {
                self.on_finished(ticket, slot, (started, finished), usage, result);
            }
            Event::Verified { ticket, slot, started, finished, usage, verdict } => {
                self.on_verified(ticket, slot, (started, finished), usage, verdict);
            }
            Event::Stored { slot, subject, started, finished } => {
                let (track, subject) = (Track::Finalizer(slot), Some(subject));
                let (usage, flow) = (None, Flow::None);
                let name = "store";
                self.trace.push(Span { track, name, start: started, end: finished, subject, usage, flow });
            }
            Event::CanaryDone { worker, started, result } => self.on_canary(worker, started, result),
            Event::Released { subject, started, usage, holdings } => {
                self.span(Track::Releaser, "release", started, Some(subject), Some(usage), Flow::None);
                self.on_released(holdings);
            }
            Event::Trimmed { started, usage } => {
                self.span(Track::Releaser, "trim", started, None, Some(usage), Flow::None);
            }
            Event::Tick => {}
        }
        self.pump();
    }

    /// What is to be done, in this order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When [`Event::Tick`] must come at the latest.
    pub fn next_timer(&self) -> Option<Duration> {
        let deadline = self.deadlines.first().map(|&(at, _)| at);
        let results = self.results.next_expiry(self.config.results.age);
        // One whose time has come waits for an idle worker, which is an event of its own.
        let canary = self.devices.iter().filter_map(DeviceState::retry_at).filter(|&at| at > self.now).min();
        [deadline, results, canary].into_iter().flatten().min()
    }

    /// A partition's name in the trace, as long as anybody has it.
    pub fn partition_name(&self, ticket: Ticket) -> Option<Arc<str>> {
        self.partitions.get(&ticket).map(|partition| partition.name.clone())
    }

    /// Partitions that have not ended.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// The trace's ring.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The budget of host memory.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    fn at(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Starts whatever can start.
    fn pump(&mut self) {
        self.expire();
        loop {
            let progress = self.pump_finalizers()
                | self.pump_devices()
                | self.pump_memory()
                | self.pump_keys()
                | self.pump_fetches();
            if !progress {
                break;
            }
        }
        for device in 0..self.devices.len() {
            let cause = self.cause(device);
            if let Some(state) = self.devices.get_mut(device) {
                state.ledger.set_cause(self.now, cause);
            }
        }
    }

    fn on_released(&mut self, holdings: Holdings) {
        self.releasing = self.releasing.saturating_sub(holdings.work_bytes());
        self.leave_device_memory(holdings.device);
        for grant in holdings.grants {
            self.budget.give(grant);
        }
    }

    /// Sends a partition's memory to be dropped; what it held comes back with [`Event::Released`].
    fn release(&mut self, ticket: Ticket, subject: Arc<str>, keep_input: bool, holdings: Holdings) {
        self.releasing += holdings.work_bytes();
        self.actions.push(Action::Release { ticket, subject, keep_input, holdings });
    }

    /// Moves a partition on and shows its new state.
    fn enter(&mut self, ticket: Ticket, stage: Stage) {
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            partition.stage = stage;
            partition.mark = self.now;
        }
        self.refresh(ticket);
    }

    /// Shows a partition's state, if it is another one than before.
    fn refresh(&mut self, ticket: Ticket) {
        let Some(partition) = self.partitions.get(&ticket) else { return };
        let visible = self.visible(partition);
        if visible != partition.visible && !partition.ended {
            self.show(ticket, visible, None);
        }
    }

    fn visible(&self, partition: &Partition) -> PartitionState {
        let key = self.keys.get(partition.key);
        match partition.stage {
            Stage::Gathering => match key.map(|key| key.state) {
                _ if key.is_some_and(|key| key.blocked) => PartitionState::MemoryBudget,
                Some(KeyState::Estimating | KeyState::Sized(_) | KeyState::Loading | KeyState::Leaving) => {
                    PartitionState::LoadingKey
                }
                _ if partition.fetching => PartitionState::FetchingInput,
                _ => PartitionState::Queued,
            },
            Stage::Ready if partition.blocked => PartitionState::MemoryBudget,
            Stage::Ready => PartitionState::Queued,
            Stage::Synthesizing => PartitionState::Synthesis,
            Stage::DeviceQueue => PartitionState::DeviceQueue,
            Stage::OnWorker(_) => PartitionState::Proving,
            Stage::FinishQueue | Stage::Finishing | Stage::Judging => PartitionState::Finishing,
        }
    }

    fn show(&mut self, ticket: Ticket, state: PartitionState, outcome: Option<Outcome>) {
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        let since = partition.since;
        partition.charge(now);
        let before = std::mem::replace(&mut partition.visible, state);
        let (id, name) = (partition.id.clone(), partition.name.clone());
        self.span(Track::Partition(ticket), view::state_name(before), since, Some(name), None, Flow::None);
        self.actions.push(Action::Emit(PartitionEvent { id, state, at: now, progress: None, outcome }));
    }

    /// Ends a partition. Whoever still works on it is asked to stop; what it holds goes back when it has.
    fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(&ticket).filter(|partition| !partition.ended) else { return };
        let state = match &outcome {
            Ok(_) => PartitionState::Succeeded,
            Err(Failure { kind: FailureKind::Cancelled, .. }) => PartitionState::Cancelled,
            Err(_) => PartitionState::Failed,
        };
        partition.charge(now);
        partition.timings.total = now.saturating_sub(partition.submitted);
        let (id, order, key, digest) = (partition.id.clone(), partition.order, partition.key, partition.digest);
        let (timings, usage, device) = (partition.timings, partition.usage, partition.last_device);
        if let Some(deadline) = partition.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        let circuit = self.keys.get(key).map_or_else(String::new, |key| key.circuit.name.clone());
        let word = stats::outcome_name(&outcome);
        self.stats.ended(&circuit, word, &timings, outcome.is_ok());
        let line = TimingLine { id: id.clone(), circuit: circuit.clone(), outcome: word, device, timings, usage };
        self.actions.push(Action::Log(Box::new(line)));
        self.show(ticket, state, Some(outcome.clone()));
        self.live.remove(&id);
        self.results.keep(id, digest, circuit, order.priority, outcome, now);
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            partition.ended = true;
        }
        for queue in [&mut self.fetch_queue, &mut self.ready, &mut self.device_queue, &mut self.finish_queue] {
            queue.remove(&order);
        }
        self.leave_key(key, order);
        if self.is_worked_on(ticket) {
            self.actions.push(Action::Cancel { ticket });
        } else {
            self.reap(ticket);
        }
    }

    fn fail(&mut self, ticket: Ticket, kind: FailureKind, message: String) {
        self.end(ticket, Err(Failure { kind, message }));
    }

    /// Whether some thread has it in hands. Workers that merely wait with it are freed on the way.
    fn is_worked_on(&mut self, ticket: Ticket) -> bool {
        let Some(partition) = self.partitions.get(&ticket) else { return false };
        let worked_on = match partition.stage {
            Stage::Synthesizing | Stage::Finishing => true,
            Stage::OnWorker(worker) => match self.work(worker) {
                Work::WaitingLease(_) | Work::AwaitingFinalizer(_) => {
                    self.set_work(worker, Work::Idle);
                    false
                }
                _ => true,
            },
            Stage::Gathering | Stage::Ready | Stage::DeviceQueue | Stage::FinishQueue | Stage::Judging => false,
        };
        worked_on || self.partitions.get(&ticket).is_some_and(|partition| partition.fetching)
    }

    /// Takes everything from an ended partition that no worker has any more.
    fn reap(&mut self, ticket: Ticket) {
        let Some(mut partition) = self.partitions.remove(&ticket) else { return };
        let mut holdings = partition.take_holdings();
        holdings.grants.extend(partition.input.take());
        self.release(ticket, partition.name.clone(), false, holdings);
        self.end_lease(&mut partition);
        self.forget(partition.key);
    }

    fn end_lease(&mut self, partition: &mut Partition) {
        let now = self.now;
        if std::mem::take(&mut partition.leased)
            && let Some(key) = self.keys.get_mut(partition.key)
        {
            key.leases = key.leases.saturating_sub(1);
            key.last_used = now;
        }
        self.let_go(partition.key);
    }

    fn forget(&mut self, key: KeyId) {
        if self.keys.forget_unused(key) {
            self.actions.push(Action::Forget { key });
        }
    }

    fn span(
        &mut self,
        track: Track,
        name: &'static str,
        start: Duration,
        subject: Option<Arc<str>>,
        usage: Option<Usage>,
        flow: Flow,
    ) {
        self.trace.push(Span { track, name, start, end: self.now, subject, usage, flow });
    }
}
