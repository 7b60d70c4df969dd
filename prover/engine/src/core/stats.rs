//! Histograms and counts for the metrics, with bounded labels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::job::{FailureKind, Outcome, Timings};
use crate::snapshot::Histogram;

/// Circuits with labels of their own.
const NAMED_CIRCUITS: usize = 20;

/// The label of all further circuits.
const OTHER: &str = "other";

/// What metrics are made of.
#[derive(Debug, Default)]
pub(super) struct Stats {
    named: BTreeSet<String>,
    pub phases: BTreeMap<(String, &'static str), Histogram>,
    pub outcomes: BTreeMap<(String, &'static str), u64>,
}

impl Stats {
    /// Counts an ended partition. Phases that one without a proof never came to are not observed.
    pub fn ended(&mut self, circuit: &str, outcome: &'static str, timings: &Timings, proved: bool) {
        let label = self.label(circuit);
        *self.outcomes.entry((label.clone(), outcome)).or_default() += 1;
        for (phase, took) in phases(timings) {
            if proved || !took.is_zero() {
                observe(self.phases.entry((label.clone(), phase)).or_default(), took);
            }
        }
    }

    fn label(&mut self, circuit: &str) -> String {
        if self.named.contains(circuit) {
            return circuit.to_owned();
        }
        if self.named.len() >= NAMED_CIRCUITS || circuit == OTHER {
            return OTHER.to_owned();
        }
        self.named.insert(circuit.to_owned());
        circuit.to_owned()
    }
}

/// The phases of the metric, with their durations.
const fn phases(timings: &Timings) -> [(&'static str, Duration); 13] {
    [
        ("fetch", timings.fetch),
        ("queue", timings.queue),
        ("budget_wait", timings.budget_wait),
        ("synthesis", timings.synthesis),
        ("device_queue", timings.device_queue),
        ("lease_wait", timings.lease_wait),
        ("host_prep", timings.host_prep),
        ("transfer", timings.transfer),
        ("ntt", timings.ntt),
        ("msm_g1", timings.msm_g1),
        ("msm_g2", timings.msm_g2),
        ("finish", timings.finish),
        ("verify", timings.verify),
    ]
}

fn observe(histogram: &mut Histogram, took: Duration) {
    let seconds = took.as_secs_f64();
    let bucket = Histogram::BOUNDS.iter().position(|&bound| seconds <= bound).unwrap_or(Histogram::BOUNDS.len());
    if let Some(count) = histogram.buckets.get_mut(bucket) {
        *count += 1;
    }
    histogram.sum += took;
}

/// The label of an outcome.
pub(super) const fn outcome_name(outcome: &Outcome) -> &'static str {
    let Err(failure) = outcome else { return "succeeded" };
    match failure.kind {
        FailureKind::BadInput => "bad_input",
        FailureKind::BadKey => "bad_key",
        FailureKind::InsecureKey => "insecure_key",
        FailureKind::Unavailable => "unavailable",
        FailureKind::UnsatisfiedWitness => "unsatisfied_witness",
        FailureKind::DeviceFault => "device_fault",
        FailureKind::VerificationFailed => "verification_failed",
        FailureKind::MemoryBudget => "memory_budget",
        FailureKind::DeadlineExceeded => "deadline_exceeded",
        FailureKind::Cancelled => "cancelled",
        FailureKind::Draining => "draining",
        FailureKind::Internal => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_twenty_circuits_have_a_name() {
        let mut stats = Stats::default();
        for n in 0..30 {
            stats.ended(&format!("circuit-{n:02}"), "succeeded", &Timings::default(), true);
        }
        stats.ended("circuit-00", "succeeded", &Timings::default(), true);
        assert_eq!(stats.outcomes.len(), 21);
        assert_eq!(stats.outcomes[&("other".to_owned(), "succeeded")], 10);
        assert_eq!(stats.outcomes[&("circuit-00".to_owned(), "succeeded")], 2);
    }

    #[test]
    fn observations_fall_into_their_buckets() {
        let mut histogram = Histogram::default();
        for (ms, bucket) in [(0, 0), (1, 0), (2, 1), (100, 5), (101, 6), (1_800_000, 15), (1_800_001, 16)] {
            let before = histogram.buckets[bucket];
            observe(&mut histogram, Duration::from_millis(ms));
            assert_eq!(histogram.buckets[bucket], before + 1, "{ms} ms");
        }
        assert_eq!(histogram.sum, Duration::from_millis(3_600_205));
    }
}
