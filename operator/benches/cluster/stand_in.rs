//! Engines that prove nothing: one process answers on every simulated pod's address, with the protocol and the TLS of real
//! ones. A partition takes as long as its simulated circuit says.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Secret;
use proofmill_proto::v1;
use proofmill_proto::v1::partition_event::Outcome;
use proofmill_proto::v1::prover_server::{Prover, ProverServer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;
type Id = (String, u32, u32);

/// Answers for as long as the process lives, with a pool's certificate.
pub async fn serve(secret: &Secret) {
    let data = secret.data.clone().unwrap();
    let certificates = CertificateDer::pem_slice_iter(&data["tls.crt"].0).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(&data["tls.key"].0).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(certificates, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("0.0.0.0:7000").await.unwrap();
    let engines: Arc<Mutex<HashMap<IpAddr, Engine>>> = Arc::default();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let Ok(local) = stream.local_addr() else { continue };
            let engine = engines.lock().unwrap().entry(local.ip()).or_insert_with(|| Engine::new(local.ip())).clone();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = TowerToHyperService::new(ProverServer::new(engine));
                let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new()).http2_only();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

/// One engine with one device.
#[derive(Clone)]
struct Engine(Arc<Shared>);

struct Shared {
    boot: String,
    origin: Instant,
    events: broadcast::Sender<v1::PartitionEvent>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    partitions: HashMap<Id, v1::PartitionEvent>,
    circuits: Vec<String>,
    /// When the device has done what was sent.
    free_at: Option<Instant>,
    busy: Duration,
}

impl Engine {
    fn new(address: IpAddr) -> Self {
        Self(Arc::new(Shared {
            boot: address.to_string(),
            origin: Instant::now(),
            events: broadcast::channel(64).0,
            state: Mutex::default(),
        }))
    }

    fn becomes(&self, id: &v1::PartitionId, state: v1::PartitionState, outcome: Option<Outcome>) {
        let at_us = self.0.origin.elapsed().as_micros() as u64;
        let event =
            v1::PartitionEvent { id: Some(id.clone()), state: state.into(), at_us, outcome, ..Default::default() };
        self.0.state.lock().unwrap().partitions.insert(key(id), event.clone());
        let _ = self.0.events.send(event);
    }

    async fn prove(self, id: v1::PartitionId, from: Instant, length: Duration) {
        tokio::time::sleep_until(from).await;
        self.becomes(&id, v1::PartitionState::Proving, None);
        tokio::time::sleep_until(from + length).await;
        self.0.state.lock().unwrap().busy += length;
        let timings = v1::Timings { msm_g1_us: length.as_micros() as u64, ..Default::default() };
        let proof = v1::PartitionProof {
            proof: vec![7; 8],
            input_digest: vec![1; 32],
            device: "simulated-0".into(),
            timings: Some(timings),
            ..Default::default()
        };
        self.becomes(&id, v1::PartitionState::Succeeded, Some(Outcome::Proof(proof)));
    }

    /// What a report says but for the time.
    fn still(&self) -> (Duration, usize) {
        let state = self.0.state.lock().unwrap();
        (state.busy, state.circuits.len())
    }

    fn status(&self) -> v1::EngineStatus {
        let state = self.0.state.lock().unwrap();
        let all = self.0.origin.elapsed();
        let entry = |state: &str, cause: &str, time: Duration| v1::LedgerEntry {
            state: state.into(),
            cause: cause.into(),
            duration_us: time.as_micros() as u64,
        };
        let device = v1::DeviceStatus {
            id: "simulated-0".into(),
            ledger: vec![entry("busy", "msm_g1", state.busy), entry("idle", "no_work", all.saturating_sub(state.busy))],
            ready: true,
            ..Default::default()
        };
        let circuit = |name: &String| v1::CircuitStatus { name: name.clone(), ..Default::default() };
        v1::EngineStatus {
            boot_id: self.0.boot.clone(),
            devices: vec![device],
            circuits: state.circuits.iter().map(circuit).collect(),
            ..Default::default()
        }
    }
}

fn key(id: &v1::PartitionId) -> Id {
    (id.job.clone(), id.partition, id.attempt)
}

#[tonic::async_trait]
impl Prover for Engine {
    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;
    type WatchStatusStream = ReceiverStream<Result<v1::EngineStatus, Status>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Answer<v1::SubmitResponse> {
        let request = request.into_inner();
        let id = request.id.unwrap();
        let circuit = request.circuit.unwrap();
        let Some(v1::circuit::Kind::Simulated(simulated)) = circuit.kind else {
            return Err(Status::invalid_argument("circuit: only simulated ones"));
        };
        let length = Duration::from_micros(simulated.msm_g1_us);
        self.becomes(&id, v1::PartitionState::Queued, None);
        let from = {
            let mut state = self.0.state.lock().unwrap();
            if !state.circuits.contains(&circuit.name) {
                state.circuits.push(circuit.name);
            }
            let from = state.free_at.unwrap_or_else(Instant::now).max(Instant::now());
            state.free_at = Some(from + length);
            from
        };
        tokio::spawn(self.clone().prove(id, from, length));
        Ok(Response::new(v1::SubmitResponse { boot_id: self.0.boot.clone(), attached: false }))
    }

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        let mut events = self.0.events.subscribe();
        let present: Vec<_> = self.0.state.lock().unwrap().partitions.values().cloned().collect();
        let (to, stream) = mpsc::channel(64);
        let boot_id = self.0.boot.clone();
        tokio::spawn(async move {
            let response = |event| Ok(v1::WatchResponse { boot_id: boot_id.clone(), event: Some(event) });
            for event in present {
                let _ = to.send(response(event)).await;
            }
            while let Ok(event) = events.recv().await {
                if to.send(response(event)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let state = self.0.state.lock().unwrap();
        let status = |event: &v1::PartitionEvent| v1::PartitionStatus {
            id: event.id.clone(),
            state: event.state,
            ..Default::default()
        };
        let partitions = state.partitions.values().map(status).collect();
        Ok(Response::new(v1::ListResponse { boot_id: self.0.boot.clone(), draining: false, partitions }))
    }

    async fn ack(&self, request: Request<v1::AckRequest>) -> Answer<v1::AckResponse> {
        let id = request.into_inner().id.unwrap();
        let forgotten = self.0.state.lock().unwrap().partitions.remove(&key(&id)).is_some();
        Ok(Response::new(v1::AckResponse { forgotten }))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Answer<v1::EngineStatus> {
        Ok(Response::new(Engine::status(self)))
    }

    async fn watch_status(&self, request: Request<v1::WatchStatusRequest>) -> Answer<Self::WatchStatusStream> {
        let request = request.into_inner();
        let mut ticks = tokio::time::interval(Duration::from_millis(request.interval_ms));
        let unchanged = Duration::from_millis(request.unchanged_interval_ms.max(request.interval_ms));
        let engine = self.clone();
        let (to, stream) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut last = None;
            loop {
                ticks.tick().await;
                let still = engine.still();
                if matches!(&last, Some((at, known)) if *known == still && Instant::now() - *at < unchanged) {
                    continue;
                }
                last = Some((Instant::now(), still));
                if to.send(Ok(Engine::status(&engine))).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn drain(&self, _: Request<v1::DrainRequest>) -> Answer<v1::DrainResponse> {
        Ok(Response::new(v1::DrainResponse::default()))
    }

    async fn preload(&self, _: Request<v1::PreloadRequest>) -> Answer<v1::PreloadResponse> {
        Ok(Response::new(v1::PreloadResponse::default()))
    }

    async fn evict(&self, _: Request<v1::EvictRequest>) -> Answer<v1::EvictResponse> {
        Ok(Response::new(v1::EvictResponse::default()))
    }

    async fn reprioritise(&self, _: Request<v1::ReprioritiseRequest>) -> Answer<v1::ReprioritiseResponse> {
        Ok(Response::new(v1::ReprioritiseResponse::default()))
    }

    async fn cancel(&self, _: Request<v1::CancelRequest>) -> Answer<v1::CancelResponse> {
        Ok(Response::new(v1::CancelResponse::default()))
    }

    async fn verifying_key(&self, _: Request<v1::VerifyingKeyRequest>) -> Answer<v1::VerifyingKeyResponse> {
        Err(Status::not_found("a simulated circuit has none"))
    }
}
