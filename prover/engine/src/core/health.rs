//! Faults, wrong proofs, canaries, quarantine.

use std::time::Duration;

use super::Core;
use super::device::{DeviceState, Work};
use super::event::{Action, Ticket, WorkerId};
use super::partition::Stage;
use crate::job::FailureKind;
use crate::ledger::DeviceTime;
use crate::meter::Usage;
use crate::trace::{Flow, Track};

/// Canary proofs in a row that bring a device back.
const PASSES: u32 = 3;

/// The wait after a failed canary: it doubles up to a minute.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Whether a device gets work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Its first canary has not ended.
    Starting,
    /// It does.
    Ready,
    /// Not before so many canaries have passed in a row.
    Quarantined {
        /// Passed so far.
        passes: u32,
        /// The wait after the next failure.
        backoff: Duration,
        /// No canary before then.
        retry_at: Duration,
    },
}

impl DeviceState {
    /// When the next canary may start, if that alone is waited for.
    pub fn retry_at(&self) -> Option<Duration> {
        match self.health {
            Health::Quarantined { retry_at, .. } if self.canary_due => Some(retry_at),
            _ => None,
        }
    }

    /// No canary may start yet. Partitions to be judged do not wait for that: their verdict needs one that begins now.
    fn must_wait(&self, now: Duration) -> bool {
        self.judging.is_empty() && self.retry_at().is_some_and(|at| at > now)
    }

    fn has_canary(&self) -> bool {
        self.work.iter().any(|work| matches!(work, Work::CanaryWaiting | Work::CanaryRunning))
    }
}

