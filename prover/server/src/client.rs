//! The other side: connects to an engine, submits and follows a partition until it has ended, whatever happens to the
//! connection in between. `prover submit` and `prover status` are made of this.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proofmill_proto::v1::partition_event::Outcome;
use proofmill_proto::v1::prover_client::ProverClient;
use proofmill_proto::{limits, v1};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Uri};
use tonic::{Code, Status, Streaming};

use crate::grpc::REASON;
use crate::tls::{TlsError, authorities, certificates, private_key, provider};

/// First and last pause between two tries.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Time for TCP and TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection on which an engine answers no ping is dead after the sum of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(20);

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `HOST:PORT` or `http://HOST:PORT`.
    Tcp(String),
    /// `https://HOST:PORT`: mutual TLS.
    Tls(String),
    /// `unix:/PATH`.
    Unix(PathBuf),
}

/// Files and names for mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// The client's certificate chain, PEM; engines accept the name `operator.proofmill.dev` only.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authorities of the engine's certificate, PEM.
    pub ca: PathBuf,
    /// The name in the engine's certificate; `None`: the host of the address.
    pub server_name: Option<String>,
}

/// How to reach an engine.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where it listens.
    pub address: Address,
    /// For `https`.
    pub tls: Option<ClientTls>,
    /// Time without any sign of the engine after which a call gives up.
    pub patience: Duration,
}

