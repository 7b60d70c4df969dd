//! The definitions: fresh on disk, bounded throughout, by Kubernetes's conventions.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use kube::core::cel;
use proofmill_crds::schema::definitions;
use serde_json::Value;

#[path = "../examples/crdgen/render.rs"]
mod render;

#[test]
fn files_are_what_the_types_say() {
    let root = Path::new("..");
    for (path, fresh) in render::files(root).unwrap() {
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == fresh,
            "{} is stale: run cargo run --release -p proofmill-crds --example crdgen",
            path.display()
        );
    }
    for folder in [render::YAML, render::CHART] {
        let files = std::fs::read_dir(root.join(folder)).unwrap().count();
        assert_eq!(files, definitions().len(), "{folder}: a file without a kind");
    }
}

#[test]
fn the_chart_has_our_version() {
    let chart = include_str!("../../charts/proofmill-crds/Chart.yaml");
    for field in ["version", "appVersion"] {
        let expected = format!("{field}: {}", env!("CARGO_PKG_VERSION"));
        assert!(chart.lines().any(|line| line == expected), "{expected}");
    }
}

/// The one mapping of anything: the API server's own limit on an object bounds it, and no rule looks into it.
const OVERLAY: &str = "ProverPool.spec.template.podTemplate.spec";

/// Calls `visit` with every schema node and its path.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&Value, &str)) {
    visit(schema, path);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(child, &format!("{path}.{name}"), visit);
    }
    for (below, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = schema.get(below) {
            walk(child, &format!("{path}{suffix}"), visit);
        }
    }
}

#[test]
fn every_field_is_typed_and_bounded() {
    let mut nodes = 0;
    for definition in definitions() {
        walk(definition.schema(), definition.kind, &mut |node, path| {
            nodes += 1;
            let map = node.as_object().unwrap();
            match node["type"].as_str() {
                Some("string") => {
                    let bounded =
                        map.contains_key("maxLength") || map.contains_key("enum") || node["format"] == "date-time";
                    assert!(bounded, "{path}: a string without a bound");
                }
                Some("array") => {
                    assert!(map.contains_key("maxItems"), "{path}: a list without a bound");
                    assert!(map.contains_key("x-kubernetes-list-type"), "{path}: a list without a merge strategy");
                }
                Some("integer") => {
                    let format = node["format"].as_str().unwrap_or_default();
                    assert!(format == "int32" || format == "int64", "{path}: format {format:?}");
                }
                Some("object") => {
                    let fixed = map.contains_key("properties") && !map.contains_key("additionalProperties");
                    let bounded = map.contains_key("additionalProperties") && map.contains_key("maxProperties");
                    assert!(fixed || bounded || path == OVERLAY, "{path}: a mapping without a bound");
                }
                Some("boolean") => {}
                None if map.contains_key("x-kubernetes-int-or-string") => {
                    assert!(map.contains_key("maxLength") && map.contains_key("pattern"), "{path}: without a bound");
                }
                other => panic!("{path}: type {other:?}"),
            }
            for word in ["nullable", "oneOf", "anyOf", "allOf", "$ref"] {
                assert!(!map.contains_key(word), "{path}: {word}");
            }
            assert_eq!(map.contains_key("x-kubernetes-preserve-unknown-fields"), path == OVERLAY, "{path}");
            let described = map.contains_key("description") || path.ends_with([']', '}']) || !path.contains('.');
            assert!(described, "{path}: no description");
            if let Some(pattern) = node["pattern"].as_str() {
                regex::Regex::new(pattern).unwrap_or_else(|e| panic!("{path}: {e}"));
            }
        });
    }
    assert!(nodes > 100, "the walk saw {nodes} nodes only");
}

#[test]
fn no_definition_holds_an_unsigned_format_or_a_float() {
    for definition in definitions() {
        let text = definition.crd.to_string();
        for word in ["uint", "\"number\"", "float", "double", "\"phase\""] {
            assert!(!text.contains(word), "{}: {word}", definition.kind);
        }
        // kubectl keeps the definition in an annotation of at most 256 KiB.
        assert!(text.len() < 64 * 1024, "{}: {} bytes", definition.kind, text.len());
    }
}

#[test]
fn names_columns_and_subresources_are_as_designed() {
    for definition in definitions() {
        let spec = &definition.crd["spec"];
        assert_eq!(spec["group"], "proofmill.dev");
        assert_eq!(spec["scope"], "Namespaced");
        assert_eq!(spec["names"]["categories"], serde_json::json!(["proofmill"]));
        assert_eq!(spec["names"]["shortNames"].as_array().unwrap().len(), 1);
        let version = &spec["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert!(version["subresources"]["status"].is_object());
        let columns: Vec<&str> = version["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        match definition.kind {
            "ProofJob" => {
                assert_eq!(columns, ["Circuit", "Priority", "Progress", "Succeeded", "Reason", "Pool", "Age"])
            }
            "ProverPool" => {
                assert_eq!(
                    columns,
                    ["Desired", "Replicas", "Ready", "Busy", "Reason", "BusyPermille", "QueueMs", "Age"]
                );
                let scale = serde_json::json!({
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                });
                assert_eq!(version["subresources"]["scale"], scale);
            }
            _ => assert_eq!(columns, ["Curve", "Constraints", "Ready", "Reason", "Resident", "Insecure", "Age"]),
        }
        let conditions = &definition.schema()["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
        assert!(conditions["items"]["properties"]["observedGeneration"].is_object());
        assert!(definition.schema()["required"].as_array().unwrap().contains(&"spec".into()));
    }
}

/// The immutability rule must name every field but the three that may change.
#[test]
fn the_immutability_rule_covers_the_spec() {
    let definitions = definitions();
    let job = definitions.iter().find(|definition| definition.kind == "ProofJob").unwrap();
    let spec = &job.schema()["properties"]["spec"];
    let mut covered: Vec<&str> = proofmill_crds::rules::JOB_IMMUTABLE_FIELDS.to_vec();
    covered.extend(["suspend", "priority", "ttlSecondsAfterFinished"]);
    covered.sort_unstable();
    let fields: Vec<&str> = spec["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut fields = fields;
    fields.sort_unstable();
    assert_eq!(fields, covered);
}

#[test]
fn the_rules_compile_know_their_variables_and_stay_cheap() {
    let mut rules = 0;
    for definition in definitions() {
        walk(definition.schema(), definition.kind, &mut |node, path| {
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let rule_text = rule["rule"].as_str().unwrap();
                rules += 1;
                assert!(!rule["message"].as_str().unwrap().contains('\n'), "{path}: a message of two lines");
                let program =
                    cel::cel::Program::compile(rule_text).unwrap_or_else(|e| panic!("{path}: {rule_text}: {e}"));
                // x, o, c, k are the rules' own variables over lists and keys.
                let known = |name: &&str| ["self", "oldSelf", "x", "o", "c", "k"].contains(name);
                assert!(program.references().variables().iter().all(known), "{path}: {rule_text}");
                // This estimate knows only the bounds of fields directly below: of a list further down it assumes 1,000
                // items, where `status.conditions` has at most 16.
                // Nor does it know that a name has a bound, which the server does.
                if path == "ProofJob" || path == "ProverPool" {
                    continue;
                }
                let warnings = cel::estimate_rule_cost(rule_text, &cel::compile_schema(node));
                assert!(warnings.is_empty(), "{path}: {warnings:?}");
            }
        });
    }
    assert!(rules >= 10, "{rules}");
}
