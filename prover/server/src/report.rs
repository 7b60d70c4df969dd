//! From the engine's types to messages: events, proofs, the whole status. `/status` is the same status as JSON.

use std::time::Duration;

use proofmill_engine::engine::PartitionEvent;
use proofmill_engine::job::{Failure, FailureKind, PartitionId, PartitionProof, PartitionState, Priority, Timings};
use proofmill_engine::snapshot::{CircuitFacts, DeviceSnapshot, PartitionSnapshot, Snapshot};
use proofmill_groth16::proof::Proof;
use proofmill_proto::v1;

/// The status of a snapshot. `resident` is what the process really has in memory, if that is known.
pub fn status(snapshot: &Snapshot, version: &str, resident: Option<u64>, with_partitions: bool) -> v1::EngineStatus {
    let partitions = if with_partitions { snapshot.partitions.as_slice() } else { &[] };
    let memory = snapshot.memory.iter().map(|(r#use, bytes)| (*r#use, *bytes)).chain(resident.map(|b| ("resident", b)));
    v1::EngineStatus {
        boot_id: snapshot.boot_id.clone(),
        version: version.to_owned(),
        at_us: micros(snapshot.at),
        draining: snapshot.draining,
        not_ready: not_ready(snapshot),
        devices: snapshot.devices.iter().map(device).collect(),
        partitions: partitions.iter().map(partition).collect(),
        queues: snapshot
            .queues
            .iter()
            .map(|((stage, p), depth)| v1::QueueStatus {
                stage: (*stage).to_owned(),
                priority: priority(*p).into(),
                depth: *depth,
            })
            .collect(),
        memory: memory.map(|(r#use, bytes)| v1::MemoryStatus { r#use: r#use.to_owned(), bytes }).collect(),
        circuits: snapshot
            .keys
            .iter()
            .map(|(name, bytes)| v1::CircuitStatus {
                name: name.clone(),
                resident_bytes: *bytes,
                facts: snapshot.circuits.get(name).map(circuit_facts),
            })
            .collect(),
        phases: snapshot
            .phases
            .iter()
            .map(|((circuit, phase), histogram)| v1::PhaseStatus {
                circuit: circuit.clone(),
                phase: (*phase).to_owned(),
                buckets: histogram.buckets.to_vec(),
                sum_us: micros(histogram.sum),
            })
            .collect(),
        outcomes: snapshot
            .outcomes
            .iter()
            .map(|((circuit, outcome), count)| v1::OutcomeStatus {
                circuit: circuit.clone(),
                outcome: (*outcome).to_owned(),
                count: *count,
            })
            .collect(),
        key_failures: snapshot
            .key_failures
            .iter()
            .map(|(circuit, why)| v1::KeyFailureStatus {
                circuit: circuit.clone(),
                failure: Some(failure(&why.failure)),
                too_large_bytes: why.too_large.unwrap_or_default(),
            })
            .collect(),
    }
}

/// A status without what changes while an engine does nothing.
pub fn without_clocks(mut status: v1::EngineStatus) -> v1::EngineStatus {
    status.at_us = 0;
    status.memory.retain(|memory| memory.r#use != "resident");
    for device in &mut status.devices {
        device.watermark_us = 0;
        device.cpu_us = 0;
        device.ledger.retain(|entry| entry.state == "busy");
    }
    status
}

/// Why no new work should be sent here; empty if it should. A device that was quarantined later does not make the engine
/// unready as long as another one serves.
pub fn not_ready(snapshot: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    if snapshot.draining {
        reasons.push("draining: intake is closed".to_owned());
    }
    if snapshot.devices.is_empty() {
        reasons.push("there is no device".to_owned());
    }
    for device in snapshot.devices.iter().filter(|device| !device.ready) {
        reasons.push(format!("device {}: its canary proofs have not passed yet", device.id));
    }
    if !snapshot.devices.is_empty() && snapshot.devices.iter().all(|device| device.quarantined) {
        reasons.push("every device is quarantined after proofs that did not verify".to_owned());
    }
    reasons
}

/// An event; `skipped` others of its partition were left out before it.
pub(crate) fn event(event: &PartitionEvent, skipped: u64) -> v1::PartitionEvent {
    v1::PartitionEvent {
        id: Some(partition_id(&event.id)),
        state: state(event.state).into(),
        at_us: micros(event.at),
        progress: event.progress.map(|(done_bytes, total_bytes)| v1::Progress { done_bytes, total_bytes }),
        outcome: event.outcome.as_ref().map(|outcome| match outcome {
            Ok(proof) => v1::partition_event::Outcome::Proof(self::proof(proof)),
            Err(failure) => v1::partition_event::Outcome::Failure(self::failure(failure)),
        }),
        skipped,
    }
}

/// A partition as lists show it.
pub(crate) fn partition(partition: &PartitionSnapshot) -> v1::PartitionStatus {
    v1::PartitionStatus {
        id: Some(partition_id(&partition.id)),
        circuit: partition.circuit.clone(),
        priority: priority(partition.priority).into(),
        state: state(partition.state).into(),
        since_us: micros(partition.since),
    }
}

fn device(device: &DeviceSnapshot) -> v1::DeviceStatus {
    v1::DeviceStatus {
        id: device.id.clone(),
        state: device.state.to_owned(),
        cause: device.cause.to_owned(),
        ledger: device
            .ledger
            .iter()
            .map(|((state, cause), duration)| v1::LedgerEntry {
                state: (*state).to_owned(),
                cause: (*cause).to_owned(),
                duration_us: micros(*duration),
            })
            .collect(),
        watermark_us: micros(device.watermark),
        cpu_us: micros(device.cpu),
        verification_failures: device.verification_failures,
        quarantined: device.quarantined,
        ready: device.ready,
    }
}

fn circuit_facts(facts: &CircuitFacts) -> v1::CircuitFacts {
    v1::CircuitFacts {
        curve: facts.curve.snarkjs_name().to_owned(),
        key_digest: facts.key_digest.to_vec(),
        verifying_key_digest: facts.verifying_key_digest.to_vec(),
        constraints: facts.constraints,
        domain_log: facts.domain_log,
        public_signals: facts.public,
        key_bytes: facts.key_bytes,
        partition_bytes: facts.partition_bytes,
        insecure_key: facts.insecure,
    }
}

fn proof(proof: &PartitionProof) -> v1::PartitionProof {
    v1::PartitionProof {
        proof: match &proof.proof {
            Proof::Groth16 { bytes, .. } => bytes.clone(),
            Proof::Simulated(tag) => tag.to_le_bytes().to_vec(),
        },
        public_signals: proof.public_signals.iter().flatten().flat_map(|limb| limb.to_le_bytes()).collect(),
        curve: proof.curve.map_or_else(String::new, |curve| curve.snarkjs_name().to_owned()),
        input_digest: proof.input_digest.to_vec(),
        key_digest: proof.key_digest.to_vec(),
        verifying_key_digest: proof.verifying_key_digest.to_vec(),
        insecure_key: proof.insecure_key,
        device: proof.device.clone(),
        timings: Some(timings(&proof.timings)),
    }
}

fn timings(t: &Timings) -> v1::Timings {
    v1::Timings {
        fetch_us: micros(t.fetch),
        queue_us: micros(t.queue),
        key_load_us: micros(t.key_load),
        budget_wait_us: micros(t.budget_wait),
        synthesis_us: micros(t.synthesis),
        device_queue_us: micros(t.device_queue),
        lease_wait_us: micros(t.lease_wait),
        host_prep_us: micros(t.host_prep),
        transfer_us: micros(t.transfer),
        ntt_us: micros(t.ntt),
        msm_g1_us: micros(t.msm_g1),
        msm_g2_us: micros(t.msm_g2),
        finish_us: micros(t.finish),
        verify_us: micros(t.verify),
        total_us: micros(t.total),
    }
}

fn failure(failure: &Failure) -> v1::Failure {
    let kind = match failure.kind {
        FailureKind::BadInput => v1::FailureKind::BadInput,
        FailureKind::BadKey => v1::FailureKind::BadKey,
        FailureKind::InsecureKey => v1::FailureKind::InsecureKey,
        FailureKind::Unavailable => v1::FailureKind::Unavailable,
        FailureKind::UnsatisfiedWitness => v1::FailureKind::UnsatisfiedWitness,
        FailureKind::DeviceFault => v1::FailureKind::DeviceFault,
        FailureKind::VerificationFailed => v1::FailureKind::VerificationFailed,
        FailureKind::MemoryBudget => v1::FailureKind::MemoryBudget,
        FailureKind::DeadlineExceeded => v1::FailureKind::DeadlineExceeded,
        FailureKind::Cancelled => v1::FailureKind::Cancelled,
        FailureKind::Draining => v1::FailureKind::Draining,
        FailureKind::Internal => v1::FailureKind::Internal,
    };
    v1::Failure { kind: kind.into(), message: failure.message.clone() }
}

/// An identity.
pub fn partition_id(id: &PartitionId) -> v1::PartitionId {
    v1::PartitionId { job: id.job.clone(), partition: id.partition, attempt: id.attempt }
}

pub(crate) fn priority(priority: Priority) -> v1::Priority {
    match priority {
        Priority::Critical => v1::Priority::Critical,
        Priority::High => v1::Priority::High,
        Priority::Normal => v1::Priority::Normal,
        Priority::Low => v1::Priority::Low,
    }
}

fn state(state: PartitionState) -> v1::PartitionState {
    match state {
        PartitionState::Queued => v1::PartitionState::Queued,
        PartitionState::FetchingInput => v1::PartitionState::FetchingInput,
        PartitionState::LoadingKey => v1::PartitionState::LoadingKey,
        PartitionState::MemoryBudget => v1::PartitionState::MemoryBudget,
        PartitionState::Synthesis => v1::PartitionState::Synthesis,
        PartitionState::DeviceQueue => v1::PartitionState::DeviceQueue,
        PartitionState::Proving => v1::PartitionState::Proving,
        PartitionState::Finishing => v1::PartitionState::Finishing,
        PartitionState::Succeeded => v1::PartitionState::Succeeded,
        PartitionState::Failed => v1::PartitionState::Failed,
        PartitionState::Cancelled => v1::PartitionState::Cancelled,
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(crate) mod tests;
