//! The operator's own HTTP: `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use tokio::sync::{mpsc, oneshot};

/// A question for the metrics, to be answered by whoever knows them.
pub type Scrape = oneshot::Sender<Result<String, String>>;

/// Longer no scrape waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Shared {
    scrapes: mpsc::Sender<Scrape>,
    synced: Arc<AtomicBool>,
}

/// Serves for ever. Ready is a replica whose index holds all kinds, leader or not.
pub async fn serve(listener: tokio::net::TcpListener, scrapes: mpsc::Sender<Scrape>, synced: Arc<AtomicBool>) {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .with_state(Shared { scrapes, synced });
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!("HTTP ended: {error}");
    }
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.synced.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the watches have not told all objects yet\n")
    }
}

async fn text(State(shared): State<Shared>) -> impl IntoResponse {
    let (ask, answer) = oneshot::channel();
    let asked = async {
        shared.scrapes.send(ask).await.ok()?;
        answer.await.ok()
    };
    let plain = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(Ok(text))) => (StatusCode::OK, plain, text),
        Ok(Some(Err(error))) => (StatusCode::INTERNAL_SERVER_ERROR, plain, format!("{error}\n")),
        Ok(None) => (StatusCode::SERVICE_UNAVAILABLE, plain, "the operator is ending\n".to_owned()),
        Err(_) => {
            let said = format!("the planner has not answered for {} s\n", PATIENCE.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, plain, said)
        }
    }
}
