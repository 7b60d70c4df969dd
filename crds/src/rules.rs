//! The CEL rules and the bounds that the schemas carry.
//!
//! Every string and list is bounded, or the API server's cost estimate refuses the rules that compare them.

/// Longest URL, in characters.
pub const URL_MAX: u32 = 2048;

/// Longest `inline` input, in characters of base64. `kubectl apply` keeps a second copy of it in an annotation, and all
/// annotations together may hold 256 KiB.
pub const INLINE_MAX: u32 = 65_536;

/// A SHA-256 in hexadecimal.
pub const SHA256: &str = "^[0-9a-fA-F]{64}$";

/// base64 with padding, in one line.
pub const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// The name of an object: a DNS-1123 subdomain.
pub const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Longest name of an object.
pub const NAME_MAX: u32 = 253;

/// A key of a ConfigMap or Secret.
pub const DATA_KEY: &str = "^[-._a-zA-Z0-9]+$";

/// A condition's type or reason.
pub const CAMEL_CASE: &str = "^[A-Z][A-Za-z0-9]*$";

/// A natural number in decimal, such as a public signal.
pub const DECIMAL: &str = "^(0|[1-9][0-9]*)$";

/// An amount of a resource that is not negative, as Kubernetes writes it.
pub const QUANTITY: &str = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// A number of bytes, as both Kubernetes and the prover's flags write it.
pub const SIZE: &str = r"^[0-9]+(\.[0-9]{1,9})?([KMGT]i|[kMGT])?$";

/// Longest quantity.
pub const QUANTITY_MAX: u32 = 32;

/// Most resources of a kind.
pub const RESOURCES_MAX: u32 = 16;

/// A label's value.
pub const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// Longest value of a label.
pub const LABEL_VALUE_MAX: u32 = 63;

/// Longest key of a label, domain included.
pub const LABEL_KEY_MAX: u32 = 317;

/// Most labels, or annotations.
pub const LABELS_MAX: u32 = 64;

/// The name of a variable of the environment.
pub const ENV_NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// Text without spaces.
pub const NO_SPACE: &str = r"^\S+$";

/// A prefix of URLs that end at a host, bucket or folder.
pub const URL_PREFIX: &str = r"^(https?|s3|gs|az)://[^/?#@\s]+(/[^?#\s]*)?$";

/// Most pods of a pool.
pub const REPLICAS_MAX: u32 = 1_000;

/// URLs that can be fetched. A URL of a job must not hold a password: everyone who may read the job would read it.
pub const URL_RULE: &str =
    r"self.matches('^(file:[^\\pC]+|https?://[^/?#@\\s]+([/?#]\\S*)?|(s3|gs|az)://[^/?#@\\s]+/\\S+)$')";

/// What to do when [`URL_RULE`] fails.
pub const URL_MESSAGE: &str = "must be file:PATH, http(s)://HOST/PATH, s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY, \
     without spaces, user name or password";

/// One kind of circuit.
pub const CIRCUIT_ONE_OF: &str = "[has(self.groth16), has(self.filecoin), has(self.simulated)].exists_one(x, x)";

/// What to do when [`CIRCUIT_ONE_OF`] fails.
pub const CIRCUIT_ONE_OF_MESSAGE: &str = "exactly one of groth16, filecoin, simulated must be set";

/// A circuit never changes: `spec` is required, so nothing can be removed first to slip by.
pub const CIRCUIT_IMMUTABLE: &str = "self == oldSelf";

/// What to do when [`CIRCUIT_IMMUTABLE`] fails.
pub const CIRCUIT_IMMUTABLE_MESSAGE: &str = "is immutable: a new key or circuit is a new Circuit object";

/// One place for the input.
pub const INPUT_ONE_OF: &str =
    "[has(self.url), has(self.configMapKeyRef), has(self.secretKeyRef), has(self.inline)].exists_one(x, x)";

/// What to do when [`INPUT_ONE_OF`] fails.
pub const INPUT_ONE_OF_MESSAGE: &str = "exactly one of url, configMapKeyRef, secretKeyRef, inline must be set";

/// What to do when [`job_immutable`] fails.
pub const JOB_IMMUTABLE_MESSAGE: &str =
    "is immutable, but for suspend, priority and ttlSecondsAfterFinished: create a new ProofJob";

/// Fields of a ProofJob's spec that never change.
pub const JOB_IMMUTABLE_FIELDS: [&str; 6] =
    ["circuitRef", "input", "poolRef", "activeDeadlineSeconds", "backoffLimit", "output"];

