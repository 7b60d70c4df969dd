//! The fleet's account: what engines say of themselves, summed up by pool for as long as this operator leads.
//!
//! A pod that lives for minutes has few scrapes, and takes its counters with it: `rate()` over them loses its first and last
//! moments. The operator hears every engine each second, so fleet panels, costs and alerts are made from this account. It
//! begins at nothing with each leader, as any counter does with its process.
//!
//! Engines are believed within bounds: a device cannot have had more time than has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proofmill_crds::conditions::reasons;
use proofmill_proto::v1;

use crate::index::Key;

/// Circuits of a pool with a name of their own: the first ones that were heard of.
const NAMED_CIRCUITS: usize = 20;
/// The label of the rest.
pub const OTHER: &str = "other";
/// Buckets of an engine's phases, the one without an upper bound included.
pub const PHASE_BUCKETS: usize = 17;
/// Upper bounds of [`Latency`], seconds.
pub const LATENCY_BOUNDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0];
/// Clocks of two machines run apart so much at most, and reports take a while on their way.
const SLACK: Duration = Duration::from_secs(2);

/// The states of a device's time that this operator knows, with the idle causes' and busy phases' names.
const CAUSES: [(&str, &str); 17] = [
    ("busy", "msm_g2"),
    ("busy", "msm_g1"),
    ("busy", "ntt"),
    ("busy", "other_kernel"),
    ("idle", "fault"),
    ("idle", "draining"),
    ("idle", "transfer"),
    ("idle", "lease_held"),
    ("idle", "host_prep"),
    ("idle", "finish_backpressure"),
    ("idle", "pickup"),
    ("idle", "key_load"),
    ("idle", "memory_budget"),
    ("idle", "synthesis"),
    ("idle", "input"),
    ("idle", "no_work"),
    ("idle", "unattributed"),
];
/// Phases of a partition that this operator knows.
const PHASES: [&str; 13] = [
    "fetch",
    "queue",
    "budget_wait",
    "synthesis",
    "device_queue",
    "lease_wait",
    "host_prep",
    "transfer",
    "ntt",
    "msm_g1",
    "msm_g2",
    "finish",
    "verify",
];
/// Outcomes of a partition that this operator knows.
const OUTCOMES: [&str; 13] = [
    "succeeded",
    "bad_input",
    "bad_key",
    "insecure_key",
    "unavailable",
    "unsatisfied_witness",
    "device_fault",
    "verification_failed",
    "memory_budget",
    "deadline_exceeded",
    "cancelled",
    "draining",
    "internal",
];

/// How jobs end.
const ENDS: [&str; 13] = [
    reasons::PROVED,
    reasons::BAD_INPUT,
    reasons::BAD_KEY,
    reasons::INSECURE_KEY,
    reasons::UNAVAILABLE,
    reasons::UNSATISFIED_WITNESS,
    reasons::DEVICE_FAULT,
    reasons::VERIFICATION_FAILED,
    reasons::MEMORY_BUDGET,
    reasons::DEADLINE_EXCEEDED,
    reasons::CIRCUIT_DELETED,
    reasons::OUTPUT_CONFLICT,
    reasons::INTERNAL,
];
/// The word for a partition's loss with its pod, where a reason of failure would stand.
pub const LOST: &str = "Lost";
/// Why partitions are sent again.
const RETRIED: [&str; 5] =
    [LOST, reasons::UNAVAILABLE, reasons::DEVICE_FAULT, reasons::VERIFICATION_FAILED, reasons::INTERNAL];

/// See the module.
#[derive(Debug, Default)]
pub struct Account {
    pools: BTreeMap<Key, PoolAccount>,
    /// What engines said last, by their pods' UIDs.
    engines: BTreeMap<String, Heard>,
    /// Reports that were not believed.
    disbelieved: u64,
}

