//! The engines in the prover pods, as far as the operator has heard from them, and which of them gets the next partition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proofmill_crds::proof_job::Priority;
use proofmill_proto::v1;

use crate::index::Key;

/// Work that lies ahead of a device at most: priorities hold only for what has not been sent.
const AHEAD: Duration = Duration::from_secs(2);
/// The fewest and the most partitions ahead of a device.
const AHEAD_PARTITIONS: [usize; 2] = [2, 64];
/// An engine that has not answered for so long has lost its work.
pub const LOST_AFTER: Duration = Duration::from_secs(30);

/// An engine.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its pod.
    pub pod: Key,
    /// Its pool.
    pub pool: Key,
    /// Since when it is connected; `None` while it is not.
    pub connected: Option<Duration>,
    /// When the connection was lost, or first tried.
    pub silent_since: Duration,
    /// Why it could not be reached the last time.
    pub silence: String,
    /// A try to connect has failed.
    pub tried: bool,
    /// It has told what it works on.
    pub listed: bool,
    /// Its intake is closed, by its own word.
    pub closed: bool,
    /// It gets nothing new: its intake is closed, or its pod is to go.
    pub draining: bool,
    /// Ready for work: its canary proofs passed.
    pub ready: bool,
    /// How many devices work.
    pub devices: usize,
    /// Circuits in memory.
    pub resident: BTreeSet<String>,
    /// Circuits by whose names it still has others in memory, that were deleted: what it says of them does not count, until a
    /// report without them or this time.
    pub outdated: BTreeMap<String, Duration>,
    /// Circuits that it was told to keep in memory since it is connected, and when.
    pub preloaded: BTreeMap<String, Duration>,
    /// Circuits that it has had in memory since it is connected.
    pub loaded: BTreeSet<String>,
    /// Why it could not load circuits, by name.
    pub key_failures: BTreeMap<String, v1::KeyFailureStatus>,
    /// The partitions that were sent to it and have not ended.
    pub assigned: BTreeSet<(Key, u32)>,
    /// Since when it has none; `None` while it has some.
    pub idle_since: Option<Duration>,
    load: Load,
}

/// What an engine's ledgers said in the last minute: busy and all microseconds of its devices.
#[derive(Clone, Debug, Default)]
struct Load(VecDeque<(u64, u64)>);

/// What counts as the last minute of one device, microseconds.
const MINUTE: u64 = 60_000_000;

/// What the last proofs of circuits took on a device.
#[derive(Clone, Debug, Default)]
pub struct Pace(BTreeMap<Key, Duration>);

impl Engine {
    /// Of a pod that is being connected to.
    pub fn new(pod: Key, pool: Key, now: Duration) -> Self {
        Self {
            pod,
            pool,
            connected: None,
            silent_since: now,
            silence: String::new(),
            tried: false,
            listed: false,
            closed: false,
            draining: false,
            ready: false,
            devices: 0,
            resident: BTreeSet::new(),
            outdated: BTreeMap::new(),
            preloaded: BTreeMap::new(),
            loaded: BTreeSet::new(),
            key_failures: BTreeMap::new(),
            assigned: BTreeSet::new(),
            idle_since: Some(now),
            load: Load::default(),
        }
    }

    /// Takes over whether its intake is closed: it never opens again.
    pub fn close(&mut self, closed: bool) {
        self.closed |= closed;
        self.draining |= closed;
    }

    /// A partition was sent to it.
    pub fn assign(&mut self, place: (Key, u32)) {
        self.assigned.insert(place);
        self.idle_since = None;
    }

    /// A partition has ended or was taken away.
    pub fn unassign(&mut self, place: &(Key, u32), now: Duration) {
        self.assigned.remove(place);
        self.rest(now);
    }

    /// What it works on is this.
    pub fn assign_all(&mut self, places: BTreeSet<(Key, u32)>, now: Duration) -> BTreeSet<(Key, u32)> {
        let before = std::mem::replace(&mut self.assigned, places);
        if self.assigned.is_empty() {
            self.rest(now)
        } else {
            self.idle_since = None
        }
        before
    }

    fn rest(&mut self, now: Duration) {
        if self.assigned.is_empty() {
            self.idle_since.get_or_insert(now);
        }
    }

