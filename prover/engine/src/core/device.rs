//! Two workers per device, one lease: one prepares while the other's steps run. Critical partitions overtake between
//! steps; whoever is put back keeps its buffers.

use std::time::Duration;

use proofmill_groth16::device::{Activity, Phase, StepReport};

use super::event::{Action, Ticket, WorkerId};
use super::health::Health;
use super::partition::{Partition, Stage};
use super::{Core, DeviceFacts};
use crate::ledger::{DeviceTime, Ledger};
use crate::meter::Usage;
use crate::trace::{Flow, Span, Track};

/// What a device worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing.
    Idle,
    /// `Device::prepare`.
    Preparing(Ticket),
    /// Prepared; the other worker has the lease.
    WaitingLease(Ticket),
    /// Runs a step under the lease.
    Stepping(Ticket, Phase),
    /// Turns the finished steps into their output.
    HandingOver(Ticket),
    /// Holds an output that no finalizer takes.
    AwaitingFinalizer(Ticket),
    /// Will prove the canary when the lease is free.
    CanaryWaiting,
    /// Proves the canary under the lease.
    CanaryRunning,
}

/// One device.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub facts: DeviceFacts,
    /// Bytes of its own memory that partitions hold.
    pub memory_used: u64,
    /// The first partition in line waits for its memory.
    pub memory_blocked: bool,
    pub work: [Work; 2],
    pub health: Health,
    /// A canary has passed since start.
    pub proven: bool,
    /// A canary proof is due.
    pub canary_due: bool,
    /// Partitions whose fate the next canary decides.
    pub judging: Vec<Ticket>,
    /// Partitions whose fate the running canary decides: it began after their last proof.
    pub deciding: Vec<Ticket>,
    /// When the running canary was asked for.
    pub canary_began: Duration,
    /// Faults and wrong proofs since the last right one.
    pub failures_in_row: u32,
    pub verification_failures: u64,
    pub cpu: Duration,
    pub ledger: Ledger,
}

impl DeviceState {
    pub fn new(facts: DeviceFacts, now: Duration) -> Self {
        Self {
            facts,
            memory_used: 0,
            memory_blocked: false,
            work: [Work::Idle; 2],
            health: Health::Starting,
            proven: false,
            canary_due: true,
            judging: Vec::new(),
            deciding: Vec::new(),
            canary_began: now,
            failures_in_row: 0,
            verification_failures: 0,
            cpu: Duration::ZERO,
            ledger: Ledger::new(now, DeviceTime::Pickup),
        }
    }

    /// Whether a partition that takes `bytes` of its memory could ever run here.
    pub fn can_hold(&self, bytes: u64) -> bool {
        self.facts.memory.is_none_or(|memory| bytes <= memory)
    }

    pub fn idle_slot(&self) -> Option<usize> {
        self.work.iter().position(|work| *work == Work::Idle)
    }

    /// Whether a partition that takes `bytes` of its memory can run now, with as much left for a Critical one if that
    /// is to be kept.
    fn has_room(&self, bytes: u64, keep_for_critical: bool) -> bool {
        let Some(memory) = self.facts.memory else { return true };
        let need = if keep_for_critical && self.memory_used > 0 { bytes.saturating_mul(2) } else { bytes };
        self.memory_used.saturating_add(need) <= memory
    }

    fn lease_is_held(&self) -> bool {
        self.work.iter().any(|work| matches!(work, Work::Stepping(..) | Work::CanaryRunning))
    }

    fn busy_slots(&self) -> usize {
        self.work.iter().filter(|work| **work != Work::Idle).count()
    }
}

impl Core {
    /// Gives partitions to idle workers and the lease to whoever is first.
    pub(super) fn pump_devices(&mut self) -> bool {
        let mut progress = false;
        for device in 0..self.devices.len() {
            progress |= self.start_canary(device);
        }
        // A device with both workers idle before one that would only prepare.
        while let Some((device, ticket)) = self.next_assignment() {
            progress |= self.assign(device, ticket);
        }
        for device in 0..self.devices.len() {
            progress |= self.make_way(device);
            progress |= self.grant_lease(device);
        }
        progress
    }

    fn next_assignment(&mut self) -> Option<(usize, Ticket)> {
        if self.device_queue.is_empty() {
            for device in &mut self.devices {
                device.memory_blocked = false;
            }
            return None;
        }
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.sort_by_key(|&index| self.devices.get(index).map_or(0, DeviceState::busy_slots));
        order.into_iter().find_map(|index| {
            self.devices.get(index)?.idle_slot()?;
            let pick = self.pick(index);
            if let Some(device) = self.devices.get_mut(index) {
                device.memory_blocked = pick == Some(Err(()));
            }
            pick?.ok().map(|ticket| (index, ticket))
        })
    }

