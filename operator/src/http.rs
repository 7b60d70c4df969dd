//! The operator's own HTTP: `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::metrics::Metrics;

#[derive(Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    synced: Arc<AtomicBool>,
}

/// Serves for ever. Ready is a replica whose index holds all kinds, leader or not.
pub async fn serve(listener: tokio::net::TcpListener, metrics: Arc<Metrics>, synced: Arc<AtomicBool>) {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .with_state(Shared { metrics, synced });
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
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], shared.metrics.text())
}
