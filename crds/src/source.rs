//! Where bytes come from: the fields that circuits and jobs share.

use base64::Engine as _;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{hex, rules};

/// A file to fetch.
#[derive(Clone, Debug, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `file:` (relative to the manifest under `prover run`, beneath the data volume in a pool), `http(s):`, `s3:`,
    /// `gs:` or `az:`.
    #[schemars(length(min = 1, max = rules::URL_MAX))]
    #[x_kube(validation = Rule::new(rules::URL_RULE).message(rules::URL_MESSAGE))]
    pub url: String,
    /// The SHA-256 that the bytes must have, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub sha256: Option<String>,
}

/// An input: exactly one of `url`, `configMapKeyRef`, `secretKeyRef`, `inline`. A `.wtns` file or circom's input JSON,
/// told apart by content.
#[derive(Clone, Default, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::INPUT_ONE_OF).message(rules::INPUT_ONE_OF_MESSAGE))]
pub struct Input {
    /// `file:`, `http(s):`, `s3:`, `gs:` or `az:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = rules::URL_MAX))]
    #[x_kube(validation = Rule::new(rules::URL_RULE).message(rules::URL_MESSAGE))]
    pub url: Option<String>,
    /// A key of a ConfigMap in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret in the namespace that carries the label `proofmill.dev/input: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
    /// The bytes themselves in base64, at most 64 KiB of it, in one line (`base64 -w0`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 4, max = rules::INLINE_MAX), regex(pattern = rules::BASE64))]
    pub inline: Option<String>,
    /// The SHA-256 that the bytes must have, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = rules::SHA256))]
    pub sha256: Option<String>,
}

/// A key of a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq, KubeSchema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// The object's name.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::NAME))]
    pub name: String,
    /// The key within it.
    #[schemars(length(min = 1, max = rules::NAME_MAX), regex(pattern = rules::DATA_KEY))]
    pub key: String,
}

impl Source {
    /// The digest that the bytes must have; `None` without one (or when it is not 64 hexadecimal digits, which a
    /// validated object never has).
    pub fn sha256_bytes(&self) -> Option<[u8; 32]> {
        hex::decode_sha256(self.sha256.as_deref()?)
    }
}

impl Input {
    /// The digest that the bytes must have, as [`Source::sha256_bytes`].
    pub fn sha256_bytes(&self) -> Option<[u8; 32]> {
        hex::decode_sha256(self.sha256.as_deref()?)
    }

    /// The bytes of `inline`; `None` when the input is elsewhere (or is not base64, which a validated object never is).
    pub fn inline_bytes(&self) -> Option<Vec<u8>> {
        base64::engine::general_purpose::STANDARD.decode(self.inline.as_deref()?).ok()
    }
}

/// The input is private: its bytes never show.
impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("url", &self.url)
            .field("config_map_key_ref", &self.config_map_key_ref)
            .field("secret_key_ref", &self.secret_key_ref)
            .field("inline", &self.inline.as_ref().map(|text| format!("{} characters", text.len())))
            .field("sha256", &self.sha256)
            .finish()
    }
}