    /// The first partition in order that this device may take; `Err` if it must wait for the device's memory.
    fn pick(&self, index: usize) -> Option<Result<Ticket, ()>> {
        let device = self.devices.get(index)?;
        if device.health != Health::Ready {
            return None;
        }
        let mut queue = self.device_queue.iter().map(|order| order.ticket);
        let ticket = queue.clone().find(|&ticket| self.is_eligible(ticket, index))?;
        let partition = self.partitions.get(&ticket)?;
        let keep_for_critical = self.config.reserve_critical > 0 && !partition.order.is_critical();
        let bytes = self.device_bytes(ticket, index);
        if partition.parked_on.is_some() || device.has_room(bytes, keep_for_critical) {
            return Some(Ok(ticket));
        }
        // What was put back here holds some of that memory: it must go on, or both wait for each other.
        let parked = |ticket: &Ticket| self.partitions.get(ticket).is_some_and(|p| p.parked_on == Some(index));
        Some(queue.find(parked).ok_or(()))
    }

    /// Whether a device may take a partition: it could hold it, and did not fail it while others would not have.
    pub(super) fn is_eligible(&self, ticket: Ticket, index: usize) -> bool {
        let Some(partition) = self.partitions.get(&ticket) else { return false };
        if let Some(parked) = partition.parked_on {
            return parked == index;
        }
        let could = |index: usize| {
            self.devices.get(index).is_some_and(|device| device.can_hold(self.device_bytes(ticket, index)))
        };
        let better = |other: usize| {
            let ready = self.devices.get(other).is_some_and(|device| device.health == Health::Ready);
            ready && !partition.avoid.contains(&other) && could(other)
        };
        could(index) && (!partition.avoid.contains(&index) || !(0..self.devices.len()).any(better))
    }

    fn device_bytes(&self, ticket: Ticket, index: usize) -> u64 {
        let key = self.partitions.get(&ticket).and_then(|partition| self.keys.get(partition.key));
        key.and_then(|key| key.facts.working_sets.get(index)).map_or(0, |set| set.device)
    }

