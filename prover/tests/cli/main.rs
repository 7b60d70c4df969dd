//! The binary `prover` as its users meet it: arguments in, files, words and exit codes out.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;
#[cfg(feature = "serve")]
mod daemon;
mod keys;
#[path = "../support/place.rs"]
mod place;
mod run;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod submit;
