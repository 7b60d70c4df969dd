//! The threads around the core. Each event takes the core's lock for some microseconds; the actions that come out are
//! handed on under the same lock, so that they reach every thread in the order in which the core gave them.

mod store;
mod watchers;
mod workers;

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proofmill_groth16::device::SharedDevice;

use self::store::Store;
use self::watchers::Watchers;
use self::workers::{Channels, DeviceJob, FinishJob, ReleaseJob};
use crate::core::{Action, Core, DeviceFacts, Event, Holdings, TimingLine};
use crate::engine::{Config, Parts, Watch};
use crate::job::PartitionId;
use crate::parts::{Canary, Clock, InputSource, KeySource};
use crate::snapshot::Snapshot;
use crate::trace::TraceSnapshot;

/// A running engine's threads. They end after this is dropped.
pub(crate) struct Runtime {
    pub shared: Arc<Shared>,
}

/// What all threads share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The next timer is earlier than it was, or the engine stops.
    timer: Condvar,
    /// Nothing is left.
    quiet: Condvar,
    store: Store,
    devices: Vec<SharedDevice>,
    keys: Arc<dyn KeySource>,
    inputs: Arc<dyn InputSource>,
    clock: Arc<dyn Clock>,
    canary: Option<Canary>,
    refuse_insecure_keys: bool,
    boot_id: String,
}

struct State {
    core: Core,
    watchers: Watchers,
    /// `None` once the engine stops; the threads then find their channels closed.
    channels: Option<Channels>,
    /// What the timer thread waits for.
    timer: Option<Duration>,
}

impl Runtime {
    /// Starts all threads.
    pub fn start(config: Config, parts: Parts) -> Self {
        let Parts { devices, keys, inputs, clock, canary } = parts;
        let facts = devices.iter().map(|d| DeviceFacts { id: d.id().to_owned(), memory: d.memory() }).collect();
        let core = Core::new(config.clone(), facts, clock.now());
        let (channels, receivers) = workers::channels(&config, devices.len());
        let shared = Arc::new(Shared {
            state: Mutex::new(State { core, watchers: Watchers::default(), channels: Some(channels), timer: None }),
            timer: Condvar::new(),
            quiet: Condvar::new(),
            store: Store::default(),
            devices,
            keys,
            inputs,
            clock,
            canary,
            refuse_insecure_keys: config.refuse_insecure_keys,
            boot_id: store::boot_id(),
        });
        workers::spawn(&shared, receivers);
        // The core's first actions, such as the canaries.
        shared.with_core(|_, _| ());
        Self { shared }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Blocking work is asked to stop; idle threads find their channels closed.
        self.shared.with_core(|core, now| core.abandon(now));
        let mut state = self.shared.lock();
        state.channels = None;
        drop(state);
        self.shared.timer.notify_all();
        self.shared.quiet.notify_all();
    }
}

impl Shared {
    /// Calls the core, then carries out what it wants.
    pub fn with_core<R>(&self, call: impl FnOnce(&mut Core, Duration) -> R) -> R {
        let mut guard = self.lock();
        let state = &mut *guard;
        // The time is taken under the lock, so that the core never sees it run backwards.
        let result = call(&mut state.core, self.clock.now());
        let mut lines = Vec::new();
        for action in state.core.take_actions() {
            match action {
                // Whoever reads the log may be slow or gone: that must never hold up the engine.
                Action::Log(_) | Action::DeviceHealth { .. } => lines.push(action),
                action => self.perform(state, action),
            }
        }
        let timer = state.core.next_timer();
        let earlier = timer.is_some_and(|at| state.timer.is_none_or(|old| at < old));
        let quiet = state.core.live() == 0;
        drop(guard);
        if earlier {
            self.timer.notify_one();
        }
        if quiet {
            self.quiet.notify_all();
        }
        lines.into_iter().for_each(|line| self.log(line));
        result
    }

    /// Tells the core what happened.
    fn event(&self, event: Event) {
        self.with_core(|core, now| core.handle(now, event));
    }

    /// The first state of what is watched, then all changes.
    pub fn watch(&self, only: Option<PartitionId>) -> Watch {
        let mut state = self.lock();
        let current = state.core.current(only.as_ref());
        state.watchers.add(only, current)
    }

