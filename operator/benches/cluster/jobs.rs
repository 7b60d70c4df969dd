//! One pod: how long a job takes to its device, whether a queue keeps the device busy, what a job costs the API server, and
//! what the operator costs at rest.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use proofmill_crds::ProofJob;
use proofmill_crds::conditions::ConditionStatus;
use serde_json::{Value, json};

use crate::measure::{audit, clock_offset, moment, moments, rest};
use crate::world::{World, outcome};

/// Jobs one after the other, each on an idle pod.
const SINGLE: usize = 200;
/// Jobs at once.
const QUEUE: usize = 1000;
/// Device time of each of those: about that of semaphore-20 on two cores.
const LENGTH_MS: i32 = 70;

pub async fn run() {
    let Some(world) = World::new("bench-jobs").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("quick", 1, 1).await;
    world.simulated("long", 1, LENGTH_MS).await;
    single(&world).await;
    queue(&world).await;
    rest(&world, &format!("{} ended jobs", SINGLE + QUEUE)).await;
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
    let (begun, log) = (Instant::now(), moment());
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
    let writes = audit(&log, &world.namespace, |verb| matches!(verb, "create" | "update" | "patch" | "delete"));
    let all: usize = writes.values().sum();
    println!("  API writes per job (<= 4)                 {:.2}   {writes:?}", all as f64 / (last - first + 50) as f64);
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

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("  {what:<45} n={} p50 {:.2} p90 {:.2} p99 {:.2}", times.len(), at(0.5), at(0.9), at(0.99));
}
