//! Jobs' inputs as engines get them: bytes of ConfigMaps and Secrets are read here, URLs are fetched there.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use kube::api::Api;
use proofmill_crds::source::Input as InputSpec;
use proofmill_proto::v1;
use serde::de::DeserializeOwned;

use super::Executor;
use crate::delivery;
use crate::index::Key;
use crate::jobs::message;
use crate::planner::Refusal;

/// The label without which no Secret is read as an input.
const INPUT_LABEL: &str = "proofmill.dev/input";
/// Largest input that is sent along.
const INPUT_LIMIT: usize = 1 << 20;

impl Executor {
    /// A job's input; `digest` is the one that it must have.
    pub(super) async fn input(
        &self,
        job: &Key,
        spec: &InputSpec,
        digest: Option<[u8; 32]>,
    ) -> Result<v1::Input, Refusal> {
        if let Some(url) = &spec.url {
            return Ok(v1::Input { source: Some(v1::input::Source::Fetch(message::source(url, digest))) });
        }
        let bytes = match (&spec.config_map_key_ref, &spec.secret_key_ref) {
            (Some(reference), _) => {
                let object = self.read::<ConfigMap>(job, "ConfigMap", &reference.name).await?;
                let binary = object.binary_data.unwrap_or_default().remove(&reference.key).map(|bytes| bytes.0);
                let text = || object.data.unwrap_or_default().remove(&reference.key).map(String::into_bytes);
                binary.or_else(text).ok_or_else(|| no_key("ConfigMap", &reference.name, &reference.key))?
            }
            (None, Some(reference)) => {
                let object = self.read::<Secret>(job, "Secret", &reference.name).await?;
                if object.metadata.labels.unwrap_or_default().get(INPUT_LABEL).is_none_or(|value| value != "true") {
                    return Err(Refusal::BadInput(format!(
                        "Secret `{}` does not carry the label {INPUT_LABEL}: \"true\", without which no job may read it",
                        reference.name
                    )));
                }
                let mut data = object.data.unwrap_or_default();
                data.remove(&reference.key).ok_or_else(|| no_key("Secret", &reference.name, &reference.key))?.0
            }
            (None, None) => spec.inline_bytes().unwrap_or_default(),
        };
        if bytes.len() > INPUT_LIMIT {
            let message = format!("the input has {} bytes; more than {INPUT_LIMIT} go by url", bytes.len());
            return Err(Refusal::BadInput(message));
        }
        if digest.is_some_and(|digest| digest != delivery::sha256(&bytes)) {
            return Err(Refusal::BadInput("the input has another SHA-256 than it must have".into()));
        }
        Ok(v1::Input { source: Some(v1::input::Source::Inline(bytes)) })
    }

    async fn read<K>(&self, job: &Key, kind: &str, name: &str) -> Result<K, Refusal>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &job.namespace);
        match api.get_opt(name).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(Refusal::NoInput(format!("there is no {kind} `{name}` with the input"))),
            Err(error) => Err(Refusal::Later(format!("{kind} `{name}` with the input cannot be read: {error}"))),
        }
    }
}

fn no_key(kind: &str, name: &str, key: &str) -> Refusal {
    Refusal::NoInput(format!("{kind} `{name}` has no key `{key}`"))
}
