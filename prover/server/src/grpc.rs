//! The calls of `proofmill.v1`: check the message, ask the engine, answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proofmill_engine::engine::{PartitionEvent, SubmitError, Submitted, Watch};
use proofmill_engine::job::PartitionId;
use proofmill_proto::v1::prover_server::{Prover, ProverServer};
use proofmill_proto::{limits, v1};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::backend::Backend;
use crate::config::ServeConfig;
use crate::stats::{Gauge, Stats};
use crate::validate::{self, FieldError};
use crate::watch::{Terms, closes, stopping, stream};
use crate::{process, report};

/// Response metadata with one CamelCase word for programs.
pub(crate) const REASON: &str = "proofmill-reason";

/// The service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Service(Arc<Shared>);

struct Shared {
    backend: Arc<dyn Backend>,
    boot_id: Arc<str>,
    config: ServeConfig,
    stats: Arc<Stats>,
    closing: watch::Receiver<bool>,
    draining: AtomicBool,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    /// The service over `backend`. `closing` turns true when the server ends: streams end then.
    pub fn new(
        backend: Arc<dyn Backend>,
        config: &ServeConfig,
        stats: Arc<Stats>,
        closing: watch::Receiver<bool>,
    ) -> ProverServer<Self> {
        let boot_id = backend.snapshot().boot_id.into();
        let draining = AtomicBool::new(false);
        let shared = Shared { backend, boot_id, config: config.clone(), stats, closing, draining };
        ProverServer::new(Self(Arc::new(shared)))
            .max_decoding_message_size(limits::REQUEST_MESSAGE)
            .max_encoding_message_size(limits::RESPONSE_MESSAGE)
    }

    /// Counts the request and wraps its answer.
    fn answer<T>(&self, method: &'static str, result: Result<T, Status>) -> Answer<T> {
        self.0.stats.request(method, result.as_ref().map_or_else(Status::code, |_| Code::Ok));
        result.map(Response::new)
    }

    fn submit(&self, request: v1::SubmitRequest) -> Result<v1::SubmitResponse, Status> {
        let submitted = self.0.backend.submit(validate::submission(request)?).map_err(submit_refusal)?;
        Ok(v1::SubmitResponse { boot_id: self.0.boot_id.to_string(), attached: submitted == Submitted::Attached })
    }

    fn watch(&self, request: v1::WatchRequest) -> Result<ReceiverStream<Result<v1::WatchResponse, Status>>, Status> {
        self.admit_stream()?;
        let only = request.id.map(|id| validate::partition_id(Some(id), "id")).transpose()?;
        let mut events = self.0.backend.watch(only.clone());
        if let Some(id) = only {
            // The engine tells the present state of what it knows; only without one is the whole state looked at.
            match events.try_recv() {
                Ok(first) => return Ok(self.stream(Some(first), events)),
                Err(_) if !self.knows(&id) => {
                    let text = format!(
                        "{id} is not known here; it was never submitted, acknowledged, or its result grew too old"
                    );
                    return Err(refusal(Code::NotFound, "UnknownPartition", &text));
                }
                Err(_) => {}
            }
        }
        Ok(self.stream(None, events))
    }

    fn stream(
        &self,
        first: Option<PartitionEvent>,
        events: Watch,
    ) -> ReceiverStream<Result<v1::WatchResponse, Status>> {
        let terms = Terms {
            boot_id: Arc::clone(&self.0.boot_id),
            stats: Arc::clone(&self.0.stats),
            closing: self.0.closing.clone(),
            stall: self.0.config.limits.watch_stall,
        };
        stream(first, events, terms)
    }

    fn knows(&self, id: &PartitionId) -> bool {
        self.0.backend.snapshot().partitions.iter().any(|partition| partition.id == *id)
    }

    /// Refuses one stream too many.
    fn admit_stream(&self) -> Result<(), Status> {
        let limit = self.0.config.limits.watches;
        if self.0.stats.watches.get() >= limit as u64 {
            let text = format!("{limit} watches are open, the limit; close some, or watch all partitions with one");
            return Err(refusal(Code::ResourceExhausted, "TooManyWatches", &text));
        }
        Ok(())
    }

