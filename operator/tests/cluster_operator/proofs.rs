//! Real proofs, from manifest to a ConfigMap that verifies.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, PostParams};
use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use proofmill_crds::{Circuit, ProofJob};
use proofmill_groth16::format::public;
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify::Verifier;
use proofmill_groth16::verifying_key::VerifyingKey;
use serde_json::{Value, json};

use crate::files::chain;
use crate::world::World;

/// Checks the files of a job's ConfigMap with the fixtures' verifying key.
async fn verifies(world: &World, config_map: &str, curve: &str) {
    let map: ConfigMap = world.get(config_map).await;
    let data = map.data.unwrap();
    let key = VerifyingKey::from_json(&std::fs::read(chain(curve, "vk.json")).unwrap()).unwrap();
    let proof = Proof::from_json(data["proof.json"].as_bytes()).unwrap();
    let signals = public::parse(data["public.json"].as_bytes(), key.curve(), key.public()).unwrap();
    assert!(Verifier::new(&key).verify(&proof, &signals).unwrap(), "{curve}");
    let expected: Value = serde_json::from_slice(&std::fs::read(chain(curve, "public.json")).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&data["public.json"]).unwrap(), expected);
    assert!(!map.binary_data.unwrap()["proof.bin"].0.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_on_both_curves_from_witness_and_from_json() {
    let Some(world) = World::new("proofs_on_both_curves_from_witness_and_from_json").await else { return };
    for curve in ["bn128", "bls12381"] {
        let generator = world.files.url(&format!("chain/{curve}/chain.wasm"));
        world.chain(curve, curve, json!({"witnessGenerator": {"url": generator}})).await;
        let witness = world.files.url(&format!("chain/{curve}/chain.wtns"));
        let output = format!("{curve}-proof");
        let spec = json!({"input": {"url": witness}, "output": {"configMapName": output}});
        world.job(&format!("{curve}-witness"), curve, spec).await;
    }
    // The JSON is read out of a ConfigMap and out of a Secret.
    let input = std::fs::read_to_string(chain("", "input.json")).unwrap();
    let metadata = |labels: &[(&str, &str)]| ObjectMeta {
        name: Some("input".into()),
        labels: Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
        ..ObjectMeta::default()
    };
    let data = |text: &str| Some([("input.json".to_owned(), text.to_owned())].into_iter().collect());
    let map = ConfigMap { metadata: metadata(&[]), data: data(&input), ..ConfigMap::default() };
    world.api().create(&PostParams::default(), &map).await.unwrap();
    let secret = Secret {
        metadata: metadata(&[("proofmill.dev/input", "true")]),
        string_data: data(&input),
        ..Secret::default()
    };
    world.api().create(&PostParams::default(), &secret).await.unwrap();
    let reference = json!({"name": "input", "key": "input.json"});
    world.job("bn128-map", "bn128", json!({"input": {"configMapKeyRef": reference}})).await;
    world.job("bls12381-secret", "bls12381", json!({"input": {"secretKeyRef": reference}})).await;
    world.pool("default", 1, json!({})).await;

    for curve in ["bn128", "bls12381"] {
        let job = world.expect(&format!("{curve}-witness"), ConditionStatus::True, reasons::PROVED).await;
        verifies(&world, &format!("{curve}-proof"), curve).await;
        let status = job.status.unwrap();
        assert_eq!(status.progress.as_deref(), Some("1/1"));
        assert_eq!(status.insecure_key, Some(false));
        assert!(status.conditions.iter().any(|c| c.type_ == types::VERIFIED && c.status == ConditionStatus::True));
        assert!(!status.public_signals.is_empty() && status.timings.unwrap().total > 0);
    }
    world.expect("bn128-map", ConditionStatus::True, reasons::PROVED).await;
    world.expect("bls12381-secret", ConditionStatus::True, reasons::PROVED).await;
    // What the files hold is known now.
    let circuit = world
        .until("a circuit that is read", async || {
            let status = world.get::<Circuit>("bn128").await.status.unwrap_or_default();
            (status.digest.is_some(), status)
        })
        .await;
    assert_eq!(circuit.constraints, Some(3000));
    assert_eq!(circuit.domain, Some(4096));
    assert_eq!(circuit.insecure_key, Some(false));
    assert_eq!(circuit.verifying_key_digest.unwrap().len(), 64);
    assert!(circuit.conditions.iter().any(|c| c.type_ == types::READY && c.status == ConditionStatus::True));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_inputs_and_keys_end_with_their_reasons() {
    let Some(world) = World::new("bad_inputs_and_keys_end_with_their_reasons").await else { return };
    world.pool("default", 1, json!({})).await;
    let witness = |name: &str| json!({"input": {"url": world.files.url(&format!("chain/bn128/{name}"))}});
    world.chain("good", "bn128", json!({})).await;
    let wasm = json!({"witnessGenerator": {"url": world.files.url("chain/bn128/chain.wasm")}});
    world.chain("generator", "bn128", wasm).await;
    let pinned = json!({"zkey": {"url": world.files.url("chain/bn128/chain.zkey"), "sha256": "0".repeat(64)}});
    world.create::<Circuit>("pinned", json!({"groth16": pinned})).await;
    let absent = json!({"zkey": {"url": world.files.url("nothing.zkey")}});
    world.create::<Circuit>("absent", json!({"groth16": absent})).await;
    let foreign = json!({"zkey": {"url": "http://198.51.100.1/chain.zkey"}});
    world.create::<Circuit>("foreign", json!({"groth16": foreign})).await;

    let mut spoilt = std::fs::read(chain("bn128", "chain.wtns")).unwrap();
    let last = spoilt.len() - 32;
    spoilt[last] ^= 1;
    let inline = |bytes: &[u8]| {
        use base64::Engine as _;
        json!({"input": {"inline": base64::engine::general_purpose::STANDARD.encode(bytes)}})
    };
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("spoilt".into()), ..ObjectMeta::default() },
        binary_data: Some([("w".to_owned(), k8s_openapi::ByteString(spoilt))].into_iter().collect()),
        ..ConfigMap::default()
    };
    world.api().create(&PostParams::default(), &map).await.unwrap();
    let secret = Secret {
        metadata: ObjectMeta { name: Some("unlabelled".into()), ..ObjectMeta::default() },
        string_data: Some([("w".to_owned(), "{}".to_owned())].into_iter().collect()),
        ..Secret::default()
    };
    world.api().create(&PostParams::default(), &secret).await.unwrap();
    let taken =
        ConfigMap { metadata: ObjectMeta { name: Some("taken".into()), ..Default::default() }, ..Default::default() };
    world.api().create(&PostParams::default(), &taken).await.unwrap();
    let mut conflict = witness("chain.wtns");
    conflict["output"] = json!({"configMapName": "taken"});

    let url = |path: &str| json!({"input": {"url": world.files.url(path)}, "backoffLimit": 0});
    let cases = [
        (
            "unsatisfied",
            "good",
            json!({"input": {"configMapKeyRef": {"name": "spoilt", "key": "w"}}}),
            reasons::UNSATISFIED_WITNESS,
            "",
        ),
        ("rubbish", "good", inline(b"rubbish"), reasons::BAD_INPUT, ""),
        ("signal", "generator", inline(b"{\"wrong\": 1}"), reasons::BAD_INPUT, "wrong"),
        (
            "unlabelled",
            "good",
            json!({"input": {"secretKeyRef": {"name": "unlabelled", "key": "w"}}}),
            reasons::BAD_INPUT,
            "proofmill.dev/input",
        ),
        ("gone", "good", url("nothing.wtns"), reasons::UNAVAILABLE, "404"),
        ("metadata", "good", url("metadata"), reasons::BAD_INPUT, "169.254.169.254"),
        ("huge", "good", url("huge"), reasons::BAD_INPUT, "bytes"),
        ("digest", "pinned", witness("chain.wtns"), reasons::BAD_KEY, "SHA-256"),
        ("no-key", "absent", json!({"backoffLimit": 0}), reasons::UNAVAILABLE, "404"),
        ("not-allowed", "foreign", json!({}), reasons::BAD_KEY, "allowed"),
        ("taken", "good", conflict, reasons::OUTPUT_CONFLICT, "taken"),
    ];
    for (name, circuit, spec, ..) in &cases {
        world.job(name, circuit, spec.clone()).await;
    }
    for (name, _, _, reason, word) in &cases {
        let job: ProofJob = world.expect(name, ConditionStatus::False, reason).await;
        let status = job.status.unwrap();
        let message = &status.conditions.iter().find(|c| c.type_ == types::SUCCEEDED).unwrap().message;
        assert!(message.contains(word), "{name}: {message}");
        assert!(status.partitions.iter().all(|partition| partition.attempts <= 1), "{name} is not tried again");
    }
    // The one that is stalled is cancelled by its deadline.
    let mut stalled = url("stall");
    stalled["activeDeadlineSeconds"] = json!(3);
    world.job("stalled", "good", stalled).await;
    world.shows("stalled", reasons::FETCHING_INPUT).await;
    world.expect("stalled", ConditionStatus::False, reasons::DEADLINE_EXCEEDED).await;
}
