//! Who may say how many pods a pool has.

use serde_json::{Value, json};

use crate::server::{APPLY, Answer, Server};

fn pool(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "proofmill.dev/v1alpha1", "kind": "ProverPool", "metadata": {"name": name}, "spec": spec,
    })
}

fn apply(server: &Server, manager: &str, force: bool, object: &Value) -> Answer {
    let path = server.path("ProverPool", object["metadata"]["name"].as_str().unwrap());
    let path = format!("{path}?fieldManager={manager}&force={force}&fieldValidation=Strict");
    server.send("PATCH", &path, APPLY, &object.to_string())
}

#[test]
fn kubectl_scales_a_pool_of_fixed_size() {
    let Some(server) = Server::connect("kubectl_scales_a_pool_of_fixed_size") else { return };
    assert_eq!(server.create(&pool("fixed", &json!({"replicas": 1}))).code, 201);
    for replicas in [3, 0, 1] {
        server.kubectl(&["scale", "proverpool/fixed", &format!("--replicas={replicas}")], "").expect();
        assert_eq!(server.get(&server.path("ProverPool", "fixed"))["spec"]["replicas"], replicas);
    }
    let said = server.kubectl(&["scale", "pp/fixed", "--replicas=1001"], "");
    assert!(!said.success && said.stderr.contains("spec.replicas"), "{}", said.stderr);
    // What an HPA reads.
    let status = json!({"status": {"replicas": 1, "selector": "proofmill.dev/pool=fixed"}}).to_string();
    server.kubectl(&["patch", "pp/fixed", "--subresource=status", "--type=merge", "-p", &status], "").expect();
    let scale = server.get(&format!("{}/scale", server.path("ProverPool", "fixed")));
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "proofmill.dev/pool=fixed"}));
}

#[test]
fn scaling_an_autoscaled_pool_is_refused_with_the_way_out() {
    let Some(server) = Server::connect("scaling_an_autoscaled_pool_is_refused_with_the_way_out") else { return };
    assert_eq!(server.create(&pool("auto", &json!({"autoscaling": {"maxReplicas": 4}}))).code, 201);
    let said = server.kubectl(&["scale", "proverpool/auto", "--replicas=3"], "");
    assert!(!said.success, "{}", said.stdout);
    assert!(said.stderr.contains(proofmill_crds::rules::POOL_ONE_OF_MESSAGE), "{}", said.stderr);
}

#[test]
fn two_managers_share_a_pool() {
    let Some(server) = Server::connect("two_managers_share_a_pool") else { return };
    let stored = || server.get(&server.path("ProverPool", "shared"));
    let own = |spec: Value| pool("shared", &spec);
    assert_eq!(apply(&server, "team", false, &own(json!({"replicas": 1, "circuits": ["a"]}))).code, 201);
    // The autoscaler takes `replicas` over.
    assert_eq!(apply(&server, "hpa", true, &own(json!({"replicas": 5}))).code, 200);
    // The team can no longer change it unknowingly,
    let answer = apply(&server, "team", false, &own(json!({"replicas": 2, "circuits": ["a"]})));
    assert_eq!((answer.code, answer.fields()), (409, vec![".spec.replicas".to_owned()]), "{}", answer.message());
    // and leaving it out changes nothing but what is the team's own.
    let template = json!({"resources": {"limits": {"memory": "8Gi"}}});
    assert_eq!(apply(&server, "team", false, &own(json!({"circuits": ["b"], "template": template}))).code, 200);
    assert_eq!(stored()["spec"]["replicas"], 5);
    assert_eq!(stored()["spec"]["circuits"], json!(["b"]));
    // Mappings and lists of names merge by their keys.
    let limits = json!({"circuits": ["c"], "template": {"resources": {"limits": {"cpu": 4}}}});
    assert_eq!(apply(&server, "platform", false, &own(limits)).code, 200);
    assert_eq!(stored()["spec"]["circuits"], json!(["b", "c"]));
    assert_eq!(stored()["spec"]["template"]["resources"]["limits"], json!({"cpu": 4, "memory": "8Gi"}));
    // Without an owner the field would go, and with it the size of the pool: refused.
    let answer = apply(&server, "hpa", false, &own(json!({})));
    assert_eq!((answer.code, answer.fields()), (422, vec!["spec".to_owned()]), "{}", answer.message());
}

/// A write that was planned from an older state is refused, also in server-side apply.
#[test]
fn a_stale_write_is_refused() {
    let Some(server) = Server::connect("a_stale_write_is_refused") else { return };
    let created = server.create(&pool("stale", &json!({"replicas": 1}))).body;
    assert_eq!(apply(&server, "other", true, &pool("stale", &json!({"replicas": 2}))).code, 200);
    let mut late = pool("stale", &json!({"replicas": 3}));
    late["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert_eq!(apply(&server, "other", true, &late).code, 409);
}