    /// Busy and all microseconds of its devices in the last minute.
    pub fn load(&self) -> (u64, u64) {
        let (Some(first), Some(last)) = (self.load.0.front(), self.load.0.back()) else { return (0, 0) };
        (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1))
    }

    /// Takes over what an engine says of itself.
    pub fn report(&mut self, status: &v1::EngineStatus, now: Duration) {
        self.close(status.draining);
        self.ready = status.not_ready.is_empty();
        self.devices = status.devices.iter().filter(|device| device.ready && !device.quarantined).count();
        self.resident = status.circuits.iter().map(|circuit| circuit.name.clone()).collect();
        self.key_failures = status.key_failures.iter().map(|f| (f.circuit.clone(), f.clone())).collect();
        let (resident, failures) = (&self.resident, &mut self.key_failures);
        self.outdated.retain(|name, until| now < *until && (resident.contains(name) || failures.contains_key(name)));
        failures.retain(|name, _| !self.outdated.contains_key(name));
        self.loaded.extend(resident.iter().filter(|name| !self.outdated.contains_key(*name)).cloned());
        let ledger = || status.devices.iter().flat_map(|device| &device.ledger);
        let busy = ledger().filter(|entry| entry.state == "busy").map(|entry| entry.duration_us).sum();
        self.load.add(busy, ledger().map(|entry| entry.duration_us).sum(), MINUTE * status.devices.len() as u64);
    }

    /// How many more partitions it may get of a circuit.
    pub fn room(&self, priority: Priority, pace: &Pace, circuit: &Key) -> usize {
        if self.connected.is_none() || !self.listed || self.draining || !self.ready {
            return 0;
        }
        // One more of the highest priority: it must come to the engine to overtake there.
        let extra = if priority == Priority::Critical { self.devices } else { 0 };
        (self.devices * pace.ahead(circuit) + extra).saturating_sub(self.assigned.len())
    }
}

impl Load {
    /// Reports come every second, or when something changes; what is older than `window` goes.
    fn add(&mut self, busy: u64, all: u64, window: u64) {
        if self.0.back().is_some_and(|(_, before)| all < *before) {
            // The engine was started anew.
            self.0.clear();
        }
        self.0.push_back((busy, all));
        while self.0.get(1).is_some_and(|(_, second)| second + window <= all) {
            self.0.pop_front();
        }
    }
}

impl Pace {
    /// A proof took so long on its device.
    pub fn observe(&mut self, circuit: &Key, timings: &v1::Timings) {
        let busy = timings.transfer_us + timings.ntt_us + timings.msm_g1_us + timings.msm_g2_us;
        let busy = Duration::from_micros(busy);
        let mean = self.0.entry(circuit.clone()).or_insert(busy);
        *mean = (*mean * 7 + busy) / 8;
    }

    /// Forgets a circuit.
    pub fn forget(&mut self, circuit: &Key) {
        self.0.remove(circuit);
    }

    /// What a partition takes on a device, if any has been proved.
    pub fn of(&self, circuit: &Key) -> Option<Duration> {
        self.0.get(circuit).copied()
    }

    /// Partitions that may lie ahead of a device.
    fn ahead(&self, circuit: &Key) -> usize {
        let [fewest, most] = AHEAD_PARTITIONS;
        let Some(time) = self.of(circuit) else { return fewest };
        let fit = AHEAD.as_micros() / time.as_micros().max(1);
        usize::try_from(fit).unwrap_or(most).clamp(fewest, most)
    }
}

