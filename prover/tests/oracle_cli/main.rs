//! The binary beside snarkjs and circom: real circuits from npm packages, both curves, keys of its own making. `tests/all`
//! installs the packages and names them in `PROOFMILL_TEST_NPM` and `PROOFMILL_TEST_SNARKJS`.
#![cfg(feature = "wasm")]
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod circuits;
mod compiled;
mod foreign;
#[path = "../support/manifest.rs"]
mod manifest;
mod npm;
#[path = "../support/place.rs"]
mod place;
