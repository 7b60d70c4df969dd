//! The account of one device's time: every instant is in exactly one state, busy in one phase or idle for one cause.
//!
//! Causes are a piecewise constant function that the core sets as its own state changes. What a worker did (a step's
//! kernels and copies, its host preparation, its wake-up) is known only when it reports; until then the watermark waits
//! at the begin of the open report. Below the watermark the totals are final and sum to the watermark.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proofmill_groth16::device::{Activity, Phase};

/// What a device's time was spent on. The order is the precedence: if several hold, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DeviceTime {
    /// Busy: a multi-scalar multiplication in G2.
    MsmG2,
    /// Busy: a multi-scalar multiplication in G1.
    MsmG1,
    /// Busy: a number-theoretic transform.
    Ntt,
    /// Busy: any other kernel.
    OtherKernel,
    /// Out of service.
    Fault,
    /// Intake is closed and nothing is left for this device.
    Draining,
    /// A copy for this device runs.
    Transfer,
    /// The lease is held, but neither kernel nor copy runs: the holder computes on the host.
    LeaseHeld,
    /// A worker has a partition and does not wait for the lease.
    HostPrep,
    /// A worker waits for a finalizer.
    FinishBackpressure,
    /// A partition is ready and no worker has taken it yet: wake-up, lock, thread pool.
    Pickup,
    /// A partition, or warm-up, waits for its key.
    KeyLoad,
    /// A partition waits for memory while a synthesis worker is free.
    MemoryBudget,
    /// A partition is being synthesised or waits for that.
    Synthesis,
    /// A partition's input is being fetched.
    Input,
    /// Nothing is there to be done.
    NoWork,
    /// None of the others: a fault of the ledger.
    Unattributed,
}

impl DeviceTime {
    /// All states, in order of precedence.
    pub const ALL: [Self; 17] = [
        Self::MsmG2,
        Self::MsmG1,
        Self::Ntt,
        Self::OtherKernel,
        Self::Fault,
        Self::Draining,
        Self::Transfer,
        Self::LeaseHeld,
        Self::HostPrep,
        Self::FinishBackpressure,
        Self::Pickup,
        Self::KeyLoad,
        Self::MemoryBudget,
        Self::Synthesis,
        Self::Input,
        Self::NoWork,
        Self::Unattributed,
    ];

    /// The labels (`state`, `cause`) in metrics.
    pub const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::MsmG2 => ("busy", "msm_g2"),
            Self::MsmG1 => ("busy", "msm_g1"),
            Self::Ntt => ("busy", "ntt"),
            Self::OtherKernel => ("busy", "other_kernel"),
            Self::Fault => ("idle", "fault"),
            Self::Draining => ("idle", "draining"),
            Self::Transfer => ("idle", "transfer"),
            Self::LeaseHeld => ("idle", "lease_held"),
            Self::HostPrep => ("idle", "host_prep"),
            Self::FinishBackpressure => ("idle", "finish_backpressure"),
            Self::Pickup => ("idle", "pickup"),
            Self::KeyLoad => ("idle", "key_load"),
            Self::MemoryBudget => ("idle", "memory_budget"),
            Self::Synthesis => ("idle", "synthesis"),
            Self::Input => ("idle", "input"),
            Self::NoWork => ("idle", "no_work"),
            Self::Unattributed => ("idle", "unattributed"),
        }
    }
}

impl From<Phase> for DeviceTime {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::MsmG2 => Self::MsmG2,
            Phase::MsmG1 => Self::MsmG1,
            Phase::Ntt => Self::Ntt,
            Phase::OtherKernel => Self::OtherKernel,
        }
    }
}

impl From<Activity> for DeviceTime {
    fn from(activity: Activity) -> Self {
        match activity {
            Activity::Kernel(phase) => phase.into(),
            Activity::Transfer => Self::Transfer,
        }
    }
}

/// One device's account.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Seconds per state below the watermark.
    totals: [Duration; DeviceTime::ALL.len()],
    watermark: Duration,
    /// The cause at the watermark.
    base: DeviceTime,
    /// Changes of the cause at or after the watermark, in order of time.
    changes: VecDeque<(Duration, DeviceTime)>,
    /// What workers reported, not merged yet.
    intervals: Vec<(Duration, Duration, DeviceTime)>,
    /// Begin of the reports that have not come, by reporter.
    open: BTreeMap<usize, Duration>,
}

impl Ledger {
    /// An account that begins at `start`, which counts as no time at all.
    pub fn new(start: Duration, cause: DeviceTime) -> Self {
        Self {
            totals: [Duration::ZERO; DeviceTime::ALL.len()],
            watermark: start,
            base: cause,
            changes: VecDeque::new(),
            intervals: Vec::new(),
            open: BTreeMap::new(),
        }
    }

    /// From `now` on, the cause is this one.
    pub fn set_cause(&mut self, now: Duration, cause: DeviceTime) {
        let last = self.changes.back().map_or(self.base, |&(_, last)| last);
        if last != cause {
            match self.changes.back_mut() {
                Some((at, slot)) if *at == now => *slot = cause,
                _ => self.changes.push_back((now, cause)),
            }
        }
    }

    /// `reporter` begins something at `now` that it will report later.
    pub fn open(&mut self, reporter: usize, now: Duration) {
        self.advance(now);
        self.open.insert(reporter, now);
    }

    /// A stretch of time that `reporter` tells of before it closes its report.
    pub fn interval(&mut self, start: Duration, end: Duration, state: DeviceTime) {
        let start = start.max(self.watermark);
        if start < end {
            self.intervals.push((start, end, state));
        }
    }

