//! A definition as YAML: sorted keys, so that a change of the types is a small change of the file.

use serde_json::{Map, Value};

/// The file's text.
///
/// # Errors
/// None is known: the value is plain data.
pub fn yaml(crd: &Value) -> std::io::Result<String> {
    let body = serde_saphyr::to_string(&sorted(crd)).map_err(std::io::Error::other)?;
    Ok(format!("# Made from the types in crds/src by: cargo run --release -p proofmill-crds --example crdgen\n{body}"))
}

/// Some crates of a workspace may switch serde_json to insertion order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
