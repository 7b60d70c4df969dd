//! What the operator tells Prometheus about itself.

use std::time::Duration;

use prometheus::{Encoder as _, Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use crate::planner::{Command, Planner};

/// The operator's metrics.
pub struct Metrics {
    registry: Registry,
    planning: Option<Histogram>,
    jobs: Option<IntGaugeVec>,
    commands: Option<IntCounterVec>,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let planning = Histogram::with_opts(
            HistogramOpts::new("proofmill_operator_planning_seconds", "Time of one turn of the planner.")
                .buckets(vec![0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]),
        );
        let jobs = IntGaugeVec::new(
            Opts::new("proofmill_operator_jobs", "ProofJobs known, by whether they have ended."),
            &["state"],
        );
        let commands = IntCounterVec::new(
            Opts::new("proofmill_operator_commands_total", "What the planner wanted done."),
            &["kind"],
        );
        // Names and labels are constants: registering them cannot fail.
        let metrics = Self { planning: planning.ok(), jobs: jobs.ok(), commands: commands.ok(), registry };
        let _ = metrics.planning.clone().map(|metric| metrics.registry.register(Box::new(metric)));
        let _ = metrics.jobs.clone().map(|metric| metrics.registry.register(Box::new(metric)));
        let _ = metrics.commands.clone().map(|metric| metrics.registry.register(Box::new(metric)));
        metrics
    }
}

impl Metrics {
    /// The planner had a turn.
    pub fn planned(&self, time: Duration, planner: &Planner, commands: &[Command]) {
        if let Some(planning) = &self.planning {
            planning.observe(time.as_secs_f64());
        }
        if let Some(jobs) = &self.jobs {
            let (all, active) = planner.job_counts();
            jobs.with_label_values(&["active"]).set(i64::try_from(active).unwrap_or(i64::MAX));
            jobs.with_label_values(&["ended"]).set(i64::try_from(all - active).unwrap_or(i64::MAX));
        }
        if let Some(counter) = &self.commands {
            commands.iter().for_each(|command| counter.with_label_values(&[kind(command)]).inc());
        }
    }

    /// In Prometheus's text format.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Writing into memory cannot fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
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
