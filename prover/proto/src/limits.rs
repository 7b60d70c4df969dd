//! Sizes that the engine holds its clients to. Each is documented in the `.proto` file too.

/// Bytes of an inline input.
pub const INLINE_INPUT: usize = 1 << 20;
/// Bytes of a message towards the engine: an inline input and everything else, with room.
pub const REQUEST_MESSAGE: usize = 2 << 20;
/// Bytes of a message from the engine: a list of partitions, a proof with a million public signals.
pub const RESPONSE_MESSAGE: usize = 64 << 20;
/// Characters of a job's identity.
pub const JOB: usize = 128;
/// Partitions of a job; an index is below this.
pub const PARTITIONS: u32 = 1 << 16;
/// Characters of a circuit's name: those of a Kubernetes object.
pub const CIRCUIT_NAME: usize = 253;
/// Bytes of a URL.
pub const URL: usize = 2048;
/// Milliseconds of a deadline: a year.
pub const DEADLINE_MS: u64 = 365 * 24 * 3600 * 1000;
/// Milliseconds of a drain's grace period: a day.
pub const GRACE_MS: u64 = 24 * 3600 * 1000;
/// Partitions of a simulated job.
pub const SIMULATED_PARTITIONS: u32 = 128;
/// Microseconds of each duration of a simulated circuit: an hour.
pub const SIMULATED_US: u64 = 3600 * 1_000_000;
/// Milliseconds between two reports of `WatchStatus`: least and most.
pub const STATUS_INTERVAL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;
