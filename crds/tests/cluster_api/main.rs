//! The definitions and our validation beside a real API server, the one that `tests/cluster/cluster up` starts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../cases/mod.rs"]
mod cases;
mod definitions;
mod manifests;
mod pools;
mod server;
mod updates;
