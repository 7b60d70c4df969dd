//! The state of the whole engine at one instant: what `/status` shows, `/metrics` exports, `run` prints at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use proofmill_groth16::curve::Curve;
use serde::{Serialize, Serializer};

use crate::job::{Failure, PartitionId, PartitionState, Priority};

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Random, new with every start of an engine.
    pub boot_id: String,
    /// The clock when the snapshot was taken.
    pub at: Duration,
    /// Intake is closed.
    pub draining: bool,
    /// Each device.
    pub devices: Vec<DeviceSnapshot>,
    /// Partitions that have not ended, in order, then finished ones that nobody has acknowledged.
    pub partitions: Vec<PartitionSnapshot>,
    /// Partitions that have not ended, by stage and priority.
    #[serde(serialize_with = "pairs")]
    pub queues: BTreeMap<(&'static str, Priority), u64>,
    /// Bytes by use: `keys`, `working_sets`, `inputs`, `free`, `budget`.
    pub memory: BTreeMap<&'static str, u64>,
    /// Resident circuits by name: bytes.
    pub keys: BTreeMap<String, u64>,
    /// What the keys of resident circuits say of themselves, by name.
    pub circuits: BTreeMap<String, CircuitFacts>,
    /// Why the last load of a circuit failed, by name, until one succeeds.
    pub key_failures: BTreeMap<String, KeyFailure>,
    /// Duration of phases by (circuit, phase).
    #[serde(serialize_with = "pairs")]
    pub phases: BTreeMap<(String, &'static str), Histogram>,
    /// Ended partitions by (circuit, outcome).
    #[serde(serialize_with = "pairs")]
    pub outcomes: BTreeMap<(String, &'static str), u64>,
}

/// Why a circuit could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyFailure {
    /// The cause.
    pub failure: Failure,
    /// Bytes that it would take, if they were too many.
    pub too_large: Option<u64>,
}

/// What a circuit's key says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CircuitFacts {
    /// The curve.
    pub curve: Curve,
    /// SHA-256 of the zkey as fetched.
    pub key_digest: [u8; 32],
    /// SHA-256 of the verifying key.
    pub verifying_key_digest: [u8; 32],
    /// Constraints, the rows of the public inputs not included.
    pub constraints: u32,
    /// Base-2 logarithm of the evaluation domain.
    pub domain_log: u32,
    /// Public signals, the constant 1 not included.
    pub public: u32,
    /// Bytes of the key in memory.
    pub key_bytes: u64,
    /// Bytes that one partition needs beside the key, on the device that needs most.
    pub partition_bytes: u64,
    /// Whether anyone could forge its proofs.
    pub insecure: bool,
}

/// One device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceSnapshot {
    /// Its identifier.
    pub id: String,
    /// `busy` or `idle`.
    pub state: &'static str,
    /// The busy phase or the idle cause.
    pub cause: &'static str,
    /// Time per (state, cause) from the engine's start up to the watermark; the sum is the watermark less the start.
    #[serde(serialize_with = "pairs")]
    pub ledger: BTreeMap<(&'static str, &'static str), Duration>,
    /// Up to when the ledger is known.
    pub watermark: Duration,
    /// CPU time of the threads that worked for it.
    pub cpu: Duration,
    /// Proofs of this device that did not verify.
    pub verification_failures: u64,
    /// Taken out of service until canary proofs pass.
    pub quarantined: bool,
    /// The canary proofs have passed since start.
    pub ready: bool,
}

/// One partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionSnapshot {
    /// Which.
    pub id: PartitionId,
    /// Its circuit.
    pub circuit: String,
    /// Its priority.
    pub priority: Priority,
    /// Where it is.
    pub state: PartitionState,
    /// Since when it is there.
    pub since: Duration,
}

/// A histogram over [`Histogram::BOUNDS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// Observations at most each bound; the last slot counts the rest. Not cumulative.
    pub buckets: [u64; 17],
    /// Sum of all observations.
    pub sum: Duration,
}

impl Histogram {
    /// Upper bounds in seconds, 1 ms to 30 min.
    pub const BOUNDS: [f64; 16] =
        [0.001, 0.0025, 0.006, 0.016, 0.04, 0.1, 0.25, 0.6, 1.6, 4.0, 10.0, 25.0, 60.0, 180.0, 600.0, 1800.0];
}

/// A map with pairs as keys, which JSON does not have, as a list of `{"labels": [a, b], "value": v}`.
fn pairs<A: Serialize, B: Serialize, V: Serialize, S: Serializer>(
    map: &BTreeMap<(A, B), V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'a, A, B, V> {
        labels: (&'a A, &'a B),
        value: &'a V,
    }
    serializer.collect_seq(map.iter().map(|((a, b), value)| Entry { labels: (a, b), value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_json() {
        let mut snapshot = Snapshot::default();
        snapshot.queues.insert(("queued", Priority::High), 3);
        snapshot.outcomes.insert(("chain".to_owned(), "succeeded"), 2);
        let value = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(value["queues"], serde_json::json!([{"labels": ["queued", "High"], "value": 3}]));
        assert_eq!(value["outcomes"], serde_json::json!([{"labels": ["chain", "succeeded"], "value": 2}]));
    }
}
