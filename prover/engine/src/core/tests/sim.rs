//! A world without threads around the core: every action takes as long as a script says, then its event comes.
//!
//! After each event the simulation checks what must always hold: the budget, one job per thread, one lease per device,
//! the order of queues, one outcome per submission. It keeps an account of each device's time of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proofmill_groth16::device::StepReport;

use crate::core::{Action, Core, DeviceFacts, Event, Holdings, KeyFacts, KeyId, Ticket, Verdict, WorkerId};
use crate::engine::{Config, PartitionEvent, SubmitError, Submitted};
use crate::job::{FailureKind, Input, Outcome, PartitionId, Priority, Source, Submission};
use crate::ledger::DeviceTime;
use crate::meter::Usage;

mod checks;
mod script;

pub use script::{Fault, KeyScript, MIB, Script, StepScript, mk_circuit, mk_id, mk_step, ms};
use script::{fails, mk_failure, mk_proof};

/// A job of a thread that takes part of the account of a device.
#[derive(Clone, Debug)]
struct Doing {
    device: usize,
    from: Duration,
    to: Duration,
    state: DeviceTime,
}

pub struct Sim {
    pub core: Core,
    pub now: Duration,
    agenda: BTreeMap<(Duration, u64), Event>,
    next: u64,
    pub scripts: HashMap<PartitionId, Script>,
    pub keys: HashMap<String, KeyScript>,
    /// Outcomes of canaries to come, per device, last first; none left means passed.
    pub canaries: Vec<Vec<bool>>,
    pub canary: Duration,
    pub canary_wake: Duration,
    pub release: Duration,
    /// What is being submitted: a deadline of zero ends it at once.
    submitting: Option<PartitionId>,
    names: HashMap<Ticket, PartitionId>,
    /// Tries so far and steps done in this one, per ticket.
    tries: HashMap<Ticket, (usize, usize)>,
    key_names: HashMap<KeyId, String>,
    /// When a load, fetch or synthesis that was asked to stop would come back.
    stoppable: HashMap<Stoppable, (Duration, u64)>,
    busy_threads: BTreeSet<String>,
    leases: BTreeSet<usize>,
    doings: Vec<Doing>,
    pub events: Vec<PartitionEvent>,
    pub outcomes: BTreeMap<PartitionId, Vec<Outcome>>,
    pub accepted: BTreeMap<PartitionId, usize>,
    pub released: BTreeSet<Ticket>,
    /// Each step that began: (time, device, ticket).
    pub steps: Vec<(Duration, usize, Ticket)>,
    pub prepared: Vec<(Duration, Ticket)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stoppable {
    Key(KeyId),
    Fetch(Ticket),
    Synthesis(Ticket),
}

impl Sim {
    pub fn new(config: Config, device_memories: &[Option<u64>]) -> Self {
        let facts = device_memories
            .iter()
            .enumerate()
            .map(|(index, &memory)| DeviceFacts { id: format!("device-{index}"), memory })
            .collect();
        let mut sim = Self {
            core: Core::new(config, facts, Duration::ZERO),
            now: Duration::ZERO,
            agenda: BTreeMap::new(),
            next: 0,
            scripts: HashMap::new(),
            keys: HashMap::new(),
            canaries: vec![Vec::new(); device_memories.len()],
            canary: Duration::ZERO,
            canary_wake: Duration::ZERO,
            release: Duration::ZERO,
            submitting: None,
            names: HashMap::new(),
            tries: HashMap::new(),
            key_names: HashMap::new(),
            stoppable: HashMap::new(),
            busy_threads: BTreeSet::new(),
            leases: BTreeSet::new(),
            doings: Vec::new(),
            events: Vec::new(),
            outcomes: BTreeMap::new(),
            accepted: BTreeMap::new(),
            released: BTreeSet::new(),
            steps: Vec::new(),
            prepared: Vec::new(),
        };
        sim.carry_out();
        sim
    }

    /// Submits a partition of `circuit`; inputs of more than 0 fetch time are fetched.
    pub fn submit(
        &mut self,
        job: &str,
        circuit: &str,
        priority: Priority,
        script: Script,
    ) -> Result<Submitted, SubmitError> {
        self.submit_with(job, circuit, priority, 0, None, script)
    }

