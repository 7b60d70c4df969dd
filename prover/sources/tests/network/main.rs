//! Fetching over sockets, from servers that lie, stall, reset and lead astray.

#![cfg(feature = "http")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
#[path = "../support/fetching.rs"]
mod fetching;
mod hostile;
mod http;
#[cfg(feature = "object-store")]
mod objects;
mod reach;
mod tls;
