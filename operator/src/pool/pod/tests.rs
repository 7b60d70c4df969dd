use proofmill_crds::prover_pool::ProverPool;
use serde_json::{Value, json};

use super::*;

fn settings() -> Settings {
    Settings { image: "ghcr.io/proofmill/proofmill:0.1.0".to_owned(), allow_privileged: false }
}

fn pool(template: &Value) -> PoolObject {
    let pool = json!({
        "apiVersion": "proofmill.dev/v1alpha1",
        "kind": "ProverPool",
        "metadata": {"name": "default", "namespace": "proofs", "uid": "u-1", "generation": 3},
        "spec": {"replicas": 1, "template": template},
    });
    PoolObject::from(serde_json::from_value::<ProverPool>(pool).unwrap())
}

fn template(value: &Value) -> Template {
    Template::of(&pool(value), &[], &settings()).unwrap()
}

/// A pod of the template; the API server's own type must take it.
fn pod(value: &Value) -> Value {
    let pod = template(value).pod("default-0");
    serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod.clone()).unwrap();
    pod
}

fn resources(value: &Value) -> Value {
    pod(value)["spec"]["containers"][0]["resources"].clone()
}

fn arguments_of(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"][0]["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect()
}

#[track_caller]
fn refused(spec: &Value, path: &str) {
    let overlay = json!({"podTemplate": {"spec": spec}});
    let error = Template::of(&pool(&overlay), &[], &settings()).unwrap_err();
    assert_eq!(error.path, format!("spec.template.podTemplate.spec.{path}"), "{error}");
}

#[test]
fn the_smallest_pool_makes_a_whole_pod() {
    let pod = pod(&json!({}));
    assert_eq!(pod["metadata"]["name"], "default-0");
    assert_eq!(pod["metadata"]["namespace"], "proofs");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app.kubernetes.io/managed-by": "proofmill", "proofmill.dev/pool": "default"})
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["kind"], &owner["controller"]),
        (&json!("u-1"), &json!("ProverPool"), &json!(true))
    );
    let spec = &pod["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(spec["terminationGracePeriodSeconds"], 600);
    let prover = &spec["containers"][0];
    assert_eq!(prover["image"], "ghcr.io/proofmill/proofmill:0.1.0");
    assert_eq!(
        prover["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    assert_eq!(prover["startupProbe"]["httpGet"], json!({"path": "/readyz", "port": 9090, "scheme": "HTTP"}));
    assert_eq!(prover["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(prover["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(prover["command"], json!(["/usr/local/bin/prover"]));
    assert_eq!(
        arguments_of(&pod),
        [
            "serve",
            "--listen=0.0.0.0:7000",
            "--http=0.0.0.0:9090",
            "--tls-cert=/etc/proofmill/tls/tls.crt",
            "--tls-key=/etc/proofmill/tls/tls.key",
            "--tls-client-ca=/etc/proofmill/tls/ca.crt",
            "--file-root=/data",
            "--key-cache=/var/cache/proofmill/keys",
            "--key-cache-limit=19327352832",
            "--device=cpu",
            "--grace=590s",
            "--log-format=json",
        ]
    );
    let volume = |name: &str| spec["volumes"].as_array().unwrap().iter().find(|v| v["name"] == name).cloned();
    assert_eq!(volume("tls").unwrap()["secret"], json!({"secretName": "default-prover-tls", "defaultMode": 0o440}));
    assert_eq!(volume("keys").unwrap()["emptyDir"]["sizeLimit"], (20u64 << 30).to_string());
    assert_eq!(volume("data"), None);
}

#[test]
fn the_typed_fields_arrive() {
    let pod = pod(&json!({
        "image": "mirror.example.com/prover:1",
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "mirror"}],
        "engine": {
            "device": "Simulated", "threads": 4, "simulatedDevices": 2, "synthesisWorkers": 3, "memory": "8Gi",
            "reserveCritical": "1Gi", "inputLimit": "64Mi", "keyLimit": "10Gi", "traceWindowSeconds": 60,
            "allowUrls": ["https://keys.example.com/", "s3://bucket/keys/"], "allowInsecureKeys": true,
        },
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "dataVolume": {"persistentVolumeClaim": {"claimName": "data"}},
        "keyCache": {"sizeLimit": "100Gi", "persistentVolumeClaim": {"claimName": "keys"}},
        "env": [{"name": "AWS_REGION", "value": "eu-1"}],
        "serviceAccountName": "cloud",
        "terminationGracePeriodSeconds": 60,
    }));
    let spec = &pod["spec"];
    let prover = &spec["containers"][0];
    assert_eq!(prover["image"], "mirror.example.com/prover:1");
    assert_eq!(prover["imagePullPolicy"], "Always");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "mirror"}]));
    assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/arch": "amd64"}));
    assert_eq!(spec["tolerations"], json!([{"key": "dedicated", "operator": "Exists"}]));
    assert_eq!(spec["serviceAccountName"], "cloud");
    assert_eq!(prover["env"], json!([{"name": "AWS_REGION", "value": "eu-1"}]));
    let expected = [
        "--key-cache-limit=96636764160",
        "--device=simulated",
        "--grace=50s",
        "--log-format=json",
        "--threads=4",
        "--simulated-devices=2",
        "--synthesis-workers=3",
        "--memory=8Gi",
        "--reserve-critical=1Gi",
        "--input-limit=64Mi",
        "--key-limit=10Gi",
        "--trace-window=60s",
        "--allow-url=https://keys.example.com/",
        "--allow-url=s3://bucket/keys/",
        "--allow-insecure-keys",
    ];
    assert_eq!(arguments_of(&pod)[8..], expected);
    let mounts = prover["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(&json!({"name": "data", "mountPath": "/data", "readOnly": true})), "{mounts:?}");
    let volumes = spec["volumes"].as_array().unwrap();
    assert!(volumes.contains(&json!({"name": "keys", "persistentVolumeClaim": {"claimName": "keys"}})), "{volumes:?}");
    // On a claim keys take nothing of the node's disk.
    assert_eq!(prover["resources"]["requests"]["ephemeral-storage"], (1u64 << 30).to_string());
}