/// The engine for a partition of `circuit`: one that has the key before one that has not, then the one with the least work
/// per device, then by name. One to be avoided comes last.
pub fn pick<'a>(
    engines: impl Iterator<Item = (&'a String, &'a Engine)>,
    priority: Priority,
    pace: &Pace,
    circuit: &Key,
    avoid: Option<&str>,
) -> Option<&'a String> {
    let fit = engines.filter(|(_, engine)| engine.room(priority, pace, circuit) > 0);
    let rank = |(uid, engine): &(&String, &Engine)| {
        let load = engine.assigned.len() * 1000 / engine.devices.max(1);
        (avoid == Some(uid.as_str()), !engine.resident.contains(&circuit.name), load, engine.pod.clone())
    };
    fit.min_by_key(rank).map(|(uid, _)| uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn engine(name: &str, assigned: usize, resident: &[&str]) -> (String, Engine) {
        let mut engine = Engine::new(key(name), key("pool"), Duration::ZERO);
        engine.connected = Some(Duration::ZERO);
        engine.listed = true;
        engine.ready = true;
        engine.devices = 1;
        engine.assigned = (0..assigned).map(|i| (key("job"), i as u32)).collect();
        engine.resident = resident.iter().map(|name| (*name).to_owned()).collect();
        (format!("uid-{name}"), engine)
    }

    fn chosen(engines: &[(String, Engine)], priority: Priority, avoid: Option<&str>) -> Option<String> {
        let engines = engines.iter().map(|(uid, engine)| (uid, engine));
        pick(engines, priority, &Pace::default(), &key("circuit"), avoid).cloned()
    }

    #[test]
    fn warm_before_cold_then_the_least_loaded_then_by_name() {
        let engines = [engine("b", 0, &[]), engine("a", 1, &["circuit"]), engine("c", 0, &[])];
        assert_eq!(chosen(&engines, Priority::Normal, None).as_deref(), Some("uid-a"));
        let engines = [engine("c", 1, &[]), engine("b", 0, &[]), engine("a", 0, &[])];
        assert_eq!(chosen(&engines, Priority::Normal, None).as_deref(), Some("uid-a"));
        assert_eq!(chosen(&engines, Priority::Normal, Some("uid-a")).as_deref(), Some("uid-b"));
    }

    #[test]
    fn a_full_engine_takes_only_a_critical_one() {
        let engines = [engine("a", 2, &[])];
        assert_eq!(chosen(&engines, Priority::High, None), None);
        assert_eq!(chosen(&engines, Priority::Critical, None).as_deref(), Some("uid-a"));
        assert_eq!(chosen(&[engine("a", 3, &[])], Priority::Critical, None), None);
    }

    #[test]
    fn an_engine_that_cannot_work_gets_nothing() {
        let spoil: [fn(&mut Engine); 5] = [
            |e| e.connected = None,
            |e| e.listed = false,
            |e| e.draining = true,
            |e| e.ready = false,
            |e| e.devices = 0,
        ];
        for spoil in spoil {
            let mut one = engine("a", 0, &["circuit"]);
            spoil(&mut one.1);
            assert_eq!(chosen(&[one], Priority::Normal, None), None);
        }
    }

    #[test]
    fn the_load_is_that_of_the_last_minute_however_many_reports_told_it() {
        let mut engine = engine("a", 0, &[]).1;
        let mut report = |busy: u64, idle: u64| {
            let entry = |state: &str, seconds: u64| v1::LedgerEntry {
                state: state.into(),
                duration_us: seconds * 1_000_000,
                ..v1::LedgerEntry::default()
            };
            let ledger = vec![entry("busy", busy), entry("idle", idle)];
            let devices = vec![v1::DeviceStatus { ledger, ..v1::DeviceStatus::default() }];
            engine.report(&v1::EngineStatus { devices, ..v1::EngineStatus::default() }, Duration::ZERO);
            let (busy, all) = engine.load();
            (busy / 1_000_000, all / 1_000_000)
        };
        assert_eq!(report(0, 10), (0, 0));
        assert_eq!(report(30, 10), (30, 30));
        assert_eq!(report(30, 40), (30, 60));
        assert_eq!(report(30, 70), (0, 60), "what was busy is longer ago");
        assert_eq!(report(30, 200), (0, 130), "what lies between two reports counts whole");
        assert_eq!(report(0, 1), (0, 0), "another start");
    }

    #[test]
    fn short_proofs_fill_two_seconds_and_long_ones_are_two() {
        let timings = |ms: u64| v1::Timings { msm_g1_us: ms * 1000, ..v1::Timings::default() };
        for (ms, ahead) in [(100, 20), (1, 64), (5000, 2)] {
            let mut pace = Pace::default();
            pace.observe(&key("circuit"), &timings(ms));
            assert_eq!(engine("a", 0, &[]).1.room(Priority::Normal, &pace, &key("circuit")), ahead, "{ms} ms");
        }
    }
}
