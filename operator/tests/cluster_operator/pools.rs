//! Pools: how many pods there are, and which.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use proofmill_crds::ProverPool;
use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use serde_json::json;

use crate::world::World;

/// The condition of a pool: its status, reason and message.
async fn condition(world: &World, type_: &str) -> Option<(ConditionStatus, String, String)> {
    let pool: ProverPool = world.get("default").await;
    let conditions = pool.status.unwrap_or_default().conditions;
    conditions.into_iter().find(|c| c.type_ == type_).map(|c| (c.status, c.reason, c.message))
}

async fn shows(world: &World, type_: &str, reason: &str) -> String {
    let seen = world
        .until(&format!("the reason {reason}"), async || {
            let condition = condition(world, type_).await;
            (condition.as_ref().is_some_and(|c| c.1 == reason), condition)
        })
        .await;
    seen.unwrap().2
}

#[tokio::test(flavor = "multi_thread")]
async fn scaled_up_and_down_under_load_no_work_is_lost() {
    let Some(world) = World::new("scaled_up_and_down_under_load_no_work_is_lost").await else { return };
    world.pool("default", 3, json!({"device": "Simulated"})).await;
    world.simulated("c", 1, 300).await;
    for i in 0..100 {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    world.ready("default", 3).await;
    let scale = async |replicas: i32| {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        world.api::<ProverPool>().patch_scale("default", &PatchParams::default(), &scale).await.unwrap();
        world.ready("default", replicas).await;
    };
    scale(1).await;
    scale(3).await;
    let pool = world.api::<ProverPool>().get_scale("default").await.unwrap();
    let status = pool.status.unwrap();
    assert_eq!((status.replicas, status.selector.as_deref()), (3, Some("proofmill.dev/pool=default")));
    for i in 0..100 {
        let job = world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
        assert_eq!(job.status.unwrap().partitions[0].attempts, 1, "a drained pod ends what it has");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_template_replaces_pods_one_by_one_under_load() {
    let Some(world) = World::new("a_new_template_replaces_pods_one_by_one_under_load").await else { return };
    world.pool("default", 2, json!({"device": "Simulated"})).await;
    world.ready("default", 2).await;
    world.simulated("c", 1, 200).await;
    for i in 0..60 {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    let before: Vec<_> = world.pods("default").await.iter().map(|pod| pod.uid().unwrap()).collect();
    let mut template = world.template(json!({"device": "Simulated", "synthesisWorkers": 2}));
    template["env"] = json!([{"name": "NEW", "value": "1"}]);
    world.patch::<ProverPool>("default", json!({"spec": {"template": template}})).await;
    world
        .until("two new pods", async || {
            let pods = world.pods("default").await;
            let ready: ProverPool = world.get("default").await;
            let ready = ready.status.unwrap_or_default().ready_replicas.unwrap_or_default();
            assert!(ready >= 1, "one at a time");
            let fresh = pods.iter().filter(|pod| !before.contains(&pod.uid().unwrap())).count();
            (fresh == 2 && pods.len() == 2 && ready == 2, (fresh, ready))
        })
        .await;
    for i in 0..60 {
        let job = world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
        assert_eq!(job.status.unwrap().partitions[0].attempts, 1, "a drained pod ends what it has");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_makes_no_pods_says_why() {
    let Some(world) = World::new("a_template_that_makes_no_pods_says_why").await else { return };
    let mut template = world.template(json!({"device": "Simulated"}));
    template["podTemplate"] = json!({"spec": {"hostNetwork": true}});
    world.create::<ProverPool>("default", json!({"replicas": 1, "template": template})).await;
    let message = shows(&world, types::TEMPLATE_VALID, reasons::TEMPLATE_INVALID).await;
    assert!(message.contains("hostNetwork") && message.contains("--allow-privileged-pools"), "{message}");
    // Unknown to the API server.
    template["podTemplate"] = json!({"spec": {"hostPet": true}});
    world.patch::<ProverPool>("default", json!({"spec": {"template": {"podTemplate": null}}})).await;
    world.patch::<ProverPool>("default", json!({"spec": {"template": template}})).await;
    world
        .until("the other message", async || {
            let message = condition(&world, types::TEMPLATE_VALID).await.unwrap().2;
            (message.contains("hostPet"), message)
        })
        .await;
    // Mended, it works.
    world.patch::<ProverPool>("default", json!({"spec": {"template": {"podTemplate": null}}})).await;
    world.ready("default", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_named() {
    let Some(world) = World::new("an_image_that_is_not_there_is_named").await else { return };
    let mut template = world.template(json!({"device": "Simulated"}));
    template["image"] = json!("localhost/proofmill:missing");
    world.create::<ProverPool>("default", json!({"replicas": 1, "template": template})).await;
    let message = shows(&world, types::READY, reasons::IMAGE_PULL).await;
    assert!(message.contains("localhost/proofmill:missing"), "{message}");
    world.job("waits", "c", json!({})).await;
    world.simulated("c", 1, 1).await;
    world
        .until("the job says so too", async || {
            let job: proofmill_crds::ProofJob = world.get("waits").await;
            let message =
                job.status.and_then(|s| Some(s.conditions.into_iter().find(|c| c.type_ == types::SUCCEEDED)?.message));
            (message.as_ref().is_some_and(|message| message.contains(reasons::IMAGE_PULL)), message)
        })
        .await;
    // A template that cannot work is replaced at once.
    world.patch::<ProverPool>("default", json!({"spec": {"template": {"image": null}}})).await;
    world.ready("default", 1).await;
    world.expect("waits", ConditionStatus::True, reasons::PROVED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_grow_with_the_circuits_that_they_keep() {
    let Some(world) = World::new("pods_grow_with_the_circuits_that_they_keep").await else { return };
    let mut template = world.template(json!({"device": "Simulated"}));
    template["resources"] = json!({"requests": {"cpu": "20m", "ephemeral-storage": "64Mi"}, "limits": {"cpu": "2"}});
    world.simulated("small", 1, 1).await;
    let spec = json!({"replicas": 1, "circuits": ["small"], "template": template});
    world.create::<ProverPool>("default", spec).await;
    world.ready("default", 1).await;
    shows(&world, types::CIRCUITS_LOADED, reasons::KEYS_LOADED).await;
    let memory = async || {
        let pods = world.pods("default").await;
        let containers = pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].resources.clone().unwrap());
        containers.map(|resources| resources.limits.unwrap()["memory"].0.clone()).collect::<Vec<_>>()
    };
    assert_eq!(memory().await, ["4Gi"]);
    world.patch::<ProverPool>("default", json!({"spec": {"circuits": ["small", "large"]}})).await;
    shows(&world, types::CIRCUITS_LOADED, reasons::WAITING_FOR_CIRCUIT).await;
    let large = json!({
        "partitions": 1, "bytes": {"key": 4_294_967_296_u64, "workingSet": 1000}, "milliseconds": {"msmG1": 1},
    });
    world.create::<proofmill_crds::Circuit>("large", json!({"simulated": large})).await;
    // At once, while the only pod is too small.
    world.job("large", "large", json!({"backoffLimit": 0})).await;
    world.expect("large", ConditionStatus::True, reasons::PROVED).await;
    world.ready("default", 1).await;
    shows(&world, types::CIRCUITS_LOADED, reasons::KEYS_LOADED).await;
    // 4 GiB of work are seven eighths of the budget, and that is nine tenths of the memory.
    assert_eq!(memory().await, ["5376Mi"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_that_a_pool_cannot_load_is_a_condition() {
    let Some(world) = World::new("a_circuit_that_a_pool_cannot_load_is_a_condition").await else { return };
    let url = world.files.url("no-such.zkey");
    world.create::<proofmill_crds::Circuit>("gone", json!({"groth16": {"zkey": {"url": url}}})).await;
    let template = world.template(json!({"device": "Cpu"}));
    let spec = json!({"replicas": 1, "circuits": ["gone"], "template": template});
    world.create::<ProverPool>("default", spec).await;
    let message = shows(&world, types::CIRCUITS_LOADED, reasons::UNAVAILABLE).await;
    assert!(message.contains("gone: 1 of 1 pods cannot load it") && message.contains("404"), "{message}");
    // It takes work all the same.
    world.ready("default", 1).await;
    // Mended as its spec can be: by another Circuit of its name.
    world.delete::<proofmill_crds::Circuit>("gone").await;
    world.chain("gone", "bn128", json!({})).await;
    shows(&world, types::CIRCUITS_LOADED, reasons::KEYS_LOADED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_of_different_kinds_work_side_by_side() {
    let Some(world) = World::new("pools_of_different_kinds_work_side_by_side").await else { return };
    world.pool("real", 1, json!({"device": "Cpu", "allowInsecureKeys": true})).await;
    world.pool("simulated", 1, json!({"device": "Simulated"})).await;
    world.chain("chain", "bn128", json!({})).await;
    world.simulated("script", 2, 50).await;
    let witness = world.files.url("chain/bn128/chain.wtns");
    for i in 0..10 {
        let input = json!({"input": {"url": witness}, "poolRef": {"name": "real"}});
        world.job(&format!("real-{i}"), "chain", input).await;
        world.job(&format!("script-{i}"), "script", json!({"poolRef": {"name": "simulated"}})).await;
    }
    for i in 0..10 {
        for (kind, pool) in [("real", "real"), ("script", "simulated")] {
            let job = world.expect(&format!("{kind}-{i}"), ConditionStatus::True, reasons::PROVED).await;
            let pods = job.status.unwrap().partitions.into_iter().map(|partition| partition.pod.unwrap());
            assert_eq!(pods.collect::<Vec<_>>(), vec![format!("{pool}-0"); if kind == "real" { 1 } else { 2 }]);
        }
    }
    // What a pool's engines cannot prove fails there, and harms nobody.
    world.job("astray", "script", json!({"poolRef": {"name": "real"}})).await;
    let job = world.end("astray").await;
    let conditions = job.status.unwrap().conditions;
    let message = &conditions.iter().find(|c| c.type_ == types::SUCCEEDED).unwrap().message;
    assert!(message.contains("simulated"), "{message}");
    world.ready("real", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_refuses_pods_until_it_is_raised() {
    let Some(world) = World::new("a_quota_refuses_pods_until_it_is_raised").await else { return };
    let quota: k8s_openapi::api::core::v1::ResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "0"}}})).unwrap();
    world.api().create(&Default::default(), &quota).await.unwrap();
    // The quota counts once its controller has looked.
    world
        .until("the quota", async || {
            let quota: k8s_openapi::api::core::v1::ResourceQuota = world.get("pods").await;
            (quota.status.as_ref().is_some_and(|status| status.hard.is_some()), ())
        })
        .await;
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    let message = shows(&world, types::READY, reasons::PODS_REFUSED).await;
    assert!(message.contains("quota"), "{message}");
    world.patch::<k8s_openapi::api::core::v1::ResourceQuota>("pods", json!({"spec": {"hard": {"pods": "5"}}})).await;
    world.ready("default", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_hardened_and_speak_only_to_the_operator() {
    let Some(world) = World::new("pods_are_hardened_and_speak_only_to_the_operator").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    let pod = world.pods("default").await.remove(0);
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.automount_service_account_token, Some(false));
    let prover = &spec.containers[0];
    let security = prover.security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.capabilities.as_ref().unwrap().drop, Some(vec!["ALL".to_owned()]));
    let owner = &pod.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ProverPool", "default"));
    let budget: PodDisruptionBudget = world.get("default-prover").await;
    assert_eq!(budget.owner_references()[0].kind, "ProverPool");
    let secret: Secret = world.get("default-prover-tls").await;
    assert_eq!(secret.owner_references()[0].kind, "ProverPool");

    let address = format!("https://{}:7000/", pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap());
    let curl = async |more: &[&str]| {
        let output =
            tokio::process::Command::new("curl").args(["-sSk", "-m", "5", "--http2"]).args(more).arg(&address).output();
        let output = output.await.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Without a certificate, and with the pod's own.
    let (answered, said) = curl(&[]).await;
    assert!(!answered, "{said}");
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in secret.data.unwrap() {
        std::fs::write(folder.path().join(name), bytes.0).unwrap();
    }
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (answered, said) = curl(&["--cert", &file("tls.crt"), "--key", &file("tls.key")]).await;
    assert!(!answered, "a pod's certificate is a server's, not the operator's: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_pods_replaces_none() {
    let Some(world) = World::new("a_policy_that_changes_pods_replaces_none").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    let status = world.pods("default").await.remove(0).status.unwrap();
    let image = &status.container_statuses.unwrap()[0].image_id;
    // As a service mesh and a registry mirror do: another label, another name of the image, a toleration, and a sidecar.
    let sidecar = format!(
        "Object.spec.containers{{name: \"sidecar\", image: {image:?}, command: [\"/usr/local/bin/prover\", \"serve\", \
         \"--device=simulated\", \"--listen=127.0.0.1:7100\", \"--http=127.0.0.1:9190\", \"--key-cache=/tmp/keys\"], \
         volumeMounts: [Object.spec.containers.volumeMounts{{name: \"tmp\", mountPath: \"/tmp\"}}], \
         securityContext: Object.spec.containers.securityContext{{allowPrivilegeEscalation: false, runAsNonRoot: true, \
         capabilities: Object.spec.containers.securityContext.capabilities{{drop: [\"ALL\"]}}}}}}"
    );
    let patches = [
        r#"JSONPatch{op: "add", path: "/metadata/labels/mutated", value: "yes"}"#.to_owned(),
        format!("JSONPatch{{op: \"replace\", path: \"/spec/containers/0/image\", value: {image:?}}}"),
        r#"JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{key: "mutated", operator: "Exists"}}"#
            .to_owned(),
        format!("JSONPatch{{op: \"add\", path: \"/spec/containers/-\", value: {sidecar}}}"),
    ];
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": world.namespace},
        "spec": {
            "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
                ],
            },
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{}]", patches.join(", "))}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": world.namespace}, "spec": {"policyName": world.namespace},
    });
    for object in [&policy, &binding] {
        if !world.kubectl(&["apply", "-f", "-"], &object.to_string()) {
            println!(
                "SKIPPED a_policy_that_changes_pods_replaces_none: this API server has no MutatingAdmissionPolicy"
            );
            return;
        }
    }
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    world.patch::<ProverPool>("default", json!({"spec": {"replicas": 2}})).await;
    world.ready("default", 2).await;
    let pods = world.pods("default").await;
    let mutated = pods.iter().find(|pod| pod.name_any() == "default-1").unwrap();
    assert_eq!(mutated.labels()["mutated"], "yes");
    let spec = mutated.spec.as_ref().unwrap();
    let containers: Vec<_> = spec.containers.iter().map(|c| (c.name.as_str(), c.image.as_ref())).collect();
    assert_eq!(containers, [("prover", Some(image)), ("sidecar", Some(image))]);
    assert!(spec.tolerations.iter().flatten().any(|toleration| toleration.key.as_deref() == Some("mutated")));
    let before: Vec<_> = pods.iter().map(kube::ResourceExt::uid).collect();
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    let after: Vec<_> = world.pods("default").await.iter().map(kube::ResourceExt::uid).collect();
    assert_eq!(before, after);
    world.kubectl(&["delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", &world.namespace], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_node_refuses_are_counted_and_few() {
    let Some(world) = World::new("pods_that_a_node_refuses_are_counted_and_few").await else { return };
    // Bound to the node past the scheduler, a pod that asks for what the node lacks fails at admission, again and again.
    let mut template = world.template(json!({"device": "Simulated"}));
    template["podTemplate"] = json!({"spec": {"nodeName": "node-1"}});
    template["resources"] = json!({"requests": {"cpu": "500", "memory": "1Gi", "ephemeral-storage": "64Mi"}});
    world.create::<ProverPool>("default", json!({"replicas": 1, "template": template})).await;
    let message = shows(&world, types::READY, reasons::PODS_FAILED).await;
    assert!(message.contains("OutOfcpu"), "{message}");
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    let pods = world.pods("default").await;
    assert!((1..=6).contains(&pods.len()), "{} pods", pods.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaled_pool_comes_from_zero_with_work_and_goes_back() {
    let Some(world) = World::new("an_autoscaled_pool_comes_from_zero_with_work_and_goes_back").await else { return };
    let range = json!({
        "minReplicas": 0, "maxReplicas": 2, "targetQueueSeconds": 2,
        "scaleUpStabilizationSeconds": 0, "scaleDownStabilizationSeconds": 3,
    });
    let template = world.template(json!({"device": "Simulated"}));
    world.create::<ProverPool>("default", json!({"autoscaling": range, "template": template})).await;
    shows(&world, types::READY, reasons::SCALED_TO_ZERO).await;
    assert!(world.pods("default").await.is_empty());
    world.simulated("c", 1, 500).await;
    for i in 0..30 {
        world.job(&format!("j-{i}"), "c", json!({})).await;
    }
    // Two pods: the length of a job is known after the first, and 15 s of work wait for one.
    world.ready("default", 2).await;
    for i in 0..30 {
        let job = world.expect(&format!("j-{i}"), ConditionStatus::True, reasons::PROVED).await;
        assert_eq!(job.status.unwrap().partitions[0].attempts, 1, "scaling down ends no work");
    }
    shows(&world, types::READY, reasons::SCALED_TO_ZERO).await;
    world
        .until("no pods", async || {
            let pods = world.pods("default").await.len();
            (pods == 0, pods)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_created_anew_has_its_own_pods_and_secret() {
    let Some(world) = World::new("a_pool_that_is_created_anew_has_its_own_pods_and_secret").await else { return };
    world.simulated("c", 1, 1).await;
    for round in ["first", "second"] {
        world.pool("default", 1, json!({"device": "Simulated"})).await;
        let uid = world.get::<ProverPool>("default").await.uid().unwrap();
        world.ready("default", 1).await;
        assert_eq!(world.pods("default").await[0].owner_references()[0].uid, uid);
        assert_eq!(world.get::<Secret>("default-prover-tls").await.owner_references()[0].uid, uid, "{round}");
        world.job(round, "c", json!({})).await;
        world.expect(round, ConditionStatus::True, reasons::PROVED).await;
        // At once, while the garbage collector still has the first one's pods and Secret.
        world.delete::<ProverPool>("default").await;
    }
}