/// What has become of a pool's time and work.
#[derive(Debug)]
pub struct PoolAccount {
    /// Device time by state and cause.
    pub ledger: BTreeMap<(&'static str, &'static str), Duration>,
    /// Device time without work on the pod while partitions waited in the pool's queue.
    pub idle_with_backlog: Duration,
    /// Partitions that ended, by circuit and outcome.
    pub partitions: BTreeMap<(String, &'static str), u64>,
    /// Durations of phases by circuit and phase.
    pub phases: BTreeMap<(String, &'static str), Counts<PHASE_BUCKETS>>,
    /// Proofs that did not verify on their engine.
    pub verification_failures: u64,
    /// From a job's creation, as it was first seen, to its first submission.
    pub schedule_latency: Latency,
    /// Jobs that ended, by reason.
    pub ended: BTreeMap<&'static str, u64>,
    /// Partitions that were sent again, by the reason of their failure.
    pub retries: BTreeMap<&'static str, u64>,
    named: BTreeSet<String>,
}

/// Counts by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<const N: usize> {
    /// Each bucket's, those below it not included.
    pub buckets: [u64; N],
    /// Of all that was counted.
    pub sum: Duration,
}

/// How long something took, in buckets of [`LATENCY_BOUNDS`].
pub type Latency = Counts<{ LATENCY_BOUNDS.len() + 1 }>;

/// What an engine said last, and when.
#[derive(Debug)]
struct Heard {
    at: Duration,
    status: Box<v1::EngineStatus>,
}

/// What is known of an engine beside its own words.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// Its pod's UID.
    pub pod: &'a str,
    /// Its pool.
    pub pool: &'a Key,
    /// How long it can have been at work for this leader: since its pod was created, or since the leader began if that was
    /// later; `None` if it was there before, and what it did until now is on another leader's account.
    pub age: Option<Duration>,
    /// Partitions wait in the pool's queue.
    pub backlog: bool,
}

impl Account {
    /// Takes in a report.
    pub fn hear(&mut self, speaker: Speaker<'_>, status: Box<v1::EngineStatus>, now: Duration) {
        let before = self.engines.get(speaker.pod);
        let since = before.filter(|before| before.status.boot_id == status.boot_id).map(|before| &*before.status);
        let elapsed = match before {
            // Another process in the same pod tells only what is new.
            Some(before) => Some(now.saturating_sub(before.at)),
            None => speaker.age,
        };
        if let Some(elapsed) = elapsed {
            if is_credible(&status, since, elapsed) {
                // Of the time before its first report nobody knows whether work waited.
                let backlog = speaker.backlog && since.is_some();
                self.pools.entry(speaker.pool.clone()).or_default().add(&status, since, backlog);
            } else {
                self.disbelieved += 1;
            }
        }
        match self.engines.get_mut(speaker.pod) {
            Some(known) => *known = Heard { at: now, status },
            None => {
                self.engines.insert(speaker.pod.to_owned(), Heard { at: now, status });
            }
        }
    }

    /// An engine's pod is gone.
    pub fn forget_engine(&mut self, pod: &str) {
        self.engines.remove(pod);
    }

    /// A pool is gone.
    pub fn forget_pool(&mut self, pool: &Key) {
        self.pools.remove(pool);
    }

    /// A pool's, to be written to.
    pub fn pool(&mut self, pool: &Key) -> &mut PoolAccount {
        self.pools.entry(pool.clone()).or_default()
    }

    /// All pools' that have any.
    pub fn pools(&self) -> &BTreeMap<Key, PoolAccount> {
        &self.pools
    }

    /// Reports that were not believed.
    pub fn disbelieved(&self) -> u64 {
        self.disbelieved
    }
}

impl Default for PoolAccount {
    /// With a zero for each way in which jobs end: `increase()` does not see a counter that begins with a 1.
    fn default() -> Self {
        Self {
            ledger: BTreeMap::new(),
            idle_with_backlog: Duration::ZERO,
            partitions: BTreeMap::new(),
            phases: BTreeMap::new(),
            verification_failures: 0,
            schedule_latency: Latency::default(),
            ended: ENDS.iter().map(|reason| (*reason, 0)).collect(),
            retries: RETRIED.iter().map(|reason| (*reason, 0)).collect(),
            named: BTreeSet::new(),
        }
    }
}

