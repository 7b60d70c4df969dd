//! Where the time went, for humans: what `prover run` prints at its end. Pure: from a snapshot to text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::ledger::DeviceTime;
use crate::snapshot::{DeviceSnapshot, Histogram, Snapshot};

/// The account of all devices together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Seconds of all devices.
    pub device_seconds: f64,
    /// Seconds busy.
    pub busy_seconds: f64,
    /// Seconds busy by phase, zeros left out, most first.
    pub busy: Vec<(&'static str, f64)>,
    /// Seconds idle by cause, zeros left out, most first.
    pub idle: Vec<(&'static str, f64)>,
    /// Phases of the partitions: how many, seconds in all, mean seconds.
    pub phases: Vec<(&'static str, u64, f64, f64)>,
    /// Ended partitions by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// What bounds the throughput, in one sentence.
    pub bottleneck: String,
}

/// The phases in the order of a partition's way.
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

/// The figures.
pub fn summary(snapshot: &Snapshot) -> Summary {
    let seconds = |state: DeviceTime| -> f64 {
        let of = |device: &DeviceSnapshot| device.ledger.get(&state.labels()).copied().unwrap_or_default();
        snapshot.devices.iter().map(of).sum::<Duration>().as_secs_f64()
    };
    let split = |wanted: &str| {
        let states = DeviceTime::ALL.iter().filter(|state| state.labels().0 == wanted);
        let mut list: Vec<_> =
            states.map(|&state| (state.labels().1, seconds(state))).filter(|&(_, s)| s > 0.0).collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        list
    };
    let (busy, idle) = (split("busy"), split("idle"));
    let busy_seconds: f64 = busy.iter().map(|&(_, s)| s).sum();
    let device_seconds = busy_seconds + idle.iter().map(|&(_, s)| s).sum::<f64>();
    let mut outcomes = BTreeMap::new();
    for ((_, outcome), count) in &snapshot.outcomes {
        *outcomes.entry(*outcome).or_default() += count;
    }
    Summary {
        bottleneck: bottleneck(device_seconds, &busy, &idle),
        phases: PHASES.iter().filter_map(|&phase| phase_figures(snapshot, phase)).collect(),
        device_seconds,
        busy_seconds,
        busy,
        idle,
        outcomes,
    }
}

/// The figures as a table of fixed width.
pub fn table(snapshot: &Snapshot) -> String {
    let summary = summary(snapshot);
    let mut text = String::new();
    let share = |seconds: f64| 100.0 * seconds / summary.device_seconds.max(1e-9);
    // Writing into a String can't fail.
    let _ = writeln!(text, "{:<24}{:>12}{:>9}", "device time", "seconds", "share");
    let _ = writeln!(text, "{:<24}{:>12.3}{:>8.1}%", "busy", summary.busy_seconds, share(summary.busy_seconds));
    for (phase, seconds) in &summary.busy {
        let _ = writeln!(text, "  {phase:<22}{seconds:>12.3}{:>8.1}%", share(*seconds));
    }
    let idle = summary.device_seconds - summary.busy_seconds;
    let _ = writeln!(text, "{:<24}{idle:>12.3}{:>8.1}%", "idle", share(idle));
    for (cause, seconds) in &summary.idle {
        let _ = writeln!(text, "  {cause:<22}{seconds:>12.3}{:>8.1}%", share(*seconds));
    }
    if !summary.phases.is_empty() {
        let _ = writeln!(text, "\n{:<24}{:>12}{:>9}{:>12}", "partitions, per phase", "seconds", "count", "mean");
        for (phase, count, total, mean) in &summary.phases {
            let _ = writeln!(text, "  {phase:<22}{total:>12.3}{count:>9}{mean:>12.3}");
        }
    }
    let _ = writeln!(text, "\n{}", summary.bottleneck);
    text
}

fn phase_figures(snapshot: &Snapshot, phase: &'static str) -> Option<(&'static str, u64, f64, f64)> {
    let of_phase = || snapshot.phases.iter().filter(|((_, name), _)| *name == phase).map(|(_, histogram)| histogram);
    let count: u64 = of_phase().flat_map(|histogram: &Histogram| histogram.buckets).sum();
    let total = of_phase().map(|histogram| histogram.sum).sum::<Duration>().as_secs_f64();
    // A count is far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let mean = total / count.max(1) as f64;
    (total > 0.0).then_some((phase, count, total, mean))
}

/// What bounds the throughput: the device if it is mostly busy, else the first cause that keeps it idle.
fn bottleneck(all: f64, busy: &[(&'static str, f64)], idle: &[(&'static str, f64)]) -> String {
    let busy_share = busy.iter().map(|&(_, s)| s).sum::<f64>() / all.max(1e-9);
    // Time without work says nothing about throughput.
    let cause = idle.iter().find(|&&(cause, _)| !matches!(cause, "no_work" | "draining"));
    match (busy.first(), cause) {
        (None, None) => "Bottleneck: none, there was no work.".to_owned(),
        (Some(&(phase, seconds)), cause) if cause.is_none_or(|&(_, lost)| lost < busy_share * all) => format!(
            "Bottleneck: the device, busy {:.1}% of the time, most of it with {phase} ({:.1}%): only a faster or further \
             device helps.",
            100.0 * busy_share,
            100.0 * seconds / all.max(1e-9)
        ),
        (_, Some(&(cause, seconds))) => format!(
            "Bottleneck: {cause}, {:.1}% of the device's time: {}.",
            100.0 * seconds / all.max(1e-9),
            advice(cause)
        ),
        (Some(_), None) => String::new(),
    }
}

fn advice(cause: &str) -> &'static str {
    match cause {
        "fault" => "a device was out of service, see the log for its errors",
        "transfer" => "copies between host and device are not hidden behind kernels",
        "lease_held" => "the holder of the device computes on the host between its kernels",
        "host_prep" => "host work before the device's steps takes longer than the steps",
        "finish_backpressure" => "proofs are finished more slowly than started, more finalizers help",
        "pickup" => "workers were woken late, the CPU is overcommitted or proofs are very short",
        "key_load" => "the circuit was being loaded, preload it or keep the process running",
        "memory_budget" => "partitions waited for memory, a larger budget helps",
        "synthesis" => "witnesses come more slowly than proofs, more synthesis workers or CPUs help",
        "input" => "inputs were being fetched, bring them closer",
        _ => "the ledger has no cause, which is a fault of its own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_snapshot(times: &[(DeviceTime, u64)]) -> Snapshot {
        let ledger = times.iter().map(|&(state, ms)| (state.labels(), Duration::from_millis(ms))).collect();
        Snapshot { devices: vec![DeviceSnapshot { ledger, ..DeviceSnapshot::default() }], ..Snapshot::default() }
    }

    #[test]
    fn the_device_is_the_bottleneck_when_it_is_busy() {
        let summary = summary(&mk_snapshot(&[
            (DeviceTime::MsmG1, 700),
            (DeviceTime::Ntt, 200),
            (DeviceTime::Synthesis, 100),
            (DeviceTime::NoWork, 0),
        ]));
        assert!((summary.busy_seconds - 0.9).abs() < 1e-9);
        assert_eq!(summary.busy[0].0, "msm_g1");
        assert!(summary.bottleneck.contains("the device, busy 90.0%"), "{}", summary.bottleneck);
    }

    #[test]
    fn the_largest_idle_cause_is_the_bottleneck_and_no_work_never_is() {
        let snapshot = mk_snapshot(&[
            (DeviceTime::MsmG1, 100),
            (DeviceTime::KeyLoad, 300),
            (DeviceTime::Synthesis, 200),
            (DeviceTime::NoWork, 5000),
        ]);
        assert!(summary(&snapshot).bottleneck.starts_with("Bottleneck: key_load"));
        let table = table(&snapshot);
        assert!(table.contains("key_load") && table.contains("0.300"), "{table}");
        assert_eq!(summary(&Snapshot::default()).bottleneck, "Bottleneck: none, there was no work.");
    }
}
