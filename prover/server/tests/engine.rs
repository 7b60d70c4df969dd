//! The real engine with a simulated device, behind real sockets.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Running, config, get, id, request, until};
use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::job::{Circuit, CircuitKind, Failure, Source};
use proofmill_engine::parts::{Cancel, InputSource, KeyEstimate, KeySource, LoadedCircuit, Synthesizer, SystemClock};
use proofmill_groth16::assignment::Assignment;
use proofmill_groth16::device::simulated::{SimulatedCircuit, SimulatedDevice, SystemSleeper};
use proofmill_groth16::key::CircuitKey;
use proofmill_proto::v1::{self, PartitionState as S};
use proofmill_server::shutdown::Wish;
use proofmill_server::{Ended, ServeConfig};

/// Keys of simulated circuits; the synthesizer sleeps as scripted.
struct World;

struct Sleepy(Duration);

impl InputSource for World {
    fn fetch(&self, _: &Source, _: &Cancel, _: &dyn Fn(u64) -> Result<(), Failure>) -> Result<Arc<[u8]>, Failure> {
        Ok(Arc::from(&b"fetched"[..]))
    }
}

impl KeySource for World {
    fn estimate(&self, circuit: &Circuit, _: &Cancel) -> Result<KeyEstimate, Failure> {
        let CircuitKind::Simulated(circuit) = &circuit.kind else { panic!("only simulated circuits") };
        Ok(KeyEstimate { resident: circuit.key_bytes })
    }

    fn load(
        &self,
        circuit: &Circuit,
        _: &(dyn Fn(u64, u64) + Sync),
        _: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure> {
        let CircuitKind::Simulated(circuit) = &circuit.kind else { panic!("only simulated circuits") };
        Ok(Arc::new(LoadedCircuit {
            key: CircuitKey::Simulated(Arc::new(circuit.clone())),
            synthesizer: Box::new(Sleepy(circuit.synthesis)),
            resident: circuit.key_bytes,
        }))
    }
}

impl Synthesizer for Sleepy {
    fn working_memory(&self) -> u64 {
        1000
    }

