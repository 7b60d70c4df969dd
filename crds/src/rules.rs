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
