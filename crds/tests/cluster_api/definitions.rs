//! The definitions and the examples, applied.

use std::time::{Duration, Instant};

use proofmill_crds::{documents, schema};
use serde_json::{Value, json};

use crate::cases::to_value;
use crate::server::{JSON, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Under another group, so that nothing of the cluster's own definitions is disturbed.
#[test]
fn definitions_are_taken_whole_and_without_a_warning() {
    let Some(server) = Server::connect("definitions_are_taken_whole_and_without_a_warning") else { return };
    for definition in schema::definitions() {
        let crd = definition.crd.to_string().replace("proofmill.dev", "fresh.example.com");
        let sent: Value = serde_json::from_str(&crd).unwrap();
        let path = format!("{DEFINITIONS}/{}", sent["metadata"]["name"].as_str().unwrap());
        server.send("DELETE", &path, JSON, "");
        let begun = Instant::now();
        let created = loop {
            let answer = server.send("POST", &format!("{DEFINITIONS}?fieldValidation=Strict"), JSON, &crd);
            // One of an earlier run that is not gone yet.
            if answer.code != 409 || begun.elapsed() > Duration::from_secs(20) {
                break answer;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(created.code, 201, "{}: {}", definition.kind, created.message());
        assert_eq!(created.warnings, Vec::<String>::new(), "{}", definition.kind);
        assert_eq!(created.body["spec"]["versions"], sent["spec"]["versions"], "{}", definition.kind);
        while condition(&server, &path, "Established").as_deref() != Some("True") {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}: not established", definition.kind);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(condition(&server, &path, "NonStructuralSchema"), None, "{}", definition.kind);
        server.send("DELETE", &path, JSON, "");
    }
}

fn condition(server: &Server, path: &str, name: &str) -> Option<String> {
    let crd = server.get(path);
    let condition = crd["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == name)?.clone();
    condition["status"].as_str().map(str::to_owned)
}

/// What the server stores is what our own defaulting makes of the file.
#[test]
fn examples_come_back_as_we_read_them() {
    let folder = std::path::Path::new("../examples");
    let mut objects = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.to_str().unwrap();
        // Several examples have a circuit `chain`, and circuits never change: a namespace for each.
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let Some(server) = Server::connect_as("examples_come_back_as_we_read_them", &format!("example-{stem}")) else {
            return;
        };
        for round in ["created", "unchanged"] {
            let said = server.kubectl(&["apply", "--warnings-as-errors", "-f", file], "").expect();
            assert_eq!(said.stderr, "", "{file}");
            assert!(said.stdout.lines().all(|line| line.ends_with(round)), "{}", said.stdout);
        }
        let said =
            server.kubectl(&["diff", "--server-side", "--field-manager=kubectl-client-side-apply", "-f", file], "");
        assert!(said.success, "{}{}", said.stdout, said.stderr);
        for document in documents::parse_bytes(&std::fs::read(&path).unwrap(), file).unwrap() {
            let stored = server.get(&server.path(document.object.kind(), document.object.name()));
            assert_eq!(stored["spec"], to_value(&document.object)["spec"], "{file}");
            assert_eq!(
                proofmill_crds::validate(&stored).map(|object| to_value(&object)["spec"].clone()),
                Ok(stored["spec"].clone())
            );
            objects += 1;
        }
    }
    assert!(objects >= 15, "{objects}");
}

#[test]
fn kubectl_knows_short_names_category_and_columns() {
    let Some(server) = Server::connect("kubectl_knows_short_names_category_and_columns") else { return };
    let pool = json!({
        "apiVersion": proofmill_crds::API_VERSION, "kind": "ProverPool", "metadata": {"name": "columns"},
        "spec": {"replicas": 2},
    });
    assert_eq!(server.create(&pool).code, 201);
    let status = json!({"status": {
        "desiredReplicas": 2, "replicas": 2, "readyReplicas": 1, "busyReplicas": 0, "busyPermille": 0,
        "conditions": [{
            "type": "Ready", "status": "False", "reason": proofmill_crds::conditions::reasons::WARMING_UP, "message": "",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }],
    }});
    let patch = status.to_string();
    server.kubectl(&["patch", "pp/columns", "--subresource=status", "--type=merge", "-p", &patch], "").expect();
    let lines = server.kubectl(&["get", "pp"], "").expect().stdout;
    let cells: Vec<Vec<&str>> = lines.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["NAME", "DESIRED", "REPLICAS", "READY", "BUSY", "REASON", "AGE"]);
    assert_eq!(cells[1][..6], ["columns", "2", "2", "1", "0", "WarmingUp"]);
    for name in ["pj", "circ"] {
        server.kubectl(&["get", name], "").expect();
    }
    assert!(server.kubectl(&["get", "proofmill"], "").expect().stdout.contains("proverpool.proofmill.dev/columns"));
}
