//! A device that only waits: scripted durations and injected faults, for burn-in, demos and scheduling tests.

use std::time::Duration;

/// What a partition of a simulated circuit costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedCircuit {
    /// Partitions of a job.
    pub partitions: u32,
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Bytes of one partition's working set.
    pub working_set: u64,
    /// Duration of the key's load.
    pub key_load: Duration,
    /// Duration of one synthesis.
    pub synthesis: Duration,
    /// Duration of all NTT steps.
    pub ntt: Duration,
    /// Duration of all G1 MSM steps.
    pub msm_g1: Duration,
    /// Duration of all G2 MSM steps.
    pub msm_g2: Duration,
    /// Duration of copies to the device.
    pub transfer: Duration,
    /// Duration of `prove_finish`.
    pub finish: Duration,
}

/// What a simulated `prove_start` hands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedOutput {
    /// Tag that the simulated proof carries.
    pub seed: u64,
}
