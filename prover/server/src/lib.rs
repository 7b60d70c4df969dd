//! The engine's front doors: gRPC (`proofmill.v1`) for those who may steer it, HTTP for those who look.
//!
//! - [`config`]: what `prover serve` decides; [`mod@serve`]: bind, run, drain, end. [`shutdown`]: how a run is asked to end.
//! - [`backend`]: what is asked of the engine; the engine is one, the tests have another.
//! - `listen`, `tls`: from sockets to connections that have shown to speak HTTP/2, within bounds of number and time.
//! - `grpc`: the calls; `validate`: from messages to the engine's types; `watch`: streams for clients of any speed;
//!   [`report`]: from the engine's types to messages.
//! - `http`: `/metrics`, `/healthz`, `/readyz`, `/status`, `/trace` on a thread of its own; [`metrics`]: the exposition.
//! - [`client`]: the other side, for `prover submit` and `prover status`; its `message` is the inverse of `validate` and
//!   [`report`].

pub mod backend;
pub mod client;
pub mod config;
mod grpc;
mod http;
mod listen;
pub mod metrics;
mod process;
pub mod report;
pub mod serve;
pub mod shutdown;
mod stats;
mod tls;
mod validate;
mod watch;

pub use config::{Listen, ServeConfig};
pub use serve::{Ended, ServeError, Server, serve};
pub use shutdown::{Shutdown, ShutdownHandle};
