//! What the tests of sockets share: an engine that does what a test says, and a running server over it.

#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use proofmill_engine::engine::{PartitionEvent, SubmitError, Submitted, Watch};
use proofmill_engine::job::{
    Circuit, Failure, FailureKind, Outcome, PartitionId, PartitionProof, PartitionState, Priority, Submission,
};
use proofmill_engine::snapshot::{DeviceSnapshot, PartitionSnapshot, Snapshot};
use proofmill_groth16::proof::Proof;
use proofmill_proto::v1;
use proofmill_server::backend::Backend;
use proofmill_server::client::{Client, ClientConfig};
use proofmill_server::serve::{Ended, ServeError, Server};
use proofmill_server::shutdown::{self, ShutdownHandle, Wish};
use proofmill_server::{Listen, ServeConfig};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// An engine whose partitions move when the test says so.
pub struct Fake {
    boot_id: String,
    state: Mutex<State>,
    changed: Condvar,
    /// `snapshot` blocks while this is set.
    pub stuck: AtomicBool,
}

#[derive(Default)]
struct State {
    epoch: u64,
    draining: bool,
    ready: bool,
    partitions: BTreeMap<PartitionId, Known>,
    watches: Vec<(Option<PartitionId>, mpsc::UnboundedSender<PartitionEvent>)>,
}

struct Known {
    digest: [u8; 32],
    priority: Priority,
    circuit: String,
    last: PartitionEvent,
}

pub const QUEUE_LIMIT: usize = 2000;

impl Fake {
    pub fn new(boot_id: &str) -> Arc<Self> {
        let state = Mutex::new(State { ready: true, ..State::default() });
        Arc::new(Self { boot_id: boot_id.into(), state, changed: Condvar::new(), stuck: AtomicBool::new(false) })
    }

    pub fn set_ready(&self, ready: bool) {
        self.state.lock().unwrap().ready = ready;
    }

    pub fn watchers(&self) -> usize {
        let mut state = self.state.lock().unwrap();
        state.watches.retain(|(_, sender)| !sender.is_closed());
        state.watches.len()
    }

    pub fn known(&self) -> Vec<PartitionId> {
        self.state.lock().unwrap().partitions.keys().cloned().collect()
    }

    /// Moves a partition to a state that is not final.
    pub fn enter(&self, id: &PartitionId, state: PartitionState) {
        self.tell(PartitionEvent {
            id: id.clone(),
            state,
            at: Duration::from_micros(7),
            progress: None,
            outcome: None,
        });
    }

    pub fn succeed(&self, id: &PartitionId) {
        self.end(id, PartitionState::Succeeded, Ok(Arc::new(proof(4711))));
    }

    pub fn end(&self, id: &PartitionId, state: PartitionState, outcome: Outcome) {
        let outcome = Some(outcome);
        self.tell(PartitionEvent { id: id.clone(), state, at: Duration::from_micros(9), progress: None, outcome });
        self.changed.notify_all();
    }

    fn tell(&self, event: PartitionEvent) {
        let mut state = self.state.lock().unwrap();
        state.partitions.get_mut(&event.id).unwrap().last = event.clone();
        state.watches.retain(|(only, sender)| match only {
            Some(id) if *id != event.id => true,
            Some(_) if event.state.is_final() => {
                let _ = sender.send(event.clone());
                false
            }
            _ => sender.send(event.clone()).is_ok(),
        });
    }
}

impl Backend for Fake {
    fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let mut state = self.state.lock().unwrap();
        if submission.epoch < state.epoch {
            return Err(SubmitError::StaleEpoch { given: submission.epoch, seen: state.epoch });
        }
        state.epoch = submission.epoch;
        if state.draining {
            return Err(SubmitError::Draining);
        }
        if let Some(known) = state.partitions.get(&submission.id) {
            return if known.digest == submission.digest {
                Ok(Submitted::Attached)
            } else {
                Err(SubmitError::Conflict { id: submission.id })
            };
        }
        if state.partitions.len() >= QUEUE_LIMIT {
            return Err(SubmitError::QueueFull { limit: QUEUE_LIMIT });
        }
        let id = submission.id.clone();
        let at = Duration::from_micros(1);
        let last = PartitionEvent { id: id.clone(), state: PartitionState::Queued, at, progress: None, outcome: None };
        state.watches.retain(|(only, sender)| only.is_some() || sender.send(last.clone()).is_ok());
        let known =
            Known { digest: submission.digest, priority: submission.priority, circuit: submission.circuit.name, last };
        state.partitions.insert(id, known);
        Ok(Submitted::Accepted)
    }

    fn watch(&self, only: Option<PartitionId>) -> Watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.lock().unwrap();
        let mut goes_on = true;
        for (id, known) in &state.partitions {
            if only.as_ref().is_none_or(|only| only == id) {
                let _ = sender.send(known.last.clone());
                goes_on = only.is_none() || !known.last.state.is_final();
            }
        }
        if goes_on {
            state.watches.push((only, sender));
        }
        receiver
    }

    fn cancel(&self, id: &PartitionId) -> bool {
        let live = self.state.lock().unwrap().partitions.get(id).is_some_and(|known| !known.last.state.is_final());
        if live {
            let message = "cancelled".into();
            self.end(id, PartitionState::Cancelled, Err(Failure { kind: FailureKind::Cancelled, message }));
        }
        live
    }

    fn reprioritise(&self, job: &str, priority: Priority) -> usize {
        let mut changed = 0;
        for (id, known) in &mut self.state.lock().unwrap().partitions {
            if id.job == job && !known.last.state.is_final() {
                known.priority = priority;
                changed += 1;
            }
        }
        changed
    }

    fn acknowledge(&self, id: &PartitionId) -> bool {
        let mut state = self.state.lock().unwrap();
        let done = state.partitions.get(id).is_some_and(|known| known.last.state.is_final());
        if done {
            state.partitions.remove(id);
        }
        done
    }

    fn preload(&self, _: Circuit) {}

    fn evict(&self, circuit: &str) -> bool {
        circuit == "resident"
    }

    fn snapshot(&self) -> Snapshot {
        while self.stuck.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let state = self.state.lock().unwrap();
        let device = DeviceSnapshot {
            id: "cpu".into(),
            state: "idle",
            cause: "no_work",
            ready: state.ready,
            ..Default::default()
        };
        let partitions = state.partitions.iter().map(|(id, known)| PartitionSnapshot {
            id: id.clone(),
            circuit: known.circuit.clone(),
            priority: known.priority,
            state: known.last.state,
            since: known.last.at,
        });
        Snapshot {
            boot_id: self.boot_id.clone(),
            draining: state.draining,
            devices: vec![device],
            partitions: partitions.collect(),
            ..Default::default()
        }
    }

    fn trace(&self) -> String {
        "{\"traceEvents\":[]}".into()
    }

    fn drain(&self, grace: Duration) -> bool {
        let mut state = self.state.lock().unwrap();
        state.draining = true;
        let live = |state: &mut State| state.partitions.values().any(|known| !known.last.state.is_final());
        let state = self.changed.wait_timeout_while(state, grace, live).unwrap().0;
        let unfinished = state.partitions.iter().filter(|(_, known)| !known.last.state.is_final());
        let left: Vec<_> = unfinished.map(|(id, _)| id.clone()).collect();
        drop(state);
        for id in &left {
            let message = "draining".into();
            self.end(id, PartitionState::Failed, Err(Failure { kind: FailureKind::Draining, message }));
        }
        left.is_empty()
    }
}

