//! Inputs and modules that are wrong in every way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/features.rs"]
mod features;
mod input;
mod modules;
