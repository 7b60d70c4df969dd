//! Objects made from the schemas at random: what the schema allows passes and fits the Rust types; one thing made wrong
//! is reported at its place, and nothing else is.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proofmill_crds::{API_VERSION, rules, schema::definitions, validate_update};
use rand::{Rng as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

mod cases;

use cases::{contains, to_value};

/// Fields of which exactly one is set.
const UNIONS: [&[&str]; 6] = [
    &["groth16", "filecoin", "simulated"],
    &["url", "configMapKeyRef", "secretKeyRef", "inline"],
    &["replicas", "autoscaling"],
    &["persistentVolumeClaim", "emptyDir"],
    &["value", "valueFrom"],
    &["configMapKeyRef", "secretKeyRef"],
];

/// A schema's type; a quantity counts as a string.
fn kind(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or("string")
}

fn generate(schema: &Value, rng: &mut ChaCha8Rng) -> Value {
    match kind(schema) {
        "object" if schema["x-kubernetes-preserve-unknown-fields"] == true => json!({"containers": [{"name": null}]}),
        "object" if schema["additionalProperties"].is_object() => {
            let entry = |i: u32| (format!("key-{i}"), generate(&schema["additionalProperties"], rng));
            Value::Object((0..2).map(entry).collect())
        }
        "object" => {
            let properties = schema["properties"].as_object().unwrap();
            let union = UNIONS.iter().find(|union| union.iter().all(|name| properties.contains_key(*name)));
            let chosen = union.and_then(|union| union.choose(rng));
            let mut map = Map::new();
            for (name, property) in properties {
                let required = schema["required"].as_array().is_some_and(|r| r.contains(&json!(name)));
                let set = match union {
                    Some(union) if union.contains(&name.as_str()) => chosen.is_some_and(|c| c == name),
                    _ => required || rng.random_bool(0.7),
                };
                if set {
                    map.insert(name.clone(), generate(property, rng));
                }
            }
            consistent(&mut map);
            Value::Object(map)
        }
        "array" => {
            let mut items: Vec<Value> = (0..rng.random_range(0..4)).map(|_| generate(&schema["items"], rng)).collect();
            if let Some(key) = schema["x-kubernetes-list-map-keys"][0].as_str() {
                let is_name = schema["items"]["properties"][key]["pattern"] == rules::NAME;
                for (index, item) in items.iter_mut().enumerate() {
                    item[key] = match key {
                        "index" => json!(index),
                        _ if is_name => json!(format!("name{index}")),
                        _ => json!(format!("Type{index}")),
                    };
                }
            } else if schema["x-kubernetes-list-type"] == "set" {
                items.sort_by_key(Value::to_string);
                items.dedup();
            }
            Value::Array(items)
        }
        "integer" => {
            let low = schema["minimum"].as_i64().unwrap_or(i32::MIN.into());
            let high = schema["maximum"].as_i64().unwrap_or(i32::MAX.into());
            json!(*[low, high, rng.random_range(low..=high)].choose(rng).unwrap())
        }
        "boolean" => json!(rng.random::<bool>()),
        "string" => string(schema, rng),
        other => panic!("{other}"),
    }
}

/// What the rules ask of fields together.
fn consistent(map: &mut Map<String, Value>) {
    if let (Some(min), Some(max)) = (map.get("minReplicas"), map.get("maxReplicas"))
        && min.as_i64() > max.as_i64()
    {
        map.insert("minReplicas".to_owned(), max.clone());
    }
    if map.contains_key("simulatedDevices") {
        map.insert("device".to_owned(), json!("Simulated"));
    }
}

fn string(schema: &Value, rng: &mut ChaCha8Rng) -> Value {
    if let Some(allowed) = schema["enum"].as_array() {
        return allowed.choose(rng).unwrap().clone();
    }
    if schema["format"] == "date-time" {
        return json!("2026-01-31T12:00:00Z");
    }
    let is_url = schema["x-kubernetes-validations"][0]["rule"] == rules::URL_RULE;
    match schema["pattern"].as_str() {
        Some(rules::SHA256) => {
            json!((0..64).map(|_| char::from_digit(rng.random_range(0..16), 16).unwrap()).collect::<String>())
        }
        Some(rules::BASE64) => json!(["QUJDRA==", "AAAA", "AAA="].choose(rng).unwrap()),
        Some(rules::NAME) => json!(["a", "chain-2", "a.b.c"].choose(rng).unwrap()),
        Some(rules::DATA_KEY) => json!(["input.json", "_a-b"].choose(rng).unwrap()),
        Some(rules::CAMEL_CASE) => json!(["Proving", "Succeeded2"].choose(rng).unwrap()),
        Some(rules::QUANTITY) => [json!(2), json!("500m"), json!("1e3")].choose(rng).unwrap().clone(),
        Some(rules::SIZE) => [json!(4096), json!("16Gi"), json!("1.5T")].choose(rng).unwrap().clone(),
        Some(rules::LABEL_VALUE) => json!(["", "NVIDIA-H200", "a_b.c"].choose(rng).unwrap()),
        Some(rules::ENV_NAME) => json!("AWS_REGION"),
        Some(rules::NO_SPACE) => json!("registry:5000/prover@sha256:0123"),
        Some(rules::URL_PREFIX) => json!(["https://h/keys/", "s3://b", "az://c/k/"].choose(rng).unwrap()),
        Some(rules::DECIMAL) => json!(["0", "123456789"].choose(rng).unwrap()),
        Some(other) => panic!("no sample for {other}"),
        None if is_url => json!(["file:a/b", "https://h/x?y", "s3://b/k", "az://c/k"].choose(rng).unwrap()),
        None => json!("any text, ü"),
    }
}

fn object(kind: &str, schema: &Value, rng: &mut ChaCha8Rng) -> Value {
    let mut object = generate(schema, rng);
    object["apiVersion"] = json!(API_VERSION);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "generated"});
    object
}

