//! Outages of the cluster itself: these tests end and hold up programs that all others share, so they are a binary of their own,
//! which cargo runs alone, and go one after the other.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used, dead_code)]

#[path = "../cluster_operator/files.rs"]
mod files;
#[path = "../cluster_operator/world.rs"]
mod world;

use std::process::Command;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::api::{ListParams, PostParams};
use proofmill_crds::ProofJob;
use proofmill_crds::conditions::{ConditionStatus, reasons};
use serde_json::json;
use tokio::sync::Mutex;
use world::World;

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn cluster(arguments: &[&str]) {
    let output = Command::new("../tests/cluster/cluster").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A pool with a pod that works, and jobs under way.
async fn busy(test: &str) -> Option<World> {
    let world = World::new(test).await?;
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("c", 2, 200).await;
    for i in 0..40 {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    Some(world)
}

/// Waits until the API server answers again.
async fn answers(world: &World) {
    world
        .until("an answer of the API server", async || {
            let answer = world.api::<ProofJob>().list(&ListParams::default().limit(1)).await;
            (answer.is_ok(), answer.err().map(|error| error.to_string()))
        })
        .await;
}

async fn all_proved_once(world: &World) {
    for i in 0..40 {
        world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
    }
    assert_eq!(world.proved("default").await, 80, "each partition once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(mut world) = busy("an_api_server_that_restarts").await else { return };
    cluster(&["restart", "kube-apiserver"]);
    answers(&world).await;
    all_proved_once(&world).await;
    assert!(world.operator_ended(0).is_none(), "the leader survives what is shorter than its Lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_stands_still_for_twenty_seconds() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(mut world) = busy("an_etcd_that_stands_still_for_twenty_seconds").await else { return };
    cluster(&["signal", "etcd", "STOP"]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    cluster(&["signal", "etcd", "CONT"]);
    answers(&world).await;
    // The Lease could not be renewed: the leader has ended, and a cluster would start it again.
    if world.operator_ended(0).is_some() {
        world.start_operator("a");
    }
    all_proved_once(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_kubelet_is_silent() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(world) = busy("a_node_whose_kubelet_is_silent").await else { return };
    // Longer than the 40 to 50 s after which a node counts as NotReady; its pods live on.
    cluster(&["signal", "kubelet", "STOP"]);
    let silent = async {
        world
            .until("a node that is not ready", async || {
                let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(world.client.clone());
                let node = nodes.get("node-1").await.unwrap();
                let conditions = node.status.unwrap().conditions.unwrap();
                let ready = conditions.into_iter().find(|c| c.type_ == "Ready").unwrap().status;
                (ready != "True", ready)
            })
            .await
    };
    let seen = tokio::time::timeout(Duration::from_secs(110), silent).await;
    cluster(&["signal", "kubelet", "CONT"]);
    seen.expect("the node becomes NotReady");
    all_proved_once(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_woken_in_the_middle_of_a_write() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let Some(mut world) = busy("a_leader_that_is_woken_in_the_middle_of_a_write").await else { return };
    let other = world.start_operator("b");
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Requests are under way that nobody answers; then the leader stands still, too.
    cluster(&["signal", "kube-apiserver", "STOP"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.signal_operator(0, "STOP");
    cluster(&["signal", "kube-apiserver", "CONT"]);
    answers(&world).await;
    all_proved_once(&world).await;
    let versions = async |world: &World| {
        let jobs = world.api::<ProofJob>().list(&ListParams::default()).await.unwrap().items;
        jobs.into_iter().map(|job| job.metadata.resource_version.unwrap()).collect::<Vec<_>>()
    };
    let before = versions(&world).await;
    world.signal_operator(0, "CONT");
    let begun = std::time::Instant::now();
    let mut ended = None;
    while ended.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it must find out that it leads no more");
        tokio::time::sleep(Duration::from_millis(50)).await;
        ended = world.operator_ended(0);
    }
    assert!(!ended.unwrap().success());
    assert!(world.operator_ended(other).is_none());
    assert_eq!(before, versions(&world).await, "the leader that was paused has written");
}

/// Makes the CRD of ProofJobs one of a version of long ago: anything is a spec.
async fn loosen(world: &World) {
    let crds: kube::Api<CustomResourceDefinition> = kube::Api::all(world.client.clone());
    let mut crd = crds.get("proofjobs.proofmill.dev").await.unwrap();
    let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    schema.x_kubernetes_validations = None;
    let anything = JSONSchemaProps {
        type_: Some("object".into()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    schema.properties.as_mut().unwrap().insert("spec".into(), anything);
    crds.replace("proofjobs.proofmill.dev", &PostParams::default(), &crd).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_an_older_schema_is_left_alone_and_crds_change_under_load() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let test = "an_object_of_an_older_schema_is_left_alone_and_crds_change_under_load";
    let Some(mut world) = busy(test).await else { return };
    loosen(&world).await;
    let old = json!({
        "apiVersion": proofmill_crds::API_VERSION, "kind": "ProofJob", "metadata": {"name": "old"},
        "spec": {"circuit": "c", "prio": 7},
    });
    world
        .until("the old schema", async || {
            let created = world.kubectl(&["create", "-f", "-"], &old.to_string());
            (created, ())
        })
        .await;
    // The upgrade.
    assert!(world.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "../crds/yaml"], ""));
    all_proved_once(&world).await;
    assert!(world.operator_ended(0).is_none());
    let log = std::env::temp_dir().join(format!("{}-a.log", world.namespace));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("cannot be read and is left alone") && log.contains("/old"), "{log}");
    // One that begins with the object there works, too.
    world.kill_operator(0);
    world.start_operator("b");
    world.job("after", "c", json!({})).await;
    world.expect("after", ConditionStatus::True, reasons::PROVED).await;
    world.delete::<ProofJob>("j-0").await;
    assert!(world.kubectl(&["delete", "proofjob", "old", "--timeout=20s"], ""));
}
