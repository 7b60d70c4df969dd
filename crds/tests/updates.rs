//! What may change: immutability against every order of adding and removing, and the monotonic outcome.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proofmill_crds::{Object, validate, validate_update};
use serde_json::{Value, json};

mod cases;

use cases::{
    to_value,
    updates::{circuit, field, full_job, job, paths, steps, with_outcome},
};

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

#[test]
fn no_field_of_a_job_can_be_removed_added_or_changed() {
    assert_eq!(check_steps(&full_job()), (21, 29));
}

#[test]
fn nothing_of_a_circuit_changes() {
    // Allowed are only updates that change nothing.
    assert_eq!(check_steps(&circuit()), (13, 56));
}

/// Returns the numbers of steps that were allowed and refused.
fn check_steps(full: &Value) -> (usize, usize) {
    let (mut allowed, mut refused) = (0, 0);
    for step in steps(full) {
        let expected = step.forbidden.then(|| "spec".to_owned());
        assert_eq!(path_of_refusal(&step.new, &step.old), expected, "{}", step.label);
        *(if step.forbidden { &mut refused } else { &mut allowed }) += 1;
    }
    (allowed, refused)
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
        let mut first = to_value(&validate_update(&value, &value).unwrap());
        let second = to_value(&validate_update(&first, &first).unwrap());
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
