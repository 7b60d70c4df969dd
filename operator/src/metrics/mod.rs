//! What the operator tells Prometheus: of itself, and of all pools and jobs.
//!
//! Everything is taken from where it is kept when somebody asks. `catalogue` lists every metric.

use std::collections::BTreeMap;
use std::time::Duration;

use proofmill_crds::conditions::{ConditionStatus, types};
use proofmill_metrics::{Families, Histogram, RenderError};

use crate::account::{Counts, LATENCY_BOUNDS, PoolAccount};
use crate::clock::Now;
use crate::index::Key;
use crate::planner::{Command, Input, JobState, OutputFault, Planner, PoolView, VerifyFault, WriteFault};

pub mod catalogue;

use catalogue as c;

/// Upper bounds of a turn's time, seconds.
const PLANNING_BOUNDS: [f64; 9] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0];
/// Those of an engine's phases, seconds; `PhaseStatus` in the protocol.
const PHASE_BOUNDS: [f64; 16] =
    [0.001, 0.0025, 0.006, 0.016, 0.04, 0.1, 0.25, 0.6, 1.6, 4.0, 10.0, 25.0, 60.0, 180.0, 600.0, 1800.0];

/// What may fail and is tried again.
const FAILURES: [&str; 6] = ["submit", "verify", "write_status", "write_circuit", "write_output", "tend_pool"];

/// What this process did.
#[derive(Debug)]
pub struct Metrics {
    planning: Counts<{ PLANNING_BOUNDS.len() + 1 }>,
    commands: BTreeMap<&'static str, u64>,
    failures: BTreeMap<&'static str, u64>,
}

impl Default for Metrics {
    /// With a zero for each kind of failure: `increase()` does not see a counter that begins with a 1.
    fn default() -> Self {
        let failures = FAILURES.iter().map(|kind| (*kind, 0)).collect();
        Self { planning: Counts::default(), commands: BTreeMap::new(), failures }
    }
}

impl Metrics {
    /// Something is about to be told to the planner.
    pub fn sees(&mut self, input: &Input) {
        if let Some(kind) = failure(input) {
            *self.failures.entry(kind).or_default() += 1;
        }
    }

    /// The planner had a turn.
    pub fn planned(&mut self, time: Duration, commands: &[Command]) {
        self.planning.observe(&PLANNING_BOUNDS, time);
        for command in commands {
            *self.commands.entry(kind(command)).or_default() += 1;
        }
    }

