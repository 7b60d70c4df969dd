//! The same updates through our validation and through the server.

use proofmill_crds::validate_update;
use serde_json::{Value, json};

use crate::cases::updates::{Step, circuit, full_job, job, steps, with_outcome};
use crate::server::{Answer, JSON, Server};

/// Creates `old` under `name` and replaces it by `new`, not to be stored.
fn dry_update(server: &Server, name: &str, old: &Value, new: &Value) -> Answer {
    let mut old = old.clone();
    old["metadata"]["name"] = json!(name);
    let created = server.create(&old);
    assert_eq!(created.code, 201, "{name}: {}", created.message());
    let mut new = new.clone();
    new["metadata"] = created.body["metadata"].clone();
    let path = server.path(new["kind"].as_str().unwrap(), name);
    server.send("PUT", &format!("{path}?fieldValidation=Strict&dryRun=All"), JSON, &new.to_string())
}

fn compare(test: &str, full: &Value) {
    let Some(server) = Server::connect(test) else { return };
    for (index, Step { label, old, new, forbidden }) in steps(full).into_iter().enumerate() {
        let ours = validate_update(&new, &old).err().map(|violations| violations[0].path.clone());
        assert_eq!(ours.is_some(), forbidden, "{label}");
        let answer = dry_update(&server, &format!("step-{index}"), &old, &new);
        let theirs = (!answer.is_success()).then(|| answer.fields().join(", "));
        assert_eq!(theirs, ours, "{label}: {}", answer.message());
        assert!(theirs.is_none() || answer.message().contains("immutable"), "{label}: {}", answer.message());
    }
}

#[test]
fn the_server_holds_jobs_to_their_fixed_fields() {
    compare("the_server_holds_jobs_to_their_fixed_fields", &full_job());
}

#[test]
fn the_server_holds_circuits_to_their_fields() {
    compare("the_server_holds_circuits_to_their_fields", &circuit());
}

/// The outcome is written through the status subresource, as the operator does it.
#[test]
fn the_server_keeps_an_outcome() {
    let Some(server) = Server::connect("the_server_keeps_an_outcome") else { return };
    let states = [None, Some("Unknown"), Some("True"), Some("False")];
    let mut updates: Vec<(Value, Value)> = Vec::new();
    for old in states {
        updates.extend(states.map(|new| (with_outcome(old), with_outcome(new))));
        updates.push((with_outcome(old), job()));
        updates.push((job(), with_outcome(old)));
    }
    for (index, (old, new)) in updates.iter().enumerate() {
        let name = format!("outcome-{index}");
        let mut fresh = job();
        fresh["metadata"]["name"] = json!(name);
        let mut stored = server.create(&fresh).body;
        let path = server.path("ProofJob", &name);
        let put_status = |stored: &Value, status: &Value| {
            let mut object = stored.clone();
            object["status"] = status.clone();
            server.send("PUT", &format!("{path}/status?fieldValidation=Strict"), JSON, &object.to_string())
        };
        if old["status"].is_object() {
            let answer = put_status(&stored, &old["status"]);
            assert_eq!(answer.code, 200, "{}", answer.message());
            stored = answer.body;
        }
        let ours = validate_update(new, old).err().map(|violations| violations[0].path.clone());
        let answer = put_status(&stored, &new["status"]);
        let theirs = (!answer.is_success()).then(|| answer.fields().join(", "));
        assert_eq!(theirs, ours, "{:?} -> {:?}: {}", old["status"], new["status"], answer.message());
    }
}

/// The main resource takes no status along.
#[test]
fn a_status_is_written_only_through_its_subresource() {
    let Some(server) = Server::connect("a_status_is_written_only_through_its_subresource") else { return };
    let created = server.create(&with_outcome(Some("True")));
    assert_eq!((created.code, &created.body["status"]), (201, &Value::Null), "{}", created.message());
}
