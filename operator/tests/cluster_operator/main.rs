//! The operator on a real Kubernetes, with real prover pods.
//!
//! Every test has a namespace of its own and an operator of its own that watches only that, so that they run side by side and
//! may kill what is theirs. They skip themselves when no cluster is up (`tests/cluster/cluster up`) or its node lacks the image
//! (`tests/image`, `tests/cluster/cluster image`); `tests/all cluster` does all that.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod certificates;
mod evidence;
mod failures;
mod files;
mod leaders;
mod lives;
mod pools;
mod proofs;
mod world;
