//! Does what the planner wants, and tells it how that went. The only part that writes.

use std::sync::Arc;

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Secret};
use proofmill_crds::proof_job::{ProofJob, ProofJobStatus};
use proofmill_crds::source::Input as InputSpec;
use proofmill_crds::API_VERSION;
use proofmill_proto::v1;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::delivery::{self, Checker};
use crate::index::{JobObject, Key};
use crate::jobs::message;
use crate::leader::Leadership;
use crate::link::Links;
use crate::planner::{Command, Input, OutputFault, Refusal, Submission, WriteFault};

/// Field manager of a job's status.
const MANAGER: &str = "proofmill-operator/jobs";
/// The label without which no Secret is read as an input.
const INPUT_LABEL: &str = "proofmill.dev/input";
/// Largest input that is sent along.
const INPUT_LIMIT: usize = 1 << 20;
/// Requests to the API server under way at once.
const REQUESTS: usize = 16;
/// Submissions that wait for their turn at all engines together.
const SUBMISSIONS: usize = 1024;

/// See the module.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    links: Links,
    checker: Checker,
    recorder: Recorder,
    leadership: Leadership,
    requests: Arc<Semaphore>,
    submissions: mpsc::Sender<Submission>,
    to: mpsc::Sender<Input>,
    step_down: Arc<std::sync::Mutex<Option<oneshot::Sender<()>>>>,
}

impl Executor {
    /// Acts with `client` as long as `leadership` holds. The second value resolves when a newer leader is at work.
    pub fn new(
        client: Client,
        links: Links,
        leadership: Leadership,
        to: mpsc::Sender<Input>,
    ) -> (Self, oneshot::Receiver<()>) {
        let reporter = Reporter { controller: "proofmill-operator".into(), instance: None };
        let (submissions, queue) = mpsc::channel(SUBMISSIONS);
        let (step_down, stepped_down) = oneshot::channel();
        let executor = Self {
            checker: Checker::new(links.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            links,
            leadership,
            requests: Arc::new(Semaphore::new(REQUESTS)),
            submissions,
            to,
            step_down: Arc::new(std::sync::Mutex::new(Some(step_down))),
        };
        tokio::spawn(executor.clone().submit_in_order(queue));
        (executor, stepped_down)
    }

    /// Does it, without waiting for it; nothing is done without leadership.
    pub async fn run(&self, command: Command) {
        if !self.leadership.holds() {
            return;
        }
        match command {
            Command::Connect(address) => self.links.open(address),
            Command::Disconnect(pod) => self.links.close(&pod),
            Command::Submit(submission) => {
                // In order: of partitions with the same priority and sequence, an engine takes the first one first.
                let _ = self.submissions.send(*submission).await;
            }
            Command::StepDown => {
                let sender = self.step_down.lock().ok().and_then(|mut sender| sender.take());
                sender.map(|sender| sender.send(()));
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
            Command::Verify(work) => {
                let fault = self.checker.check(&work).await.err();
                self.tell(Input::Verified { job: work.job, uid: work.uid, fault }).await;
            }
            Command::WriteStatus { job, status } => {
                let result = self.write_status(&job, &status).await;
                let (key, uid) = (job.meta.key, job.meta.uid);
                self.tell(Input::Written { job: key, uid, result: result.map(Box::new) }).await;
            }
            Command::WriteOutput { job, proofs } => {
                let fault = self.write_output(&job, &proofs).await.err();
                self.tell(Input::OutputWritten { job: job.meta.key, uid: job.meta.uid, fault }).await;
            }
            Command::DeleteJob(job) => self.delete(&job).await,
            Command::Tell { job, reason, note, warning } => self.event(&job, reason, note, warning).await,
            Command::Connect(_) | Command::Disconnect(_) | Command::Submit(_) | Command::StepDown => {}
        }
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
        if let Err(status) = call(&mut client).await {
            tracing::debug!(pod, "the engine refused: {}", status.message());
        }
    }

    async fn submit_in_order(self, mut queue: mpsc::Receiver<Submission>) {
        while let Some(submission) = queue.recv().await {
            let refusal = self.submit(&submission).await.err();
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
        let circuit = submission.request.circuit.clone().ok_or_else(|| {
            Refusal::Invalid("no engine of this version proves circuits of this kind".into())
        })?;
        let request = v1::SubmitRequest {
            digest: message::digest(&circuit, &input),
            input: Some(input),
            ..submission.request.clone()
        };
        match client.submit(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(refusal(&status)),
        }
    }

    /// A job's input as an engine gets it: bytes of ConfigMaps and Secrets are read here, URLs are fetched there.
    async fn input(&self, job: &Key, spec: &InputSpec, digest: Option<[u8; 32]>) -> Result<v1::Input, Refusal> {
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
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &job.namespace);
        match api.get_opt(name).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(Refusal::NoInput(format!("there is no {kind} `{name}` with the input"))),
            Err(error) => Err(Refusal::Later(format!("{kind} `{name}` with the input cannot be read: {error}"))),
        }
    }

    async fn write_status(&self, job: &JobObject, status: &ProofJobStatus) -> Result<JobObject, WriteFault> {
        let _turn = self.requests.acquire().await;
        if !self.leadership.holds() {
            return Err(WriteFault::Conflict);
        }
        let key = &job.meta.key;
        let patch = json!({
            "apiVersion": API_VERSION,
            "kind": "ProofJob",
            "metadata": {"name": key.name, "uid": job.meta.uid, "resourceVersion": job.meta.resource_version},
            "status": status,
        });
        let api: Api<ProofJob> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::apply(MANAGER).force();
        match api.patch_status(&key.name, &params, &Patch::Apply(&patch)).await {
            Ok(object) => Ok(object.into()),
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
                let there = api.get_opt(&output.config_map_name).await.map_err(|e| OutputFault::Failed(e.to_string()))?;
                let owners = there.and_then(|map| map.metadata.owner_references).unwrap_or_default();
                let ours = owners.iter().any(|owner| owner.uid == job.meta.uid);
                if ours { Ok(()) } else { Err(OutputFault::Conflict) }
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

    async fn event(&self, job: &JobObject, reason: &str, note: String, warning: bool) {
        let _turn = self.requests.acquire().await;
        let reference = ObjectReference {
            api_version: Some(ProofJob::api_version(&()).into_owned()),
            kind: Some(ProofJob::kind(&()).into_owned()),
            name: Some(job.meta.key.name.clone()),
            namespace: Some(job.meta.key.namespace.clone()),
            uid: Some(job.meta.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: "Prove".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::warn!(job = %job.meta.key, "the event {reason} was not written: {error}");
        }
    }
}

fn no_key(kind: &str, name: &str, key: &str) -> Refusal {
    Refusal::NoInput(format!("{kind} `{name}` has no key `{key}`"))
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
