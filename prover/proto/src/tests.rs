use crate::{digest, names, v1};

fn circuit(name: &str) -> v1::Circuit {
    v1::Circuit { name: name.into(), kind: Some(v1::circuit::Kind::Simulated(v1::SimulatedCircuit::default())) }
}

fn inline(bytes: &[u8]) -> v1::Input {
    v1::Input { source: Some(v1::input::Source::Inline(bytes.to_vec())) }
}

#[test]
fn digest_tells_content_apart() {
    let base = digest(&circuit("a"), &inline(b"1"));
    assert_eq!(base, digest(&circuit("a"), &inline(b"1")));
    assert_ne!(base, digest(&circuit("b"), &inline(b"1")));
    assert_ne!(base, digest(&circuit("a"), &inline(b"2")));
    // Inline bytes that look like a source's encoding are still inline.
    let source = v1::Source { url: "file:x".into(), sha256: vec![] };
    let fetch = v1::Input { source: Some(v1::input::Source::Fetch(source.clone())) };
    let fake = inline(&prost::Message::encode_to_vec(&source));
    assert_ne!(digest(&circuit("a"), &fetch), digest(&circuit("a"), &fake));
}

#[test]
fn digest_is_stable_across_versions() {
    let hex: String = digest(&circuit("chain"), &inline(b"{}")).iter().map(|b| format!("{b:02x}")).collect();
    // SHA-256 of 9u64 LE, 0a 05 "chain" 1a 00, 4u64 LE, 0a 02 "{}"; computed with sha256sum.
    assert_eq!(hex, "c228e2bc8d0107294238472ccd875b25feb617e623412453f99254b3be13a0c8");
}

#[test]
fn debug_hides_inputs() {
    let text = format!("{:?}", v1::SubmitRequest { input: Some(inline(b"secret-4711")), ..Default::default() });
    assert!(text.contains("Inline(11 bytes)"), "{text}");
    assert!(!text.contains("secret") && !text.contains("115, 101"), "{text}");
}

#[test]
fn every_known_enum_value_has_a_name_and_others_are_unknown() {
    let distinct = |names: Vec<&str>| {
        let set: std::collections::BTreeSet<_> = names.iter().copied().collect();
        assert_eq!(set.len(), names.len(), "{names:?}");
        assert!(!set.contains("Unknown"));
    };
    distinct((1..=4).map(names::priority).collect());
    distinct((1..=11).map(names::state).collect());
    distinct((1..=12).map(names::failure).collect());
    assert_eq!(names::priority(99), "Unknown");
    assert_eq!((names::state(12), names::state(-1), names::failure(13)), ("Unknown", "Unknown", "Unknown"));
}

#[test]
fn status_json_uses_words_and_camel_case() {
    let status = v1::EngineStatus {
        partitions: vec![v1::PartitionStatus {
            id: Some(v1::PartitionId { job: "j".into(), partition: 1, attempt: 2 }),
            circuit: "c".into(),
            priority: v1::Priority::High.into(),
            state: v1::PartitionState::LoadingKey.into(),
            since_us: 5,
        }],
        ..Default::default()
    };
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(
        json["partitions"][0],
        serde_json::json!({"id": {"job": "j", "partition": 1, "attempt": 2}, "circuit": "c", "priority": "High",
            "state": "LoadingKey", "sinceUs": 5})
    );
    assert_eq!(json["notReady"], serde_json::json!([]));
}
