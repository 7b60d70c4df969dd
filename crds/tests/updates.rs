//! What may change: immutability against every order of adding and removing, and the monotonic outcome.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proofmill_crds::{Object, validate, validate_update};
use serde_json::{Value, json};

fn job() -> Value {
    json!({
        "apiVersion": "proofmill.dev/v1alpha1", "kind": "ProofJob", "metadata": {"name": "first"},
        "spec": {"circuitRef": {"name": "chain"}, "input": {"url": "file:chain.wtns"}},
    })
}

fn full_job() -> Value {
    let mut job = job();
    job["spec"] = json!({
        "circuitRef": {"name": "chain"},
        "input": {"url": "file:chain.wtns", "sha256": "a".repeat(64)},
        "poolRef": {"name": "big"},
        "priority": "High",
        "activeDeadlineSeconds": 60,
        "backoffLimit": 1,
        "suspend": true,
        "ttlSecondsAfterFinished": 5,
        "output": {"configMapName": "proof"},
    });
    job
}

fn circuit() -> Value {
    let source = |name: &str| json!({"url": format!("file:{name}"), "sha256": "b".repeat(64)});
    json!({
        "apiVersion": "proofmill.dev/v1alpha1", "kind": "Circuit", "metadata": {"name": "chain"},
        "spec": {
            "groth16": {
                "zkey": source("c.zkey"), "witnessGenerator": source("c.wasm"), "r1cs": source("c.r1cs"),
                "symbols": source("c.sym"), "verifyingKey": source("vk.json"),
            },
            "allowInsecureKeys": true,
            "selfTest": {"input": {"url": "file:i.json", "sha256": "c".repeat(64)}},
        },
    })
}

/// Every path to a field below `value`.
fn paths(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    for (key, child) in value.as_object().into_iter().flatten() {
        let path: Vec<String> = path.iter().cloned().chain([key.clone()]).collect();
        paths(child, &path, found);
        found.push(path);
    }
}

fn field<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, key| &mut value[key.as_str()])
}

fn without(value: &Value, path: &[String]) -> Value {
    let mut value = value.clone();
    let (last, parents) = path.split_last().unwrap();
    field(&mut value, parents).as_object_mut().unwrap().remove(last);
    value
}

fn changed(value: &Value, path: &[String]) -> Value {
    let mut value = value.clone();
    let old = field(&mut value, path);
    *old = match &*old {
        Value::String(text) if text.len() == 64 => json!("d".repeat(64)),
        Value::String(text) if text.starts_with("file:") => json!("file:other"),
        Value::String(text) if text == "High" => json!("Low"),
        Value::String(_) => json!("other"),
        Value::Bool(bool) => json!(!*bool),
        Value::Number(number) => json!(number.as_i64().unwrap() + 1),
        Value::Object(_) => return changed_below(&value, path),
        other => panic!("{other}"),
    };
    value
}

fn changed_below(value: &Value, path: &[String]) -> Value {
    let mut copy = value.clone();
    let key = field(&mut copy, path).as_object().unwrap().keys().next().unwrap().clone();
    changed(value, &path.iter().cloned().chain([key]).collect::<Vec<_>>())
}

fn path_of_refusal(new: &Value, old: &Value) -> Option<String> {
    match validate_update(new, old) {
        Ok(_) => None,
        Err(violations) => {
            assert_eq!(violations.len(), 1, "{violations:?}");
            assert!(violations[0].message.contains("immutable"), "{violations:?}");
            Some(violations[0].path.clone())
        }
    }
}

/// Removing a field, adding it, changing it: each step alone is refused, so that no sequence of accepted steps changes
/// a field.
#[test]
fn no_field_of_a_job_can_be_removed_added_or_changed() {
    let full = full_job();
    let mut fields = Vec::new();
    paths(&full["spec"], &["spec".to_owned()], &mut fields);
    let (mut free, mut fixed) = (0, 0);
    for path in fields {
        let removed = without(&full, &path);
        let changed = changed(&full, &path);
        let dotted = path.join(".");
        let may_change = ["spec.priority", "spec.suspend", "spec.ttlSecondsAfterFinished"].contains(&dotted.as_str());
        let expected = (!may_change).then(|| "spec".to_owned());
        assert_eq!(path_of_refusal(&changed, &full), expected, "change of {dotted}");
        if may_change {
            free += 1
        } else {
            fixed += 1
        }
        if validate(&removed).is_err() {
            continue; // required: it can't be removed in the first place
        }
        assert_eq!(path_of_refusal(&removed, &full), expected, "removal of {dotted}");
        assert_eq!(path_of_refusal(&full, &removed), expected, "addition of {dotted}");
        assert_eq!(path_of_refusal(&changed, &removed), expected, "addition of another {dotted}");
        assert_eq!(path_of_refusal(&removed, &removed), None, "no change without {dotted}");
    }
    assert_eq!((free, fixed), (3, 11));
}