    pub fn submit_with(
        &mut self,
        job: &str,
        circuit: &str,
        priority: Priority,
        sequence: u64,
        deadline: Option<Duration>,
        script: Script,
    ) -> Result<Submitted, SubmitError> {
        let id = mk_id(job);
        let input = if script.fetch.is_zero() {
            Input::Inline(vec![0; usize::try_from(script.input_bytes).unwrap()].into())
        } else {
            Input::Fetch(Source { url: format!("file:{job}"), sha256: None })
        };
        self.scripts.insert(id.clone(), script);
        self.submitting = Some(id.clone());
        let submission = Submission {
            id: id.clone(),
            epoch: 0,
            digest: [0; 32],
            priority,
            sequence,
            deadline,
            circuit: mk_circuit(circuit),
            input,
        };
        let result = self.core.submit(self.now, submission);
        if result == Ok(Submitted::Accepted) {
            *self.accepted.entry(id).or_default() += 1;
        }
        self.carry_out();
        result
    }

    /// Lets all that is on the agenda happen until `end`.
    pub fn run_until(&mut self, end: Duration) {
        loop {
            let event = self.agenda.first_key_value().map(|(&(at, _), _)| at);
            let timer = self.core.next_timer();
            let Some(at) = [event, timer].into_iter().flatten().min().filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            let event = if event == Some(at) { self.agenda.pop_first().map(|(_, event)| event) } else { None };
            self.come_back(event.as_ref());
            self.core.handle(self.now, event.unwrap_or(Event::Tick));
            self.carry_out();
        }
        self.now = self.now.max(end);
    }

    /// Runs until nothing is left but what can't move; then nothing must live.
    pub fn run_out(&mut self) {
        for _ in 0..200_000 {
            let Some(at) = self.agenda.first_key_value().map(|(&(at, _), _)| at) else {
                match self.core.next_timer() {
                    Some(timer) if self.core.live() > 0 => {
                        self.run_until(timer);
                        continue;
                    }
                    _ => break,
                }
            };
            self.run_until(at);
        }
        assert!(self.agenda.is_empty(), "it never ends");
        self.check_rest();
    }

    /// Does something to the core from outside.
    pub fn act<R>(&mut self, act: impl FnOnce(&mut Core, Duration) -> R) -> R {
        let result = act(&mut self.core, self.now);
        self.carry_out();
        result
    }

    /// Time of a device in a state by the core's ledger.
    pub fn ledger(&mut self, device: usize, state: DeviceTime) -> Duration {
        let snapshot = self.core.snapshot(self.now, "boot");
        snapshot.devices[device].ledger[&state.labels()]
    }

    /// The same by the simulation's own account: what threads of the device really did, the highest first.
    pub fn truth(&self, device: usize, state: DeviceTime) -> Duration {
        let mine: Vec<&Doing> = self.doings.iter().filter(|doing| doing.device == device).collect();
        let mut edges: Vec<Duration> = mine.iter().flat_map(|doing| [doing.from, doing.to]).collect();
        edges.sort_unstable();
        edges.dedup();
        // Doings by begin, so that each instant looks only at those that can cover it.
        edges
            .windows(2)
            .filter(|pair| {
                let covering = mine.iter().filter(|doing| doing.from <= pair[0] && pair[1] <= doing.to);
                covering.map(|doing| doing.state).min() == Some(state)
            })
            .map(|pair| pair[1] - pair[0])
            .sum()
    }

    fn schedule(&mut self, after: Duration, event: Event) -> (Duration, u64) {
        let at = (self.now + after, self.next);
        self.next += 1;
        self.agenda.insert(at, event);
        at
    }

    fn script(&self, ticket: Ticket) -> Script {
        self.scripts[&self.names[&ticket]].clone()
    }

    fn fault(&self, ticket: Ticket) -> Fault {
        let tries = self.tries.get(&ticket).map_or(0, |&(tries, _)| tries);
        self.script(ticket).faults.get(tries.saturating_sub(1)).copied().unwrap_or(Fault::None)
    }

    fn begin(&mut self, thread: String) {
        assert!(self.busy_threads.insert(thread.clone()), "{thread} got a second job");
    }

    /// A thread is free again once its event comes.
    fn come_back(&mut self, event: Option<&Event>) {
        let thread = match event {
            Some(Event::InputFetched { slot, .. }) => format!("fetcher {slot}"),
            Some(Event::KeyEstimated { slot, .. } | Event::KeyLoaded { slot, .. }) => format!("loader {slot}"),
            Some(Event::Synthesized { slot, .. }) => format!("synthesis {slot}"),
            Some(Event::Prepared { worker, .. } | Event::OutputReady { worker, .. }) => format!("{worker:?}"),
            Some(Event::StepDone { worker, .. } | Event::CanaryDone { worker, .. }) => {
                self.leases.remove(&worker.device);
                format!("{worker:?}")
            }
            Some(Event::Finished { slot, result: Err(_), .. } | Event::Verified { slot, .. }) => {
                format!("finalizer {slot}")
            }
            _ => return,
        };
        assert!(self.busy_threads.remove(&thread), "{thread} had nothing to do");
    }