/// `Succeeded` does not leave True or False. A rule of the root: one at `status` could be passed by removing `status`.
pub const SUCCEEDED_MONOTONIC: &str = "!has(oldSelf.status) || !has(oldSelf.status.conditions) || \
    oldSelf.status.conditions.all(o, o.type != 'Succeeded' || o.status == 'Unknown' || \
    (has(self.status) && has(self.status.conditions) && \
    self.status.conditions.exists(c, c.type == 'Succeeded' && c.status == o.status)))";

/// What to do when [`SUCCEEDED_MONOTONIC`] fails.
pub const SUCCEEDED_MONOTONIC_MESSAGE: &str = "the condition Succeeded must not change once it is True or False";

/// One rule over the whole spec that compares presence and value of each field that never changes.
///
/// A rule at each optional field (`self == oldSelf`) would not do: it is not evaluated when the field is removed, nor
/// when it is added again with another value.
pub fn job_immutable() -> String {
    let same = |field: &str| {
        format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
    };
    JOB_IMMUTABLE_FIELDS.map(same).join(" && ")
}

/// A rule of the root, where alone a name can be seen.
pub const POOL_NAME: &str =
    "!has(self.metadata.name) || (size(self.metadata.name) <= 48 && !self.metadata.name.contains('.'))";

/// What to do when [`POOL_NAME`] fails. A label's value and a pod's host name have 63 characters.
pub const POOL_NAME_MESSAGE: &str =
    "metadata.name must have at most 48 characters and no dot: pods and a certificate are named after the pool";

/// One owner of the number of pods.
pub const POOL_ONE_OF: &str = "has(self.replicas) != has(self.autoscaling)";

/// What to do when [`POOL_ONE_OF`] fails; `kubectl scale` of an autoscaled pool shows it too.
pub const POOL_ONE_OF_MESSAGE: &str = "exactly one of replicas and autoscaling must be set; \
     an autoscaled pool is scaled by autoscaling.minReplicas and maxReplicas";

/// A range of pods.
pub const AUTOSCALING_BOUNDS: &str = "self.minReplicas <= self.maxReplicas";

/// What to do when [`AUTOSCALING_BOUNDS`] fails.
pub const AUTOSCALING_BOUNDS_MESSAGE: &str = "minReplicas must not be more than maxReplicas";

/// A GPU that nothing would use costs the same. Other names of GPUs (MIG, claims) are the operator's to look at.
pub const GPU_DEVICE: &str = "self.engine.device == 'Cuda' || !has(self.resources) || \
    !((has(self.resources.limits) && 'nvidia.com/gpu' in self.resources.limits) || \
    (has(self.resources.requests) && 'nvidia.com/gpu' in self.resources.requests))";

/// What to do when [`GPU_DEVICE`] fails.
pub const GPU_DEVICE_MESSAGE: &str = "resources ask for nvidia.com/gpu, which only engine.device Cuda would use";

/// Simulated devices are not silently left out.
pub const SIMULATED_DEVICES: &str = "self.device == 'Simulated' || !has(self.simulatedDevices)";

/// What to do when [`SIMULATED_DEVICES`] fails.
pub const SIMULATED_DEVICES_MESSAGE: &str = "simulatedDevices needs device Simulated";

/// The keys of a mapping: a schema bounds only its values.
pub const MAP_KEYS: &str = "self.all(k, size(k) >= 1 && size(k) <= 317)";

/// What to do when [`MAP_KEYS`] fails.
pub const MAP_KEYS_MESSAGE: &str = "every key must have 1 to 317 characters: NAME or DOMAIN/NAME";

/// One volume.
pub const DATA_VOLUME_ONE_OF: &str = "has(self.persistentVolumeClaim) != has(self.emptyDir)";

/// What to do when [`DATA_VOLUME_ONE_OF`] fails.
pub const DATA_VOLUME_ONE_OF_MESSAGE: &str = "exactly one of persistentVolumeClaim, emptyDir must be set";

/// One place for a variable's value.
pub const ENV_ONE_OF: &str = "has(self.value) != has(self.valueFrom)";

/// What to do when [`ENV_ONE_OF`] fails.
pub const ENV_ONE_OF_MESSAGE: &str = "exactly one of value, valueFrom must be set";

/// One source of a variable's value.
pub const ENV_SOURCE_ONE_OF: &str = "has(self.configMapKeyRef) != has(self.secretKeyRef)";

/// What to do when [`ENV_SOURCE_ONE_OF`] fails.
pub const ENV_SOURCE_ONE_OF_MESSAGE: &str = "exactly one of configMapKeyRef, secretKeyRef must be set";
