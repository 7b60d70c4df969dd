//! Does what the planner wants, and tells it how that went. The only part that writes.
//!
//! - `tend`: what pools need.
//! - `input`: jobs' inputs out of ConfigMaps and Secrets.

mod input;
mod tend;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use proofmill_crds::{API_VERSION, Circuit, ProofJob};
use proofmill_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::credentials::Credentials;
use crate::delivery::{self, Checker};
use crate::index::{JobObject, Meta};
use crate::leader::Leadership;
use crate::link::{CALL, Links};
use crate::planner::{Command, Input, OutputFault, Refusal, Submission, WriteFault};

/// Requests to the API server under way at once.
const REQUESTS: usize = 16;

/// See the module.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    links: Links,
    credentials: Credentials,
    checker: Checker,
    recorder: Recorder,
    leadership: Leadership,
    requests: Arc<Semaphore>,
    /// What waits to be sent, by pod.
    submissions: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Command>>>>,
    to: mpsc::Sender<Input>,
    step_down: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

impl Executor {
    /// Acts with `client` as long as `leadership` holds. The second value resolves when a newer leader is at work.
    pub fn new(
        client: Client,
        links: Links,
        credentials: Credentials,
        leadership: Leadership,
        to: mpsc::Sender<Input>,
    ) -> (Self, oneshot::Receiver<()>) {
        let reporter = Reporter { controller: "proofmill-operator".into(), instance: None };
        let (step_down, stepped_down) = oneshot::channel();
        let executor = Self {
            checker: Checker::new(links.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            links,
            credentials,
            leadership,
            requests: Arc::new(Semaphore::new(REQUESTS)),
            submissions: Arc::default(),
            to,
            step_down: Arc::new(Mutex::new(Some(step_down))),
        };
        (executor, stepped_down)
    }

    /// Does it, without waiting for it; nothing is done without leadership.
    pub fn run(&self, command: Command) {
        if matches!(command, Command::StepDown) || !self.leadership.holds() {
            // What the planner believes to be done is not: another process must begin from what the cluster says.
            let sender = self.step_down.lock().unwrap_or_else(PoisonError::into_inner).take();
            sender.map(|sender| sender.send(()));
            return;
        }
        match command {
            Command::Connect(address) => {
                let (sender, queue) = mpsc::unbounded_channel();
                self.queues().insert(address.pod.clone(), sender);
                tokio::spawn(self.clone().submit_in_order(queue));
                self.links.open(address);
            }
            Command::Disconnect(pod) => {
                self.queues().remove(&pod);
                self.links.close(&pod);
            }
            Command::Submit(ref submission) => self.in_order(&submission.pod.clone(), command),
            Command::Cancel { ref pod, .. } | Command::Reprioritise { ref pod, .. } => {
                self.in_order(&pod.clone(), command);
            }
            command => {
                let executor = self.clone();
                tokio::spawn(async move { executor.run_alone(command).await });
            }
        }
    }

    /// What needs no order.
    async fn run_alone(&self, command: Command) {
        match command {
            Command::Cancel { pod, id } => {
                self.call(&pod, async |client| client.cancel(v1::CancelRequest { id: Some(id) }).await.map(drop)).await;
            }
            Command::Ack { pod, id } => {
                self.call(&pod, async |client| client.ack(v1::AckRequest { id: Some(id) }).await.map(drop)).await;
            }
            Command::Reprioritise { pod, job, priority } => {
                let request = v1::ReprioritiseRequest { job, priority: priority.into() };
                self.call(&pod, async |client| client.reprioritise(request).await.map(drop)).await;
            }
            Command::Preload { pod, circuit } => {
                let request = v1::PreloadRequest { circuit: Some(*circuit) };
                self.call(&pod, async |client| client.preload(request).await.map(drop)).await;
            }
            Command::Verify(work) => {
                let fault = self.checker.check(&work).await.err();
                self.tell(Input::Verified { job: work.job, uid: work.uid, fault }).await;
            }
            Command::WriteStatus { job, status } => {
                let result = self.write_status::<ProofJob>(&job.meta, "jobs", &status).await;
                let result = result.map(|object| Box::new(object.into()));
                self.tell(Input::Written { job: job.meta.key, uid: job.meta.uid, result }).await;
            }
            Command::WriteCircuit { circuit, status } => {
                let result = self.write_status::<Circuit>(&circuit.meta, "circuits", &status).await;
                let result = result.map(|object| Box::new(object.into()));
                self.tell(Input::CircuitWritten { circuit: circuit.meta.key, uid: circuit.meta.uid, result }).await;
            }
            Command::Tend { pool, actions, status } => {
                let news = Box::new(self.tend(&pool, actions, status).await);
                self.tell(Input::Tended { pool: pool.meta.key, uid: pool.meta.uid, news }).await;
            }
            Command::KeepPool(pool) => {
                if let Err(error) = self.credentials.keep(&pool).await {
                    tracing::warn!(pool = %pool.meta.key, "the pool has no certificate yet: {error}");
                }
            }
            Command::ForgetPool(pool) => self.credentials.forget(&pool),
            Command::Evict { pod, circuit } => {
                let request = v1::EvictRequest { circuit };
                self.call(&pod, async |client| client.evict(request).await.map(drop)).await;
            }
            Command::WriteOutput { job, proofs } => {
                let fault = self.write_output(&job, &proofs).await.err();
                self.tell(Input::OutputWritten { job: job.meta.key, uid: job.meta.uid, fault }).await;
            }
            Command::DeleteJob(job) => self.delete(&job).await,
            Command::Tell { job, reason, note, warning } => {
                self.event::<ProofJob>(&job.meta, "Prove", reason, note, warning).await;
            }
            Command::Connect(_) | Command::Disconnect(_) | Command::Submit(_) | Command::StepDown => {}
        }
    }

    /// One after the other at each pod: of partitions with the same priority and sequence, an engine takes the first one
    /// first, and what is cancelled must not come after its cancellation.
    fn in_order(&self, pod: &str, command: Command) {
        if let Some(queue) = self.queues().get(pod) {
            let _ = queue.send(command);
        }
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<Command>>> {
        self.submissions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, input: Input) {
        // Nobody listens when the process ends.
        let _ = self.to.send(input).await;
    }

    /// Calls an engine; what is not reached is found out by the link.
    async fn call(
        &self,
        pod: &str,
        call: impl AsyncFnOnce(&mut v1::prover_client::ProverClient<tonic::transport::Channel>) -> Result<(), tonic::Status>,
    ) {
        let Some(mut client) = self.links.client(pod) else { return };
        match tokio::time::timeout(CALL, call(&mut client)).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => tracing::debug!(pod, "the engine refused: {}", status.message()),
            Err(_) => tracing::warn!(pod, "the engine does not answer"),
        }
    }

    async fn submit_in_order(self, mut queue: mpsc::UnboundedReceiver<Command>) {
        while let Some(command) = queue.recv().await {
            let Command::Submit(submission) = command else {
                self.run_alone(command).await;
                continue;
            };
            let submitted = tokio::time::timeout(CALL, self.submit(&submission)).await;
            let refusal = match submitted {
                Ok(result) => result.err(),
                Err(_) => Some(Refusal::Later("the pod does not answer".into())),
            };
            if let Some(id) = submission.request.id {
                self.tell(Input::Submitted { pod: submission.pod, id, refusal }).await;
            }
        }
    }

    async fn submit(&self, submission: &Submission) -> Result<(), Refusal> {
        let input = self.input(&submission.job, &submission.input, submission.input_digest).await?;
        if !self.leadership.holds() {
            return Err(Refusal::StaleEpoch);
        }
        let Some(mut client) = self.links.client(&submission.pod) else {
            return Err(Refusal::Later("the pod is gone".into()));
        };
        let circuit = submission
            .request
            .circuit
            .clone()
            .ok_or_else(|| Refusal::Invalid("no engine of this version proves circuits of this kind".into()))?;
        let request = v1::SubmitRequest {
            digest: proofmill_proto::digest(&circuit, &input).to_vec(),
            input: Some(input),
            ..submission.request.clone()
        };
        match client.submit(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(refusal(&status)),
        }
    }

    /// Writes the status of one of our kinds, as it was planned from `meta`; `purpose` tells our field managers apart.
    async fn write_status<K>(&self, meta: &Meta, purpose: &str, status: &impl Serialize) -> Result<K, WriteFault>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let _turn = self.requests.acquire().await;
        if !self.leadership.holds() {
            return Err(WriteFault::Conflict);
        }
        let key = &meta.key;
        let patch = json!({
            "apiVersion": API_VERSION,
            "kind": K::kind(&()),
            "metadata": {"name": key.name, "uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status,
        });
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::apply(&format!("proofmill-operator/{purpose}")).force();
        match api.patch_status(&key.name, &params, &Patch::Apply(&patch)).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) if status.is_conflict() => Err(WriteFault::Conflict),
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(WriteFault::Gone),
            Err(error) => Err(WriteFault::Failed(error.to_string())),
        }
    }

    async fn write_output(&self, job: &JobObject, proofs: &[v1::PartitionProof]) -> Result<(), OutputFault> {
        let _turn = self.requests.acquire().await;
        let Some(output) = &job.spec.output else { return Ok(()) };
        if !self.leadership.holds() {
            return Err(OutputFault::Failed("this replica leads no more".into()));
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &job.meta.key.namespace);
        let wanted = delivery::output(job, &output.config_map_name, proofs);
        match api.create(&PostParams::default(), &wanted).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                // Written before, by this operator or the one before it?
                let there =
                    api.get_opt(&output.config_map_name).await.map_err(|e| OutputFault::Failed(e.to_string()))?;
                let owners = there.and_then(|map| map.metadata.owner_references).unwrap_or_default();
                let ours = owners.iter().any(|owner| owner.uid == job.meta.uid);
                if ours { Ok(()) } else { Err(OutputFault::Conflict) }
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 413 | 422) => {
                Err(OutputFault::Impossible(status.message.clone()))
            }
            Err(error) => Err(OutputFault::Failed(error.to_string())),
        }
    }

    async fn delete(&self, job: &JobObject) {
        let _turn = self.requests.acquire().await;
        let preconditions = Preconditions {
            uid: Some(job.meta.uid.clone()),
            resource_version: Some(job.meta.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let api: Api<ProofJob> = Api::namespaced(self.client.clone(), &job.meta.key.namespace);
        if let Err(error) = api.delete(&job.meta.key.name, &params).await {
            tracing::warn!(job = %job.meta.key, "the job outlived its time to live and was not deleted: {error}");
        }
    }

    /// Tells humans about one of our objects.
    async fn event<K>(&self, meta: &Meta, action: &str, reason: &str, note: String, warning: bool)
    where
        K: Resource<DynamicType = ()>,
    {
        let _turn = self.requests.acquire().await;
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(meta.key.name.clone()),
            namespace: Some(meta.key.namespace.clone()),
            uid: Some(meta.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::warn!(object = %meta.key, "the event {reason} was not written: {error}");
        }
    }
}

/// What an engine's refusal means.
fn refusal(status: &tonic::Status) -> Refusal {
    let message = status.message().to_owned();
    let reason = status.metadata().get("proofmill-reason").and_then(|reason| reason.to_str().ok());
    match (status.code(), reason) {
        (_, Some("StaleEpoch")) => Refusal::StaleEpoch,
        (tonic::Code::InvalidArgument, _) => Refusal::Invalid(message),
        _ => Refusal::Later(message),
    }
}
