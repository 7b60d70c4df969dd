//! Two replicas of the operator.

use std::time::{Duration, Instant};

use proofmill_crds::conditions::{ConditionStatus, reasons};
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed_within_its_lease() {
    let Some(mut world) = World::new("a_killed_leader_is_followed_within_its_lease").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.start_operator("b");
    world.simulated("c", 1, 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.kill_operator(0);
    let begun = Instant::now();
    world.job("after", "c", json!({})).await;
    world.expect("after", ConditionStatus::True, reasons::PROVED).await;
    let took = begun.elapsed();
    println!("a job was proved {took:?} after the leader was killed");
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_past_its_lease_writes_nothing() {
    let Some(mut world) = World::new("a_leader_that_was_paused_past_its_lease_writes_nothing").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("c", 1, 200).await;
    let other = world.start_operator("b");
    for i in 0..20 {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    world.signal_operator(0, "STOP");
    for i in 0..20 {
        world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
    }
    assert!(world.operator_ended(other).is_none());
    world.signal_operator(0, "CONT");
    let begun = Instant::now();
    while world.operator_ended(0).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it must find out that it leads no more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.job("after", "c", json!({})).await;
    world.expect("after", ConditionStatus::True, reasons::PROVED).await;
    assert_eq!(world.proved("default").await, 21, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_stop_hands_over_at_once() {
    let Some(mut world) = World::new("a_leader_that_is_asked_to_stop_hands_over_at_once").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("c", 1, 1).await;
    world.start_operator("b");
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.signal_operator(0, "TERM");
    let begun = Instant::now();
    while world.operator_ended(0).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it ends soon");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.operator_ended(0).unwrap().success());
    world.job("after", "c", json!({})).await;
    world.expect("after", ConditionStatus::True, reasons::PROVED).await;
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}
