//! A merge patch (RFC 7386) in which lists of named objects merge by name, as the overlay of a pool's pods is.

use serde_json::{Map, Value};

/// Lays `patch` over `target`: mappings merge, null removes, lists of named objects merge by name, all else is replaced.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => merge_mapping(target, patch),
        (Value::Array(target), Value::Array(patch)) if patch.iter().all(|item| name(item).is_some()) => {
            for item in patch {
                match target.iter_mut().find(|known| name(known) == name(item)) {
                    Some(known) => merge(known, item),
                    None => target.push(without_nulls(item)),
                }
            }
        }
        (target, patch) => *target = without_nulls(patch),
    }
}

/// The same for two mappings.
pub(super) fn merge_mapping(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// What tells an item of a list from the others. A volume may be mounted at several places: mounts go by place.
fn name(item: &Value) -> Option<(&'static str, &str)> {
    ["mountPath", "name"].into_iter().find_map(|key| Some((key, item.get(key)?.as_str()?)))
}

/// A patch where there is nothing to patch: its nulls remove nothing.
fn without_nulls(patch: &Value) -> Value {
    match patch {
        Value::Object(mapping) => {
            let kept = mapping.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn merged(target: Value, patch: Value, expected: &Value) {
        let mut result = target;
        merge(&mut result, &patch);
        assert_eq!(&result, expected);
    }

    #[test]
    fn mappings_merge_and_null_removes() {
        let target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        merged(target.clone(), json!({"a": {"b": null, "e": 3}}), &json!({"a": {"c": 2, "e": 3}, "d": [1, 2]}));
        merged(target.clone(), json!({"d": [3]}), &json!({"a": {"b": 1, "c": 2}, "d": [3]}));
        merged(target.clone(), json!({"d": null, "a": 7}), &json!({"a": 7}));
        merged(target.clone(), json!({}), &target);
        merged(json!({}), json!({"a": {"b": null, "c": {"d": null}}}), &json!({"a": {"c": {}}}));
        merged(json!({"a": 1}), json!({"a": {"b": null}}), &json!({"a": {}}));
    }

    #[test]
    fn named_objects_merge_by_name() {
        let target = json!({"containers": [{"name": "prover", "image": "p", "env": [{"name": "A", "value": "1"}]}]});
        let patch = json!({"containers": [
            {"name": "prover", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]},
            {"name": "sidecar", "image": "s", "command": null},
        ]});
        let expected = json!({"containers": [
            {"name": "prover", "image": "p", "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]},
            {"name": "sidecar", "image": "s"},
        ]});
        merged(target, patch, &expected);
    }

    #[test]
    fn mounts_go_by_place() {
        let target = json!([{"name": "data", "mountPath": "/data", "readOnly": true}]);
        let patch = json!([{"name": "data", "mountPath": "/more"}, {"name": "other", "mountPath": "/data"}]);
        let expected = json!([
            {"name": "other", "mountPath": "/data", "readOnly": true},
            {"name": "data", "mountPath": "/more"},
        ]);
        merged(target, patch, &expected);
    }

    #[test]
    fn other_lists_are_replaced() {
        merged(json!([{"key": "a"}]), json!([{"key": "b"}]), &json!([{"key": "b"}]));
        merged(json!([{"name": "a"}]), json!([{"name": "b"}, "c"]), &json!([{"name": "b"}, "c"]));
        merged(json!({"name": "a"}), json!([{"name": "b"}]), &json!([{"name": "b"}]));
    }
}
