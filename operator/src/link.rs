//! Connections to the engines in prover pods.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proofmill_proto::v1::prover_client::ProverClient;
use proofmill_proto::{limits, v1};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::certificates::Identity;
use crate::index::Key;
use crate::planner::{Address, EngineNews, Input};

/// gRPC port of a prover pod.
pub const PORT: u16 = 7000;
/// Time for TCP and TLS.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection on which an engine answers no ping is dead after the sum of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(10);
/// An engine that has not answered a call after so long has not got it.
pub const CALL: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// Milliseconds between two reports of an engine's state.
const STATUS_EVERY_MS: u64 = 1000;
/// The same as long as it is idle: a thousand idle engines are no work.
const IDLE_STATUS_EVERY_MS: u64 = 10_000;

/// How the operator shows itself to engines, and whom it believes; changes when certificates are renewed. `None`: plain TCP.
pub type Tls = Option<Arc<rustls::ClientConfig>>;

/// The connections, by pod UID.
#[derive(Clone)]
pub struct Links {
    tls: watch::Receiver<Tls>,
    news: mpsc::Sender<Input>,
    open: Arc<Mutex<HashMap<String, Link>>>,
}

struct Link {
    pod: Key,
    client: ProverClient<Channel>,
    follower: JoinHandle<()>,
}

impl Links {
    /// None yet; what engines say goes to `news`.
    pub fn new(tls: watch::Receiver<Tls>, news: mpsc::Sender<Input>) -> Self {
        Self { tls, news, open: Arc::default() }
    }

    /// Keeps a connection to a pod's engine until [`Self::close`].
    pub fn open(&self, address: Address) {
        let client = connect(&address, self.tls.clone());
        let follower = tokio::spawn(follow(address.pod.clone(), client.clone(), self.news.clone()));
        let old = self.locked().insert(address.pod, Link { pod: address.key, client, follower });
        if let Some(old) = old {
            old.follower.abort();
        }
    }

    /// Drops a pod's connection.
    pub fn close(&self, pod: &str) {
        if let Some(link) = self.locked().remove(pod) {
            link.follower.abort();
        }
    }

    /// The calls of a pod's engine.
    pub fn client(&self, pod: &str) -> Option<ProverClient<Channel>> {
        self.locked().get(pod).map(|link| link.client.clone())
    }

    /// The calls of the engine of the pod of a name.
    pub fn client_of(&self, pod: &Key) -> Option<ProverClient<Channel>> {
        self.locked().values().find(|link| link.pod == *pod).map(|link| link.client.clone())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Link>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(address: &Address, tls: watch::Receiver<Tls>) -> ProverClient<Channel> {
    let socket =
        if address.ip.contains(':') { format!("[{}]:{PORT}", address.ip) } else { format!("{}:{PORT}", address.ip) };
    let name = Identity::Engines(address.key.sibling(&address.pool)).name();
    let channel = Endpoint::from_static("http://engine")
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let (socket, name, config) = (socket.clone(), name.clone(), tls.borrow().clone());
            async move {
                let stream = TcpStream::connect(&socket).await?;
                stream.set_nodelay(true)?;
                let io: Box<dyn Io> = match config {
                    None => Box::new(stream),
                    Some(config) => {
                        let name = ServerName::try_from(name).map_err(std::io::Error::other)?;
                        Box::new(tokio_rustls::TlsConnector::from(config).connect(name, stream).await?)
                    }
                };
                Ok::<_, std::io::Error>(TokioIo::new(io))
            }
        }));
    ProverClient::new(channel)
        .max_decoding_message_size(limits::RESPONSE_MESSAGE)
        .max_encoding_message_size(limits::REQUEST_MESSAGE)
}

/// What a connection runs over.
trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Io for T {}

/// Tells what an engine says for as long as the link is open.
async fn follow(pod: String, client: ProverClient<Channel>, news: mpsc::Sender<Input>) {
    loop {
        let Err(status) = follow_once(&pod, client.clone(), &news).await;
        let why = words(&status);
        tracing::debug!(pod, "no connection to the engine: {why}");
        if news.send(Input::Engine { pod: pod.clone(), news: EngineNews::Lost(why) }).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What went wrong, down to its cause: what a transport says of itself is only that there was an error.
fn words(status: &Status) -> String {
    let mut words = vec![status.message().to_owned()];
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let said = error.to_string();
        if words.last().is_none_or(|last| !last.contains(&said)) {
            words.push(said);
        }
        source = error.source();
    }
    words.join(": ")
}

async fn follow_once(
    pod: &str,
    mut client: ProverClient<Channel>,
    news: &mpsc::Sender<Input>,
) -> Result<Infallible, Status> {
    let tell = async |said: EngineNews| {
        let sent = news.send(Input::Engine { pod: pod.to_owned(), news: said }).await;
        sent.map_err(|_| Status::cancelled("the operator stops"))
    };
    // First how it is, so that it has room when its list arrives.
    let status = client.status(v1::StatusRequest { without_partitions: true }).await?.into_inner();
    tell(EngineNews::Status(Box::new(status))).await?;
    tell(EngineNews::Listed(client.list(v1::ListRequest {}).await?.into_inner())).await?;
    let mut events = client.watch(v1::WatchRequest { id: None }).await?.into_inner();
    let request = v1::WatchStatusRequest {
        interval_ms: STATUS_EVERY_MS,
        without_partitions: true,
        unchanged_interval_ms: IDLE_STATUS_EVERY_MS,
    };
    let mut reports = client.watch_status(request).await?.into_inner();
    loop {
        tokio::select! {
            event = events.message() => match event?.and_then(|response| response.event) {
                Some(event) => tell(EngineNews::Partition(Box::new(event))).await?,
                None => return Err(Status::unavailable("the engine ended the stream")),
            },
            report = reports.message() => match report? {
                Some(report) => tell(EngineNews::Status(Box::new(report))).await?,
                None => return Err(Status::unavailable("the engine ended the stream")),
            },
        }
    }
}