    /// The core's state as plain data.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.lock();
        let now = self.clock.now();
        let mut snapshot = state.core.snapshot(now, &self.boot_id);
        drop(state);
        for (shown, device) in snapshot.devices.iter_mut().zip(&self.devices) {
            shown.cpu += device.cpu_time().unwrap_or_default();
        }
        snapshot
    }

    /// A copy of the trace's ring.
    pub fn trace(&self) -> TraceSnapshot {
        let devices = self.devices.iter().map(|device| device.id().to_owned()).collect();
        let state = self.lock();
        state.core.trace().snapshot(self.clock.now(), devices)
    }

    /// Closes intake, waits, hands the rest back.
    pub fn drain(&self, grace: Duration) -> bool {
        self.with_core(|core, now| core.close(now));
        let guard = self.lock();
        let waited = self.quiet.wait_timeout_while(guard, grace, |state| state.core.live() > 0);
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let finished = guard.core.live() == 0;
        drop(guard);
        if !finished {
            self.with_core(|core, now| core.abandon(now));
        }
        finished
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands one action on. Nothing here blocks.
    fn perform(&self, state: &mut State, action: Action) {
        let channels = state.channels.as_ref();
        match action {
            Action::Emit(event) => state.watchers.tell(event),
            // Written by `with_core` once the lock is free.
            Action::Log(_) | Action::DeviceHealth { .. } => {}
            Action::Admit { ticket, key, partition, input } => self.store.admit(ticket, key, partition, input),
            Action::Learn { key, circuit } => self.store.learn(key, *circuit),
            Action::Forget { key } => self.store.forget(key),
            Action::DropInput { ticket, subject } => {
                let dropped = self.store.take_input(ticket);
                let job = ReleaseJob { subject, dropped, holdings: Holdings::default() };
                send(channels.map(|channels| &channels.releaser), job);
            }
            Action::CancelKey { key } => self.store.cancel_key(key),
            Action::Cancel { ticket } => self.store.cancel(ticket),
            Action::Evict { key, subject, holdings } => {
                let dropped = self.store.evict(key);
                send(channels.map(|channels| &channels.releaser), ReleaseJob { subject, dropped, holdings });
            }
            Action::Release { ticket, subject, keep_input, holdings } => {
                let dropped = self.store.release(ticket, keep_input);
                send(channels.map(|channels| &channels.releaser), ReleaseJob { subject, dropped, holdings });
            }
            Action::FetchInput { ticket, slot } => send(channels.and_then(|c| c.fetchers.get(slot)), ticket),
            Action::EstimateKey { key, slot } => {
                self.store.renew_key_flag(key);
                send(channels.and_then(|c| c.loaders.get(slot)), (key, false));
            }
            Action::LoadKey { key, slot } => {
                self.store.renew_key_flag(key);
                send(channels.and_then(|c| c.loaders.get(slot)), (key, true));
            }
            Action::Synthesize { ticket, slot } => send(channels.and_then(|c| c.synthesizers.get(slot)), ticket),
            Action::Prepare { ticket, worker } => {
                send(channels.and_then(|c| c.device(worker)), DeviceJob::Prepare(ticket));
            }
            Action::RunStep { ticket, worker } => {
                send(channels.and_then(|c| c.device(worker)), DeviceJob::Step(ticket))
            }
            Action::TakeOutput { ticket, worker } => {
                send(channels.and_then(|c| c.device(worker)), DeviceJob::TakeOutput(ticket));
            }
            Action::Canary { worker } => send(channels.and_then(|c| c.device(worker)), DeviceJob::Canary),
            Action::Finish { ticket, slot, device } => {
                send(channels.and_then(|c| c.finalizers.get(slot)), FinishJob { ticket, device });
            }
        }
    }

    /// Writes a line of the log; not under the lock.
    fn log(&self, line: Action) {
        match line {
            Action::Log(line) => log(&line, &self.devices),
            Action::DeviceHealth { device, problem } => self.log_health(device, problem.as_deref()),
            _ => {}
        }
    }

    fn log_health(&self, device: usize, problem: Option<&str>) {
        let id = self.devices.get(device).map_or("?", |device| device.id());
        match problem {
            None => tracing::info!(device = id, "device in service"),
            Some(problem) => tracing::error!(device = id, problem, "device out of service until canary proofs pass"),
        }
    }

    /// Wakes the core when one of its times has come; ends with the engine.
    fn keep_time(&self) {
        let mut guard = self.lock();
        while guard.channels.is_some() {
            let next = guard.core.next_timer();
            guard.timer = next;
            let now = self.clock.now();
            match next.map(|next| next.saturating_sub(now)) {
                Some(Duration::ZERO) => {
                    drop(guard);
                    self.event(Event::Tick);
                    guard = self.lock();
                }
                Some(left) => {
                    guard = self.timer.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => guard = self.timer.wait(guard).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Sends a job to a thread; without one (the engine stops) it is dropped.
fn send<T>(channel: Option<&Sender<T>>, job: T) {
    if let Some(channel) = channel {
        // A thread that is gone means that the engine stops.
        let _ = channel.send(job);
    }
}

/// One structured line per ended partition.
fn log(line: &TimingLine, devices: &[SharedDevice]) {
    let TimingLine { id, circuit, outcome, device, timings, usage } = line;
    let device = device.and_then(|index| devices.get(index)).map_or("", |device| device.id());
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    tracing::info!(
        target: "proofmill::timing",
        partition = %id,
        circuit,
        outcome,
        device,
        total_ms = ms(timings.total),
        fetch_ms = ms(timings.fetch),
        queue_ms = ms(timings.queue),
        key_load_ms = ms(timings.key_load),
        budget_wait_ms = ms(timings.budget_wait),
        synthesis_ms = ms(timings.synthesis),
        device_queue_ms = ms(timings.device_queue),
        lease_wait_ms = ms(timings.lease_wait),
        host_prep_ms = ms(timings.host_prep),
        transfer_ms = ms(timings.transfer),
        ntt_ms = ms(timings.ntt),
        msm_g1_ms = ms(timings.msm_g1),
        msm_g2_ms = ms(timings.msm_g2),
        finish_ms = ms(timings.finish),
        verify_ms = ms(timings.verify),
        thread_cpu_ms = ms(usage.cpu),
        pool_cpu_ms = ms(usage.pool),
        run_queue_ms = ms(usage.run_queue),
        page_faults = usage.page_faults,
    );
}
