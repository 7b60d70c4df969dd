//! The operator on the test cluster: how long a job takes to its device, whether a queue keeps a device busy, what a job costs
//! the API server, and what the operator costs at rest.
//!
//! `tests/bench/operator` brings up the cluster and runs it.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used, dead_code)]

#[path = "../tests/cluster_operator/files.rs"]
mod files;
#[path = "../tests/cluster_operator/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use proofmill_crds::ProofJob;
use proofmill_crds::conditions::ConditionStatus;
use serde_json::{Value, json};
use world::{World, outcome};

/// Jobs one after the other, each on an idle pod.
const SINGLE: usize = 200;
/// Jobs at once.
const QUEUE: usize = 1000;
/// Device time of each of those: about that of semaphore-20 on two cores.
const LENGTH_MS: i32 = 70;
const REST: Duration = Duration::from_secs(30);

fn main() {
    // `cargo test --benches` only wants to see that it is built.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(world) = World::new("bench").await else { return };
        world.pool("default", 1, json!({"device": "Simulated"})).await;
        world.ready("default", 1).await;
        world.simulated("quick", 1, 1).await;
        world.simulated("long", 1, LENGTH_MS).await;
        single(&world).await;
        queue(&world).await;
        rest(&world).await;
    });
}

/// From the request that creates a job to its device.
async fn single(world: &World) {
    let pod = &world.pods("default").await[0];
    let origin = Instant::now();
    let mut sent = BTreeMap::new();
    let mut answered = Vec::new();
    let offset = clock_offset(world, pod, origin).await;
    for i in 0..SINGLE {
        let begun = origin.elapsed();
        let spec = json!({"circuitRef": {"name": "quick"}, "input": {"inline": "AAAA"}});
        let job: ProofJob = world.create(&format!("s-{i}"), spec).await;
        answered.push(origin.elapsed() - begun);
        sent.insert(job.metadata.uid.unwrap(), begun);
        world.end(&format!("s-{i}")).await;
    }
    let trace: Value = serde_json::from_str(&world.page(pod, "/trace").await).unwrap();
    let accepted = moments(&trace, "queued");
    let started = moments(&trace, "proving");
    let since = |moments: &BTreeMap<String, f64>| -> Vec<Duration> {
        let pairs = sent.iter().filter_map(|(uid, sent)| Some((sent, moments.get(uid)?)));
        pairs.map(|(sent, at)| Duration::from_secs_f64((at / 1e6 + offset - sent.as_secs_f64()).max(0.0))).collect()
    };
    println!("{SINGLE} jobs one by one, one warm idle pod; milliseconds from the request that creates the job:");
    row("to the API server's answer", answered);
    row("to the engine's queue", since(&accepted));
    row("to the device's start (p50 <= 5, p99 <= 50)", since(&started));
}

/// A queue on one pod.
async fn queue(world: &World) {
    let pod = &world.pods("default").await[0];
    let names: Vec<String> = (0..QUEUE).map(|i| format!("q-{i}")).collect();
    for chunk in names.chunks(50) {
        futures_util::future::join_all(chunk.iter().map(|name| world.job(name, "long", json!({})))).await;
    }
    let before = ledger(world, pod).await;
    let (begun, log) = (Instant::now(), audit_length());
    let first = done(world).await;
    // Until the end comes near: the last jobs have nobody behind them.
    let last = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let done = done(world).await;
        if done >= QUEUE - 50 {
            break done;
        }
    };
    let after = ledger(world, pod).await;
    let busy = (after.0 - before.0) / (after.1 - before.1);
    println!("\n{QUEUE} jobs of {LENGTH_MS} ms at once, one pod:");
    println!("  device busy by the ledger (>= 0.97)       {busy:.4}");
    println!(
        "  jobs a second                             {:.2}",
        (last - first) as f64 / begun.elapsed().as_secs_f64()
    );
    for name in &names {
        let job = world.end(name).await;
        assert_eq!(outcome(&job).0, Some(ConditionStatus::True));
    }
    let writes = audit(log, &world.namespace, |verb| matches!(verb, "create" | "update" | "patch" | "delete"));
    let all: usize = writes.values().sum();
    println!("  API writes per job (<= 4)                 {:.2}   {writes:?}", all as f64 / (last - first + 50) as f64);
}

/// Nothing to do, all those jobs there.
async fn rest(world: &World) {
    // Figures of the last minute change for that long.
    tokio::time::sleep(Duration::from_secs(75)).await;
    let (log, cpu) = (audit_length(), cpu(world));
    tokio::time::sleep(REST).await;
    let cpu = self::cpu(world) - cpu;
    let requests = audit(log, &world.namespace, |_| true);
    println!("\nat rest for {} s with {} ended jobs:", REST.as_secs(), SINGLE + QUEUE);
    println!("  CPU, share of a core (<= 0.01)            {:.4}", cpu.as_secs_f64() / REST.as_secs_f64());
    println!("  requests                                  {requests:?}");
}

/// CPU time of the operator.
fn cpu(world: &World) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", world.operator_pid(0))).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // utime and stime, in hundredths of a second.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Jobs that have ended.
async fn done(world: &World) -> usize {
    let jobs = world.api::<ProofJob>().list(&Default::default()).await.unwrap().items;
    let ended = |job: &&ProofJob| job.metadata.name.as_ref().unwrap().starts_with("q-") && outcome(job).0.is_some();
    jobs.iter().filter(ended).filter(|job| outcome(job).0 != Some(ConditionStatus::Unknown)).count()
}

/// Seconds of a pod's devices, busy and all.
async fn ledger(world: &World, pod: &Pod) -> (f64, f64) {
    let status: Value = serde_json::from_str(&world.page(pod, "/status").await).unwrap();
    let entries = status["devices"][0]["ledger"].as_array().unwrap();
    let sum = |state: Option<&str>| -> f64 {
        let entries = entries.iter().filter(|entry| state.is_none_or(|state| entry["state"] == state));
        entries.map(|entry| entry["durationUs"].as_f64().unwrap() / 1e6).sum()
    };
    (sum(Some("busy")), sum(None))
}

/// What must be added to an engine's clock, in seconds, to have ours; from the fastest of some answers.
async fn clock_offset(world: &World, pod: &Pod, origin: Instant) -> f64 {
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
fn moments(trace: &Value, state: &str) -> BTreeMap<String, f64> {
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

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("  {what:<45} n={} p50 {:.2} p90 {:.2} p99 {:.2}", times.len(), at(0.5), at(0.9), at(0.99));
}

fn audit_file() -> PathBuf {
    PathBuf::from(std::env::var_os("KUBECONFIG").unwrap()).with_file_name("log/audit.json")
}

fn audit_length() -> usize {
    std::fs::metadata(audit_file()).unwrap().len() as usize
}

/// The operator's requests in a namespace since the log had this length, by verb and resource.
fn audit(from: usize, namespace: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let text = std::fs::read(audit_file()).unwrap();
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&text[from..]).lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let object = &event["objectRef"];
        let verb = event["verb"].as_str().unwrap_or_default();
        let ours = event["userAgent"].as_str().is_some_and(|agent| agent.contains("proofmill-operator"));
        if object["namespace"] == namespace && ours && wanted(verb) {
            let resource = object["resource"].as_str().unwrap_or_default();
            let part = object["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
            *counts.entry(format!("{verb} {resource}{part}")).or_default() += 1;
        }
    }
    counts
}
