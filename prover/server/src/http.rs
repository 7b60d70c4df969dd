//! The HTTP port: plaintext, read-only, no inputs or proofs. It runs on a thread and a runtime of its own, and asks the
//! engine on others, so that `/healthz` answers however loaded the rest is.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;

use crate::backend::Backend;
use crate::config::{Limits, ServeConfig};
use crate::metrics::Exposition;
use crate::stats::{Entered, Gauge, Stats};
use crate::watch::closes;
use crate::{process, report};

/// Requests that ask the engine at once; more wait.
const ASKING: usize = 4;
/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Lines of a request's head.
const HEAD_LINES: usize = 64;
/// Time that open responses get at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Rest after an error of `accept`, such as no free file descriptor.
const ACCEPT_REST: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Proofmill engine</title>\
<h1>Proofmill engine</h1><ul>\
<li><a href=\"status\">status</a>: devices, queues, memory, partitions, as JSON</li>\
<li><a href=\"metrics\">metrics</a>: for Prometheus</li>\
<li><a href=\"trace\">trace</a>: the last minutes, for <a href=\"https://ui.perfetto.dev\">ui.perfetto.dev</a></li>\
<li><a href=\"readyz\">readyz</a>: whether it takes work, and if not, why</li>\
<li><a href=\"healthz\">healthz</a>: whether it lives</li>\
</ul></html>\n";

#[derive(Clone)]
struct Site(Arc<Shared>);

struct Shared {
    backend: Arc<dyn Backend>,
    exposition: Exposition,
    version: String,
    stats: Arc<Stats>,
    asking: Arc<Semaphore>,
    answer: Duration,
}

/// The engine did not answer.
struct NoAnswer(Duration);

/// A bound HTTP listener, not yet served.
pub(crate) struct Listener(std::net::TcpListener);

impl Listener {
    /// Binds.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).await?.into_std().map(Self)
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves on a thread of its own until `closing` turns true; the receiver hears when that thread has ended.
    pub fn serve(
        self,
        backend: Arc<dyn Backend>,
        config: &ServeConfig,
        stats: Arc<Stats>,
        closing: watch::Receiver<bool>,
    ) -> io::Result<oneshot::Receiver<io::Result<()>>> {
        let site = Site(Arc::new(Shared {
            backend,
            exposition: Exposition::new(config.version.clone(), config.settings.clone()),
            version: config.version.clone(),
            stats: Arc::clone(&stats),
            asking: Arc::new(Semaphore::new(ASKING)),
            answer: config.limits.http_answer,
        }));
        let limits = config.limits.clone();
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            let result = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
                let result = runtime.block_on(accept(self.0, routes(site), limits, stats, closing));
                // An engine that does not answer must not hold up the end.
                runtime.shutdown_background();
                result
            });
            // Nobody may be waiting any more.
            let _ = ended.send(result);
        })?;
        Ok(end)
    }
}

fn routes(site: Site) -> Router {
    Router::new()
        .route("/", get(async || page(StatusCode::OK, "text/html; charset=utf-8", INDEX)))
        .route("/healthz", get(async || page(StatusCode::OK, TEXT, "ok\n")))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/trace", get(trace))
        .fallback(async || page(StatusCode::NOT_FOUND, TEXT, "not found; / lists what is here\n"))
        .with_state(site)
}

async fn readyz(State(site): State<Site>) -> Result<Response, NoAnswer> {
    let reasons = site.ask(|shared| report::not_ready(&shared.backend.snapshot())).await?;
    Ok(match reasons.as_slice() {
        [] => page(StatusCode::OK, TEXT, "ready\n"),
        reasons => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready\n{}\n", reasons.join("\n"))),
    })
}

async fn metrics(State(site): State<Site>) -> Result<Response, NoAnswer> {
    let rendered = site.ask(|shared| {
        let snapshot = shared.backend.snapshot();
        shared.exposition.render_with(&snapshot, process::resident_bytes(), Some(&shared.stats))
    });
    Ok(match rendered.await? {
        Ok(text) => page(StatusCode::OK, PROMETHEUS, text),
        Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    })
}

async fn status(State(site): State<Site>) -> Result<Response, NoAnswer> {
    let written = site.ask(|shared| {
        let snapshot = shared.backend.snapshot();
        serde_json::to_string(&report::status(&snapshot, &shared.version, process::resident_bytes(), true))
    });
    Ok(match written.await? {
        Ok(json) => page(StatusCode::OK, JSON, json),
        Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("cannot write the status: {error}\n")),
    })
}

async fn trace(State(site): State<Site>) -> Result<Response, NoAnswer> {
    Ok(page(StatusCode::OK, JSON, site.ask(|shared| shared.backend.trace()).await?))
}

impl Site {
    /// What `question` answers, on a thread that may block; bounded in number and time.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let shared = Arc::clone(&self.0);
        let patience = shared.answer;
        let answer = async {
            let permit = Arc::clone(&shared.asking).acquire_owned().await.ok()?;
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                question(&shared)
            });
            task.await.ok()
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(Some(answer)) => Ok(answer),
            _ => Err(NoAnswer(patience)),
        }
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        let text = format!("the engine gave no answer within {} s; its log may say why\n", self.0.as_secs_f32());
        page(StatusCode::SERVICE_UNAVAILABLE, TEXT, text)
    }
}

fn page(status: StatusCode, kind: &'static str, body: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body).into_response()
}

async fn accept(
    listener: std::net::TcpListener,
    routes: Router,
    limits: Limits,
    stats: Arc<Stats>,
    mut closing: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept HTTP connections for now");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            },
            () = closes(&mut closing) => break,
        };
        open.retain(|connection| !connection.is_finished());
        // A probe must get in whoever else sits here.
        while open.len() >= limits.http_connections {
            if let Some(oldest) = open.pop_front() {
                oldest.abort();
                stats.http_refused.add(1);
            }
        }
        let count = Gauge::enter(&stats, |stats| &stats.http_connections);
        let task = tokio::spawn(converse(stream, routes.clone(), limits.clone(), closing.clone(), count));
        open.push_back(task.abort_handle());
    }
    let last = tokio::time::Instant::now() + LAST_WORDS;
    while open.iter().any(|connection| !connection.is_finished()) && tokio::time::Instant::now() < last {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// One connection from its begin to its end.
async fn converse(
    stream: TcpStream,
    routes: Router,
    limits: Limits,
    mut closing: watch::Receiver<bool>,
    _count: Entered,
) {
    // Small answers are not worth an error here.
    let _ = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.http_head)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = tokio::time::sleep(limits.http_age) => {}
        () = closes(&mut closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    // Errors are the client's: it went away, or spoke something else than HTTP.
    let _ = tokio::time::timeout(limits.http_answer + LAST_WORDS, connection).await;
}
