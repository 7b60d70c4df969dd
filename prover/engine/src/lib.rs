//! The proving engine: jobs, queue, memory budget, pipeline, device workers, ledger, trace.
//!
//! - [`job`], [`parts`], [`snapshot`], [`engine`]: what users of the engine see
//! - [`core`]: every decision, as a pure state machine: events in, actions out
//! - `runtime`: the threads that carry actions out and report events; the data of partitions on their way
//! - [`ledger`]: the account of a device's time; [`trace`]: spans; [`meter`]: what a thread used
//! - [`report`]: a snapshot in words; [`memory`]: how much memory there is
//!
//! A submission becomes a partition of the core. Threads take what the core's actions name (an input to fetch, a key to
//! load, an assignment to make, a step to run) and report what became of it; the core decides what comes next.

pub mod core;
pub mod engine;
pub mod job;
pub mod ledger;
pub mod memory;
pub mod meter;
pub mod parts;
pub mod report;
mod runtime;
pub mod snapshot;
pub mod trace;
