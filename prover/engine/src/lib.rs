//! The proving engine: jobs, queue, memory budget, pipeline, device workers, ledger, trace.

pub mod engine;
pub mod job;
pub mod parts;
pub mod snapshot;