/// A server that runs on this test's runtime.
pub struct Running {
    pub grpc: Listen,
    pub http: Option<std::net::SocketAddr>,
    pub handle: ShutdownHandle,
    pub end: JoinHandle<Result<Ended, ServeError>>,
}

impl Running {
    pub async fn start(config: ServeConfig, backend: Arc<dyn Backend>) -> Self {
        let server = Server::bind(config).await.unwrap();
        let (grpc, http) = (server.grpc_place(), server.http_address());
        let (handle, shutdown) = shutdown::pair();
        let end = tokio::spawn(server.run(backend, shutdown));
        Self { grpc, http, handle, end }
    }

    pub fn client(&self) -> Client {
        Client::new(ClientConfig::new(self.grpc.to_string().parse().unwrap())).unwrap()
    }

    pub async fn stop(self) -> Ended {
        self.handle.wish(Wish::Drain);
        self.end.await.unwrap().unwrap()
    }
}

/// Both ports on loopback, free ones; short times.
pub fn config() -> ServeConfig {
    let loopback = ([127, 0, 0, 1], 0).into();
    ServeConfig {
        drain_grace: Duration::from_secs(5),
        linger: Duration::from_millis(500),
        ..ServeConfig::new(Listen::Tcp(loopback), Some(loopback))
    }
}

pub fn proof(tag: u64) -> PartitionProof {
    PartitionProof {
        proof: Proof::Simulated(tag),
        public_signals: vec![[1, 0, 0, 0], [0, 0, 0, 2]],
        curve: None,
        input_digest: [1; 32],
        key_digest: [2; 32],
        verifying_key_digest: [3; 32],
        insecure_key: false,
        device: "cpu".into(),
        timings: Default::default(),
    }
}

pub fn id(job: &str) -> v1::PartitionId {
    v1::PartitionId { job: job.into(), partition: 0, attempt: 0 }
}

pub fn engine_id(job: &str) -> PartitionId {
    PartitionId { job: job.into(), partition: 0, attempt: 0 }
}

/// A submission of a simulated circuit with the given work, in microseconds.
pub fn request(job: &str, work_us: u64) -> v1::SubmitRequest {
    let script = v1::SimulatedCircuit {
        partitions: 1,
        key_bytes: 1000,
        working_set: 1000,
        key_load_us: 0,
        synthesis_us: work_us,
        ntt_us: work_us,
        msm_g1_us: work_us,
        msm_g2_us: work_us,
        transfer_us: work_us,
        finish_us: work_us,
    };
    let circuit = v1::Circuit { name: "sim".into(), kind: Some(v1::circuit::Kind::Simulated(script)) };
    let input = v1::Input { source: Some(v1::input::Source::Inline(b"1".to_vec())) };
    v1::SubmitRequest {
        id: Some(id(job)),
        digest: proofmill_proto::digest(&circuit, &input).to_vec(),
        circuit: Some(circuit),
        input: Some(input),
        ..Default::default()
    }
}

/// Waits until `ready` says so; a test must not hang.
pub async fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(std::time::Instant::now() < end, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One HTTP request on a connection of its own: status, head, body.
pub async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body = if head.contains("transfer-encoding: chunked") { unchunk(body) } else { body.to_owned() };
    (head[9..12].parse().unwrap(), head.to_owned(), body)
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}

pub fn tcp(listen: &Listen) -> std::net::SocketAddr {
    match listen {
        Listen::Tcp(address) => *address,
        Listen::Unix(_) => panic!(),
    }
}

pub async fn both_ports_live(server: &Running) {
    assert_eq!(get(server.http.unwrap(), "/healthz").await.0, 200);
    server.client().status(true).await.unwrap();
}
