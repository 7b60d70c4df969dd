//! Pools, pods and the queue at a glance.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use proofmill_crds::conditions::types;
use proofmill_crds::{ProofJob, ProverPool};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::PluginError;
use super::queue;
use super::table;
use crate::index::POOL_LABEL;
use crate::pool::pod::HTTP_PORT;

/// Prints them.
pub async fn run(client: &Client, namespace: &str) -> Result<(), PluginError> {
    let all = ListParams::default();
    let pools = Api::<ProverPool>::namespaced(client.clone(), namespace).list(&all).await?.items;
    let jobs = Api::<ProofJob>::namespaced(client.clone(), namespace).list(&all).await?.items;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut rows = Vec::new();
    for pool in &pools {
        let status = pool.status.clone().unwrap_or_default();
        let number = |n: Option<i32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let ready = status.conditions.iter().find(|condition| condition.type_ == types::READY);
        rows.push(vec![
            pool.name_any(),
            format!("{}/{}", number(status.ready_replicas), number(status.desired_replicas)),
            number(status.busy_replicas),
            status.busy_permille.map_or_else(|| "-".to_owned(), |n| format!("{}.{} %", n / 10, n % 10)),
            queue::of(&jobs, &pool.name_any()).len().to_string(),
            number(status.waiting_partitions),
            ready.map_or_else(|| "-".to_owned(), |condition| condition.reason.clone()),
        ]);
    }
    if rows.is_empty() {
        println!("there is no ProverPool in namespace {namespace}");
        return Ok(());
    }
    table::print(&["POOL", "READY", "BUSY", "BUSY(1M)", "ACTIVE JOBS", "WAITING", "REASON"], &rows);
    println!();
    let mut rows = Vec::new();
    for pod in pods.list(&all.labels(POOL_LABEL)).await?.items {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let pool = pod.labels().get(POOL_LABEL).cloned().unwrap_or_default();
        let devices = if phase == "Running" { devices(&pods, &pod.name_any()).await } else { Vec::new() };
        let row = |device: String, state: String| vec![pod.name_any(), pool.clone(), phase.clone(), device, state];
        if devices.is_empty() {
            rows.push(row("-".to_owned(), "-".to_owned()));
        }
        rows.extend(devices.into_iter().map(|(device, state)| row(device, state)));
    }
    table::print(&["POD", "POOL", "PHASE", "DEVICE", "STATE"], &rows);
    Ok(())
}

/// The devices of a pod's engine and what each does; none if it cannot be asked.
async fn devices(pods: &Api<Pod>, name: &str) -> Vec<(String, String)> {
    let status: Option<Value> = async {
        let mut forward = pods.portforward(name, &[HTTP_PORT]).await.ok()?;
        let mut stream = forward.take_stream(HTTP_PORT)?;
        // HTTP/1.0: the answer comes in one piece and ends with the connection.
        stream.write_all(b"GET /status HTTP/1.0\r\nHost: localhost\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let text = String::from_utf8(answer).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }
    .await;
    let devices = status.as_ref().and_then(|status| status["devices"].as_array());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown =
        |device: &Value| (word(&device["id"]), format!("{}: {}", word(&device["state"]), word(&device["cause"])));
    devices.into_iter().flatten().map(shown).collect()
}
