//! The status of a job that users read, from what the operator knows of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use proofmill_crds::proof_job::{Partition as ShownPartition, ProofJobStatus, Timings};
use proofmill_groth16::format::public;
use proofmill_proto::v1;
use sha2::{Digest as _, Sha256};

use proofmill_crds::hex;

use super::record::{Job, Outcome, Partition, Phase};
use crate::clock::Now;
use crate::conditions::Conditions;

/// More public signals than this are shown by their digest.
const PUBLIC_SIGNALS: usize = 1024;

/// Why a job has no proof yet: one word and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// One word.
    pub reason: &'static str,
    /// For humans.
    pub message: String,
}

/// The status of a job.
pub fn status(job: &Job, why: &Why, now: &Now) -> ProofJobStatus {
    let old = &job.object.status;
    let mut new = old.clone();
    let generation = job.object.meta.generation;
    new.observed_generation = Some(generation);
    if let (None, Some((seen, _))) = (&new.start_time, job.started) {
        new.start_time = Some(now.time_at(seen));
    }
    if !job.partitions.is_empty() {
        new.progress = Some(format!("{}/{}", job.proved(), job.partitions.len()));
        new.partitions = (0..).zip(&job.partitions).map(|(index, partition)| shown(index, partition)).collect();
        if let [only] = new.partitions.as_mut_slice() {
            // It is the job's own proof, which is shown once it is checked.
            only.proof = None;
        }
    }
    let mut conditions = Conditions { list: &mut new.conditions, generation, time: now.time() };
    let sent = job.partitions.iter().any(|partition| !matches!(partition.phase, Phase::Waiting(_)));
    if sent {
        conditions.set(types::SCHEDULED, ConditionStatus::True, reasons::SENT, "partitions have been sent to pods");
    }
    match &job.outcome {
        None => conditions.set(types::SUCCEEDED, ConditionStatus::Unknown, why.reason, &why.message),
        Some(Outcome::Failed { reason, message }) => {
            conditions.set(types::SUCCEEDED, ConditionStatus::False, reason, message);
            new.completion_time = Some(now.time());
        }
        Some(Outcome::Proved) => {
            let message = "the proof passed the operator's own check";
            conditions.set(types::VERIFIED, ConditionStatus::True, reasons::PROVED, message);
            let message = "all partitions are proved and verified";
            conditions.set(types::SUCCEEDED, ConditionStatus::True, reasons::PROVED, message);
            new.completion_time = Some(now.time());
            result(job, &mut new);
        }
    }
    new
}

/// The proof and what belongs to it.
fn result(job: &Job, status: &mut ProofJobStatus) {
    let proofs: Vec<&v1::PartitionProof> = proofs(job).collect();
    let bytes: Vec<u8> = proofs.iter().flat_map(|proof| proof.proof.iter().copied()).collect();
    status.proof = Some(BASE64.encode(bytes));
    let signals: Vec<u8> = proofs.iter().flat_map(|proof| proof.public_signals.iter().copied()).collect();
    if signals.len() / 32 > PUBLIC_SIGNALS {
        status.public_signals_digest = Some(hex::encode(&Sha256::digest(&signals)));
    } else {
        status.public_signals = public::to_strings(&limbs(&signals));
    }
    status.input_digest =
        proofs.first().map(|proof| hex::encode(&proof.input_digest)).filter(|digest| !digest.is_empty());
    status.insecure_key = Some(proofs.iter().any(|proof| proof.insecure_key));
    status.timings = Some(timings(&proofs));
}

/// The proofs in hand, in the order of the partitions.
pub fn proofs(job: &Job) -> impl Iterator<Item = &v1::PartitionProof> {
    job.partitions.iter().filter_map(|partition| match &partition.phase {
        Phase::Proved { proof, .. } => Some(&**proof),
        _ => None,
    })
}

/// Public signals as plain limbs.
pub fn limbs(bytes: &[u8]) -> Vec<[u64; 4]> {
    let limb = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (values, _) = bytes.as_chunks::<32>();
    let value = |value: &[u8; 32]| {
        let (parts, _) = value.as_chunks::<8>();
        [limb(&parts[0]), limb(&parts[1]), limb(&parts[2]), limb(&parts[3])]
    };
    values.iter().map(value).collect()
}

fn shown(index: i32, partition: &Partition) -> ShownPartition {
    let (pod, proof) = match &partition.phase {
        Phase::Proved { pod_name, proof, .. } => (Some(pod_name.clone()), Some(BASE64.encode(&proof.proof))),
        Phase::Sent { pod_name, .. } => (Some(pod_name.clone()), None),
        Phase::Waiting(_) | Phase::Failed => (None, None),
    };
    ShownPartition {
        index,
        state: partition.shown(),
        pod,
        attempts: i32::try_from(partition.attempt + 1).unwrap_or(i32::MAX),
        proof,
    }
}

fn timings(proofs: &[&v1::PartitionProof]) -> Timings {
    let sum = |of: fn(&v1::Timings) -> u64| {
        let micros: u64 = proofs.iter().filter_map(|proof| proof.timings.as_ref()).map(of).sum();
        i64::try_from(micros / 1000).unwrap_or(i64::MAX)
    };
    Timings {
        fetch: sum(|t| t.fetch_us),
        queue: sum(|t| t.queue_us),
        key_load: sum(|t| t.key_load_us),
        budget_wait: sum(|t| t.budget_wait_us),
        synthesis: sum(|t| t.synthesis_us),
        device_queue: sum(|t| t.device_queue_us),
        lease_wait: sum(|t| t.lease_wait_us),
        host_prep: sum(|t| t.host_prep_us),
        transfer: sum(|t| t.transfer_us),
        ntt: sum(|t| t.ntt_us),
        msm_g1: sum(|t| t.msm_g1_us),
        msm_g2: sum(|t| t.msm_g2_us),
        finish: sum(|t| t.finish_us),
        verify: sum(|t| t.verify_us),
        total: sum(|t| t.total_us),
    }
}