    fn doing(&mut self, device: usize, from: Duration, to: Duration, state: DeviceTime) {
        if from < to {
            self.doings.push(Doing { device, from, to, state });
        }
    }

    fn carry_out(&mut self) {
        for action in self.core.take_actions() {
            self.check_order(&action);
            self.perform(action);
        }
        self.check();
    }

    fn perform(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::Admit { ticket, .. } => {
                self.names.insert(ticket, self.submitting.clone().unwrap());
            }
            Action::Learn { key, circuit } => {
                self.key_names.insert(key, circuit.name.clone());
            }
            Action::Forget { key } => {
                self.key_names.remove(&key);
            }
            Action::FetchInput { ticket, slot } => {
                self.begin(format!("fetcher {slot}"));
                let script = self.script(ticket);
                // Half of the inputs tell their size beforehand.
                let announced = script.input_bytes.is_multiple_of(2);
                let reserved =
                    if announced { self.core.reserve_input(now, ticket, script.input_bytes) } else { Ok(()) };
                let result = reserved.map(|()| script.input_bytes);
                let event = Event::InputFetched { ticket, slot, started: now, result };
                let place = self.schedule(script.fetch, event);
                self.stoppable.insert(Stoppable::Fetch(ticket), place);
            }
            Action::EstimateKey { key, slot } => {
                self.begin(format!("loader {slot}"));
                let script = self.key_script(key);
                let event = Event::KeyEstimated { key, slot, result: Ok(script.estimated) };
                let place = self.schedule(script.estimate, event);
                self.stoppable.insert(Stoppable::Key(key), place);
            }
            Action::LoadKey { key, slot } => self.load(key, slot),
            Action::CancelKey { key } => self.stop(Stoppable::Key(key)),
            Action::Cancel { ticket } => {
                self.stop(Stoppable::Fetch(ticket));
                self.stop(Stoppable::Synthesis(ticket));
            }
            Action::Evict { subject, holdings, .. } => self.give_back(subject, holdings),
            Action::Release { ticket, subject, keep_input, holdings } => {
                if !keep_input {
                    assert!(self.released.insert(ticket), "{ticket} was released twice");
                }
                self.give_back(subject, holdings);
            }
            Action::Synthesize { ticket, slot } => {
                self.begin(format!("synthesis {slot}"));
                let script = self.script(ticket);
                let result = if script.synthesis_fails { Err(mk_failure(FailureKind::BadInput)) } else { Ok(()) };
                let key = self.key_script(self.core.partitions[&ticket].key);
                let (usage, scratch) = (Usage::default(), Some(key.scratch_found.unwrap_or(key.scratch)));
                let event = Event::Synthesized { ticket, slot, started: now, usage, scratch, result };
                let place = self.schedule(script.synthesis, event);
                self.stoppable.insert(Stoppable::Synthesis(ticket), place);
            }
            Action::Prepare { ticket, worker } => self.prepare(ticket, worker),
            Action::RunStep { ticket, worker } => self.step(ticket, worker),
            Action::TakeOutput { ticket, worker } => {
                self.begin(format!("{worker:?}"));
                let output = self.script(ticket).output;
                self.doing(worker.device, now, now + output, DeviceTime::HostPrep);
                let result = fails(self.fault(ticket) == Fault::Output);
                self.schedule(output, Event::OutputReady { worker, started: now, usage: Usage::default(), result });
            }
            Action::Finish { ticket, slot, .. } => self.finish(ticket, slot),
            Action::Canary { worker } => self.canary(worker),
            Action::Emit(event) => self.emitted(event),
            Action::DropInput { .. } | Action::Log(_) | Action::DeviceHealth { .. } => {}
        }
    }

    fn key_script(&self, key: KeyId) -> KeyScript {
        self.keys.get(&self.key_names[&key]).cloned().unwrap_or_default()
    }

    fn load(&mut self, key: KeyId, slot: usize) {
        self.begin(format!("loader {slot}"));
        let name = self.key_names[&key].clone();
        let script = self.keys.entry(name).or_default();
        let result = if script.failures > 0 {
            script.failures -= 1;
            Err(mk_failure(FailureKind::BadKey))
        } else {
            Ok(KeyFacts {
                resident: script.resident,
                scratch: script.scratch,
                working_sets: vec![script.set; self.canaries.len()],
                checks_constraints: script.checks_constraints,
                circuit: None,
            })
        };
        let load = script.load;
        let place = self.schedule(load, Event::KeyLoaded { key, slot, started: self.now, result });
        self.stoppable.insert(Stoppable::Key(key), place);
    }