    /// In Prometheus's text format. `expiries`: when certificates run out, seconds since 1970.
    pub fn text(&self, planner: &Planner, now: &Now, expiries: &[(&'static str, i64)]) -> Result<String, RenderError> {
        let mut families = Families::default();
        let build = [("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)];
        families.infos(&c::BUILD_INFO, &build);
        let leads = planner.leads();
        families.values(&c::LEADER, [([], f64::from(u8::from(leads)))]);
        families.histograms(&c::PLANNING, [([], view(&PLANNING_BOUNDS, &self.planning))]);
        families.values(&c::COMMANDS, self.commands.iter().map(|(kind, n)| ([*kind], *n as f64)));
        families.values(&c::FAILURES, self.failures.iter().map(|(kind, n)| ([*kind], *n as f64)));
        if leads {
            families.values(&c::DISBELIEVED, [([], planner.account().disbelieved() as f64)]);
            families.values(&c::CERTIFICATE_EXPIRY, expiries.iter().map(|(name, at)| ([*name], *at as f64)));
            jobs(&mut families, planner);
            pools(&mut families, planner, now);
            accounts(&mut families, planner.account().pools());
        }
        families.text()
    }
}

fn jobs(families: &mut Families, planner: &Planner) {
    let mut counts: BTreeMap<(Key, &str), u64> = BTreeMap::new();
    for (pool, state) in planner.job_states() {
        let state = match state {
            JobState::Waiting(reason) => reason,
            JobState::Ended(true) => "Succeeded",
            JobState::Ended(false) => "Failed",
        };
        *counts.entry((pool, state)).or_default() += 1;
    }
    families.values(
        &c::JOBS,
        counts.iter().map(|((pool, state), n)| ([pool.namespace.as_str(), pool.name.as_str(), *state], *n as f64)),
    );
}

fn pools(families: &mut Families, planner: &Planner, now: &Now) {
    let pools: Vec<PoolView<'_>> = planner.pool_views(now).collect();
    let replicas = pools.iter().flat_map(|view| {
        let status = &view.pool.status;
        let counts = [
            ("desired", status.desired_replicas),
            ("live", status.replicas),
            ("ready", status.ready_replicas),
            ("updated", status.updated_replicas),
            ("busy", status.busy_replicas),
        ];
        let [namespace, name] = names(&view.pool.meta.key);
        counts.into_iter().filter_map(move |(state, n)| Some(([namespace, name, state], f64::from(n?))))
    });
    families.values(&c::POOL_REPLICAS, replicas);
    let each = |value: fn(&PoolView<'_>) -> Option<f64>| {
        pools.iter().filter_map(move |view| Some((names(&view.pool.meta.key), value(view)?)))
    };
    families.values(&c::POOL_DEVICES, each(|view| Some(view.devices as f64)));
    families.values(&c::POOL_BACKLOG, each(|view| Some(view.demand?.queue_milliseconds as f64 / 1e3)));
    families.values(&c::POOL_WAITING, each(|view| Some(f64::from(view.demand?.waiting))));
    for (definition, type_) in [(&c::POOL_READY, types::READY), (&c::POOL_SCALING_LIMITED, types::SCALING_LIMITED)] {
        let conditions = pools.iter().filter_map(|view| {
            let condition = view.pool.status.conditions.iter().find(|condition| condition.type_ == type_)?;
            let [namespace, name] = names(&view.pool.meta.key);
            let holds = condition.status == ConditionStatus::True;
            Some(([namespace, name, condition.reason.as_str()], f64::from(u8::from(holds))))
        });
        families.values(definition, conditions);
    }
}

fn accounts(families: &mut Families, pools: &BTreeMap<Key, PoolAccount>) {
    let counted = |what: fn(&PoolAccount) -> &BTreeMap<&'static str, u64>| {
        pools.iter().flat_map(move |(key, pool)| {
            let [namespace, name] = names(key);
            what(pool).iter().map(move |(label, n)| ([namespace, name, *label], *n as f64))
        })
    };
    families.values(&c::JOBS_ENDED, counted(|pool| &pool.ended));
    families.values(&c::RETRIES, counted(|pool| &pool.retries));
    families.histograms(
        &c::SCHEDULE_LATENCY,
        pools.iter().map(|(key, pool)| (names(key), view(&LATENCY_BOUNDS, &pool.schedule_latency))),
    );
    let ledger = pools.iter().flat_map(|(key, pool)| {
        let [namespace, name] = names(key);
        pool.ledger.iter().map(move |((state, cause), time)| ([namespace, name, *state, *cause], time.as_secs_f64()))
    });
    families.values(&c::POOL_DEVICE_SECONDS, ledger);
    let idle = pools.iter().map(|(key, pool)| (names(key), pool.idle_with_backlog.as_secs_f64()));
    families.values(&c::POOL_IDLE_WITH_BACKLOG, idle);
    let partitions = pools.iter().flat_map(|(key, pool)| {
        let [namespace, name] = names(key);
        let counts = pool.partitions.iter();
        counts.map(move |((circuit, outcome), n)| ([namespace, name, circuit.as_str(), *outcome], *n as f64))
    });
    families.values(&c::POOL_PARTITIONS, partitions);
    let phases = pools.iter().flat_map(|(key, pool)| {
        let [namespace, name] = names(key);
        let histograms = pool.phases.iter();
        histograms.map(move |((circuit, phase), counts)| {
            ([namespace, name, circuit.as_str(), *phase], view(&PHASE_BOUNDS, counts))
        })
    });
    families.histograms(&c::POOL_PHASE_DURATION, phases);
    let failures = pools.iter().map(|(key, pool)| (names(key), pool.verification_failures as f64));
    families.values(&c::POOL_VERIFICATION_FAILURES, failures);
}

fn names(pool: &Key) -> [&str; 2] {
    [&pool.namespace, &pool.name]
}

fn view<'a, const N: usize>(bounds: &'a [f64], counts: &'a Counts<N>) -> Histogram<'a> {
    Histogram { bounds, buckets: &counts.buckets, sum: counts.sum.as_secs_f64() }
}

/// What failed, if an input tells that something did.
fn failure(input: &Input) -> Option<&'static str> {
    match input {
        Input::Submitted { refusal: Some(_), .. } => Some("submit"),
        Input::Verified { fault: Some(VerifyFault::NoKey(_)), .. } => Some("verify"),
        Input::Written { result: Err(WriteFault::Failed(_)), .. } => Some("write_status"),
        Input::CircuitWritten { result: Err(WriteFault::Failed(_)), .. } => Some("write_circuit"),
        Input::OutputWritten { fault: Some(OutputFault::Failed(_)), .. } => Some("write_output"),
        Input::Tended { news, .. } if news.failed || news.refused.is_some() => Some("tend_pool"),
        _ => None,
    }
}

fn kind(command: &Command) -> &'static str {
    match command {
        Command::Connect(_) => "connect",
        Command::Disconnect(_) => "disconnect",
        Command::Submit(_) => "submit",
        Command::Cancel { .. } => "cancel",
        Command::Ack { .. } => "ack",
        Command::Reprioritise { .. } => "reprioritise",
        Command::Verify(_) => "verify",
        Command::WriteStatus { .. } => "write_status",
        Command::WriteOutput { .. } => "write_output",
        Command::Tend { .. } => "tend_pool",
        Command::KeepPool(_) => "keep_pool",
        Command::ForgetPool(_) => "forget_pool",
        Command::Evict { .. } => "evict",
        Command::Preload { .. } => "preload",
        Command::WriteCircuit { .. } => "write_circuit",
        Command::DeleteJob(_) => "delete_job",
        Command::Tell { .. } => "tell",
        Command::StepDown => "step_down",
    }
}

#[cfg(test)]
mod tests;