#[test]
fn nothing_of_a_circuit_changes() {
    let full = circuit();
    assert_eq!(path_of_refusal(&full, &full), None);
    let mut fields = Vec::new();
    paths(&full["spec"], &["spec".to_owned()], &mut fields);
    assert_eq!(fields.len(), 21);
    for path in fields {
        let dotted = path.join(".");
        let changed = changed(&full, &path);
        assert_eq!(path_of_refusal(&changed, &full).as_deref(), Some("spec"), "change of {dotted}");
        let removed = without(&full, &path);
        if validate(&removed).is_ok() {
            assert_eq!(path_of_refusal(&removed, &full).as_deref(), Some("spec"), "removal of {dotted}");
            assert_eq!(path_of_refusal(&full, &removed).as_deref(), Some("spec"), "addition of {dotted}");
        }
    }
}

/// A default that is written out is no change.
#[test]
fn defaults_are_no_change() {
    let mut spelled = job();
    spelled["spec"]["poolRef"] = json!({"name": "default"});
    spelled["spec"]["backoffLimit"] = json!(3);
    spelled["spec"]["output"] = json!(null);
    assert_eq!(path_of_refusal(&spelled, &job()), None);
    assert_eq!(path_of_refusal(&job(), &spelled), None);
}

fn with_outcome(status: Option<&str>) -> Value {
    let mut job = job();
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "Proving", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-31T12:00:00Z"})
    };
    job["status"] = json!({"conditions": [condition("Scheduled", "True")]});
    if let Some(status) = status {
        job["status"]["conditions"].as_array_mut().unwrap().push(condition("Succeeded", status));
    }
    job
}

#[test]
fn the_outcome_is_monotonic() {
    let states = [None, Some("Unknown"), Some("True"), Some("False")];
    for old in states {
        for new in states {
            let allowed = !matches!(old, Some("True" | "False")) || old == new;
            let result = validate_update(&with_outcome(new), &with_outcome(old));
            assert_eq!(result.is_ok(), allowed, "{old:?} -> {new:?}: {result:?}");
        }
        // Removing the status altogether is no way around the rule.
        let allowed = !matches!(old, Some("True" | "False"));
        assert_eq!(validate_update(&job(), &with_outcome(old)).is_ok(), allowed, "{old:?} -> no status");
        assert!(validate_update(&with_outcome(old), &job()).is_ok(), "no status -> {old:?}");
    }
}

#[test]
fn an_update_checks_the_status_and_a_creation_drops_it() {
    let mut job = with_outcome(Some("Unknown"));
    job["status"]["conditions"][0]["reason"] = json!("two words");
    let violations = validate_update(&job, &job).unwrap_err();
    assert_eq!(violations[0].path, "status.conditions[0].reason");
    let Object::ProofJob(created) = validate(&job).unwrap() else { panic!("not a job") };
    assert_eq!(created.status, None);
    job["status"]["phase"] = json!("Running");
    assert_eq!(validate(&job).unwrap_err()[0].path, "status.phase");
    // A status with many mistakes hides none of those that count.
    job["status"] = json!({"partitions": (0..128).map(|_| json!({"index": "x"})).collect::<Vec<_>>()});
    job["unknown"] = json!(1);
    assert_eq!(validate(&job).unwrap_err().iter().map(|v| v.path.as_str()).collect::<Vec<_>>(), ["unknown"]);
}

#[test]
fn conditions_and_partitions_are_told_by_their_key() {
    let mut job = with_outcome(Some("Unknown"));
    let first = job["status"]["conditions"][0].clone();
    job["status"]["conditions"].as_array_mut().unwrap().push(first);
    assert_eq!(validate_update(&job, &job).unwrap_err()[0].path, "status.conditions[2]");
    let mut job = with_outcome(None);
    job["status"]["partitions"] = json!([{"index": 0, "state": "Running"}, {"index": 0, "state": "Pending"}]);
    assert_eq!(validate_update(&job, &job).unwrap_err()[0].path, "status.partitions[1]");
}

#[test]
fn a_kind_does_not_change() {
    assert_eq!(validate_update(&job(), &circuit()).unwrap_err()[0].path, "kind");
}

#[test]
fn a_status_of_128_partitions_passes_and_129_do_not() {
    let partitions = |n: usize| {
        let mut job = with_outcome(None);
        job["status"]["partitions"] = (0..n).map(|i| json!({"index": i.min(127), "state": "Pending"})).collect();
        validate_update(&job, &job)
    };
    assert!(partitions(128).is_ok());
    assert_eq!(partitions(129).unwrap_err()[0].path, "status.partitions");
}

/// Objects go through Rust and back unchanged.
#[test]
fn round_trips() {
    for mut value in [job(), full_job(), circuit(), with_outcome(Some("True"))] {
        let mut first = match validate_update(&value, &value).unwrap() {
            Object::Circuit(circuit) => serde_json::to_value(&*circuit).unwrap(),
            Object::ProofJob(job) => serde_json::to_value(&*job).unwrap(),
        };
        let second = match validate_update(&first, &first).unwrap() {
            Object::Circuit(circuit) => serde_json::to_value(&*circuit).unwrap(),
            Object::ProofJob(job) => serde_json::to_value(&*job).unwrap(),
        };
        assert_eq!(first, second);
        // All that was written is there.
        let mut fields = Vec::new();
        paths(&value, &[], &mut fields);
        for path in fields {
            let written = field(&mut value, &path).clone();
            if !written.is_object() {
                assert_eq!(*field(&mut first, &path), written, "{}", path.join("."));
            }
        }
    }
}
