//! The pods of a pool: from the typed template, with the overlay laid over it, hardened afterwards.
//!
//! A pod is plain JSON, not a type: an overlay may hold fields that are younger than the types this was built with, and a
//! mistyped field must reach the API server, which alone can refuse it.

use proofmill_crds::hex;
use proofmill_crds::pool_template::{Device, EmptyDir, Engine, PoolTemplate};
use proofmill_crds::quantity::Quantity;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::resources::{SCRATCH, check_memory, fill_memory, key_cache, resources};
use super::{CircuitSize, PoolObject, Settings, harden, overlay};
use crate::index::POOL_LABEL;
use crate::owner::MANAGED_BY;

/// The annotation that tells which template a pod was made from. The live spec is never compared: a mutating policy would
/// make every pod look outdated for ever.
pub const TEMPLATE_HASH: &str = "proofmill.dev/template-hash";
/// The annotation that tells the bytes of memory a pod was made with, where its pool leaves that to the operator.
pub const MEMORY: &str = "proofmill.dev/memory-bytes";
/// The container that proves.
pub const PROVER: &str = "prover";
/// Port of the engine's gRPC service.
pub const GRPC_PORT: u16 = 7000;
/// Port of the engine's metrics and probes.
pub const HTTP_PORT: u16 = 9090;

/// User and group of the prover, as in the image.
pub(super) const USER: i64 = 65_532;

const BINARY: &str = "/usr/local/bin/prover";
const TLS_FOLDER: &str = "/etc/proofmill/tls";
const KEYS_FOLDER: &str = "/var/cache/proofmill/keys";
const DATA_FOLDER: &str = "/data";

/// Time between the engine's own end and that which the kubelet makes, seconds.
const LAST_WORDS: i64 = 10;

/// A template that makes no pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TemplateInvalid {
    /// The field of the pool.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

/// What the pods of a pool are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    hash: String,
    memory: Option<u64>,
    pod: Value,
}

impl Template {
    /// Of a pool as it is now, with the circuits that its engines keep in memory as far as their sizes are known.
    pub fn of(pool: &PoolObject, circuits: &[CircuitSize], settings: &Settings) -> Result<Self, TemplateInvalid> {
        let template = &pool.spec.template;
        let mut spec = typed(pool, settings);
        if let Some(pod) = &template.pod_template {
            overlay::merge_mapping(&mut spec, &pod.spec);
        }
        harden::check(&spec, settings.allow_privileged)?;
        harden::impose(&mut spec);
        impose_prover(&mut spec, pool);

        let metadata = template.pod_template.as_ref().and_then(|pod| pod.metadata.clone()).unwrap_or_default();
        let mut labels = metadata.labels;
        labels.extend([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())]);
        labels.extend([(POOL_LABEL.to_owned(), pool.meta.key.name.clone())]);
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": pool.meta.key.namespace, "labels": labels, "annotations": metadata.annotations},
            "spec": spec,
        });
        let hash = hash(&pod);
        let mut memory = None;
        if let Some(prover) = pod["spec"]["containers"].as_array_mut().and_then(|list| prover_among(list)) {
            memory = fill_memory(prover, template, circuits);
            check_memory(prover, &template.engine)?;
        }
        if let Some(bytes) = memory {
            pod["metadata"]["annotations"][MEMORY] = bytes.to_string().into();
        }
        pod["metadata"]["annotations"][TEMPLATE_HASH] = hash.as_str().into();
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": proofmill_crds::API_VERSION,
            "kind": "ProverPool",
            "name": pool.meta.key.name,
            "uid": pool.meta.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]);
        Ok(Self { hash, memory, pod })
    }

    /// Tells templates apart. Memory that circuits ask for is not part of it: a pod with more than that is as good.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Bytes of memory, where the pool leaves that to the operator.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// A pod of this template.
    pub fn pod(&self, name: &str) -> Value {
        let mut pod = self.pod.clone();
        pod["metadata"]["name"] = name.into();
        pod
    }
}

/// The Secret with a pool's server certificate, in the pool's namespace.
pub fn tls_secret(pool: &str) -> String {
    format!("{pool}-prover-tls")
}

/// The spec that the typed fields make.
fn typed(pool: &PoolObject, settings: &Settings) -> Map<String, Value> {
    let template = &pool.spec.template;
    let mut prover = json!({
        "name": PROVER,
        "image": template.image.as_ref().unwrap_or(&settings.image),
        "env": template.env,
        "resources": resources(template),
        // The engine's last words reach the pod's status, and so the pool's condition.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let mut spec = Map::from_iter([
        ("terminationGracePeriodSeconds".to_owned(), json!(template.termination_grace_period_seconds)),
        ("nodeSelector".to_owned(), json!(template.node_selector)),
        ("tolerations".to_owned(), json!(template.tolerations)),
        ("imagePullSecrets".to_owned(), json!(template.image_pull_secrets)),
    ]);
    if let Some(policy) = template.image_pull_policy {
        prover["imagePullPolicy"] = json!(policy);
    }
    if let Some(account) = &template.service_account_name {
        spec.insert("serviceAccountName".to_owned(), json!(account));
    }
    if let Some(claim) = template.resources.as_ref().and_then(|r| r.resource_claim_template_name.as_ref()) {
        spec.insert("resourceClaims".to_owned(), json!([{"name": "devices", "resourceClaimTemplateName": claim}]));
    }
    spec.insert("containers".to_owned(), json!([prover]));
    spec
}