#[test]
fn what_the_schema_allows_passes_and_comes_back() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for definition in definitions() {
        for round in 0..400 {
            let value = object(definition.kind, definition.schema(), &mut rng);
            let typed = validate_update(&value, &value).unwrap_or_else(|e| panic!("round {round}: {e:?}\n{value:#}"));
            contains(&mut to_value(&typed), &value, "");
        }
    }
}

/// Every node of `value` with its schema and path.
fn nodes(schema: &Value, value: &Value, path: &str, found: &mut Vec<(Value, String)>) {
    found.push((schema.clone(), path.to_owned()));
    for (name, child) in value.as_object().into_iter().flatten() {
        let entry = schema.get("additionalProperties");
        if let Some(property) = schema["properties"].get(name).or(entry) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            nodes(property, child, &path, found);
        }
    }
    for (index, child) in value.as_array().into_iter().flatten().enumerate() {
        nodes(&schema["items"], child, &format!("{path}[{index}]"), found);
    }
}

fn at<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split(['.', '[']).filter(|s| !s.is_empty()).fold(value, |value, step| match step.strip_suffix(']') {
        Some(index) => &mut value[index.parse::<usize>().unwrap()],
        None => &mut value[step],
    })
}

/// A value of the node's type that its schema refuses, if there is one.
fn out_of_bounds(schema: &Value) -> Option<Value> {
    match kind(schema) {
        "integer" => schema["maximum"].as_i64().map(|max| json!(max + 1)),
        "array" => None,
        "string" if schema["enum"].is_array() => Some(json!("Nothing of the kind")),
        "string" => Some(json!("\u{1}".repeat(70_000))),
        _ => None,
    }
}

#[test]
fn one_mistake_is_reported_at_its_place() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut counts = [0; 4];
    for definition in definitions() {
        for round in 0..1500 {
            let value = object(definition.kind, definition.schema(), &mut rng);
            let mut found = Vec::new();
            nodes(definition.schema(), &value, "", &mut found);
            let (schema, path) = found.choose(&mut rng).unwrap();
            if path.is_empty() {
                continue;
            }
            let mut wrong = value.clone();
            let action = rng.random_range(0..4);
            let expected = match (action, kind(schema)) {
                (0, "object") if schema["properties"].is_object() => {
                    at(&mut wrong, path)["neverHeardOf"] = json!(1);
                    format!("{path}.neverHeardOf")
                }
                (1, "object") => {
                    let Some(name) = schema["required"].as_array().and_then(|names| names.choose(&mut rng)?.as_str())
                    else {
                        continue;
                    };
                    // A null is as good as nothing.
                    let map = at(&mut wrong, path).as_object_mut().unwrap();
                    if rng.random() {
                        drop(map.remove(name))
                    } else {
                        drop(map.insert(name.to_owned(), Value::Null))
                    }
                    format!("{path}.{name}")
                }
                (2, kind) => {
                    *at(&mut wrong, path) = if kind == "string" { json!(false) } else { json!("text") };
                    path.clone()
                }
                (3, _) => {
                    let Some(value) = out_of_bounds(schema) else { continue };
                    *at(&mut wrong, path) = value;
                    path.clone()
                }
                _ => continue,
            };
            counts[action] += 1;
            let violations = validate_update(&wrong, &value).expect_err(path);
            let paths: Vec<&str> = violations.iter().map(|v| v.path.as_str()).collect();
            assert_eq!(
                paths,
                [expected.as_str()],
                "{} round {round} action {action}: {violations:?}\n{wrong:#}",
                definition.kind
            );
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
