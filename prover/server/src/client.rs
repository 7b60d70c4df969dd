//! The other side: connects to an engine, submits and follows a partition until it has ended, whatever happens to the
//! connection in between. `prover submit` and `prover status` are made of this.
//!
//! - [`connect`]: addresses and connections; [`error`]: what an answer other than the wanted one means.
//! - [`message`]: between the engine's types and messages, the inverse of what the engine's side does.

pub mod connect;
pub mod error;
pub mod message;

use std::time::Duration;

use hyper_util::rt::TokioIo;
use proofmill_proto::v1::partition_event::Outcome;
use proofmill_proto::v1::prover_client::ProverClient;
use proofmill_proto::{limits, v1};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Uri};
use tonic::{Status, Streaming};

use connect::Connector;
pub use connect::{Address, ClientConfig, ClientTls};
pub use error::{Blame, ClientError};

/// First and last pause between two tries.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Time for TCP and TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection on which an engine answers no ping is dead after the sum of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(20);

/// A connection that makes itself again when it breaks; cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: ProverClient<Channel>,
    config: ClientConfig,
}

/// How a partition ended: with a verified proof or a reason.
pub type PartitionOutcome = Result<v1::PartitionProof, v1::Failure>;

impl Client {
    /// A client; connects at its first call. Needs a tokio runtime.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let connector = Connector::new(&config)?;
        let channel = tonic::transport::Endpoint::from_static("http://engine")
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER)
            .keep_alive_while_idle(true)
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let connector = connector.clone();
                async move { connector.connect().await.map(TokioIo::new) }
            }));
        let inner = ProverClient::new(channel)
            .max_decoding_message_size(limits::RESPONSE_MESSAGE)
            .max_encoding_message_size(limits::REQUEST_MESSAGE);
        Ok(Self { inner, config })
    }

    /// The calls of `proofmill.v1` as they are, for what has no method here.
    pub fn calls(&self) -> ProverClient<Channel> {
        self.inner.clone()
    }

    /// Submits a partition and follows it until it has ended; `seen` gets every event on the way. A broken connection or a
    /// restarted engine is answered by submitting again: the same id and digest attaches to what is there. The result stays
    /// in the engine until [`Client::acknowledge`].
    pub async fn prove(
        &self,
        request: &v1::SubmitRequest,
        mut seen: impl FnMut(&v1::PartitionEvent),
    ) -> Result<PartitionOutcome, ClientError> {
        let mut tries = Tries::new(&self.config);
        loop {
            match self.prove_once(request, &mut tries, &mut seen).await {
                Ok(outcome) => {
                    return outcome.ok_or_else(|| ClientError::Nonsense("a final state without a result".into()));
                }
                Err(status) => tries.pause(status).await?,
            }
        }
    }

    /// Submits a partition without following it. A broken connection is answered by submitting again; an engine that is full
    /// refuses at once, since only the caller knows whether to wait: see [`ClientError::is_full`].
    pub async fn submit(&self, request: &v1::SubmitRequest) -> Result<v1::SubmitResponse, ClientError> {
        let mut tries = Tries::new(&self.config);
        loop {
            match self.calls().submit(request.clone()).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => match error::refused(&status) {
                    full if full.is_full() => return Err(full),
                    _ => tries.pause(status).await?,
                },
            }
        }
    }

    /// Lets the engine forget a result that is stored now; false if there is none (any more).
    pub async fn acknowledge(&self, id: &v1::PartitionId) -> Result<bool, ClientError> {
        let request = v1::AckRequest { id: Some(id.clone()) };
        let mut tries = Tries::new(&self.config);
        loop {
            match self.calls().ack(request.clone()).await {
                Ok(response) => return Ok(response.into_inner().forgotten),
                Err(status) => tries.pause(status).await?,
            }
        }
    }

    /// The state of the engine.
    pub async fn status(&self, with_partitions: bool) -> Result<v1::EngineStatus, ClientError> {
        let request = v1::StatusRequest { without_partitions: !with_partitions };
        // No second try: who asks wants to know whether it answers now.
        match self.calls().status(request).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(error::give_up(&self.config, &status, Duration::ZERO)),
        }
    }

    /// The state of the engine, again and again; `seen` says false to stop. Connects again when the connection breaks.
    pub async fn watch_status(
        &self,
        interval: Duration,
        with_partitions: bool,
        mut seen: impl FnMut(v1::EngineStatus) -> bool,
    ) -> Result<(), ClientError> {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let request =
            v1::WatchStatusRequest { interval_ms, without_partitions: !with_partitions, ..Default::default() };
        let mut tries = Tries::new(&self.config);
        loop {
            let mut end = Status::unavailable("the engine ended the stream");
            match self.calls().watch_status(request).await {
                Ok(response) => {
                    let mut reports = response.into_inner();
                    loop {
                        match reports.message().await {
                            Ok(Some(report)) => {
                                tries.alive();
                                if !seen(report) {
                                    return Ok(());
                                }
                            }
                            Ok(None) => break,
                            Err(status) => {
                                end = status;
                                break;
                            }
                        }
                    }
                }
                Err(status) => end = status,
            }
            tries.pause(end).await?;
        }
    }

    /// One submission and watch. `Ok(None)` is an engine's mistake.
    async fn prove_once(
        &self,
        request: &v1::SubmitRequest,
        tries: &mut Tries<'_>,
        seen: &mut impl FnMut(&v1::PartitionEvent),
    ) -> Result<Option<PartitionOutcome>, Status> {
        self.calls().submit(request.clone()).await?;
        tries.alive();
        let mut events: Streaming<v1::WatchResponse> =
            self.calls().watch(v1::WatchRequest { id: request.id.clone() }).await?.into_inner();
        while let Some(response) = events.message().await? {
            tries.alive();
            let Some(event) = response.event else { continue };
            seen(&event);
            let last = matches!(
                v1::PartitionState::try_from(event.state),
                Ok(v1::PartitionState::Succeeded | v1::PartitionState::Failed | v1::PartitionState::Cancelled)
            );
            if last {
                return Ok(event.outcome.map(|outcome| match outcome {
                    Outcome::Proof(proof) => Ok(proof),
                    Outcome::Failure(failure) => Err(failure),
                }));
            }
        }
        Err(Status::unavailable("the engine ended the stream before the partition"))
    }
}

/// Counts tries since the engine last gave a sign.
struct Tries<'a> {
    config: &'a ClientConfig,
    since: Instant,
    pause: Duration,
}

impl<'a> Tries<'a> {
    fn new(config: &'a ClientConfig) -> Self {
        Self { config, since: Instant::now(), pause: PAUSES[0] }
    }

    /// The engine gave a sign.
    fn alive(&mut self) {
        self.since = Instant::now();
        self.pause = PAUSES[0];
    }

    /// Waits before the next try, longer each time; an error if there should be none.
    async fn pause(&mut self, status: Status) -> Result<(), ClientError> {
        if !error::is_transient(&status) {
            return Err(error::refused(&status));
        }
        let waited = self.since.elapsed();
        if waited >= self.config.patience {
            return Err(error::give_up(self.config, &status, waited));
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        Ok(())
    }
}
