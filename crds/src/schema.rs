//! The CustomResourceDefinitions as data.
//!
//! kube's derive makes them from the types; here they lose what an API server would warn about or what would weaken the
//! rules: unsigned formats (unknown to it) and `nullable` (a null then counts as present in `has()`; without it the
//! server drops nulls before it applies defaults).

use kube::CustomResourceExt as _;
use serde_json::Value;

use crate::{Circuit, ProofJob, ProverPool};

/// A kind of the API with its definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The kind.
    pub kind: &'static str,
    /// File name below `crds/yaml`.
    pub file: &'static str,
    /// The CustomResourceDefinition.
    pub crd: Value,
}

impl Definition {
    /// The structural schema of the one version.
    pub fn schema(&self) -> &Value {
        &self.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

/// All definitions, keys sorted.
pub fn definitions() -> Vec<Definition> {
    let definition = |kind, file, crd: serde_json::Result<Value>| {
        // A derived definition is plain data: turning it into JSON can't fail.
        let mut crd = crd.unwrap_or(Value::Null);
        clean(&mut crd);
        Definition { kind, file, crd }
    };
    vec![
        definition("Circuit", "circuits.yaml", serde_json::to_value(Circuit::crd())),
        definition("ProofJob", "proofjobs.yaml", serde_json::to_value(ProofJob::crd())),
        definition("ProverPool", "proverpools.yaml", serde_json::to_value(ProverPool::crd())),
    ]
}

/// Removes what does not belong, at every level.
fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("format").and_then(Value::as_str).is_some_and(|f| f.starts_with("uint")) {
                map.remove("format");
            }
            if map.get("nullable").is_some_and(Value::is_boolean) {
                map.remove("nullable");
            }
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        // Bounds are floats in kube's types: 1.0 is written as 1.
        Value::Number(number) => {
            if let Some(float) =
                number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < 2f64.powi(53))
            {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsigned_formats_and_nullable_are_removed_and_bounds_are_integers() {
        let mut value = json!({"properties": {
            "a": {"type": "integer", "format": "uint32", "minimum": 1.0, "nullable": true},
            "b": {"type": "array", "items": {"type": "integer", "format": "uint64"}},
            "c": {"type": "integer", "format": "int64"},
        }});
        clean(&mut value);
        let expected = json!({"properties": {
            "a": {"type": "integer", "minimum": 1},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {"type": "integer", "format": "int64"},
        }});
        assert_eq!(value.to_string(), expected.to_string());
    }

    /// A field that happens to be called `format` or `nullable` stays.
    #[test]
    fn properties_of_the_same_name_stay() {
        let mut value = json!({"properties": {"nullable": {"type": "string"}, "format": {"type": "string"}}});
        let before = value.clone();
        clean(&mut value);
        assert_eq!(value, before);
    }

    #[test]
    fn every_kind_has_a_schema() {
        for definition in definitions() {
            assert_eq!(definition.schema()["type"], "object", "{}", definition.kind);
            assert_eq!(definition.crd["spec"]["names"]["kind"], definition.kind);
        }
    }
}
