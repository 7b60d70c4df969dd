//! What the operator's metrics say, beside what really was.

use proofmill_crds::ProverPool;
use proofmill_crds::conditions::{ConditionStatus, reasons};
use serde_json::json;

use crate::world::World;

/// The sum of the series of a metric that have all these labels.
fn sum(metrics: &std::collections::BTreeMap<String, f64>, name: &str, labels: &[String]) -> f64 {
    let series = metrics.iter().filter(|(series, _)| {
        series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label.as_str()))
    });
    series.map(|(_, value)| value).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_of_short_lived_pods_is_that_of_their_jobs() {
    const JOBS: usize = 20;
    let Some(world) = World::new("the_account_of_short_lived_pods_is_that_of_their_jobs").await else { return };
    world.simulated("c", 1, 300).await;
    world.pool("default", 2, json!({"device": "Simulated"})).await;
    world.ready("default", 2).await;
    for i in 0..JOBS {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    let mut device = 0;
    for i in 0..JOBS {
        let job = world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
        let timings = job.status.unwrap().timings.unwrap();
        device += timings.msm_g1 + timings.msm_g2 + timings.ntt;
    }
    world.patch::<ProverPool>("default", json!({"spec": {"replicas": 0}})).await;
    world
        .until("no pods", async || {
            let pods = world.pods("default").await.len();
            (pods == 0, pods)
        })
        .await;
    let metrics = world.metrics(0).await;
    let pool = [format!("pool_namespace=\"{}\"", world.namespace), "pool=\"default\"".to_owned()];
    let of = |name: &str, more: &str| {
        let mut labels = pool.to_vec();
        labels.push(more.to_owned());
        sum(&metrics, name, &labels)
    };
    let busy = of("proofmill_pool_device_seconds_total", "state=\"busy\"");
    let told = device as f64 / 1e3;
    assert!((busy - told).abs() <= 0.05 * told, "the ledgers say {busy} s, the jobs {told} s");
    assert_eq!(of("proofmill_pool_partitions_total", "outcome=\"succeeded\""), JOBS as f64);
    assert_eq!(of("proofmill_jobs_ended_total", "reason=\"Proved\""), JOBS as f64);
    assert_eq!(of("proofmill_jobs", "state=\"Succeeded\""), JOBS as f64);
    assert_eq!(of("proofmill_schedule_latency_seconds_count", ""), JOBS as f64);
    assert_eq!(of("proofmill_pool_phase_duration_seconds_count", "phase=\"msm_g1\""), JOBS as f64);
    // What autoscalers ask for is there at zero pods.
    for name in ["proofmill_pool_backlog_device_seconds", "proofmill_pool_waiting_partitions"] {
        assert!(metrics.iter().any(|(series, value)| series.starts_with(name) && *value == 0.0), "{name}");
    }
    assert_eq!(of("proofmill_pool_replicas", "state=\"desired\""), 0.0);
    assert_eq!(sum(&metrics, "proofmill_operator_leader", &[]), 1.0);
    assert!(sum(&metrics, "proofmill_certificate_expiry_timestamp_seconds", &["\"pools\"".to_owned()]) > 1.7e9);
}