impl Core {
    /// Puts a due canary before the next partition.
    pub(super) fn start_canary(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return false };
        if !device.canary_due || device.has_canary() || device.must_wait(now) {
            return false;
        }
        let Some(slot) = device.idle_slot() else { return false };
        self.set_work(WorkerId { device: index, slot }, Work::CanaryWaiting);
        true
    }

    /// The canary begins: what is known of the device by now, it decides; what comes later, the next one does.
    pub(super) fn run_canary(&mut self, worker: WorkerId) {
        let now = self.now;
        let Some(device) = self.devices.get_mut(worker.device) else { return };
        device.ledger.open(worker.slot, now);
        device.canary_due = false;
        device.canary_began = now;
        device.deciding = std::mem::take(&mut device.judging);
        self.set_work(worker, Work::CanaryRunning);
        self.actions.push(Action::Canary { worker });
    }

    pub(super) fn on_canary(&mut self, worker: WorkerId, started: Duration, result: Result<(), String>) {
        let now = self.now;
        if self.work(worker) != Work::CanaryRunning {
            return;
        }
        self.set_work(worker, Work::Idle);
        let Some(device) = self.devices.get_mut(worker.device) else { return };
        let (began, judged) = (device.canary_began, std::mem::take(&mut device.deciding));
        let intervals = [(began, started, DeviceTime::Pickup), (started, now, DeviceTime::OtherKernel)];
        self.report(worker, now, Usage::default(), intervals);
        self.span(Track::Worker(worker), "canary", started, None, None, Flow::None);
        let passed = result.is_ok();
        self.canary_counts(worker.device, result);
        for ticket in judged {
            self.judge(worker.device, ticket, passed);
        }
    }

    fn canary_counts(&mut self, index: usize, result: Result<(), String>) {
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return };
        let was = device.health;
        match (result, was) {
            (Ok(()), Health::Starting) => device.health = Health::Ready,
            (Ok(()), Health::Ready) => return,
            (Ok(()), Health::Quarantined { passes, .. }) if passes + 1 >= PASSES => device.health = Health::Ready,
            (Ok(()), Health::Quarantined { passes, .. }) => {
                device.health = Health::Quarantined { passes: passes + 1, backoff: FIRST_RETRY, retry_at: now };
                device.canary_due = true;
                return;
            }
            (Err(message), _) => {
                let backoff = match was {
                    Health::Quarantined { backoff, .. } => backoff,
                    Health::Starting | Health::Ready => FIRST_RETRY,
                };
                let next = (backoff * 2).min(LAST_RETRY);
                device.health = Health::Quarantined { passes: 0, backoff: next, retry_at: now + backoff };
                device.canary_due = true;
                self.actions.push(Action::DeviceHealth { device: index, problem: Some(message) });
                return self.clear_parked(index);
            }
        }
        device.proven = true;
        device.failures_in_row = 0;
        self.actions.push(Action::DeviceHealth { device: index, problem: None });
        self.trace.mark(now, format!("device {index} is in service"));
    }

    /// A device failed a partition, which tries another one first. `worker` is free again; `None` if a finalizer had it.
    pub(super) fn device_failed(&mut self, index: usize, worker: Option<WorkerId>, ticket: Ticket, message: &str) {
        if let Some(worker) = worker {
            self.set_work(worker, Work::Idle);
        }
        self.count_failure(index, message);
        let attempts = self.config.device_attempts.max(1);
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.faults += 1;
        if !partition.avoid.contains(&index) {
            partition.avoid.push(index);
        }
        let faults = partition.faults;
        self.start_over(ticket);
        if faults >= attempts {
            let message = format!("devices failed this partition {faults} times, the last one with: {message}");
            self.fail(ticket, FailureKind::DeviceFault, message);
        }
    }

    /// A proof did not verify. The circuit's parts, the witness or the device are at fault: a key holds no C matrix, so
    /// even a witness that satisfies an r1cs may be one that the key cannot prove. Only a second proof and the canary can
    /// tell.
    pub(super) fn proof_is_wrong(&mut self, ticket: Ticket) {
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        let index = partition.last_device.unwrap_or(0);
        if !partition.avoid.contains(&index) {
            partition.avoid.push(index);
        }
        partition.bad_proofs.push(index);
        if partition.bad_proofs.len() < 2 {
            return self.start_over(ticket);
        }
        self.enter(ticket, Stage::Judging);
        if let Some(device) = self.devices.get_mut(index) {
            device.judging.push(ticket);
            device.canary_due = true;
        }
    }

    /// Two proofs of one witness did not verify, and the device that made the second one has ended a canary that began
    /// after it.
    fn judge(&mut self, index: usize, ticket: Ticket, canary_passed: bool) {
        let attempts = self.config.device_attempts.max(1);
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        if partition.ended || partition.stage != Stage::Judging {
            return;
        }
        if canary_passed {
            let checked = self.keys.get(partition.key).is_some_and(|key| key.facts.checks_constraints);
            let (kind, message) = if checked {
                (
                    FailureKind::BadKey,
                    "two proofs of a witness that satisfies the r1cs do not verify, and the device proves its own test \
                     circuit right: the r1cs has other products (the matrix C, which a zkey does not hold) than the \
                     circuit of the zkey; give both from the same compilation",
                )
            } else {
                (
                    FailureKind::UnsatisfiedWitness,
                    "the witness does not satisfy the circuit: two proofs of it do not verify, and the device proves its \
                     own test circuit right (the key alone cannot say which constraint fails; give the circuit its r1cs \
                     to learn that)",
                )
            };
            return self.fail(ticket, kind, message.to_owned());
        }
        partition.bad_proofs.pop();
        partition.faults += 1;
        let faults = partition.faults;
        self.count_wrong_proof(index);
        self.start_over(ticket);
        if faults >= attempts {
            let message = format!(
                "devices made a proof that does not verify or failed, {faults} times, although the witness is not to \
                 blame; check the devices"
            );
            self.fail(ticket, FailureKind::VerificationFailed, message);
        }
    }

    /// A proof of this device verified: whoever made a wrong one of the same witness before was at fault.
    pub(super) fn proof_is_right(&mut self, ticket: Ticket) {
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        let (bad, index) = (std::mem::take(&mut partition.bad_proofs), partition.last_device.unwrap_or(0));
        for device in bad {
            self.count_wrong_proof(device);
        }
        if let Some(device) = self.devices.get_mut(index) {
            device.failures_in_row = 0;
        }
    }

    fn count_wrong_proof(&mut self, index: usize) {
        if let Some(device) = self.devices.get_mut(index) {
            device.verification_failures += 1;
        }
        self.count_failure(index, "a proof did not verify");
    }

    fn count_failure(&mut self, index: usize, message: &str) {
        let now = self.now;
        let Some(device) = self.devices.get_mut(index) else { return };
        device.failures_in_row += 1;
        if device.failures_in_row < self.config.quarantine_after.max(1) || device.health != Health::Ready {
            return;
        }
        device.health = Health::Quarantined { passes: 0, backoff: FIRST_RETRY, retry_at: now };
        device.canary_due = true;
        let problem = format!("{} failures in a row, the last one: {message}", device.failures_in_row);
        self.trace.mark(now, format!("device {index} is in quarantine"));
        self.actions.push(Action::DeviceHealth { device: index, problem: Some(problem) });
        self.clear_parked(index);
    }

    /// Partitions that were put back on a device that is out of service start over elsewhere.
    fn clear_parked(&mut self, index: usize) {
        let parked: Vec<Ticket> = self
            .device_queue
            .iter()
            .map(|order| order.ticket)
            .filter(|ticket| self.partitions.get(ticket).is_some_and(|p| p.parked_on == Some(index)))
            .collect();
        for ticket in parked {
            self.start_over(ticket);
        }
    }
}
