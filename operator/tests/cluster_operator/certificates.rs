//! Certificates that run out.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use proofmill_crds::conditions::{ConditionStatus, reasons};
use proofmill_operator::certificates::{Identity, Lifetimes, SecretData, authority, leaf};
use proofmill_operator::index::Key;
use serde_json::json;

use crate::world::World;

const DAY: i64 = 24 * 3600;

/// Puts what `data` holds into a Secret.
async fn put(world: &World, name: &str, data: SecretData) {
    let data: BTreeMap<_, _> = data.into_iter().map(|(name, bytes)| (name, ByteString(bytes))).collect();
    let patch = Patch::Merge(json!({"data": data}));
    world.api::<Secret>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn certificate(world: &World, name: &str) -> Vec<u8> {
    let secrets: Api<Secret> = world.api();
    secrets.get(name).await.unwrap().data.unwrap()["tls.crt"].0.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_certificates_ran_out_while_no_operator_was_there() {
    let Some(mut world) = World::new("all_certificates_ran_out_while_no_operator_was_there").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("c", 1, 1).await;
    world.job("before", "c", json!({})).await;
    world.expect("before", ConditionStatus::True, reasons::PROVED).await;
    world.kill_operator(0);

    // As if they had been made long ago: the authority's 10 years and the pool's 30 days are over.
    let lifetimes = Lifetimes::default();
    let now = k8s_openapi::jiff::Timestamp::now().as_second();
    let ago = now - lifetimes.authority - DAY;
    let (old, planned) = authority(None, ago, &lifetimes).unwrap();
    put(&world, "proofmill-authority", planned.data).await;
    let pool = Identity::Engines(Key { namespace: world.namespace.clone(), name: "default".into() });
    put(&world, "default-prover-tls", leaf(&pool, None, &old, ago, &lifetimes).unwrap().data).await;
    let outdated = [certificate(&world, "proofmill-authority").await, certificate(&world, "default-prover-tls").await];

    world.start_operator("b");
    world.job("after", "c", json!({})).await;
    // The kubelet brings the new files into the pod, and the engine reads them anew.
    world.expect("after", ConditionStatus::True, reasons::PROVED).await;
    assert_ne!(certificate(&world, "proofmill-authority").await, outdated[0]);
    assert_ne!(certificate(&world, "default-prover-tls").await, outdated[1]);
    assert_eq!(
        world.pods("default").await[0].status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count,
        0
    );
}
