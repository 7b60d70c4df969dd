//! What the cluster's programs, the API server's log and the engines' traces tell.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::world::World;

const REST: Duration = Duration::from_secs(60);

/// CPU time of a process.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // utime and stime, in hundredths of a second.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Memory of a process, MiB: `VmRSS` now, `VmHWM` at most so far.
pub fn memory(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// The process id of one of the cluster's programs.
pub fn program(name: &str) -> u32 {
    let text = std::fs::read_to_string(run_folder().join(format!("{name}.pid"))).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn run_folder() -> PathBuf {
    PathBuf::from(std::env::var_os("KUBECONFIG").unwrap()).parent().unwrap().to_owned()
}

/// This moment, as the API server's log writes it.
pub fn moment() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The operator's requests in a namespace since a moment, by verb and resource.
pub fn audit(since: &str, namespace: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    // A log of 100 MB is put away under another name.
    for file in std::fs::read_dir(run_folder().join("log")).unwrap().flatten() {
        if !file.file_name().to_string_lossy().starts_with("audit") {
            continue;
        }
        for line in String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let object = &event["objectRef"];
            let verb = event["verb"].as_str().unwrap_or_default();
            let ours = event["userAgent"].as_str().is_some_and(|agent| agent.contains("proofmill-operator"));
            let late = event["requestReceivedTimestamp"].as_str().is_some_and(|at| at >= since);
            if late && object["namespace"] == namespace && ours && wanted(verb) {
                let resource = object["resource"].as_str().unwrap_or_default();
                let part = object["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
                *counts.entry(format!("{verb} {resource}{part}")).or_default() += 1;
            }
        }
    }
    counts
}

/// What the operator costs when nothing happens.
pub async fn rest(world: &World, with: &str) {
    // Figures of the last minute change for that long.
    tokio::time::sleep(Duration::from_secs(100)).await;
    let (log, before) = (moment(), cpu(world.operator_pid(0)));
    tokio::time::sleep(REST).await;
    let used = cpu(world.operator_pid(0)) - before;
    println!("\nat rest for {} s with {with}:", REST.as_secs());
    println!("  CPU, share of a core (<= 0.01)                {:.4}", used.as_secs_f64() / REST.as_secs_f64());
    println!("  requests                                      {:?}", audit(&log, &world.namespace, |_| true));
}

/// What must be added to an engine's clock, in seconds, to have ours; from the fastest of some answers.
pub async fn clock_offset(world: &World, pod: &Pod, origin: Instant) -> f64 {
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..30 {
        let begun = origin.elapsed().as_secs_f64();
        let status: Value = serde_json::from_str(&world.page(pod, "/status").await).unwrap();
        let ended = origin.elapsed().as_secs_f64();
        if ended - begun < best.0 {
            best = (ended - begun, f64::midpoint(begun, ended) - status["atUs"].as_f64().unwrap() / 1e6);
        }
    }
    best.1
}

/// When each job's partition came into a state, microseconds on the engine's clock, by the job's UID.
pub fn moments(trace: &Value, state: &str) -> BTreeMap<String, f64> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let events = events.filter(|event| event["pid"] == 5 && event["name"] == state);
    let moment = |event: &Value| {
        let job = event["args"]["subject"].as_str()?.split('/').next()?.to_owned();
        Some((job, event["ts"].as_f64()?))
    };
    // Of several the first.
    let mut moments = BTreeMap::new();
    for (job, at) in events.filter_map(moment) {
        let known = moments.entry(job).or_insert(at);
        *known = known.min(at);
    }
    moments
}
