//! `Circuit`: what is proved, with its proving key. Its spec never changes: a new key is a new Circuit.

// The columns of a table rightly repeat their types.
#![allow(clippy::duplicated_attributes)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conditions::Condition,
    rules,
    source::{Input, Source},
};

/// What is proved: exactly one of `groth16`, `filecoin`, `simulated`. Immutable.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "proofmill.dev",
    version = "v1alpha1",
    kind = "Circuit",
    namespaced,
    status = "CircuitStatus",
    derive = "PartialEq",
    shortname = "circ",
    category = "proofmill",
    doc = "What is proved, with its proving key.",
    printcolumn(name = "Curve", type_ = "string", json_path = ".status.curve"),
    printcolumn(name = "Constraints", type_ = "integer", json_path = ".status.constraints"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Resident", type_ = "integer", json_path = ".status.residentPods", priority = 1),
    printcolumn(name = "Insecure", type_ = "boolean", json_path = ".status.insecureKey", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::CIRCUIT_ONE_OF).message(rules::CIRCUIT_ONE_OF_MESSAGE))]
#[x_kube(validation = Rule::new(rules::CIRCUIT_IMMUTABLE).message(rules::CIRCUIT_IMMUTABLE_MESSAGE))]
pub struct CircuitSpec {
    /// A circom/snarkjs Groth16 circuit on BN254 or BLS12-381.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groth16: Option<Groth16>,
    /// A circuit of the Filecoin network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filecoin: Option<Filecoin>,
    /// Scripted durations instead of proofs; refused unless the engine runs `--device simulated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// Prove also with a key whose proofs anyone can forge (no phase-2 contribution, or a development setup).
    #[serde(default)]
    pub allow_insecure_keys: bool,
    /// An input that is proved at warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_test: Option<SelfTest>,
}

/// The files of a circom circuit.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Groth16 {
    /// The proving key of snarkjs, or one that `prover import` made. The curve is found from the file.
    pub zkey: Source,
    /// circom's `.wasm`, so that an input may be snarkjs's `input.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness_generator: Option<Source>,
    /// The constraints, so that an unsatisfied witness names the failing one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r1cs: Option<Source>,
    /// circom's `.sym`, so that messages name signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<Source>,
    /// The `verification_key.json` that the zkey must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifying_key: Option<Source>,
}

/// A Filecoin circuit.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filecoin {
    /// Which proof.
    pub proof: FilecoinProof,
    /// Size of a sector.
    pub sector_size: SectorSize,
    /// The Groth16 parameters.
    pub parameters: Source,
}

/// The proofs of the Filecoin network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum FilecoinProof {
    /// Replication of a sector.
    PoRep,
    /// Update of a sector with data.
    SnapDeals,
    /// Spacetime, for a whole deadline.
    WindowPoSt,
    /// Spacetime, for the winner of a block.
    WinningPoSt,
}

/// The sector sizes of the Filecoin network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum SectorSize {
    /// Tests.
    #[serde(rename = "2KiB")]
    KiB2,
    /// Tests.
    #[serde(rename = "8MiB")]
    MiB8,
    /// Tests.
    #[serde(rename = "512MiB")]
    MiB512,
    /// The usual size.
    #[serde(rename = "32GiB")]
    GiB32,
    /// The large size.
    #[serde(rename = "64GiB")]
    GiB64,
}

/// What a partition of a simulated circuit costs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// Partitions of a job.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 128))]
    pub partitions: i32,
    /// Memory.
    #[serde(default)]
    pub bytes: SimulatedBytes,
    /// Durations of the phases.
    #[serde(default)]
    pub milliseconds: SimulatedMilliseconds,
}

/// Memory that a simulated circuit claims from the budget.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedBytes {
    /// The key.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_099_511_627_776_i64))]
    pub key: i64,
    /// The working set of one partition.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_099_511_627_776_i64))]
    pub working_set: i64,
}

/// Durations of a simulated partition's phases, in milliseconds, each at most an hour.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedMilliseconds {
    /// The key's load.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub key_load: i32,
    /// Synthesis.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub synthesis: i32,
    /// Copies to the device.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub transfer: i32,
    /// NTT steps.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub ntt: i32,
    /// G1 MSM steps.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub msm_g1: i32,
    /// G2 MSM steps.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub msm_g2: i32,
    /// `prove_finish`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000))]
    pub finish: i32,
}

/// A proof at warm-up.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelfTest {
    /// Its input.
    pub input: Input,
}

/// What an engine found in the circuit's files.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// SHA-256 of the key as fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub digest: Option<String>,
    /// The curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Number of constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<i64>,
    /// Size of the evaluation domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<i64>,
    /// Size of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<i64>,
    /// Memory that one partition needs beside the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_bytes: Option<i64>,
    /// Partitions of a job, where the circuit alone decides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// SHA-256 of the verifying key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub verifying_key_digest: Option<String>,
    /// Whether anyone can forge proofs of this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_key: Option<bool>,
    /// Pods that have the key in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_pods: Option<i32>,
}

/// The curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub enum Curve {
    /// BN254, also called bn128 or alt_bn128.
    #[serde(rename = "BN254")]
    Bn254,
    /// BLS12-381.
    #[serde(rename = "BLS12-381")]
    Bls12381,
}

fn one() -> i32 {
    1
}

impl Default for Simulated {
    fn default() -> Self {
        Self { partitions: one(), bytes: SimulatedBytes::default(), milliseconds: SimulatedMilliseconds::default() }
    }
}
