//! A thousand simulated pods, ten thousand jobs: what the operator needs, by process, and that a job among ten thousand costs
//! what one among a thousand does; then the rest with a hundred pods.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use proofmill_crds::{ProofJob, ProverPool};
use serde_json::json;

use crate::measure::{audit, cpu, memory, moment, program, rest};
use crate::stand_in;
use crate::world::{World, outcome};

const PODS: i32 = 1000;
const ROUNDS: [usize; 2] = [1000, 10_000];
const LENGTH_MS: i32 = 1000;
/// Pods at rest.
const FEW: i32 = 100;
/// Simulated nodes; each takes 110 pods.
const NODES: &str = "10";

pub async fn run() {
    let Some(world) = World::new("bench-scale").await else { return };
    let nodes = std::process::Command::new("../tests/cluster/cluster").args(["nodes", NODES]).status().unwrap();
    assert!(nodes.success());
    let mut template = world.template(json!({"device": "Simulated"}));
    template["nodeSelector"] = json!({"type": "simulated"});
    template["tolerations"] = json!([{"key": "simulated", "operator": "Exists"}]);
    world.create::<ProverPool>("default", json!({"replicas": 1, "template": template})).await;
    let secret = world
        .until("the pool's certificate", async || {
            let secret = world.api::<Secret>().get_opt("default-prover-tls").await.unwrap();
            (secret.is_some(), secret)
        })
        .await;
    stand_in::serve(&secret.unwrap()).await;
    world.simulated("c", 1, LENGTH_MS).await;

    let begun = Instant::now();
    let before = Cost::now(&world);
    world.patch::<ProverPool>("default", json!({"spec": {"replicas": PODS}})).await;
    world.ready("default", PODS).await;
    println!("{PODS} pods ready after {:.1} s; {}", begun.elapsed().as_secs_f64(), before.since(&world, PODS as usize));
    for jobs in ROUNDS {
        round(&world, jobs).await;
    }
    println!("  the operator's peak memory, MiB (<= 256)      {}", memory(world.operator_pid(0), "VmHWM"));

    world.patch::<ProverPool>("default", json!({"spec": {"replicas": FEW}})).await;
    world
        .until("the end of the other pods", async || {
            let pods = world.api::<Pod>().list_metadata(&ListParams::default()).await.unwrap().items.len();
            (pods == FEW as usize, pods)
        })
        .await;
    rest(&world, &format!("{} ended jobs and {FEW} pods", ROUNDS.iter().sum::<usize>())).await;
}

/// So many jobs at once.
async fn round(world: &World, jobs: usize) {
    let log = moment();
    let before = Cost::now(world);
    let begun = Instant::now();
    let prefix = format!("r{jobs}-");
    let ended = tokio::spawn(ended(world.api(), prefix.clone(), jobs));
    let names: Vec<String> = (0..jobs).map(|i| format!("{prefix}{i}")).collect();
    for chunk in names.chunks(50) {
        futures_util::future::join_all(chunk.iter().map(|name| world.job(name, "c", json!({})))).await;
    }
    let created = begun.elapsed();
    ended.await.unwrap();
    let all = begun.elapsed();
    println!(
        "\n{jobs} jobs of {LENGTH_MS} ms on {PODS} pods: created within {:.1} s, ended within {:.1} s, {:.0} a second",
        created.as_secs_f64(),
        all.as_secs_f64(),
        jobs as f64 / all.as_secs_f64()
    );
    println!("  {}", before.since(world, jobs));
    let writes = audit(&log, &world.namespace, |verb| matches!(verb, "create" | "update" | "patch" | "delete"));
    println!("  API writes {writes:?}");
}

/// Returns when so many jobs of a prefix have ended.
async fn ended(api: kube::Api<ProofJob>, prefix: String, jobs: usize) {
    let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects().default_backoff());
    let mut done = std::collections::HashSet::new();
    while let Some(job) = stream.try_next().await.unwrap() {
        let name = job.metadata.name.clone().unwrap();
        let (status, _) = outcome(&job);
        if name.starts_with(&prefix) && status == Some(proofmill_crds::conditions::ConditionStatus::True) {
            done.insert(name);
            if done.len() == jobs {
                return;
            }
        }
    }
}

/// CPU time so far, by process.
struct Cost([(&'static str, u32, Duration); 4], Instant);

impl Cost {
    fn now(world: &World) -> Self {
        let programs = [
            ("operator", world.operator_pid(0)),
            ("kube-apiserver", program("kube-apiserver")),
            ("etcd", program("etcd")),
            ("this benchmark with its engines", std::process::id()),
        ];
        Self(programs.map(|(name, pid)| (name, pid, cpu(pid))), Instant::now())
    }

    /// In words, per `count`.
    fn since(&self, world: &World, count: usize) -> String {
        let wall = self.1.elapsed().as_secs_f64();
        let part = |(name, pid, before): &(&str, u32, Duration)| {
            let used = (cpu(*pid) - *before).as_secs_f64();
            format!("{name} {:.2} ms each ({:.2} cores)", used * 1e3 / count as f64, used / wall)
        };
        let memory = memory(world.operator_pid(0), "VmRSS");
        format!("CPU: {}; memory of the operator {memory} MiB", self.0.iter().map(part).collect::<Vec<_>>().join(", "))
    }
}
