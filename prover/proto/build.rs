//! Compiles `proto/` without `protoc`.

use std::error::Error;

/// Messages that `GET /status` also writes as JSON.
const JSON_MESSAGES: [&str; 13] = [
    "EngineStatus",
    "DeviceStatus",
    "LedgerEntry",
    "PartitionStatus",
    "PartitionId",
    "QueueStatus",
    "MemoryStatus",
    "CircuitStatus",
    "PhaseStatus",
    "OutcomeStatus",
    "KeyFailureStatus",
    "Failure",
    "CircuitFacts",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["proofmill/v1/prover.proto"], ["proto"])?;
    let mut builder = tonic_prost_build::configure()
        // Its bytes are private, so its `Debug` is written by hand.
        .skip_debug(["proofmill.v1.Input", "proofmill.v1.Input.source"])
        .field_attribute("Failure.kind", "#[serde(serialize_with = \"crate::json::failure_kind\")]")
        .field_attribute("CircuitFacts.key_digest", "#[serde(serialize_with = \"crate::json::hex\")]")
        .field_attribute("CircuitFacts.verifying_key_digest", "#[serde(serialize_with = \"crate::json::hex\")]")
        .field_attribute("QueueStatus.priority", "#[serde(serialize_with = \"crate::json::priority\")]")
        .field_attribute("PartitionStatus.priority", "#[serde(serialize_with = \"crate::json::priority\")]")
        .field_attribute("PartitionStatus.state", "#[serde(serialize_with = \"crate::json::state\")]");
    for message in JSON_MESSAGES {
        let path = format!("proofmill.v1.{message}");
        builder = builder
            .message_attribute(&path, "#[derive(serde::Serialize)]")
            .message_attribute(&path, "#[serde(rename_all = \"camelCase\")]");
    }
    builder.compile_fds(files)?;
    Ok(())
}
