//! From settings to a running server to its end: bind, serve, drain, linger, stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::backend::Backend;
use crate::config::{ConfigError, Listen, ServeConfig};
use crate::listen::{ListenError, Listener};
use crate::shutdown::{Shutdown, Wish};
use crate::stats::Stats;
use crate::tls::{Tls, TlsError};
use crate::{grpc, http};

/// Bytes that one stream, one connection may have sent without being read.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
/// Bytes of a request's headers.
const HEADER_BYTES: u32 = 16 << 10;
/// A connection that answers no ping is dead after the sum of these: its watches end, its bounds are free again.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER: Duration = Duration::from_secs(20);
/// Streams that a client has reset and we have not yet noticed; more end the connection.
const PENDING_RESETS: usize = 64;
/// Time that connections get to close at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often it is looked whether clients have fetched their results.
const LINGER_LOOK: Duration = Duration::from_millis(50);

/// A server that is bound and not yet served.
pub struct Server {
    config: ServeConfig,
    grpc: Listener,
    http: Option<(http::Listener, SocketAddr)>,
    tls: Option<Arc<Tls>>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All work was finished.
    Finished,
    /// The grace period ended first; the rest was handed back to its clients as `Draining`.
    HandedBack,
    /// A second signal ended it at once.
    Stopped,
}

/// Why there is no server (any more).
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Settings that cannot be served.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Certificates that cannot be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A place that cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The HTTP port.
    #[error("cannot serve HTTP at {address}: {error}")]
    Http {
        /// Where.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// The gRPC server ended by itself.
    #[error("the gRPC server ended: {0}")]
    Grpc(String),
}

/// Binds and serves until `shutdown` asks for the end.
pub async fn serve(engine: impl Backend, config: ServeConfig, shutdown: Shutdown) -> Result<Ended, ServeError> {
    Server::bind(config).await?.run(Arc::new(engine), shutdown).await
}

impl Server {
    /// Checks the settings, reads the certificates, binds both listeners.
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        config.check()?;
        let tls = config.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let http = match config.http {
            Some(address) => {
                let bound = http::Listener::bind(address).await.and_then(|listener| {
                    let address = listener.address()?;
                    Ok((listener, address))
                });
                Some(bound.map_err(|error| ServeError::Http { address, error })?)
            }
            None => None,
        };
        let grpc = Listener::bind(&config.grpc).await?;
        Ok(Self { config, grpc, http, tls })
    }

    /// Where gRPC listens, with the port that was taken.
    pub fn grpc_place(&self) -> Listen {
        self.grpc.place()
    }

    /// Where HTTP listens, with the port that was taken.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// Serves until `shutdown` asks for the end: then drains, lets clients fetch results, closes.
    pub async fn run(self, backend: Arc<dyn Backend>, mut shutdown: Shutdown) -> Result<Ended, ServeError> {
        let Self { config, grpc, http, tls } = self;
        tracing::info!(
            grpc = %grpc.place(),
            http = http.as_ref().map(|(_, address)| address.to_string()),
            tls = tls.is_some(),
            "serving"
        );
        let stats = Arc::new(Stats::default());
        let (close, closing) = watch::channel(false);
        let mut http_end = match http {
            Some((listener, address)) => {
                let served = listener.serve(Arc::clone(&backend), &config, Arc::clone(&stats), closing.clone());
                Some((served.map_err(|error| ServeError::Http { address, error })?, address))
            }
            None => None,
        };
        let mut grpc_end = spawn_grpc(grpc, tls, &backend, &config, stats, closing);

        let work = until_done(backend, &config, &mut shutdown);
        let ended = tokio::select! {
            ended = work => Ok(ended),
            error = ends_early(&mut grpc_end) => Err(error),
            error = http_ends_early(&mut http_end) => Err(error),
        };
        // Nobody may be listening any more.
        let _ = close.send(true);
        if matches!(ended, Ok(Ended::Finished | Ended::HandedBack)) {
            let http = async {
                if let Some((end, _)) = http_end {
                    let _ = end.await;
                }
            };
            let grpc = async {
                let _ = grpc_end.await;
            };
            let _ = timeout(LAST_WORDS, async { tokio::join!(http, grpc) }).await;
        }
        ended
    }
}

/// Waits for the first wish, drains, lingers; a second wish ends it at once.
async fn until_done(backend: Arc<dyn Backend>, config: &ServeConfig, shutdown: &mut Shutdown) -> Ended {
    shutdown.asked(Wish::Drain).await;
    let grace = config.drain_grace;
    tracing::info!(grace_seconds = grace.as_secs_f32(), "draining: intake is closed; a second signal stops at once");
    let drained = async {
        let finished = drain(Arc::clone(&backend), grace).await;
        let end = Instant::now() + config.linger;
        while Instant::now() < end && !backend.snapshot().partitions.is_empty() {
            sleep(LINGER_LOOK).await;
        }
        if finished { Ended::Finished } else { Ended::HandedBack }
    };
    let mut second = shutdown.clone();
    tokio::select! {
        ended = drained => ended,
        () = second.asked(Wish::Stop) => Ended::Stopped,
    }
}

/// Drains on a plain thread, which the runtime does not wait for if it has to stop.
async fn drain(backend: Arc<dyn Backend>, grace: Duration) -> bool {
    let (done, finished) = oneshot::channel();
    let thread = std::thread::Builder::new().name("drain".to_owned()).spawn(move || {
        // Nobody waits any more after a second signal.
        let _ = done.send(backend.drain(grace));
    });
    match thread {
        Ok(_) => finished.await.unwrap_or(false),
        Err(error) => {
            tracing::error!(%error, "cannot start a thread to drain; stopping without");
            false
        }
    }
}

/// Serves gRPC on tasks of this runtime; the receiver hears of its end.
fn spawn_grpc(
    listener: Listener,
    tls: Option<Arc<Tls>>,
    backend: &Arc<dyn Backend>,
    config: &ServeConfig,
    stats: Arc<Stats>,
    closing: watch::Receiver<bool>,
) -> oneshot::Receiver<Result<(), tonic::transport::Error>> {
    let limits = config.limits.clone();
    let service = grpc::Service::new(Arc::clone(backend), config, Arc::clone(&stats), closing.clone());
    let router = tonic::transport::Server::builder()
        .layer(GlobalConcurrencyLimitLayer::new(limits.requests))
        .timeout(limits.request)
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_ANSWER))
        .add_service(service);
    let (sender, connections) = mpsc::channel(limits.grpc_handshakes.max(1));
    let accepting = tokio::spawn(listener.accept_into(sender, tls, limits, stats));
    let (ended, end) = oneshot::channel();
    tokio::spawn(async move {
        let mut closing = closing;
        let signal = async move { crate::watch::closes(&mut closing).await };
        let result = router.serve_with_incoming_shutdown(ReceiverStream::new(connections), signal).await;
        accepting.abort();
        // Nobody may be waiting any more.
        let _ = ended.send(result);
    });
    end
}

async fn ends_early(end: &mut oneshot::Receiver<Result<(), tonic::transport::Error>>) -> ServeError {
    ServeError::Grpc(match end.await {
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(())) | Err(_) => "its task is gone".to_owned(),
    })
}

async fn http_ends_early(end: &mut Option<(oneshot::Receiver<io::Result<()>>, SocketAddr)>) -> ServeError {
    let Some((end, address)) = end else { return std::future::pending().await };
    let error = match end.await {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => io::Error::other("its thread is gone"),
    };
    ServeError::Http { address: *address, error }
}