    fn list(&self) -> v1::ListResponse {
        let snapshot = self.0.backend.snapshot();
        v1::ListResponse {
            boot_id: snapshot.boot_id,
            draining: snapshot.draining,
            partitions: snapshot.partitions.iter().map(report::partition).collect(),
        }
    }

    fn drain(&self, request: v1::DrainRequest) -> Result<v1::DrainResponse, Status> {
        let grace = validate::grace(request.grace_ms, "grace_ms")?.unwrap_or(self.0.config.drain_grace);
        let remaining = self.0.backend.snapshot().partitions.iter().filter(|p| !p.state.is_final()).count();
        if !self.0.draining.swap(true, Ordering::AcqRel) {
            let backend = Arc::clone(&self.0.backend);
            // A plain thread: the runtime must be able to end before the grace period does.
            let started = std::thread::Builder::new().name("drain".to_owned()).spawn(move || backend.drain(grace));
            if let Err(error) = started {
                self.0.draining.store(false, Ordering::Release);
                return Err(refusal(
                    Code::Internal,
                    "NoThread",
                    &format!("cannot start a thread for the drain: {error}"),
                ));
            }
        }
        Ok(v1::DrainResponse { remaining: remaining as u64 })
    }

    async fn verifying_key(&self, request: v1::VerifyingKeyRequest) -> Result<v1::VerifyingKeyResponse, Status> {
        let digest = validate::required_digest(&request.digest, "digest")?;
        let Some(keys) = self.0.config.verifying_keys.clone() else {
            return Err(refusal(Code::Unimplemented, "NoVerifyingKeys", "this engine was started without a key cache"));
        };
        let found = tokio::task::spawn_blocking(move || keys.verifying_key(&digest)).await;
        match found {
            Ok(Some(json)) => Ok(v1::VerifyingKeyResponse { json }),
            Ok(None) => Err(refusal(
                Code::NotFound,
                "UnknownVerifyingKey",
                "no imported key here has that verifying key; submit or preload its circuit first",
            )),
            Err(_) => Err(refusal(Code::Internal, "Internal", "the key cache failed; its log says why")),
        }
    }

    fn status(&self, with_partitions: bool) -> v1::EngineStatus {
        let snapshot = self.0.backend.snapshot();
        report::status(&snapshot, &self.0.config.version, process::resident_bytes(), with_partitions)
    }

    fn watch_status(
        &self,
        request: v1::WatchStatusRequest,
    ) -> Result<ReceiverStream<Result<v1::EngineStatus, Status>>, Status> {
        self.admit_stream()?;
        let interval = validate::interval(request.interval_ms, "interval_ms")?;
        let unchanged = match request.unchanged_interval_ms {
            0 => interval,
            other => validate::interval(other, "unchanged_interval_ms")?,
        };
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(self.clone().send_status(sender, interval, unchanged, !request.without_partitions));
        Ok(ReceiverStream::new(receiver))
    }

    /// A report per interval, or per `unchanged` if it says nothing new; a slow client gets fewer, each as new as when it could
    /// be sent.
    async fn send_status(
        self,
        sender: mpsc::Sender<Result<v1::EngineStatus, Status>>,
        interval: Duration,
        unchanged: Duration,
        with_partitions: bool,
    ) {
        let _count = Gauge::enter(&self.0.stats, |stats| &stats.watches);
        let mut closing = self.0.closing.clone();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last: Option<(Instant, v1::EngineStatus)> = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sender.closed() => return,
                () = closes(&mut closing) => {
                    let _ = sender.try_send(Err(stopping()));
                    return;
                }
            }
            if unchanged > interval {
                let still = report::without_clocks(self.status(with_partitions));
                match &last {
                    Some((sent, known)) if *known == still && sent.elapsed() < unchanged => continue,
                    _ => last = Some((Instant::now(), still)),
                }
            }
            let Ok(Ok(permit)) = tokio::time::timeout(self.0.config.limits.watch_stall, sender.reserve()).await else {
                return;
            };
            permit.send(Ok(self.status(with_partitions)));
        }
    }
}