    /// `reporter` has told everything up to `now`.
    pub fn close(&mut self, reporter: usize, now: Duration) {
        self.open.remove(&reporter);
        self.advance(now);
    }

    /// Merges everything up to `now`, or up to the earliest open report.
    pub fn advance(&mut self, now: Duration) {
        let to = self.open.values().copied().min().unwrap_or(now).min(now);
        if to <= self.watermark {
            return;
        }
        let mut running = [0_u32; DeviceTime::ALL.len()];
        // Begins and ends of intervals within [watermark, to); an end at or past `to` stays pending.
        let mut edges: Vec<(Duration, DeviceTime, bool)> = Vec::with_capacity(self.intervals.len() * 2);
        self.intervals.retain_mut(|(start, end, state)| {
            if *start >= to {
                return true;
            }
            edges.push((*start, *state, true));
            if *end > to {
                *start = to;
                return true;
            }
            edges.push((*end, *state, false));
            false
        });
        edges.sort_unstable_by_key(|&(at, _, begins)| (at, begins));
        let mut edges = edges.into_iter().peekable();
        let mut at = self.watermark;
        while at < to {
            while let Some(&(when, cause)) = self.changes.front()
                && when <= at
            {
                self.base = cause;
                self.changes.pop_front();
            }
            while let Some((_, state, begins)) = edges.next_if(|&(when, _, _)| when <= at) {
                let count = &mut running[state as usize];
                *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            }
            let mut next = to;
            if let Some(&(when, _)) = self.changes.front() {
                next = next.min(when);
            }
            if let Some(&(when, _, _)) = edges.peek() {
                next = next.min(when);
            }
            let winner = DeviceTime::ALL
                .iter()
                .zip(running)
                .find(|&(state, count)| count > 0 && *state < self.base)
                .map_or(self.base, |(state, _)| *state);
            self.totals[winner as usize] += next - at;
            at = next;
        }
        self.watermark = to;
    }

    /// Up to when the account is final.
    pub const fn watermark(&self) -> Duration {
        self.watermark
    }

    /// Time in `state` below the watermark.
    pub const fn total(&self, state: DeviceTime) -> Duration {
        self.totals[state as usize]
    }

    /// The cause that holds now, leaving open reports aside.
    pub fn cause(&self) -> DeviceTime {
        self.changes.back().map_or(self.base, |&(_, cause)| cause)
    }

    /// All states with their labels; every state is there, also at zero.
    pub fn by_label(&self) -> BTreeMap<(&'static str, &'static str), Duration> {
        DeviceTime::ALL.iter().map(|&state| (state.labels(), self.total(state))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn causes_alone_fill_the_time() {
        let mut ledger = Ledger::new(Duration::ZERO, DeviceTime::NoWork);
        ledger.set_cause(ms(10), DeviceTime::Synthesis);
        ledger.set_cause(ms(25), DeviceTime::NoWork);
        ledger.advance(ms(30));
        assert_eq!(ledger.total(DeviceTime::NoWork), ms(15));
        assert_eq!(ledger.total(DeviceTime::Synthesis), ms(15));
        assert_eq!(ledger.watermark(), ms(30));
    }

    #[test]
    fn an_open_report_holds_the_watermark_and_its_intervals_win_by_precedence() {
        let mut ledger = Ledger::new(Duration::ZERO, DeviceTime::Synthesis);
        ledger.open(0, ms(10));
        ledger.set_cause(ms(12), DeviceTime::NoWork);
        ledger.advance(ms(40));
        assert_eq!(ledger.watermark(), ms(10));
        ledger.interval(ms(10), ms(11), DeviceTime::Pickup);
        ledger.interval(ms(11), ms(30), DeviceTime::LeaseHeld);
        ledger.interval(ms(12), ms(20), DeviceTime::Transfer);
        ledger.interval(ms(15), ms(25), DeviceTime::Ntt);
        ledger.interval(ms(18), ms(22), DeviceTime::MsmG2);
        ledger.close(0, ms(40));
        assert_eq!(ledger.watermark(), ms(40));
        assert_eq!(ledger.total(DeviceTime::Synthesis), ms(10));
        assert_eq!(ledger.total(DeviceTime::Pickup), ms(1));
        assert_eq!(ledger.total(DeviceTime::LeaseHeld), ms(1 + 5));
        assert_eq!(ledger.total(DeviceTime::Transfer), ms(3));
        assert_eq!(ledger.total(DeviceTime::Ntt), ms(3 + 3));
        assert_eq!(ledger.total(DeviceTime::MsmG2), ms(4));
        assert_eq!(ledger.total(DeviceTime::NoWork), ms(10));
    }

    #[test]
    fn an_interval_across_the_watermark_is_split() {
        let mut ledger = Ledger::new(Duration::ZERO, DeviceTime::NoWork);
        ledger.open(0, ms(0));
        ledger.open(1, ms(5));
        ledger.interval(ms(0), ms(20), DeviceTime::HostPrep);
        ledger.close(0, ms(20));
        assert_eq!(ledger.watermark(), ms(5));
        assert_eq!(ledger.total(DeviceTime::HostPrep), ms(5));
        ledger.interval(ms(5), ms(10), DeviceTime::MsmG1);
        ledger.close(1, ms(20));
        assert_eq!(ledger.total(DeviceTime::HostPrep), ms(15));
        assert_eq!(ledger.total(DeviceTime::MsmG1), ms(5));
        assert_eq!(ledger.total(DeviceTime::NoWork), ms(0));
    }
}
