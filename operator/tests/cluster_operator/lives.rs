//! Jobs on their way: what they wait for, in which order they go, and what stops them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proofmill_crds::circuit::Curve;
use proofmill_crds::conditions::{ConditionStatus, reasons};
use proofmill_crds::{Circuit, ProofJob};
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_circuit_then_pool_then_pods() {
    let Some(world) = World::new("a_job_waits_for_circuit_then_pool_then_pods").await else { return };
    world.job("first", "c", json!({})).await;
    world.shows("first", reasons::WAITING_FOR_CIRCUIT).await;
    world.simulated("c", 1, 1).await;
    world.shows("first", reasons::WAITING_FOR_POOL).await;
    world.pool("default", 0, json!({"device": "Simulated"})).await;
    world.shows("first", reasons::WAITING_FOR_CAPACITY).await;
    world.patch::<proofmill_crds::ProverPool>("default", json!({"spec": {"replicas": 1}})).await;
    world.expect("first", ConditionStatus::True, reasons::PROVED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_jobs_of_two_pools_go_by_priority() {
    let Some(world) = World::new("two_hundred_jobs_of_two_pools_go_by_priority").await else { return };
    world.simulated("c", 1, 20).await;
    let priorities = ["Low", "Normal", "High", "Critical"];
    let name = |i: usize| format!("{}-{i:03}", priorities[i % 4].to_lowercase());
    for i in 0..200 {
        let pool = if i < 180 { "default" } else { "other" };
        world.job(&name(i), "c", json!({"priority": priorities[i % 4], "poolRef": {"name": pool}})).await;
    }
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.pool("other", 1, json!({"device": "Simulated"})).await;
    let mut versions = Vec::new();
    for i in 0..200 {
        let job = world.expect(&name(i), ConditionStatus::True, reasons::PROVED).await;
        let pod = job.status.as_ref().unwrap().partitions[0].pod.clone().unwrap();
        assert!(pod.starts_with(if i < 180 { "default-" } else { "other-" }), "{pod}");
        if i < 180 {
            let version: u64 = job.metadata.resource_version.unwrap().parse().unwrap();
            versions.push((version, i % 4));
        }
    }
    // The order of their ends: of each two neighbours in the order of the writes, some may have changed places.
    versions.sort_unstable();
    let place = |priority: usize| {
        let places = versions.iter().enumerate().filter(|(_, (_, p))| *p == priority).map(|(place, _)| place);
        let places: Vec<usize> = places.collect();
        places.iter().sum::<usize>() / places.len()
    };
    let means: Vec<usize> = (0..4).rev().map(place).collect();
    // 45 of each: means of 22, 67, 112, 157 if the order is strict.
    for (mean, strict) in means.iter().zip([22, 67, 112, 157]) {
        assert!(mean.abs_diff(strict) <= 3, "{means:?}");
    }
    assert_eq!(world.proved("default").await + world.proved("other").await, 200, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_deleted_and_overdue_jobs_stop() {
    let Some(world) = World::new("suspended_deleted_and_overdue_jobs_stop").await else { return };
    world.pool("default", 1, json!({"device": "Simulated", "simulatedDevices": 4})).await;
    world.simulated("long", 1, 60_000).await;
    world.simulated("quick", 1, 1).await;
    world.job("suspended", "long", json!({})).await;
    world.job("deleted", "long", json!({})).await;
    world.job("overdue", "long", json!({"activeDeadlineSeconds": 4})).await;
    world.job("orphan", "long", json!({"priority": "Low"})).await;
    for job in ["suspended", "deleted", "overdue", "orphan"] {
        world.shows(job, reasons::PROVING).await;
    }
    world.patch::<ProofJob>("suspended", json!({"spec": {"suspend": true}})).await;
    world.delete::<ProofJob>("deleted").await;
    world.shows("suspended", reasons::SUSPENDED).await;
    world.expect("overdue", ConditionStatus::False, reasons::DEADLINE_EXCEEDED).await;
    // Their devices are free: three at once go through.
    for i in 0..3 {
        world.job(&format!("quick-{i}"), "quick", json!({})).await;
    }
    for i in 0..3 {
        world.expect(&format!("quick-{i}"), ConditionStatus::True, reasons::PROVED).await;
    }
    let pod = &world.pods("default").await[0];
    let status = world.page(pod, "/status").await;
    assert!(!status.contains(&world.get::<ProofJob>("suspended").await.metadata.uid.unwrap()), "{status}");
    world.patch::<ProofJob>("suspended", json!({"spec": {"suspend": false}})).await;
    world.shows("suspended", reasons::PROVING).await;
    world.delete::<Circuit>("long").await;
    world.expect("suspended", ConditionStatus::False, reasons::CIRCUIT_DELETED).await;
    world.expect("orphan", ConditionStatus::False, reasons::CIRCUIT_DELETED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_job_is_deleted_in_time() {
    let Some(world) = World::new("an_ended_job_is_deleted_in_time").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.simulated("c", 1, 1).await;
    world.job("short", "c", json!({"ttlSecondsAfterFinished": 1})).await;
    world.job("long", "c", json!({})).await;
    world.end("long").await;
    world
        .until("the end of the short-lived one", async || {
            let job = world.api::<ProofJob>().get_opt("short").await.unwrap();
            (job.is_none(), job)
        })
        .await;
    world.get::<ProofJob>("long").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_that_is_created_anew_has_its_own_key() {
    let Some(world) = World::new("a_circuit_that_is_created_anew_has_its_own_key").await else { return };
    world.pool("default", 1, json!({})).await;
    let bytes = async |job: &str, curve: &str| {
        let input = json!({"input": {"url": world.files.url(&format!("chain/{curve}/chain.wtns"))}});
        world.job(job, "c", input).await;
        let job = world.expect(job, ConditionStatus::True, reasons::PROVED).await;
        BASE64.decode(job.status.unwrap().proof.unwrap()).unwrap().len()
    };
    let curve = async || {
        world
            .until("a circuit whose files were read", async || {
                let status = world.get::<Circuit>("c").await.status.unwrap_or_default();
                (status.digest.is_some(), status)
            })
            .await
            .curve
    };
    world.chain("c", "bn128", json!({})).await;
    assert_eq!(bytes("before", "bn128").await, 256);
    assert_eq!(curve().await, Some(Curve::Bn254));
    world.delete::<Circuit>("c").await;
    world.chain("c", "bls12381", json!({})).await;
    assert_eq!(bytes("after", "bls12381").await, 192);
    assert_eq!(curve().await, Some(Curve::Bls12381));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_that_is_changed_is_acknowledged() {
    let Some(world) = World::new("a_finished_job_that_is_changed_is_acknowledged").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.simulated("c", 1, 1).await;
    world.job("j", "c", json!({})).await;
    let before = world.expect("j", ConditionStatus::True, reasons::PROVED).await.status.unwrap();
    world.patch::<ProofJob>("j", json!({"spec": {"priority": "High"}})).await;
    let after = world
        .until("the new generation in the status", async || {
            let job: ProofJob = world.get("j").await;
            let status = job.status.unwrap();
            (status.observed_generation == job.metadata.generation, status)
        })
        .await;
    assert_eq!((after.conditions, after.proof), (before.conditions, before.proof));
}
