//! Between the engine's types and messages, as a client needs them: submissions go out, results come in. The engine's side
//! has the inverse of each, in `validate` and `report`.

use std::time::Duration;

use proofmill_engine::job::{CircuitKind, Failure, FailureKind, Input, PartitionProof, Source, Submission, Timings};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::proof::Proof;
use proofmill_proto::v1;

use super::error::ClientError;
use crate::report::{self, micros};

/// A submission as a message.
pub fn request(submission: &Submission) -> v1::SubmitRequest {
    v1::SubmitRequest {
        epoch: submission.epoch,
        id: Some(report::partition_id(&submission.id)),
        digest: submission.digest.to_vec(),
        priority: report::priority(submission.priority).into(),
        sequence: submission.sequence,
        deadline_ms: submission.deadline.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        circuit: Some(circuit(submission)),
        input: Some(input(&submission.input)),
    }
}

/// SHA-256 over circuit and input, as the protocol has it.
pub fn digest(submission: &Submission) -> [u8; 32] {
    proofmill_proto::digest(&circuit(submission), &input(&submission.input))
}

/// A proof from a message; checks it like any foreign proof.
pub fn proof(message: &v1::PartitionProof) -> Result<PartitionProof, ClientError> {
    let nonsense = |what: &str| ClientError::Nonsense(what.to_owned());
    let curve = match message.curve.as_str() {
        "bn128" => Some(Curve::Bn254),
        "bls12381" => Some(Curve::Bls12381),
        "" => None,
        _ => return Err(nonsense("an unknown curve")),
    };
    let proof = match curve {
        Some(curve) => Proof::from_bytes(curve, &message.proof).map_err(|e| nonsense(&e.to_string()))?,
        None => {
            let tag = message.proof.as_slice().try_into().map_err(|_| nonsense("a simulated proof of another size"))?;
            Proof::Simulated(u64::from_le_bytes(tag))
        }
    };
    let (signals, []) = message.public_signals.as_chunks::<32>() else {
        return Err(nonsense("public signals of a broken size"));
    };
    let digest = |bytes: &[u8], what| <[u8; 32]>::try_from(bytes).map_err(|_| nonsense(what));
    Ok(PartitionProof {
        proof,
        public_signals: signals.iter().map(limbs).collect(),
        curve,
        input_digest: digest(&message.input_digest, "an input digest of a wrong size")?,
        key_digest: digest(&message.key_digest, "a key digest of a wrong size")?,
        verifying_key_digest: digest(&message.verifying_key_digest, "a verifying key's digest of a wrong size")?,
        insecure_key: message.insecure_key,
        device: message.device.clone(),
        timings: message.timings.as_ref().map(timings).unwrap_or_default(),
    })
}

/// A failure from a message.
pub fn failure(message: &v1::Failure) -> Failure {
    use v1::FailureKind as V1;
    let kind = match V1::try_from(message.kind).unwrap_or(V1::Unspecified) {
        V1::BadInput => FailureKind::BadInput,
        V1::BadKey => FailureKind::BadKey,
        V1::InsecureKey => FailureKind::InsecureKey,
        V1::Unavailable => FailureKind::Unavailable,
        V1::UnsatisfiedWitness => FailureKind::UnsatisfiedWitness,
        V1::DeviceFault => FailureKind::DeviceFault,
        V1::VerificationFailed => FailureKind::VerificationFailed,
        V1::MemoryBudget => FailureKind::MemoryBudget,
        V1::DeadlineExceeded => FailureKind::DeadlineExceeded,
        V1::Cancelled => FailureKind::Cancelled,
        V1::Draining => FailureKind::Draining,
        V1::Internal | V1::Unspecified => FailureKind::Internal,
    };
    Failure { kind, message: message.message.clone() }
}

fn circuit(submission: &Submission) -> v1::Circuit {
    let optional = |part: &Option<Source>| part.as_ref().map(source);
    let kind = match &submission.circuit.kind {
        CircuitKind::Groth16 { zkey, witness_generator, r1cs, symbols, verifying_key } => {
            v1::circuit::Kind::Groth16(v1::Groth16Circuit {
                zkey: Some(source(zkey)),
                witness_generator: optional(witness_generator),
                r1cs: optional(r1cs),
                symbols: optional(symbols),
                verifying_key: optional(verifying_key),
            })
        }
        CircuitKind::Simulated(circuit) => v1::circuit::Kind::Simulated(v1::SimulatedCircuit {
            partitions: circuit.partitions,
            key_bytes: circuit.key_bytes,
            working_set: circuit.working_set,
            key_load_us: micros(circuit.key_load),
            synthesis_us: micros(circuit.synthesis),
            ntt_us: micros(circuit.ntt),
            msm_g1_us: micros(circuit.msm_g1),
            msm_g2_us: micros(circuit.msm_g2),
            transfer_us: micros(circuit.transfer),
            finish_us: micros(circuit.finish),
        }),
    };
    v1::Circuit { name: submission.circuit.name.clone(), kind: Some(kind) }
}

fn input(input: &Input) -> v1::Input {
    let source = match input {
        Input::Inline(bytes) => v1::input::Source::Inline(bytes.to_vec()),
        Input::Fetch(from) => v1::input::Source::Fetch(source(from)),
    };
    v1::Input { source: Some(source) }
}

fn source(source: &Source) -> v1::Source {
    v1::Source { url: source.url.clone(), sha256: source.sha256.map(|digest| digest.to_vec()).unwrap_or_default() }
}

fn timings(message: &v1::Timings) -> Timings {
    Timings {
        fetch: Duration::from_micros(message.fetch_us),
        queue: Duration::from_micros(message.queue_us),
        key_load: Duration::from_micros(message.key_load_us),
        budget_wait: Duration::from_micros(message.budget_wait_us),
        synthesis: Duration::from_micros(message.synthesis_us),
        device_queue: Duration::from_micros(message.device_queue_us),
        lease_wait: Duration::from_micros(message.lease_wait_us),
        host_prep: Duration::from_micros(message.host_prep_us),
        transfer: Duration::from_micros(message.transfer_us),
        ntt: Duration::from_micros(message.ntt_us),
        msm_g1: Duration::from_micros(message.msm_g1_us),
        msm_g2: Duration::from_micros(message.msm_g2_us),
        finish: Duration::from_micros(message.finish_us),
        verify: Duration::from_micros(message.verify_us),
        total: Duration::from_micros(message.total_us),
    }
}

fn limbs(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)))
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
