//! What pools need: pods checked, created, marked, drained and deleted; the pool's status.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Request, header};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Status;
use proofmill_crds::ProverPool;
use proofmill_crds::conditions::reasons;
use proofmill_crds::prover_pool::ProverPoolStatus;
use proofmill_proto::v1;
use serde_json::{Value, json};

use super::{Executor, events};
use crate::index::{Key, POOL_LABEL, PoolObject};
use crate::link::CALL;
use crate::owner::{self, MANAGED_BY};
use crate::planner::{Change, Input, Tended};
use crate::pool::{Action, Checked, Target};

/// Field manager of pods.
const MANAGER: &str = "proofmill-operator/pods";

/// Why a request for a pod failed.
enum PodFault {
    /// The API server will not have it; its words.
    Refused(Box<Status>),
    /// It did not answer, or could not.
    Failed(String),
}

impl Executor {
    /// Does what a pool needs, in order, as far as it goes.
    pub(super) async fn tend(
        &self,
        pool: &PoolObject,
        actions: Vec<Action>,
        status: Option<Box<ProverPoolStatus>>,
    ) -> Tended {
        let mut news = Tended::default();
        for action in actions {
            if !self.leadership.holds() {
                news.failed = true;
                return news;
            }
            match action {
                Action::Check { hash, pod } => self.check(pool, hash, &pod, &mut news).await,
                Action::Create { pod } => {
                    if news.refused.is_none() && !news.failed {
                        self.create(pool, &pod, &mut news).await;
                    }
                }
                Action::Annotate { pod, annotations } => self.annotate(&pod, annotations, &mut news).await,
                Action::Drain { pod, grace } => self.drain(&pod, grace, &mut news).await,
                Action::Delete { pod, cause } => self.delete_pod(pool, &pod, cause.to_string(), &mut news).await,
            }
        }
        if let Some(status) = status {
            let written = self.write_status::<ProverPool>(&pool.meta, "pools", &status).await;
            news.written = Some(written.map(Into::into));
        }
        news
    }

    /// Asks the API server whether it would take a pod. What depends on the moment (quota, policies by namespace) shows when
    /// the pod is created.
    async fn check(&self, pool: &PoolObject, hash: String, pod: &Value, news: &mut Tended) {
        match self.post_pod(&pool.meta.key.namespace, pod, true).await {
            Ok(_) => news.checked = Some(Checked { hash, refused: None }),
            Err(PodFault::Refused(status)) if status.is_forbidden() => {
                news.checked = Some(Checked { hash, refused: None });
            }
            Err(PodFault::Refused(status)) => {
                let refused = Some(status.message.clone());
                let note = format!("the API server would refuse pods of the template: {}", status.message);
                self.pool_event(&pool.meta, "Check", reasons::TEMPLATE_INVALID, note, true).await;
                news.checked = Some(Checked { hash, refused });
            }
            Err(PodFault::Failed(error)) => {
                tracing::warn!(pool = %pool.meta.key, "the template was not checked: {error}");
                news.failed = true;
            }
        }
    }

    async fn create(&self, pool: &PoolObject, pod: &Value, news: &mut Tended) {
        let key = &pool.meta.key;
        if let Err(error) = self.credentials.ensure(pool).await {
            tracing::warn!(pool = %key, "no pod was created, for want of a certificate: {error}");
            self.pool_event(&pool.meta, "Create", events::NO_CERTIFICATE, error.to_string(), true).await;
            news.failed = true;
            return;
        }
        if let Err(error) = self.bound_disruption(pool).await {
            // Without one, evictions may come all at once; pods drain even so.
            tracing::warn!(pool = %key, "the PodDisruptionBudget was not written: {error}");
        }
        match self.post_pod(&key.namespace, pod, false).await {
            Ok(pod) => {
                let name = pod.metadata.name.clone().unwrap_or_default();
                tracing::info!(pool = %key, pod = name, "pod created");
                news.created = true;
                // The watch would tell later.
                self.tell(Input::Pods(Change::Applied(Box::new(pod.into())))).await;
                self.pool_event(&pool.meta, "Create", "PodCreated", format!("created pod {name}"), false).await;
            }
            // It is there already: the index lags behind, or it is somebody else's.
            Err(PodFault::Refused(status)) if status.is_already_exists() => {
                tracing::debug!(pool = %key, "{}", status.message);
                news.failed = true;
            }
            Err(PodFault::Refused(status)) => {
                tracing::warn!(pool = %key, "the API server refuses a pod: {}", status.message);
                self.pool_event(&pool.meta, "Create", reasons::PODS_REFUSED, status.message.clone(), true).await;
                news.refused = Some(status.message.clone());
            }
            Err(PodFault::Failed(error)) => {
                tracing::warn!(pool = %key, "no pod was created: {error}");
                news.failed = true;
            }
        }
    }

