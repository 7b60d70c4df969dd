use proofmill_engine::snapshot::{Histogram, KeyFailure};

use proofmill_groth16::curve::Curve;

use super::*;

const STATES: [PartitionState; 11] = [
    PartitionState::Queued,
    PartitionState::FetchingInput,
    PartitionState::LoadingKey,
    PartitionState::MemoryBudget,
    PartitionState::Synthesis,
    PartitionState::DeviceQueue,
    PartitionState::Proving,
    PartitionState::Finishing,
    PartitionState::Succeeded,
    PartitionState::Failed,
    PartitionState::Cancelled,
];

pub(crate) const FAILURES: [FailureKind; 12] = [
    FailureKind::BadInput,
    FailureKind::BadKey,
    FailureKind::InsecureKey,
    FailureKind::Unavailable,
    FailureKind::UnsatisfiedWitness,
    FailureKind::DeviceFault,
    FailureKind::VerificationFailed,
    FailureKind::MemoryBudget,
    FailureKind::DeadlineExceeded,
    FailureKind::Cancelled,
    FailureKind::Draining,
    FailureKind::Internal,
];

/// The wire's names are the engine's, one to one.
#[test]
fn names_agree_with_the_engine() {
    for s in STATES {
        assert_eq!(proofmill_proto::names::state(state(s).into()), word(s));
    }
    for kind in FAILURES {
        let message = failure(&Failure { kind, message: "m".into() });
        assert_eq!(
            (proofmill_proto::names::failure(message.kind), message.message.as_str()),
            (word(kind).as_str(), "m")
        );
    }
    for p in [Priority::Low, Priority::Normal, Priority::High, Priority::Critical] {
        assert_eq!(proofmill_proto::names::priority(priority(p).into()), word(p));
    }
}

/// The engine's own word for a unit variant: what serde writes.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn readiness_says_why_not() {
    let device =
        |id: &str, ready, quarantined| DeviceSnapshot { id: id.into(), ready, quarantined, ..Default::default() };
    let reasons = |draining, devices: Vec<_>| not_ready(&Snapshot { draining, devices, ..Default::default() });
    assert!(reasons(false, vec![device("a", true, false)]).is_empty());
    assert!(reasons(false, vec![device("a", true, false), device("b", true, true)]).is_empty());
    assert_eq!(reasons(false, vec![device("a", true, true)]).len(), 1);
    let both =
        reasons(true, vec![device("gpu-a", false, false), device("b", true, false), device("gpu-c", false, true)]);
    assert_eq!(both.len(), 3);
    assert!(both[0].contains("draining") && both[1].contains("gpu-a") && both[2].contains("gpu-c"), "{both:?}");
    assert_eq!(reasons(false, vec![]), ["there is no device"]);
}

#[test]
fn status_carries_every_part() {
    let mut snapshot = Snapshot { boot_id: "b".into(), at: Duration::from_micros(9), ..Default::default() };
    snapshot.devices.push(DeviceSnapshot {
        id: "cpu".into(),
        state: "busy",
        cause: "ntt",
        ledger: [(("busy", "ntt"), Duration::from_micros(5)), (("idle", "no_work"), Duration::from_micros(3))].into(),
        watermark: Duration::from_micros(8),
        cpu: Duration::from_micros(7),
        verification_failures: 2,
        quarantined: false,
        ready: true,
    });
    let id = PartitionId { job: "j".into(), partition: 1, attempt: 2 };
    snapshot.partitions.push(PartitionSnapshot {
        id,
        circuit: "c".into(),
        priority: Priority::High,
        state: PartitionState::Proving,
        since: Duration::from_micros(4),
    });
    snapshot.queues.insert(("synthesis", Priority::Low), 6);
    snapshot.memory.insert("keys", 10);
    snapshot.keys.insert("c".into(), 11);
    let mut histogram = Histogram { sum: Duration::from_micros(12), ..Default::default() };
    histogram.buckets[16] = 1;
    snapshot.phases.insert(("c".into(), "ntt"), histogram);
    snapshot.outcomes.insert(("c".into(), "succeeded"), 13);

    let facts = CircuitFacts {
        curve: Curve::Bn254,
        key_digest: [0xab; 32],
        verifying_key_digest: [0xcd; 32],
        constraints: 15,
        domain_log: 16,
        public: 17,
        key_bytes: 18,
        partition_bytes: 19,
        insecure: true,
    };
    snapshot.circuits.insert("c".into(), facts);
    let failure = Failure { kind: FailureKind::BadKey, message: "why".into() };
    snapshot.key_failures.insert("d".into(), KeyFailure { failure, too_large: Some(7) });
    let json = serde_json::to_value(status(&snapshot, "1.2.3", Some(14), true)).unwrap();
    let mut buckets = vec![0; 17];
    buckets[16] = 1;
    assert_eq!(
        json,
        serde_json::json!({
            "bootId": "b", "version": "1.2.3", "atUs": 9, "draining": false, "notReady": [],
            "devices": [{
                "id": "cpu", "state": "busy", "cause": "ntt", "watermarkUs": 8, "cpuUs": 7, "verificationFailures": 2,
                "quarantined": false, "ready": true,
                "ledger": [{"state": "busy", "cause": "ntt", "durationUs": 5},
                           {"state": "idle", "cause": "no_work", "durationUs": 3}],
            }],
            "partitions": [{"id": {"job": "j", "partition": 1, "attempt": 2}, "circuit": "c", "priority": "High",
                            "state": "Proving", "sinceUs": 4}],
            "queues": [{"stage": "synthesis", "priority": "Low", "depth": 6}],
            "memory": [{"use": "keys", "bytes": 10}, {"use": "resident", "bytes": 14}],
            "circuits": [{"name": "c", "residentBytes": 11, "facts": {
                "curve": "bn128", "keyDigest": "ab".repeat(32), "verifyingKeyDigest": "cd".repeat(32), "constraints": 15,
                "domainLog": 16, "publicSignals": 17, "keyBytes": 18, "partitionBytes": 19, "insecureKey": true,
            }}],
            "phases": [{"circuit": "c", "phase": "ntt", "buckets": buckets, "sumUs": 12}],
            "keyFailures": [{"circuit": "d", "failure": {"kind": "BadKey", "message": "why"}, "tooLargeBytes": 7}],
            "outcomes": [{"circuit": "c", "outcome": "succeeded", "count": 13}],
        })
    );
    assert!(status(&snapshot, "", None, false).partitions.is_empty());
}

#[test]
fn timings_keep_their_places() {
    let us = Duration::from_micros;
    let t = Timings {
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
    };
    let m = timings(&t);
    let first =
        [m.fetch_us, m.queue_us, m.key_load_us, m.budget_wait_us, m.synthesis_us, m.device_queue_us, m.lease_wait_us];
    let then =
        [m.host_prep_us, m.transfer_us, m.ntt_us, m.msm_g1_us, m.msm_g2_us, m.finish_us, m.verify_us, m.total_us];
    assert!(first.iter().chain(&then).copied().eq(1..=15));
}
