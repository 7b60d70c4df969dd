//! The words that users see: CamelCase, as in Kubernetes conditions. What this build does not know is `Unknown`.

use crate::v1::{FailureKind, PartitionState, Priority};

/// The name of a `Priority`; unspecified is Normal.
pub fn priority(value: i32) -> &'static str {
    match Priority::try_from(value) {
        Ok(Priority::Low) => "Low",
        Ok(Priority::Unspecified | Priority::Normal) => "Normal",
        Ok(Priority::High) => "High",
        Ok(Priority::Critical) => "Critical",
        Err(_) => "Unknown",
    }
}

/// The name of a `PartitionState`.
pub fn state(value: i32) -> &'static str {
    match PartitionState::try_from(value) {
        Ok(PartitionState::Queued) => "Queued",
        Ok(PartitionState::FetchingInput) => "FetchingInput",
        Ok(PartitionState::LoadingKey) => "LoadingKey",
        Ok(PartitionState::MemoryBudget) => "MemoryBudget",
        Ok(PartitionState::Synthesis) => "Synthesis",
        Ok(PartitionState::DeviceQueue) => "DeviceQueue",
        Ok(PartitionState::Proving) => "Proving",
        Ok(PartitionState::Finishing) => "Finishing",
        Ok(PartitionState::Succeeded) => "Succeeded",
        Ok(PartitionState::Failed) => "Failed",
        Ok(PartitionState::Cancelled) => "Cancelled",
        Ok(PartitionState::Unspecified) | Err(_) => "Unknown",
    }
}

/// The name of a `FailureKind`.
pub fn failure(value: i32) -> &'static str {
    match FailureKind::try_from(value) {
        Ok(FailureKind::BadInput) => "BadInput",
        Ok(FailureKind::BadKey) => "BadKey",
        Ok(FailureKind::InsecureKey) => "InsecureKey",
        Ok(FailureKind::Unavailable) => "Unavailable",
        Ok(FailureKind::UnsatisfiedWitness) => "UnsatisfiedWitness",
        Ok(FailureKind::DeviceFault) => "DeviceFault",
        Ok(FailureKind::VerificationFailed) => "VerificationFailed",
        Ok(FailureKind::MemoryBudget) => "MemoryBudget",
        Ok(FailureKind::DeadlineExceeded) => "DeadlineExceeded",
        Ok(FailureKind::Cancelled) => "Cancelled",
        Ok(FailureKind::Draining) => "Draining",
        Ok(FailureKind::Internal) => "Internal",
        Ok(FailureKind::Unspecified) | Err(_) => "Unknown",
    }
}