    /// Evictions take one pod of a pool at a time.
    async fn bound_disruption(&self, pool: &PoolObject) -> kube::Result<()> {
        let _turn = self.requests.acquire().await;
        let key = &pool.meta.key;
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": format!("{}-prover", key.name),
                "labels": {MANAGED_BY.0: MANAGED_BY.1},
                "ownerReferences": [owner::of("ProverPool", &pool.meta)],
            },
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {POOL_LABEL: key.name}}},
        });
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&format!("{}-prover", key.name), &params, &Patch::Apply(&budget)).await.map(drop)
    }

    /// Creates a pod, fields that the API server does not know refused.
    async fn post_pod(&self, namespace: &str, pod: &Value, dry_run: bool) -> Result<Pod, PodFault> {
        let _turn = self.requests.acquire().await;
        let failed = |error: &dyn std::fmt::Display| PodFault::Failed(error.to_string());
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let manager = MANAGER.replace('/', "%2F");
        let path =
            format!("/api/v1/namespaces/{namespace}/pods?fieldValidation=Strict&fieldManager={manager}{dry_run}");
        let request =
            Request::post(path).header(header::CONTENT_TYPE, "application/json").body(pod.to_string().into_bytes());
        match self.client.request(request.map_err(|error| failed(&error))?).await {
            Ok(pod) => Ok(pod),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Err(PodFault::Refused(status))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    async fn annotate(&self, pod: &Target, annotations: BTreeMap<&'static str, Option<String>>, news: &mut Tended) {
        let _turn = self.requests.acquire().await;
        let patch = json!({"metadata": {"resourceVersion": pod.resource_version, "annotations": annotations}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match self.pods(&pod.key).patch(&pod.key.name, &params, &Patch::Merge(&patch)).await {
            Ok(pod) => self.tell(Input::Pods(Change::Applied(Box::new(pod.into())))).await,
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => news.failed = true,
            Err(error) => {
                tracing::warn!(pod = %pod.key, "annotations were not written: {error}");
                news.failed = true;
            }
        }
    }

    async fn drain(&self, pod: &Key, grace: i64, news: &mut Tended) {
        let Some(mut client) = self.links.client_of(pod) else { return };
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let request = v1::DrainRequest { grace_ms: u64::try_from(grace.as_millis()).ok() };
        match tokio::time::timeout(CALL, client.drain(request)).await {
            Ok(Ok(_)) => tracing::info!(pod = %pod, "the engine drains"),
            Ok(Err(status)) => {
                tracing::warn!(pod = %pod, "the engine does not drain: {}", status.message());
                news.failed = true;
            }
            Err(_) => news.failed = true,
        }
    }

    async fn delete_pod(&self, pool: &PoolObject, pod: &Target, cause: String, news: &mut Tended) {
        let turn = self.requests.acquire().await;
        let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = self.pods(&pod.key).delete(&pod.key.name, &params).await;
        drop(turn);
        match deleted {
            Ok(deleted) => {
                if let Some(pod) = deleted.left() {
                    self.tell(Input::Pods(Change::Applied(Box::new(pod.into())))).await;
                }
                tracing::info!(pod = %pod.key, cause, "pod deleted");
                let note = format!("deleted pod {}: {cause}", pod.key.name);
                self.pool_event(&pool.meta, "Delete", "PodDeleted", note, false).await;
            }
            // Another one has the name, or none: the index lags behind.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => news.failed = true,
            Err(error) => {
                tracing::warn!(pod = %pod.key, "the pod was not deleted: {error}");
                news.failed = true;
            }
        }
    }

    fn pods(&self, pod: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }
}