#[tonic::async_trait]
impl Prover for Service {
    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;
    type WatchStatusStream = ReceiverStream<Result<v1::EngineStatus, Status>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Answer<v1::SubmitResponse> {
        self.answer("Submit", self.submit(request.into_inner()))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        self.answer("Watch", self.watch(request.into_inner()))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        self.answer("List", Ok(self.list()))
    }

    async fn ack(&self, request: Request<v1::AckRequest>) -> Answer<v1::AckResponse> {
        let id = validate::partition_id(request.into_inner().id, "id");
        let result = id.map(|id| v1::AckResponse { forgotten: self.0.backend.acknowledge(&id) });
        self.answer("Ack", result.map_err(Status::from))
    }

    async fn reprioritise(&self, request: Request<v1::ReprioritiseRequest>) -> Answer<v1::ReprioritiseResponse> {
        let request = request.into_inner();
        let checked =
            validate::job(&request.job, "job").and_then(|()| validate::priority(request.priority, "priority"));
        let result = checked.map(|priority| v1::ReprioritiseResponse {
            changed: self.0.backend.reprioritise(&request.job, priority) as u64,
        });
        self.answer("Reprioritise", result.map_err(Status::from))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Answer<v1::CancelResponse> {
        let id = validate::partition_id(request.into_inner().id, "id");
        let result = id.map(|id| v1::CancelResponse { cancelled: self.0.backend.cancel(&id) });
        self.answer("Cancel", result.map_err(Status::from))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Answer<v1::DrainResponse> {
        self.answer("Drain", self.drain(request.into_inner()))
    }

    async fn preload(&self, request: Request<v1::PreloadRequest>) -> Answer<v1::PreloadResponse> {
        let circuit = validate::circuit(request.into_inner().circuit, "circuit");
        let result = circuit.map(|circuit| {
            self.0.backend.preload(circuit);
            v1::PreloadResponse {}
        });
        self.answer("Preload", result.map_err(Status::from))
    }

    async fn evict(&self, request: Request<v1::EvictRequest>) -> Answer<v1::EvictResponse> {
        let name = request.into_inner().circuit;
        let result = validate::circuit_name(&name, "circuit")
            .map(|()| v1::EvictResponse { evicted: self.0.backend.evict(&name) });
        self.answer("Evict", result.map_err(Status::from))
    }

    async fn verifying_key(&self, request: Request<v1::VerifyingKeyRequest>) -> Answer<v1::VerifyingKeyResponse> {
        let result = self.verifying_key(request.into_inner()).await;
        self.answer("VerifyingKey", result)
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::EngineStatus> {
        self.answer("Status", Ok(self.status(!request.into_inner().without_partitions)))
    }

    async fn watch_status(&self, request: Request<v1::WatchStatusRequest>) -> Answer<Self::WatchStatusStream> {
        self.answer("WatchStatus", self.watch_status(request.into_inner()))
    }
}

impl From<FieldError> for Status {
    fn from(error: FieldError) -> Self {
        refusal(Code::InvalidArgument, "InvalidArgument", &error.to_string())
    }
}

/// A status with a reason.
pub(crate) fn refusal(code: Code, reason: &'static str, message: &str) -> Status {
    let mut status = Status::new(code, message);
    status.metadata_mut().insert(REASON, tonic::metadata::MetadataValue::from_static(reason));
    status
}

fn submit_refusal(error: SubmitError) -> Status {
    let (code, reason) = match error {
        SubmitError::Conflict { .. } => (Code::AlreadyExists, "Conflict"),
        SubmitError::StaleEpoch { .. } => (Code::FailedPrecondition, "StaleEpoch"),
        SubmitError::Draining => (Code::Unavailable, "Draining"),
        SubmitError::QueueFull { .. } => (Code::ResourceExhausted, "QueueFull"),
        SubmitError::InputMemory { .. } => (Code::ResourceExhausted, "InputMemory"),
    };
    refusal(code, reason, &error.to_string())
}