impl PoolAccount {
    fn add(&mut self, status: &v1::EngineStatus, since: Option<&v1::EngineStatus>, backlog: bool) {
        for (index, device) in status.devices.iter().enumerate() {
            let known = since.and_then(|since| same(&since.devices, index, |known| known.id == device.id));
            self.add_ledger(&device.ledger, known.map_or(&[], |known| &known.ledger), backlog);
            self.verification_failures +=
                device.verification_failures.saturating_sub(known.map_or(0, |known| known.verification_failures));
        }
        for (index, outcome) in status.outcomes.iter().enumerate() {
            let is_same =
                |known: &v1::OutcomeStatus| known.circuit == outcome.circuit && known.outcome == outcome.outcome;
            let known = since.and_then(|since| same(&since.outcomes, index, is_same)).map_or(0, |known| known.count);
            let more = outcome.count.saturating_sub(known);
            if more > 0 {
                let label = (self.name(&outcome.circuit), known_word(&OUTCOMES, &outcome.outcome));
                *self.partitions.entry(label).or_default() += more;
            }
        }
        for (index, phase) in status.phases.iter().enumerate() {
            let is_same = |known: &v1::PhaseStatus| known.circuit == phase.circuit && known.phase == phase.phase;
            let known = since.and_then(|since| same(&since.phases, index, is_same));
            if known.is_some_and(|known| known.buckets == phase.buckets) {
                continue;
            }
            let label = (self.name(&phase.circuit), known_word(&PHASES, &phase.phase));
            let counts = self.phases.entry(label).or_default();
            for (index, (into, total)) in counts.buckets.iter_mut().zip(&phase.buckets).enumerate() {
                *into += total.saturating_sub(known.and_then(|known| known.buckets.get(index)).copied().unwrap_or(0));
            }
            let sum = phase.sum_us.saturating_sub(known.map_or(0, |known| known.sum_us));
            counts.sum = counts.sum.saturating_add(Duration::from_micros(sum));
        }
    }

    fn add_ledger(&mut self, ledger: &[v1::LedgerEntry], since: &[v1::LedgerEntry], backlog: bool) {
        for (index, entry) in ledger.iter().enumerate() {
            let is_same = |known: &v1::LedgerEntry| known.state == entry.state && known.cause == entry.cause;
            let known = same(since, index, is_same).map_or(0, |known| known.duration_us);
            let time = Duration::from_micros(entry.duration_us.saturating_sub(known));
            let label = CAUSES.iter().find(|(state, cause)| *state == entry.state && *cause == entry.cause).copied();
            let label = label.unwrap_or((if entry.state == "busy" { "busy" } else { "idle" }, OTHER));
            *self.ledger.entry(label).or_default() += time;
            if backlog && label == ("idle", "no_work") {
                self.idle_with_backlog += time;
            }
        }
    }

    /// The label of a circuit: its name, or that of the rest.
    fn name(&mut self, circuit: &str) -> String {
        if !self.named.contains(circuit) {
            if self.named.len() >= NAMED_CIRCUITS || circuit == OTHER {
                return OTHER.to_owned();
            }
            self.named.insert(circuit.to_owned());
        }
        circuit.to_owned()
    }
}

/// What was said before of the same thing: most often in the same place.
fn same<T>(list: &[T], index: usize, is_same: impl Fn(&T) -> bool) -> Option<&T> {
    list.get(index).filter(|known| is_same(known)).or_else(|| list.iter().find(|known| is_same(known)))
}

/// Whether no device has had more time since the last report than has passed.
fn is_credible(status: &v1::EngineStatus, since: Option<&v1::EngineStatus>, elapsed: Duration) -> bool {
    let most = elapsed + elapsed / 10 + SLACK;
    let total = |device: &v1::DeviceStatus| {
        device.ledger.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.duration_us))
    };
    status.devices.iter().enumerate().all(|(index, device)| {
        let known = since.and_then(|since| same(&since.devices, index, |known| known.id == device.id));
        Duration::from_micros(total(device).saturating_sub(known.map_or(0, total))) <= most
    })
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self { buckets: [0; N], sum: Duration::ZERO }
    }
}

impl<const N: usize> Counts<N> {
    /// Something took so long; `bounds` are the upper ones of all buckets but the last.
    pub fn observe(&mut self, bounds: &[f64], time: Duration) {
        let bucket = bounds.iter().position(|bound| time.as_secs_f64() <= *bound).unwrap_or(bounds.len());
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(time);
    }
}

fn known_word(known: &[&'static str], word: &str) -> &'static str {
    known.iter().find(|known| **known == word).copied().unwrap_or(OTHER)
}

#[cfg(test)]
mod tests;
