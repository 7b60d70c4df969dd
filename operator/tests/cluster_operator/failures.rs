//! Pods and operators that die.

use k8s_openapi::api::core::v1::Pod;
use proofmill_crds::conditions::{ConditionStatus, reasons};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::time::Duration;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_pods_work_is_done_again_and_no_more() {
    let Some(world) = World::new("a_killed_pods_work_is_done_again_and_no_more").await else { return };
    world.pool("default", 2, json!({"device": "Simulated"})).await;
    world.ready("default", 2).await;
    world.simulated("c", 6, 1500).await;
    world.job("a", "c", json!({})).await;
    world
        .until("the first proofs", async || {
            let job: proofmill_crds::ProofJob = world.get("a").await;
            let progress = job.status.and_then(|status| status.progress);
            (progress.as_deref() == Some("2/6"), progress)
        })
        .await;
    let pods = world.pods("default").await;
    world.kill_pod(&pods[0]);
    world.delete::<Pod>(&kube::ResourceExt::name_any(&pods[1])).await;
    let job = world.expect("a", ConditionStatus::True, reasons::PROVED).await;
    let attempts: i32 = job.status.unwrap().partitions.iter().map(|partition| partition.attempts).sum();
    // Two had been proved; at most two of each pod were under way.
    assert!((6..=10).contains(&attempts), "{attempts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_at_random_loses_nothing_and_repeats_nothing() {
    let Some(mut world) = World::new("an_operator_killed_at_random_loses_nothing_and_repeats_nothing").await else {
        return;
    };
    world.pool("default", 2, json!({"device": "Simulated"})).await;
    world.ready("default", 2).await;
    world.simulated("c", 3, 100).await;
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut operator = 0;
    for round in 0..10 {
        for i in 0..5 {
            world.job(&format!("j-{round}-{i}"), "c", json!({})).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..1500))).await;
        world.kill_operator(operator);
        // The Lease of one that was killed runs out first; this one takes its name and so its Lease.
        operator = world.start_operator("a");
    }
    for round in 0..10 {
        for i in 0..5 {
            world.expect(&format!("j-{round}-{i}"), ConditionStatus::True, reasons::PROVED).await;
        }
    }
    assert_eq!(world.proved("default").await, 150, "each partition once");
}
