//! `/metrics`: a snapshot of the engine and the server's own counts in Prometheus's text format.
//!
//! `catalogue` lists every metric; `docs/metrics.md` is made from it. Series are bounded: at most [`NAMED_CIRCUITS`]
//! circuits have a name, the others are summed as `other`; no label ever names a job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use proofmill_engine::job::Priority;
use proofmill_engine::snapshot::{self, Snapshot};
pub use proofmill_metrics::RenderError;
use proofmill_metrics::{Families, Histogram};

use crate::stats::Stats;

pub mod catalogue;

use catalogue as c;

/// Circuits with a name of their own: the first ones that this process saw.
pub const NAMED_CIRCUITS: usize = 20;
const PRIORITIES: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
/// The label of the rest.
pub const OTHER: &str = "other";

/// Renders snapshots; remembers which circuits have a name, so that no counter ever falls.
pub struct Exposition {
    version: String,
    settings: Vec<(&'static str, String)>,
    named: Mutex<BTreeSet<String>>,
}

impl Exposition {
    /// Of a binary of this version, with these settings as labels of `proofmill_config_info`.
    pub fn new(version: String, settings: Vec<(&'static str, String)>) -> Self {
        Self { version, settings, named: Mutex::default() }
    }

    /// The exposition of one instant. `resident` is what the process really has in memory, if that is known.
    pub fn render(&self, snapshot: &Snapshot, resident: Option<u64>) -> Result<String, RenderError> {
        self.render_with(snapshot, resident, None)
    }

    pub(crate) fn render_with(
        &self,
        snapshot: &Snapshot,
        resident: Option<u64>,
        stats: Option<&Stats>,
    ) -> Result<String, RenderError> {
        let mut families = Families::default();
        self.infos(&mut families);
        engine(&mut families, snapshot, resident);
        devices(&mut families, snapshot);
        self.circuits(&mut families, snapshot);
        if let Some(stats) = stats {
            server(&mut families, stats);
        }
        families.text()
    }

    fn infos(&self, families: &mut Families) {
        let build = [("version", self.version.as_str()), ("arch", std::env::consts::ARCH)];
        families.infos(&c::BUILD_INFO, &build);
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        families.infos(&c::CONFIG_INFO, &settings);
    }

    fn circuits(&self, families: &mut Families, snapshot: &Snapshot) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = snapshot.phases.keys().map(|(name, _)| name).chain(snapshot.outcomes.keys().map(|(name, _)| name));
        for name in seen.chain(snapshot.keys.keys()) {
            if named.len() < NAMED_CIRCUITS && name != OTHER && !named.contains(name) {
                named.insert(name.clone());
            }
        }
        let label = |name: &str| if named.contains(name) { name.to_owned() } else { OTHER.to_owned() };

        let mut phases: BTreeMap<(String, &'static str), snapshot::Histogram> = BTreeMap::new();
        for ((circuit, phase), histogram) in &snapshot.phases {
            add(phases.entry((label(circuit), phase)).or_default(), histogram);
        }
        families.histograms(
            &c::PHASE_DURATION,
            phases.iter().map(|((circuit, phase), h)| ([circuit.as_str(), phase], view(h))),
        );

        let mut outcomes: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for ((circuit, outcome), count) in &snapshot.outcomes {
            *outcomes.entry((label(circuit), outcome)).or_default() += count;
        }
        families.values(
            &c::PARTITIONS,
            outcomes.iter().map(|((circuit, outcome), n)| ([circuit.as_str(), outcome], *n as f64)),
        );

        let mut keys: BTreeMap<String, u64> = BTreeMap::new();
        for (circuit, bytes) in &snapshot.keys {
            *keys.entry(label(circuit)).or_default() += bytes;
        }
        families.values(&c::KEY_RESIDENT, keys.iter().map(|(circuit, bytes)| ([circuit.as_str()], *bytes as f64)));
    }
}

fn engine(families: &mut Families, snapshot: &Snapshot, resident: Option<u64>) {
    families.values(&c::DRAINING, [([], f64::from(u8::from(snapshot.draining)))]);
    // An empty queue is a 0, not a gap.
    let empty = c::STAGES.iter().flat_map(|stage| PRIORITIES.map(|priority| ((*stage, priority), 0)));
    let mut depths: BTreeMap<_, u64> = empty.collect();
    depths.extend(&snapshot.queues);
    let depths = depths.iter().map(|((stage, priority), n)| ([*stage, priority_label(*priority)], *n as f64));
    families.values(&c::QUEUE_DEPTH, depths);
    let memory = snapshot.memory.iter().map(|(r#use, bytes)| ([*r#use], *bytes as f64));
    families.values(&c::MEMORY, memory.chain(resident.map(|bytes| (["resident"], bytes as f64))));
}

fn devices(families: &mut Families, snapshot: &Snapshot) {
    let devices = &snapshot.devices;
    let ledger = devices.iter().flat_map(|device| {
        device.ledger.iter().map(|((state, cause), time)| ([device.id.as_str(), *state, *cause], time.as_secs_f64()))
    });
    families.values(&c::DEVICE_SECONDS, ledger);
    let each = |value: fn(&Snapshot, &snapshot::DeviceSnapshot) -> f64| {
        devices.iter().map(move |device| ([device.id.as_str()], value(snapshot, device)))
    };
    families.values(&c::DEVICE_CPU_SECONDS, each(|_, d| d.cpu.as_secs_f64()));
    families.values(&c::DEVICE_LEDGER_LAG, each(|s, d| s.at.saturating_sub(d.watermark).as_secs_f64()));
    families.values(&c::DEVICE_READY, each(|_, d| f64::from(u8::from(d.ready))));
    families.values(&c::DEVICE_QUARANTINED, each(|_, d| f64::from(u8::from(d.quarantined))));
    families.values(&c::VERIFICATION_FAILURES, each(|_, d| d.verification_failures as f64));
}

fn server(families: &mut Families, stats: &Stats) {
    let requests = stats.requests();
    families.values(&c::REQUESTS, requests.iter().map(|((method, result), n)| ([*method, *result], *n as f64)));
    let open = [("grpc", stats.grpc_connections.get()), ("http", stats.http_connections.get())];
    families.values(&c::CONNECTIONS, open.map(|(listener, n)| ([listener], n as f64)));
    let refused = [("grpc", stats.grpc_refused.get()), ("http", stats.http_refused.get())];
    families.values(&c::CONNECTIONS_REFUSED, refused.map(|(listener, n)| ([listener], n as f64)));
    families.values(&c::WATCHES, [([], stats.watches.get() as f64)]);
    families.values(&c::WATCH_SKIPPED, [([], stats.skipped_events.get() as f64)]);
    families.values(&c::WATCH_LAGGED, [([], stats.lagged_watches.get() as f64)]);
}

fn view(histogram: &snapshot::Histogram) -> Histogram<'_> {
    Histogram { bounds: &snapshot::Histogram::BOUNDS, buckets: &histogram.buckets, sum: histogram.sum.as_secs_f64() }
}

fn add(sum: &mut snapshot::Histogram, other: &snapshot::Histogram) {
    for (into, from) in sum.buckets.iter_mut().zip(other.buckets) {
        *into += from;
    }
    sum.sum += other.sum;
}

fn priority_label(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "critical",
        Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    }
}