    fn assign(&mut self, index: usize, ticket: Ticket) -> bool {
        let bytes = self.device_bytes(ticket, index);
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return false };
        let Some(slot) = device.idle_slot() else { return false };
        let Some(partition) = self.partitions.get_mut(&ticket) else { return false };
        let worker = WorkerId { device: index, slot };
        self.device_queue.remove(&partition.order);
        if partition.parked_on.take().is_some() {
            self.set_work(worker, Work::WaitingLease(ticket));
        } else {
            device.memory_used += bytes;
            device.ledger.open(slot, now);
            partition.on_device = Some((index, bytes));
            partition.last_device = Some(index);
            partition.device_time = Duration::ZERO;
            self.set_work(worker, Work::Preparing(ticket));
            self.actions.push(Action::Prepare { ticket, worker });
        }
        self.enter(ticket, Stage::OnWorker(worker));
        true
    }

    /// If a Critical partition waits and no worker is free, a worker that merely waits for the lease puts its
    /// partition back.
    fn make_way(&mut self, index: usize) -> bool {
        let Some(device) = self.devices.get(index) else { return false };
        if device.idle_slot().is_some() {
            return false;
        }
        let Some(Ok(ticket)) = self.pick(index) else { return false };
        if !self.is_critical(ticket) {
            return false;
        }
        let Some(device) = self.devices.get(index) else { return false };
        let waiting = (0..2).rev().find_map(|slot| match device.work.get(slot) {
            Some(&Work::WaitingLease(other)) if !self.is_critical(other) => Some((slot, other)),
            _ => None,
        });
        let Some((slot, other)) = waiting else { return false };
        self.put_back(WorkerId { device: index, slot }, other);
        self.assign(index, ticket)
    }

    /// Puts a prepared partition back into the queue; its state stays on the device.
    fn put_back(&mut self, worker: WorkerId, ticket: Ticket) {
        let now = self.now;
        self.set_work(worker, Work::Idle);
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.timings.lease_wait += now.saturating_sub(partition.mark);
        partition.parked_on = Some(worker.device);
        self.device_queue.insert(partition.order);
        self.enter(ticket, Stage::DeviceQueue);
    }

    /// Gives a free lease away: to the canary, else to the first in order.
    fn grant_lease(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(device) = self.devices.get(index) else { return false };
        if device.lease_is_held() {
            return false;
        }
        if let Some(slot) = device.work.iter().position(|work| *work == Work::CanaryWaiting) {
            self.run_canary(WorkerId { device: index, slot });
            return true;
        }
        let waiting = device.work.iter().enumerate().filter_map(|(slot, work)| match work {
            Work::WaitingLease(ticket) => Some((slot, *ticket)),
            _ => None,
        });
        let first = waiting.min_by_key(|(_, ticket)| self.partitions.get(ticket).map(|partition| partition.order));
        let Some((slot, ticket)) = first else { return false };
        let worker = WorkerId { device: index, slot };
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            let waited = partition.mark;
            partition.timings.lease_wait += now.saturating_sub(waited);
            let name = partition.name.clone();
            if waited < now {
                self.span(Track::Worker(worker), "lease_wait", waited, Some(name), None, Flow::None);
            }
        }
        self.run_step(worker, ticket);
        true
    }

    fn run_step(&mut self, worker: WorkerId, ticket: Ticket) {
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.mark = now;
        let phase = partition.next_phase.unwrap_or(Phase::OtherKernel);
        self.set_work(worker, Work::Stepping(ticket, phase));
        if let Some(device) = self.devices.get_mut(worker.device) {
            device.ledger.open(worker.slot, now);
        }
        self.actions.push(Action::RunStep { ticket, worker });
    }

    pub(super) fn on_prepared(
        &mut self,
        worker: WorkerId,
        started: Duration,
        usage: Usage,
        result: Result<Option<Phase>, String>,
    ) {
        let now = self.now;
        let Work::Preparing(ticket) = self.work(worker) else { return };
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.usage += usage;
        partition.timings.host_prep += now.saturating_sub(partition.mark);
        let (name, mark, ended) = (partition.name.clone(), partition.mark, partition.ended);
        self.report(worker, now, usage, [(mark, started, DeviceTime::Pickup), (started, now, DeviceTime::HostPrep)]);
        self.span(Track::Worker(worker), "host_prep", started, Some(name), Some(usage), Flow::In(ticket));
        match result {
            _ if ended => self.free_worker(worker, ticket),
            Err(message) => self.device_failed(worker.device, Some(worker), ticket, &message),
            Ok(None) => self.hand_over(worker, ticket),
            Ok(next) => {
                if let Some(partition) = self.partitions.get_mut(&ticket) {
                    (partition.next_phase, partition.mark) = (next, now);
                }
                self.set_work(worker, Work::WaitingLease(ticket));
            }
        }
    }

    pub(super) fn on_step(
        &mut self,
        worker: WorkerId,
        started: Duration,
        usage: Usage,
        result: Result<(StepReport, Option<Phase>), String>,
    ) {
        let now = self.now;
        let Work::Stepping(ticket, phase) = self.work(worker) else { return };
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.usage += usage;
        partition.device_time += now.saturating_sub(started);
        let (name, mark, ended) = (partition.name.clone(), partition.mark, partition.ended);
        let spans = result.as_ref().map_or_else(|_| Vec::new(), |(report, _)| spans(report, started, now));
        for &(start, end, activity) in &spans {
            charge_activity(partition, activity, end.saturating_sub(start));
        }
        for &(start, end, activity) in &spans {
            let (state, track) = (DeviceTime::from(activity), Track::Device(worker.device));
            if let Some(device) = self.devices.get_mut(worker.device) {
                device.ledger.interval(start, end, state);
            }
            let (name, subject) = (state.labels().1, Some(name.clone()));
            self.trace.push(Span { track, name, start, end, subject, usage: None, flow: Flow::None });
        }
        self.report(worker, now, usage, [(mark, started, DeviceTime::Pickup), (started, now, DeviceTime::LeaseHeld)]);
        let step = DeviceTime::from(phase).labels().1;
        self.span(Track::Worker(worker), step, started, Some(name), Some(usage), Flow::None);
        match result {
            _ if ended => self.free_worker(worker, ticket),
            Err(message) => self.device_failed(worker.device, Some(worker), ticket, &message),
            Ok((_, None)) => self.hand_over(worker, ticket),
            Ok((_, next)) => {
                if let Some(partition) = self.partitions.get_mut(&ticket) {
                    (partition.next_phase, partition.mark) = (next, now);
                }
                self.step_on_or_yield(worker, ticket);
            }
        }
    }

    /// Between two steps: a Critical partition goes first, whether it waits for the lease or for a worker.
    fn step_on_or_yield(&mut self, worker: WorkerId, ticket: Ticket) {
        self.set_work(worker, Work::WaitingLease(ticket));
        if self.is_critical(ticket) {
            return self.run_step(worker, ticket);
        }
        let device = self.devices.get(worker.device);
        let other = device.and_then(|device| device.work.get(1 - worker.slot)).copied();
        let critical_holds = matches!(other, Some(Work::WaitingLease(other)) if self.is_critical(other));
        let critical_waits = matches!(self.pick(worker.device), Some(Ok(first)) if self.is_critical(first));
        // In both cases `pump_devices` does the rest: it gives the lease by order, or puts a partition back.
        if !critical_holds && !critical_waits {
            self.run_step(worker, ticket);
        }
    }

    /// All steps have run: the lease is free while the worker hands over.
    fn hand_over(&mut self, worker: WorkerId, ticket: Ticket) {
        let now = self.now;
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            (partition.next_phase, partition.mark) = (None, now);
            self.run_ahead.proved(partition.device_time);
        }
        self.set_work(worker, Work::HandingOver(ticket));
        self.actions.push(Action::TakeOutput { ticket, worker });
    }

    pub(super) fn on_output(&mut self, worker: WorkerId, started: Duration, usage: Usage, result: Result<(), String>) {
        let Work::HandingOver(ticket) = self.work(worker) else { return };
        let Some(mut partition) = self.partitions.remove(&ticket) else { return };
        partition.usage += usage;
        // The device's memory and the evaluations went with the steps.
        self.leave_device_memory(partition.on_device.take());
        if let Some(evaluations) = partition.evaluations.take() {
            self.budget.give(evaluations);
        }
        let (name, ended) = (partition.name.clone(), partition.ended);
        self.partitions.insert(ticket, partition);
        if let Some(device) = self.devices.get_mut(worker.device) {
            device.cpu += usage.cpu;
        }
        self.span(Track::Worker(worker), "hand_over", started, Some(name), Some(usage), Flow::None);
        match result {
            _ if ended => self.free_worker(worker, ticket),
            Err(message) => self.device_failed(worker.device, Some(worker), ticket, &message),
            Ok(()) => self.set_work(worker, Work::AwaitingFinalizer(ticket)),
        }
    }

    /// A worker is done with a partition that has ended meanwhile.
    fn free_worker(&mut self, worker: WorkerId, ticket: Ticket) {
        self.set_work(worker, Work::Idle);
        self.reap(ticket);
    }

    /// Lays what a worker reports into the device's ledger and closes the report.
    pub(super) fn report(
        &mut self,
        worker: WorkerId,
        now: Duration,
        usage: Usage,
        intervals: [(Duration, Duration, DeviceTime); 2],
    ) {
        let Some(device) = self.devices.get_mut(worker.device) else { return };
        device.cpu += usage.cpu;
        for (start, end, state) in intervals {
            device.ledger.interval(start, end, state);
        }
        device.ledger.close(worker.slot, now);
    }

    /// Gives back what was dropped of a device's memory.
    pub(super) fn leave_device_memory(&mut self, held: Option<(usize, u64)>) {
        if let Some((index, bytes)) = held
            && let Some(device) = self.devices.get_mut(index)
        {
            device.memory_used = device.memory_used.saturating_sub(bytes);
        }
    }

    pub(super) fn work(&self, worker: WorkerId) -> Work {
        let device = self.devices.get(worker.device);
        device.and_then(|device| device.work.get(worker.slot)).copied().unwrap_or(Work::Idle)
    }

    pub(super) fn set_work(&mut self, worker: WorkerId, work: Work) {
        let device = self.devices.get_mut(worker.device);
        if let Some(slot) = device.and_then(|device| device.work.get_mut(worker.slot)) {
            *slot = work;
        }
    }

    fn is_critical(&self, ticket: Ticket) -> bool {
        self.partitions.get(&ticket).is_some_and(|partition| partition.order.is_critical())
    }
}

/// A step's activities in the engine's time, within the step.
fn spans(report: &StepReport, started: Duration, ended: Duration) -> Vec<(Duration, Duration, Activity)> {
    match report {
        StepReport::Busy(phase) => vec![(started, ended, Activity::Kernel(*phase))],
        StepReport::Spans(spans) => spans
            .iter()
            .map(|span| {
                let at = |offset: Duration| started.saturating_add(offset).min(ended);
                (at(span.start), at(span.end), span.activity)
            })
            .filter(|(start, end, _)| start < end)
            .collect(),
    }
}

fn charge_activity(partition: &mut Partition, activity: Activity, took: Duration) {
    let timings = &mut partition.timings;
    match activity {
        Activity::Transfer => timings.transfer += took,
        Activity::Kernel(Phase::Ntt) => timings.ntt += took,
        Activity::Kernel(Phase::MsmG1) => timings.msm_g1 += took,
        Activity::Kernel(Phase::MsmG2) => timings.msm_g2 += took,
        Activity::Kernel(Phase::OtherKernel) => {}
    }
}