    fn synthesize(&self, partition: u32, input: &[u8], _: &Cancel) -> Result<Assignment, Failure> {
        std::thread::sleep(self.0);
        Ok(Assignment::Simulated { seed: u64::from(partition) + input.len() as u64 })
    }
}

fn engine() -> Engine {
    let device = SimulatedDevice::new("simulated-0", None, Arc::new(SystemSleeper));
    let parts = Parts {
        devices: vec![Arc::new(device)],
        keys: Arc::new(World),
        inputs: Arc::new(World),
        clock: Arc::new(SystemClock::default()),
        canary: None,
    };
    let config = Config { memory_budget: 256 << 20, refuse_insecure_keys: false, ..Config::default() };
    Engine::start(config, parts)
}

/// The proof of `request`'s input, which has one byte.
fn expected() -> Vec<u8> {
    SimulatedCircuit::tag(1).to_le_bytes().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_proved_and_everything_shows_it() {
    let server = Running::start(config(), Arc::new(engine())).await;
    let (client, http) = (server.client(), server.http.unwrap());
    let mut states = Vec::new();
    let proof = client.prove(&request("a", 2000), |event| states.push(event.state())).await.unwrap().unwrap();
    assert_eq!((proof.proof, proof.device.as_str()), (expected(), "simulated-0"));
    let timings = proof.timings.unwrap();
    assert_eq!((timings.ntt_us, timings.msm_g1_us, timings.msm_g2_us), (2000, 2000, 2000));
    assert_eq!(states.last(), Some(&S::Succeeded));

    // The same again attaches, another digest conflicts.
    assert!(client.calls().submit(request("a", 2000)).await.unwrap().into_inner().attached);
    let other = v1::SubmitRequest { digest: vec![3; 32], ..request("a", 2000) };
    assert_eq!(client.calls().submit(other).await.unwrap_err().code(), tonic::Code::AlreadyExists);
    client.calls().submit(v1::SubmitRequest { epoch: 9, ..request("b", 2000) }).await.unwrap();
    let stale = client.calls().submit(v1::SubmitRequest { epoch: 8, ..request("c", 2000) }).await.unwrap_err();
    assert_eq!(stale.code(), tonic::Code::FailedPrecondition);

    let (_, _, json) = get(http, "/status").await;
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status["devices"][0]["id"], "simulated-0");
    assert_eq!(status["circuits"][0], serde_json::json!({"name": "sim", "residentBytes": 1000, "facts": null}));
    assert_eq!(status["bootId"], client.status(false).await.unwrap().boot_id);
    let (_, _, metrics) = get(http, "/metrics").await;
    assert!(metrics.contains("proofmill_partitions_total{circuit=\"sim\",outcome=\"succeeded\"}"), "{metrics}");
    assert!(metrics.contains("proofmill_phase_duration_seconds_count{circuit=\"sim\",phase=\"msm_g1\"}"), "{metrics}");
    assert!(metrics.contains("proofmill_device_seconds_total{device=\"simulated-0\",state=\"busy\",cause=\"ntt\"}"));
    let unattributed = "state=\"idle\",cause=\"unattributed\"} ";
    assert!(metrics.lines().all(|line| !line.contains(unattributed) || line.ends_with(" 0")), "{metrics}");
    let documented = proofmill_server::metrics::catalogue::CATALOGUE;
    for line in metrics.lines().filter(|line| line.starts_with("# TYPE ")) {
        assert!(documented.iter().any(|d| d.name == line.split(' ').nth(2).unwrap()), "{line}");
    }
    let stages = proofmill_server::metrics::catalogue::STAGES.len();
    assert_eq!(metrics.lines().filter(|line| line.starts_with("proofmill_queue_depth{")).count(), stages * 4);
    let (_, _, trace) = get(http, "/trace").await;
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == "msm_g1"));
    assert_eq!(get(http, "/readyz").await.0, 200);
    let inputs_digest = proof.input_digest;
    assert_eq!(inputs_digest[..4], [0x6b, 0x86, 0xb2, 0x73], "SHA-256 of 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_jobs_are_proved_while_clients_come_and_go() {
    let server = Running::start(config(), Arc::new(engine())).await;
    let client = server.client();
    let mut calls = client.calls();
    let mut all = calls.watch(v1::WatchRequest { id: None }).await.unwrap().into_inner();
    for n in 0..1000 {
        calls.submit(v1::SubmitRequest { sequence: n, ..request(&format!("job-{n}"), 100) }).await.unwrap();
    }
    // Clients that vanish in the middle of a watch.
    for n in 0..20 {
        let client = server.client();
        let task = tokio::spawn(async move { client.prove(&request(&format!("job-{}", 999 - n), 100), |_| {}).await });
        tokio::time::sleep(Duration::from_millis(5)).await;
        task.abort();
    }
    let mut ended = BTreeMap::new();
    while ended.len() < 1000 {
        let next = tokio::time::timeout(Duration::from_secs(60), all.message()).await.expect("jobs go on");
        let event = next.unwrap().unwrap().event.unwrap();
        if event.outcome.is_some() {
            ended.insert(event.id.clone().unwrap().job, event.state());
        }
    }
    assert!(ended.values().all(|state| *state == S::Succeeded));
    for n in 0..1000 {
        assert!(client.acknowledge(&id(&format!("job-{n}"))).await.unwrap());
    }
    assert!(client.status(true).await.unwrap().partitions.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_running_job_and_a_waiting_one() {
    let server = Running::start(config(), Arc::new(engine())).await;
    let client = server.client();
    let prove = |job: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.prove(&request(job, 5_000_000), |_| {}).await })
    };
    let (running, waiting) = (prove("running"), prove("waiting"));
    let end = Instant::now() + Duration::from_secs(20);
    while client.status(true).await.unwrap().partitions.len() < 2 {
        assert!(Instant::now() < end);
    }
    for job in ["waiting", "running"] {
        assert!(client.calls().cancel(v1::CancelRequest { id: Some(id(job)) }).await.unwrap().into_inner().cancelled);
    }
    for task in [running, waiting] {
        let outcome = tokio::time::timeout(Duration::from_secs(30), task).await.expect("cancelled soon").unwrap();
        assert_eq!(outcome.unwrap().unwrap_err().kind(), v1::FailureKind::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_work_finish_and_a_restart_has_a_new_boot() {
    let server = Running::start(config(), Arc::new(engine())).await;
    let client = server.client();
    let first_boot = client.status(false).await.unwrap().boot_id;
    let task = {
        let client = client.clone();
        tokio::spawn(async move {
            let outcome = client.prove(&request("a", 50_000), |_| {}).await;
            client.acknowledge(&id("a")).await.map(|_| outcome)
        })
    };
    let end = Instant::now() + Duration::from_secs(20);
    while client.status(true).await.unwrap().partitions.is_empty() {
        assert!(Instant::now() < end);
    }
    server.handle.wish(Wish::Drain);
    // Each another job: one that has come in is attached to, also while the server drains.
    let mut number = 0;
    let refused = loop {
        match client.calls().submit(request(&format!("late-{number}"), 1)).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(status) => break status,
        }
        number += 1;
    };
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert_eq!(task.await.unwrap().unwrap().unwrap().unwrap().proof, expected());
    assert_eq!(server.end.await.unwrap().unwrap(), Ended::Finished);

    let server = Running::start(config(), Arc::new(engine())).await;
    assert_ne!(server.client().status(false).await.unwrap().boot_id, first_boot);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_grace_period_cuts_off_is_handed_back() {
    let engine = engine();
    let config = ServeConfig { drain_grace: Duration::from_millis(200), ..config() };
    let server = Running::start(config, Arc::new(engine.clone())).await;
    let client = server.client();
    let task = tokio::spawn(async move { client.prove(&request("long", 5_000_000), |_| {}).await });
    until("the job is there", || !engine.snapshot().partitions.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.handle.wish(Wish::Drain);
    let outcome = tokio::time::timeout(Duration::from_secs(20), task).await.expect("handed back").unwrap();
    assert_eq!(outcome.unwrap().unwrap_err().kind(), v1::FailureKind::Draining);
    assert_eq!(server.end.await.unwrap().unwrap(), Ended::HandedBack);
}