#[test]
fn requests_and_limits_fill_each_other() {
    let disk = (21u64 << 30).to_string();
    assert_eq!(
        resources(&json!({})),
        json!({
            "requests": {"cpu": "2", "memory": "4096Mi", "ephemeral-storage": disk},
            "limits": {"cpu": "2", "memory": "4096Mi"},
        })
    );
    assert_eq!(
        resources(&json!({"resources": {"requests": {"cpu": 4}, "limits": {"memory": "16Gi"}}})),
        json!({
            "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": disk},
            "limits": {"cpu": "4", "memory": "16Gi"},
        })
    );
    // What the overlay says counts.
    let overlay = json!({"spec": {"containers": [{"name": "prover", "resources": {"limits": {"memory": "9Gi"}}}]}});
    let larger = pod(&json!({"podTemplate": overlay}));
    assert_eq!(larger["spec"]["containers"][0]["resources"]["limits"]["memory"], "9Gi");
    assert_eq!(larger["metadata"]["annotations"].get(MEMORY), None);
    // Two numbers are two numbers.
    let burst = resources(&json!({"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 8}}}));
    assert_eq!((&burst["requests"]["cpu"], &burst["limits"]["cpu"]), (&json!("1"), &json!("8")));
}

#[test]
fn a_gpu_pool_asks_for_a_gpu() {
    let one = resources(&json!({"engine": {"device": "Cuda"}}));
    assert_eq!((&one["requests"]["nvidia.com/gpu"], &one["limits"]["nvidia.com/gpu"]), (&json!("1"), &json!("1")));
    let mig = json!({"limits": {"nvidia.com/mig-3g.40gb": 1}});
    let slice = resources(&json!({"engine": {"device": "Cuda"}, "resources": mig}));
    assert_eq!(slice["limits"]["nvidia.com/mig-3g.40gb"], "1");
    assert_eq!(slice["limits"].get("nvidia.com/gpu"), None);
    assert_eq!(
        slice["limits"]["memory"], slice["requests"]["memory"],
        "an engine without a limit would take the node's"
    );
    let claim = pod(&json!({"engine": {"device": "Cuda"}, "resources": {"resourceClaimTemplateName": "one-gpu"}}));
    assert_eq!(claim["spec"]["resourceClaims"], json!([{"name": "devices", "resourceClaimTemplateName": "one-gpu"}]));
    let resources = &claim["spec"]["containers"][0]["resources"];
    assert_eq!(resources["claims"], json!([{"name": "devices"}]));
    assert_eq!(resources["limits"].get("nvidia.com/gpu"), None);
}

#[test]
fn the_overlay_merges_and_hardening_stays() {
    let pod = pod(&json!({
        "dataVolume": {"emptyDir": {"sizeLimit": "1Gi"}},
        "podTemplate": {
            "metadata": {
                "labels": {"team": "a", "proofmill.dev/pool": "other"},
                "annotations": {"note": "x", "proofmill.dev/template-hash": "forged"},
            },
            "spec": {
                "priorityClassName": "high",
                "automountServiceAccountToken": true,
                "restartPolicy": "Never",
                "securityContext": {"runAsNonRoot": false, "runAsUser": 1000, "fsGroup": 2000},
                "initContainers": [{
                    "name": "fill", "image": "busybox",
                    "securityContext": {"allowPrivilegeEscalation": true},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }],
                "containers": [
                    {
                        "name": "prover",
                        "args": ["--insecure"],
                        "env": [{"name": "RUST_LOG", "value": "debug"}],
                        "livenessProbe": null,
                        "lifecycle": {"preStop": {"exec": {"command": ["kill", "1"]}}},
                        "securityContext": {"readOnlyRootFilesystem": false, "capabilities": {"drop": []}},
                        "volumeMounts": [{"name": "own", "mountPath": "/etc/proofmill/tls"}],
                    },
                    {"name": "sidecar", "image": "s"},
                ],
                "volumes": [
                    {"name": "tls", "emptyDir": {}},
                    {"name": "own", "configMap": {"name": "c"}},
                ],
                "someFieldOfTheFuture": {"deep": [1]},
            },
        },
    }));
    let spec = &pod["spec"];
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    assert_eq!(pod["metadata"]["labels"]["proofmill.dev/pool"], "default");
    assert_ne!(pod["metadata"]["annotations"][TEMPLATE_HASH], "forged");
    assert_eq!(spec["priorityClassName"], "high");
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(
        spec["securityContext"],
        json!({
            "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 65532, "fsGroup": 2000,
            "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    assert_eq!(spec["someFieldOfTheFuture"], json!({"deep": [1]}), "the API server judges it");
    let prover = &spec["containers"][0];
    for container in [prover, &spec["containers"][1], &spec["initContainers"][0]] {
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false, "{container}");
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{container}");
        assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}), "{container}");
    }
    assert_eq!(prover["env"], json!([{"name": "RUST_LOG", "value": "debug"}]));
    assert_eq!(arguments_of(&pod)[0], "serve");
    assert_eq!(prover["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(prover.get("lifecycle"), None);
    let mounts = prover["volumeMounts"].as_array().unwrap();
    assert!(
        mounts.contains(&json!({"name": "tls", "mountPath": "/etc/proofmill/tls", "readOnly": true})),
        "{mounts:?}"
    );
    let tls: Vec<_> = spec["volumes"].as_array().unwrap().iter().filter(|volume| volume["name"] == "tls").collect();
    assert_eq!(tls.len(), 1);
    assert_eq!((tls[0].get("emptyDir"), &tls[0]["secret"]["secretName"]), (None, &json!("default-prover-tls")));
}

#[test]
fn memory_that_no_engine_could_start_with_is_refused() {
    let memory = |size: &str| json!({"resources": {"limits": {"memory": size}}});
    let error = Template::of(&pool(&memory("512Mi")), &[], &settings()).unwrap_err();
    assert_eq!(error.path, "spec.template.resources.limits.memory");
    assert!(error.problem.starts_with("536870912 bytes"), "{error}");
    for fine in ["513Mi", "1Gi", "2e9"] {
        assert!(Template::of(&pool(&memory(fine)), &[], &settings()).is_ok(), "{fine}");
    }
    let mut budgeted = memory("256Mi");
    budgeted["engine"] = json!({"memory": "100Mi"});
    assert!(Template::of(&pool(&budgeted), &[], &settings()).is_ok(), "as it was told");
}

#[test]
fn power_over_the_node_is_refused_by_path() {
    refused(&json!({"hostNetwork": true}), "hostNetwork");
    refused(&json!({"hostPID": true}), "hostPID");
    refused(&json!({"hostIPC": "yes"}), "hostIPC");
    refused(&json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}), "volumes[root].hostPath");
    let context = |fields: Value| json!({"containers": [{"name": "prover", "securityContext": fields}]});
    refused(&context(json!({"privileged": true})), "containers[prover].securityContext.privileged");
    refused(
        &context(json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
        "containers[prover].securityContext.capabilities.add",
    );
    refused(&context(json!({"procMount": "Unmasked"})), "containers[prover].securityContext.procMount");
    let port = json!({"containers": [{"name": "prover", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
    refused(&port, "containers[prover].ports[].hostPort");
    refused(
        &json!({"initContainers": [{"name": "i", "securityContext": {"privileged": true}}]}),
        "initContainers[i].securityContext.privileged",
    );
    refused(&json!({"securityContext": {"runAsUser": 0}}), "securityContext.runAsUser");
    refused(&context(json!({"runAsUser": 0})), "containers[prover].securityContext.runAsUser");
}

#[test]
fn overlays_that_make_no_pod_are_refused_by_path() {
    refused(&json!({"containers": null}), "containers");
    refused(&json!({"containers": "x"}), "containers");
    refused(&json!({"containers": [{"image": "nameless"}]}), "containers");
    refused(&json!({"initContainers": [7]}), "initContainers");
    refused(&json!({"volumes": {}}), "volumes");
    refused(&json!({"ephemeralContainers": []}), "ephemeralContainers");
}

#[test]
fn privileged_pools_get_what_they_ask_for_where_that_is_allowed() {
    let settings = Settings { allow_privileged: true, ..settings() };
    let of = |spec: Value| Template::of(&pool(&json!({"podTemplate": {"spec": spec}})), &[], &settings);
    let asked = json!({"privileged": true, "capabilities": {"add": ["IPC_LOCK"]}});
    let template = of(json!({
        "hostNetwork": true,
        "containers": [{"name": "prover", "securityContext": asked}],
        "volumes": [{"name": "disk", "hostPath": {"path": "/mnt/keys"}}],
    }));
    let pod = template.unwrap().pod("default-0");
    let context = &pod["spec"]["containers"][0]["securityContext"];
    assert_eq!(pod["spec"]["hostNetwork"], true);
    assert_eq!(context["privileged"], true);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"], "add": ["IPC_LOCK"]}));
    assert_eq!(context.get("allowPrivilegeEscalation"), None, "the API server refuses it beside privileged");
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert!(of(json!({"securityContext": {"runAsUser": 0}})).is_err(), "not even there");
}

#[test]
fn the_hash_tells_what_was_sent() {
    let base = template(&json!({}));
    assert_eq!(base.hash().len(), 16);
    assert_eq!(base.hash(), template(&json!({})).hash());
    assert_eq!(base.pod("a")["metadata"]["annotations"][TEMPLATE_HASH], base.hash());
    assert_ne!(base.hash(), template(&json!({"engine": {"threads": 2}})).hash());
    assert_ne!(base.hash(), template(&json!({"podTemplate": {"metadata": {"labels": {"a": "b"}}}})).hash());
    let newer = Settings { image: "ghcr.io/proofmill/proofmill:0.2.0".to_owned(), ..settings() };
    assert_ne!(base.hash(), Template::of(&pool(&json!({})), &[], &newer).unwrap().hash(), "an upgrade replaces pods");
    let large = [CircuitSize { key: 10 << 30, partition: None }];
    let large = Template::of(&pool(&json!({})), &large, &settings()).unwrap();
    assert_eq!(base.hash(), large.hash(), "a pod with more memory than is needed is as good");
    let pod = large.pod("a");
    let bytes = large.memory().unwrap();
    assert_eq!(pod["metadata"]["annotations"][MEMORY], bytes.to_string());
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["memory"], format!("{}Mi", bytes >> 20));
    let mut again = pool(&json!({}));
    again.meta.uid = "u-2".to_owned();
    again.spec.replicas = Some(5);
    assert_eq!(base.hash(), Template::of(&again, &[], &settings()).unwrap().hash(), "only the template counts");
}
