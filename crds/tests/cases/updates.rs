//! Objects and what an update may do to them: our validation and a real API server are held against the same steps.

use proofmill_crds::validate;
use serde_json::{Value, json};

/// Fields of a job that may change.
pub const FREE: [&str; 3] = ["spec.priority", "spec.suspend", "spec.ttlSecondsAfterFinished"];

/// An update of one field.
pub struct Step {
    /// What it does.
    pub label: String,
    /// The object before.
    pub old: Value,
    /// The object after.
    pub new: Value,
    /// Whether it changes a field that never changes.
    pub forbidden: bool,
}

/// For each field of an object that has all of them: changing it, and where it may be absent, removing it, adding it,
/// adding another one, and leaving it out twice. Each step alone decides, so no sequence of accepted steps can change a
/// fixed field.
pub fn steps(full: &Value) -> Vec<Step> {
    let mut fields = Vec::new();
    paths(&full["spec"], &["spec".to_owned()], &mut fields);
    let mut steps = Vec::new();
    for path in fields {
        let dotted = path.join(".");
        let forbidden = !(full["kind"] == "ProofJob" && FREE.contains(&dotted.as_str()));
        let (removed, changed) = (without(full, &path), changed(full, &path));
        let mut step = |what: &str, old: &Value, new: &Value, forbidden| {
            steps.push(Step { label: format!("{what} {dotted}"), old: old.clone(), new: new.clone(), forbidden });
        };
        step("change of", full, &changed, forbidden);
        if let Ok(defaulted) = validate(&removed) {
            // Writing out a default is no change.
            let same = validate(&changed).is_ok_and(|changed| changed == defaulted);
            step("removal of", full, &removed, forbidden);
            step("addition of", &removed, full, forbidden);
            step("addition of another", &removed, &changed, forbidden && !same);
            step("no change without", &removed, &removed, false);
        }
    }
    steps
}

pub fn job() -> Value {
    json!({
        "apiVersion": "proofmill.dev/v1alpha1", "kind": "ProofJob", "metadata": {"name": "first"},
        "spec": {"circuitRef": {"name": "chain"}, "input": {"url": "file:chain.wtns"}},
    })
}

pub fn full_job() -> Value {
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

pub fn circuit() -> Value {
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
pub fn paths(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    for (key, child) in value.as_object().into_iter().flatten() {
        let path: Vec<String> = path.iter().cloned().chain([key.clone()]).collect();
        paths(child, &path, found);
        found.push(path);
    }
}

pub fn field<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
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

pub fn with_outcome(status: Option<&str>) -> Value {
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
