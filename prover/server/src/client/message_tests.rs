//! What one side writes the other reads, with every value in its place.

use std::sync::Arc;

use proofmill_engine::engine::PartitionEvent;
use proofmill_engine::job::{Circuit, PartitionId, PartitionState, Priority};
use proofmill_groth16::device::simulated::SimulatedCircuit;
use proofmill_proto::v1::partition_event::Outcome;

use super::*;
use crate::validate;

fn source(name: &str, fill: u8) -> Source {
    Source { url: format!("https://keys.example.com/{name}"), sha256: Some([fill; 32]) }
}

fn groth16() -> CircuitKind {
    CircuitKind::Groth16 {
        zkey: source("zkey", 1),
        witness_generator: Some(source("wasm", 2)),
        r1cs: Some(source("r1cs", 3)),
        symbols: Some(Source { sha256: None, ..source("sym", 4) }),
        verifying_key: Some(source("vk", 5)),
    }
}

fn simulated() -> CircuitKind {
    let us = Duration::from_micros;
    CircuitKind::Simulated(SimulatedCircuit {
        partitions: 3,
        key_bytes: 4,
        working_set: 5,
        key_load: us(6),
        synthesis: us(7),
        ntt: us(8),
        msm_g1: us(9),
        msm_g2: us(10),
        transfer: us(11),
        finish: us(12),
    })
}

fn submission(kind: CircuitKind, input: Input, priority: Priority) -> Submission {
    Submission {
        id: PartitionId { job: "job-1".into(), partition: 2, attempt: 3 },
        epoch: 4,
        digest: [5; 32],
        priority,
        sequence: 6,
        deadline: Some(Duration::from_millis(7)),
        circuit: Circuit { name: "circuit".into(), kind },
        input,
    }
}

#[test]
fn submissions_arrive_as_they_were() {
    let inline = Input::Inline(Arc::from(&b"{}"[..]));
    for (kind, input, priority) in [
        (groth16(), inline.clone(), Priority::Low),
        (groth16(), Input::Fetch(source("input", 8)), Priority::Normal),
        (simulated(), inline.clone(), Priority::High),
        (simulated(), inline, Priority::Critical),
    ] {
        let sent = submission(kind, input, priority);
        let read = validate::submission(request(&sent)).unwrap();
        assert_eq!(
            (read.id, read.epoch, read.digest, read.priority, read.sequence, read.deadline, read.circuit),
            (sent.id, sent.epoch, sent.digest, sent.priority, sent.sequence, sent.deadline, sent.circuit)
        );
        match (read.input, sent.input) {
            (Input::Inline(read), Input::Inline(sent)) => assert_eq!(read, sent),
            (Input::Fetch(read), Input::Fetch(sent)) => assert_eq!(read, sent),
            (read, sent) => panic!("{sent:?} became {read:?}"),
        }
    }
}

#[test]
fn the_digest_is_that_of_circuit_and_input_alone() {
    let inline = |bytes: &'static [u8]| Input::Inline(Arc::from(bytes));
    let one = digest(&submission(groth16(), inline(b"1"), Priority::Low));
    let same = Submission { sequence: 99, ..submission(groth16(), inline(b"1"), Priority::High) };
    assert_eq!(digest(&same), one);
    assert_ne!(digest(&submission(groth16(), inline(b"2"), Priority::Low)), one);
    assert_ne!(digest(&submission(simulated(), inline(b"1"), Priority::Low)), one);
}

/// What an engine tells of an end.
fn told(outcome: Result<PartitionProof, Failure>) -> Outcome {
    let event = PartitionEvent {
        id: PartitionId { job: "j".into(), partition: 0, attempt: 0 },
        state: PartitionState::Succeeded,
        at: Duration::ZERO,
        progress: None,
        outcome: Some(outcome.map(Arc::new)),
    };
    report::event(&event, 0).outcome.unwrap()
}

fn proved(proof: Proof, curve: Option<Curve>) -> PartitionProof {
    let us = Duration::from_micros;
    PartitionProof {
        proof,
        public_signals: vec![[1, 2, 3, 4], [u64::MAX, 0, 0, 1]],
        curve,
        input_digest: [6; 32],
        key_digest: [7; 32],
        verifying_key_digest: [8; 32],
        insecure_key: true,
        device: "cpu".into(),
        timings: Timings {
            fetch: us(1),
            queue: us(2),
            key_load: us(3),
            budget_wait: us(4),
            synthesis: us(5),
            device_queue: us(6),
            lease_wait: us(7),
            host_prep: us(8),
            transfer: us(9),
            ntt: us(10),
            msm_g1: us(11),
            msm_g2: us(12),
            finish: us(13),
            verify: us(14),
            total: us(15),
        },
    }
}

#[test]
fn proofs_arrive_as_they_were() {
    let chain = std::path::Path::new("../../tests/fixtures/circom/chain");
    let real = Curve::ALL.map(|curve| {
        let json = std::fs::read(chain.join(curve.snarkjs_name()).join("proof.json")).unwrap();
        proved(Proof::from_json(&json).unwrap(), Some(curve))
    });
    for sent in real.into_iter().chain([proved(Proof::Simulated(0x0102_0304_0506_0708), None)]) {
        let Outcome::Proof(message) = told(Ok(sent.clone())) else { panic!("no proof") };
        assert_eq!(proof(&message).unwrap(), sent);
    }
}

#[test]
fn proofs_that_make_no_sense_are_refused() {
    let Outcome::Proof(good) = told(Ok(proved(Proof::Simulated(1), None))) else { panic!("no proof") };
    let spoilt: [fn(&mut v1::PartitionProof); 7] = [
        |message| message.curve = "secp256k1".into(),
        |message| message.curve = "bn128".into(),
        |message| message.proof.truncate(7),
        |message| message.public_signals.truncate(33),
        |message| message.input_digest.truncate(31),
        |message| message.key_digest.clear(),
        |message| message.verifying_key_digest.push(0),
    ];
    for spoil in spoilt {
        let mut message = good.clone();
        spoil(&mut message);
        assert!(matches!(proof(&message), Err(ClientError::Nonsense(_))), "{message:?}");
    }
}

#[test]
fn failures_arrive_as_they_were() {
    for kind in report::tests::FAILURES {
        let sent = Failure { kind, message: "why".into() };
        let Outcome::Failure(message) = told(Err(sent.clone())) else { panic!("no failure") };
        let read = failure(&message);
        assert_eq!((read.kind, read.message), (sent.kind, sent.message));
    }
    // A kind of a later version.
    assert_eq!(failure(&v1::Failure { kind: 99, message: String::new() }).kind, FailureKind::Internal);
}