    /// What was asked to stop comes back at once and says so.
    fn stop(&mut self, what: Stoppable) {
        let Some(place) = self.stoppable.remove(&what) else { return };
        let Some(mut event) = self.agenda.remove(&place) else { return };
        let stopped = || mk_failure(FailureKind::Cancelled);
        match &mut event {
            Event::InputFetched { result, .. } | Event::KeyEstimated { result, .. } => *result = Err(stopped()),
            Event::KeyLoaded { result, .. } => *result = Err(stopped()),
            Event::Synthesized { result, .. } => *result = Err(stopped()),
            _ => {}
        }
        self.schedule(Duration::ZERO, event);
    }

    fn give_back(&mut self, subject: Arc<str>, holdings: Holdings) {
        if holdings != Holdings::default() {
            let (started, usage) = (self.now, Usage::default());
            self.schedule(self.release, Event::Released { subject, started, usage, holdings });
        }
    }

    fn prepare(&mut self, ticket: Ticket, worker: WorkerId) {
        self.begin(format!("{worker:?}"));
        let (now, script) = (self.now, self.script(ticket));
        let tries = self.tries.entry(ticket).or_default();
        *tries = (tries.0 + 1, 0);
        let started = now + script.wake;
        self.doing(worker.device, now, started, DeviceTime::Pickup);
        self.doing(worker.device, started, started + script.prepare, DeviceTime::HostPrep);
        let first = script.steps.first().map(|step| step.phase);
        let result = fails(self.fault(ticket) == Fault::Prepare).map(|()| first);
        self.prepared.push((started + script.prepare, ticket));
        let event = Event::Prepared { worker, started, usage: Usage::default(), result };
        self.schedule(script.wake + script.prepare, event);
    }

    fn step(&mut self, ticket: Ticket, worker: WorkerId) {
        self.begin(format!("{worker:?}"));
        assert!(self.leases.insert(worker.device), "two hold the lease of device {}", worker.device);
        let (now, script) = (self.now, self.script(ticket));
        self.steps.push((now, worker.device, ticket));
        let tries = self.tries.get_mut(&ticket).unwrap();
        let done = tries.1;
        tries.1 += 1;
        let step = script.steps[done].clone();
        let (started, ended) = (now + script.wake, now + script.wake + step.length);
        self.doing(worker.device, now, started, DeviceTime::Pickup);
        self.doing(worker.device, started, ended, DeviceTime::LeaseHeld);
        let failed = self.fault(ticket) == Fault::Step(done);
        for span in step.spans.iter().filter(|_| !failed) {
            self.doing(worker.device, started + span.start, started + span.end, span.activity.into());
        }
        let next = script.steps.get(done + 1).map(|step| step.phase);
        let result = fails(failed).map(|()| (StepReport::Spans(step.spans), next));
        self.schedule(ended - now, Event::StepDone { worker, started, usage: Usage::default(), result });
    }

    fn finish(&mut self, ticket: Ticket, slot: usize) {
        self.begin(format!("finalizer {slot}"));
        let (now, script, fault) = (self.now, self.script(ticket), self.fault(ticket));
        let result = fails(fault == Fault::Finish);
        let failed = result.is_err();
        let usage = Usage::default();
        let finished = now + script.finish;
        self.schedule(script.finish, Event::Finished { ticket, slot, started: now, finished, usage, result });
        if !failed {
            let verdict = match fault {
                Fault::Invalid => Verdict::Invalid,
                Fault::Damaged => Verdict::Error(mk_failure(FailureKind::BadKey)),
                _ => Verdict::Valid(Box::new(mk_proof())),
            };
            let started = now + script.finish;
            if fault == Fault::Damaged {
                let key = self.core.partitions[&ticket].key;
                self.schedule(script.finish + script.verify, Event::KeyDamaged { key });
            }
            let finished = started + script.verify;
            let event = Event::Verified { ticket, slot, started, finished, usage, verdict };
            self.schedule(script.finish + script.verify, event);
        }
    }

    fn canary(&mut self, worker: WorkerId) {
        self.begin(format!("{worker:?}"));
        assert!(self.leases.insert(worker.device), "two hold the lease of device {}", worker.device);
        let passes = self.canaries[worker.device].pop().unwrap_or(true);
        let started = self.now + self.canary_wake;
        self.doing(worker.device, started, started + self.canary, DeviceTime::OtherKernel);
        let event = Event::CanaryDone { worker, started, result: fails(!passes) };
        self.schedule(self.canary_wake + self.canary, event);
    }

    fn emitted(&mut self, event: PartitionEvent) {
        assert_eq!(event.state.is_final(), event.outcome.is_some());
        if let Some(outcome) = &event.outcome {
            self.outcomes.entry(event.id.clone()).or_default().push(outcome.clone());
        }
        self.events.push(event);
    }
}
