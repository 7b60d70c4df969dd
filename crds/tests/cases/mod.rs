//! Cases that several tests share.
#![allow(missing_docs, dead_code)]

pub mod manifests;
pub mod updates;

use proofmill_crds::Object;
use serde_json::Value;

/// The object as JSON.
pub fn to_value(object: &Object) -> Value {
    match object {
        Object::Circuit(circuit) => serde_json::to_value(circuit),
        Object::ProofJob(job) => serde_json::to_value(job),
        Object::ProverPool(pool) => serde_json::to_value(pool),
    }
    .unwrap()
}

/// Whether all of `part` is in `whole`; empty lists may be left out.
pub fn contains(whole: &mut Value, part: &Value, path: &str) {
    match part {
        Value::Object(map) => map.iter().for_each(|(k, v)| contains(&mut whole[k.as_str()], v, &format!("{path}.{k}"))),
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| contains(&mut whole[i], v, &format!("{path}[{i}]")))
        }
        other => assert_eq!(whole, other, "{path}"),
    }
}