/// A connection that makes itself again when it breaks; cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: ProverClient<Channel>,
    config: ClientConfig,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not an address.
    #[error("`{0}` is no engine's address; give HOST:PORT, https://HOST:PORT or unix:/PATH")]
    Address(String),
    /// `https` needs certificates, the others have no use for them.
    #[error("{0}")]
    TlsSettings(&'static str),
    /// Certificates that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The engine refused; trying again will not help.
    #[error("the engine refused: {message}")]
    Refused {
        /// The gRPC code.
        code: Code,
        /// One CamelCase word, such as `Conflict` or `Draining`; may be empty.
        reason: String,
        /// The engine's words.
        message: String,
    },
    /// No engine answers.
    #[error("no engine answers at {address} for {seconds} s now: {message}; is `prover serve` running there?")]
    Unreachable {
        /// Where.
        address: Address,
        /// How long.
        seconds: u64,
        /// The last error.
        message: String,
    },
    /// The engine broke the protocol.
    #[error("the engine's answer makes no sense: {0}; are client and engine of the same version?")]
    Nonsense(&'static str),
}

/// How a partition ended: with a verified proof or a reason.
pub type PartitionOutcome = Result<v1::PartitionProof, v1::Failure>;

/// What a connection runs over.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

impl FromStr for Address {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let (tls, authority) = match text.split_once("://") {
            Some(("http", authority)) => (false, authority),
            Some(("https", authority)) => (true, authority),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let parsed: tonic::codegen::http::uri::Authority = authority.parse().map_err(|_| wrong())?;
        if parsed.port_u16().is_none() || parsed.host().is_empty() || authority.contains('@') {
            return Err(wrong());
        }
        Ok(if tls { Self::Tls(authority.to_owned()) } else { Self::Tcp(authority.to_owned()) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => f.write_str(authority),
            Self::Tls(authority) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ClientConfig {
    /// Reaches `address` without TLS, with a minute's patience.
    pub fn new(address: Address) -> Self {
        Self { address, tls: None, patience: Duration::from_secs(60) }
    }
}

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
                Ok(outcome) => return outcome.ok_or(ClientError::Nonsense("a final state without a result")),
                Err(status) => tries.pause(status).await?,
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
            Err(status) => Err(give_up(&self.config, &status, Duration::ZERO)),
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
        let request = v1::WatchStatusRequest { interval_ms, without_partitions: !with_partitions };
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
        if !is_transient(&status) {
            return Err(refused(&status));
        }
        let waited = self.since.elapsed();
        if waited >= self.config.patience {
            return Err(give_up(self.config, &status, waited));
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        Ok(())
    }
}

/// After the last try: an engine that answers but refuses is not unreachable.
fn give_up(config: &ClientConfig, status: &Status, waited: Duration) -> ClientError {
    if is_transient(status) && reason(status).is_empty() {
        let address = config.address.clone();
        ClientError::Unreachable { address, seconds: waited.as_secs(), message: words(status) }
    } else {
        refused(status)
    }
}

/// Whether the same request may succeed a little later, at the same engine.
fn is_transient(status: &Status) -> bool {
    match reason(status) {
        "Draining" => false,
        "UnknownPartition" => true, // its result went between submission and watch: submit again
        "QueueFull" | "InputMemory" | "TooManyWatches" | "WatchLagged" | "Stopping" => true,
        // `Unknown` is what a connection that breaks in the middle of a stream becomes.
        _ => match status.code() {
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => true,
            // With a cause it comes from this side: the connection broke, or the other side speaks no HTTP/2.
            Code::Internal => std::error::Error::source(status).is_some(),
            _ => false,
        },
    }
}

fn reason(status: &Status) -> &str {
    status.metadata().get(REASON).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn refused(status: &Status) -> ClientError {
    ClientError::Refused { code: status.code(), reason: reason(status).to_owned(), message: words(status) }
}

/// The status's message with its causes: "transport error" alone helps nobody.
fn words(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Makes connections.
#[derive(Clone)]
struct Connector {
    address: Address,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

impl Connector {
    fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        let tls = match (&config.address, &config.tls) {
            (Address::Tls(authority), Some(tls)) => Some(client_tls(authority, tls)?),
            (Address::Tls(_), None) => {
                return Err(ClientError::TlsSettings("an https address needs --tls-cert, --tls-key and --tls-ca"));
            }
            (_, Some(_)) => {
                return Err(ClientError::TlsSettings("the --tls options need an address that begins with https://"));
            }
            (_, None) => None,
        };
        Ok(Self { address: config.address.clone(), tls })
    }

    async fn connect(&self) -> std::io::Result<Box<dyn Io>> {
        let tcp = match &self.address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp(authority) | Address::Tls(authority) => TcpStream::connect(authority).await?,
        };
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(tcp)),
            Some((config, name)) => {
                let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
                Ok(Box::new(connector.connect(name.clone(), tcp).await?))
            }
        }
    }
}

fn client_tls(
    authority: &str,
    tls: &ClientTls,
) -> Result<(Arc<rustls::ClientConfig>, ServerName<'static>), ClientError> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| ClientError::TlsSettings("the engine's name must be a DNS name or an IP address"))?;
    let unfit = |error: rustls::Error| TlsError::File { path: tls.certificate.clone(), problem: error.to_string() };
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_root_certificates(authorities(&tls.ca)?)
        .with_client_auth_cert(certificates(&tls.certificate)?, private_key(&tls.key)?)
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let fine = [
            ("127.0.0.1:7117", Address::Tcp("127.0.0.1:7117".into())),
            ("http://engine:1", Address::Tcp("engine:1".into())),
            ("https://a.b:443/", Address::Tls("a.b:443".into())),
            ("https://[::1]:443", Address::Tls("[::1]:443".into())),
            ("unix:/run/p", Address::Unix("/run/p".into())),
        ];
        for (text, address) in fine {
            assert_eq!(text.parse::<Address>().unwrap(), address);
        }
        for bad in ["", "unix:", "engine", "http://engine", "ftp://a:1", "u@a:1", "a:1/path", ":1", "http://a b:1"] {
            assert!(matches!(bad.parse::<Address>(), Err(ClientError::Address(_))), "{bad}");
        }
    }

    #[test]
    fn tls_settings_go_with_https() {
        let tls = ClientTls { certificate: "c".into(), key: "k".into(), ca: "a".into(), server_name: None };
        let config = |address: &str, tls| ClientConfig { tls, ..ClientConfig::new(address.parse().unwrap()) };
        assert!(matches!(Connector::new(&config("https://a:1", None)), Err(ClientError::TlsSettings(_))));
        assert!(matches!(Connector::new(&config("a:1", Some(tls.clone()))), Err(ClientError::TlsSettings(_))));
        let error = Connector::new(&config("https://a:1", Some(tls))).err().unwrap();
        assert!(matches!(&error, ClientError::Tls(_)), "{error}");
    }
}