/// The prover's own container, once more: what it runs, its ports, probes and mounts are not the overlay's.
fn impose_prover(spec: &mut Map<String, Value>, pool: &PoolObject) {
    let template = &pool.spec.template;
    let limit = key_cache(template);
    let keys = match template.key_cache.as_ref().and_then(|cache| cache.persistent_volume_claim.as_ref()) {
        Some(claim) => json!({"persistentVolumeClaim": claim}),
        None => json!({"emptyDir": {"sizeLimit": limit.to_string()}}),
    };
    let mut volumes = vec![
        (
            "tls",
            TLS_FOLDER,
            true,
            json!({"secret": {"secretName": tls_secret(&pool.meta.key.name), "defaultMode": 0o440}}),
        ),
        ("keys", KEYS_FOLDER, false, keys),
        ("tmp", "/tmp", false, json!({"emptyDir": {"sizeLimit": SCRATCH.to_string()}})),
    ];
    if let Some(data) = &template.data_volume {
        let source = match (&data.persistent_volume_claim, &data.empty_dir) {
            (Some(claim), _) => json!({"persistentVolumeClaim": {"claimName": claim.claim_name}}),
            (None, Some(EmptyDir { size_limit: Some(limit) })) => {
                json!({"emptyDir": {"sizeLimit": limit.to_string()}})
            }
            (None, _) => json!({"emptyDir": {}}),
        };
        volumes.push(("data", DATA_FOLDER, true, source));
    }
    let mut wanted = json!({"volumes": [], "containers": [{
        "name": PROVER,
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT, "protocol": "TCP"},
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
        ],
        "volumeMounts": [],
    }]});
    for (name, folder, read_only, mut source) in volumes {
        source["name"] = name.into();
        // A source of another kind would stay beside ours.
        if let Some(known) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            known.retain(|volume| volume["name"] != name);
        }
        if let Some(list) = wanted["volumes"].as_array_mut() {
            list.push(source);
        }
        if let Some(list) = wanted["containers"][0]["volumeMounts"].as_array_mut() {
            list.push(json!({"name": name, "mountPath": folder, "readOnly": read_only}));
        }
    }
    if let Value::Object(wanted) = wanted {
        overlay::merge_mapping(spec, &wanted);
    }
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    if let Some(container) = containers.and_then(|list| prover_among(list)) {
        container.insert("command".to_owned(), json!([BINARY]));
        container.insert("args".to_owned(), arguments(template, limit).into());
        harden::probes(container);
    }
}

/// The container that proves; the API server refuses a second one of its name.
fn prover_among(containers: &mut [Value]) -> Option<&mut Map<String, Value>> {
    containers.iter_mut().filter_map(Value::as_object_mut).find(|container| container["name"] == PROVER)
}

/// The command line.
fn arguments(template: &PoolTemplate, key_cache: u64) -> Vec<String> {
    let Engine {
        device,
        threads,
        simulated_devices,
        synthesis_workers,
        memory,
        reserve_critical,
        input_limit,
        key_limit,
        trace_window_seconds,
        allow_urls,
        allow_insecure_keys,
    } = &template.engine;
    let device = match device {
        Device::Cpu => "cpu",
        Device::Cuda => "cuda",
        Device::Simulated => "simulated",
    };
    let grace = template.termination_grace_period_seconds - LAST_WORDS;
    let mut arguments = vec![
        "serve".to_owned(),
        format!("--listen=0.0.0.0:{GRPC_PORT}"),
        format!("--http=0.0.0.0:{HTTP_PORT}"),
        format!("--tls-cert={TLS_FOLDER}/{}", crate::certificates::CERTIFICATE),
        format!("--tls-key={TLS_FOLDER}/{}", crate::certificates::PRIVATE_KEY),
        format!("--tls-client-ca={TLS_FOLDER}/{}", crate::certificates::AUTHORITIES),
        format!("--file-root={DATA_FOLDER}"),
        format!("--key-cache={KEYS_FOLDER}"),
        // The volume's limit is where the kubelet evicts; what is being written must fit, too.
        format!("--key-cache-limit={}", key_cache / 10 * 9),
        format!("--device={device}"),
        format!("--grace={grace}s"),
        "--log-format=json".to_owned(),
    ];
    let mut option =
        |flag: &str, value: Option<String>| arguments.extend(value.map(|value| format!("--{flag}={value}")));
    option("threads", threads.map(|n| n.to_string()));
    option("simulated-devices", simulated_devices.map(|n| n.to_string()));
    option("synthesis-workers", synthesis_workers.map(|n| n.to_string()));
    option("memory", memory.as_ref().map(Quantity::to_string));
    option("reserve-critical", reserve_critical.as_ref().map(Quantity::to_string));
    option("input-limit", input_limit.as_ref().map(Quantity::to_string));
    option("key-limit", key_limit.as_ref().map(Quantity::to_string));
    option("trace-window", trace_window_seconds.map(|n| format!("{n}s")));
    arguments.extend(allow_urls.iter().map(|prefix| format!("--allow-url={prefix}")));
    if *allow_insecure_keys {
        arguments.push("--allow-insecure-keys".to_owned());
    }
    arguments
}

/// Of everything that was sent but the name and owner: 16 hexadecimal digits. Keys of a JSON mapping are in order.
fn hash(pod: &Value) -> String {
    hex::encode(&Sha256::digest(pod.to_string())[..8])
}

#[cfg(test)]
mod tests;
