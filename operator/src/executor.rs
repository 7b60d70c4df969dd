//! Does what the planner wants, and tells it how that went. The only part that writes.
//!
//! - `tend`: what pools need.
//! - `input`: jobs' inputs out of ConfigMaps and Secrets.
//! - `events`: what humans are told.

mod events;
mod input;
mod tend;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1 as v1_events;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use proofmill_crds::{API_VERSION, Circuit, ProofJob, ProverPool};
use proofmill_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::events::CONTROLLER;
use crate::credentials::Credentials;
use crate::delivery::{self, Checker};
use crate::index::{JobObject, Meta};
use crate::leader::Leadership;
use crate::link::{CALL, Links};
use crate::planner::{Command, Input, OutputFault, Refusal, Submission, WriteFault};

/// Requests to the API server under way at once.
const REQUESTS: usize = 16;
/// Events under way at once: proofs go first.
const EVENTS: usize = 4;
/// Checks of proofs under way at once. Most of their time they wait for a verifying key.
const CHECKS: usize = 32;

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
    lanes: Lanes,
    to: mpsc::Sender<Input>,
    step_down: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

/// What waits to be done. A command in a lane takes the memory of its data; as a task of its own it would take that of a whole
/// request. No lane grows without bound: of each job, circuit and partition the planner has one of a kind under way.
#[derive(Clone)]
struct Lanes {
    /// To engines, by pod, one after the other: of partitions with the same priority and sequence, an engine takes the first one
    /// first, and what is cancelled must not come after its cancellation.
    engines: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Command>>>>,
    writes: mpsc::UnboundedSender<Command>,
    events: mpsc::UnboundedSender<Command>,
    checks: mpsc::UnboundedSender<Command>,
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
        let reporter = Reporter { controller: CONTROLLER.into(), instance: None };
        let (step_down, stepped_down) = oneshot::channel();
        let [(writes, to_write), (events, to_tell), (checks, to_check)] = [(); 3].map(|()| mpsc::unbounded_channel());
        let executor = Self {
            checker: Checker::new(links.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            links,
            credentials,
            leadership,
            requests: Arc::new(Semaphore::new(REQUESTS)),
            lanes: Lanes { engines: Arc::default(), writes, events, checks },
            to,
            step_down: Arc::new(Mutex::new(Some(step_down))),
        };
        for (lane, workers) in [(to_write, REQUESTS), (to_tell, EVENTS), (to_check, CHECKS)] {
            let lane = Arc::new(tokio::sync::Mutex::new(lane));
            (0..workers).for_each(|_| drop(tokio::spawn(executor.clone().work(Arc::clone(&lane)))));
        }
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
        match &command {
            Command::Connect(address) => {
                let (sender, lane) = mpsc::unbounded_channel();
                self.engines().insert(address.pod.clone(), sender);
                tokio::spawn(self.clone().work(Arc::new(tokio::sync::Mutex::new(lane))));
                self.links.open(address.clone());
            }
            Command::Disconnect(pod) => {
                self.engines().remove(pod);
                self.links.close(pod);
            }
            Command::Submit(submission) => self.to_engine(&submission.pod.clone(), command),
            Command::Cancel { pod, .. }
            | Command::Ack { pod, .. }
            | Command::Reprioritise { pod, .. }
            | Command::Preload { pod, .. }
            | Command::Evict { pod, .. } => self.to_engine(&pod.clone(), command),
            Command::WriteStatus { .. }
            | Command::WriteCircuit { .. }
            | Command::WriteOutput { .. }
            | Command::DeleteJob(_) => drop(self.lanes.writes.send(command)),
            Command::Tell { .. } => drop(self.lanes.events.send(command)),
            Command::Verify(_) => drop(self.lanes.checks.send(command)),
            // One of each pool.
            Command::Tend { .. } | Command::KeepPool(_) | Command::ForgetPool(_) => {
                let executor = self.clone();
                tokio::spawn(async move { executor.carry_out(command).await });
            }
            Command::StepDown => {}
        }
    }

    /// Carries out what comes in a lane.
    async fn work(self, lane: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Command>>>) {
        loop {
            let next = lane.lock().await.recv().await;
            let Some(command) = next else { return };
            self.carry_out(command).await;
        }
    }

    async fn carry_out(&self, command: Command) {
        match command {
            Command::Submit(submission) => self.send(*submission).await,
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
                let result = self.write_status::<ProofJob>(&job, "jobs", &status).await;
                let result = result.map(|object| Box::new(object.into()));
                self.tell(Input::Written { job: job.key, uid: job.uid, result }).await;
            }
            Command::WriteCircuit { circuit, status } => {
                let result = self.write_status::<Circuit>(&circuit, "circuits", &status).await;
                let result = result.map(|object| Box::new(object.into()));
                self.tell(Input::CircuitWritten { circuit: circuit.key, uid: circuit.uid, result }).await;
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
                self.job_event(&job, reason, note, warning).await;
            }
            Command::Connect(_) | Command::Disconnect(_) | Command::StepDown => {}
        }
    }

    fn to_engine(&self, pod: &str, command: Command) {
        if let Some(lane) = self.engines().get(pod) {
            let _ = lane.send(command);
        }
    }

    fn engines(&self) -> std::sync::MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<Command>>> {
        self.lanes.engines.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Sends a partition to its engine and tells how that went.
    async fn send(&self, submission: Submission) {
        let refusal = match tokio::time::timeout(CALL, self.submit(&submission)).await {
            Ok(result) => result.err(),
            Err(_) => Some(Refusal::Later("the pod does not answer".into())),
        };
        if let Some(id) = submission.request.id {
            self.tell(Input::Submitted { pod: submission.pod, id, refusal }).await;
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

    async fn delete(&self, job: &Meta) {
        let _turn = self.requests.acquire().await;
        let preconditions =
            Preconditions { uid: Some(job.uid.clone()), resource_version: Some(job.resource_version.clone()) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let api: Api<ProofJob> = Api::namespaced(self.client.clone(), &job.key.namespace);
        if let Err(error) = api.delete(&job.key.name, &params).await {
            tracing::warn!(job = %job.key, "the job outlived its time to live and was not deleted: {error}");
        }
    }

    /// Tells humans how a job ended.
    async fn job_event(&self, job: &Meta, reason: &str, note: String, warning: bool) {
        let _turn = self.requests.acquire().await;
        let api: Api<v1_events::Event> = Api::namespaced(self.client.clone(), &job.key.namespace);
        let event = events::of_job(job, reason, note, warning);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::warn!(job = %job.key, "the event {reason} was not written: {error}");
        }
    }

    /// Tells humans about a pool; what is said again and again becomes a series.
    async fn pool_event(&self, pool: &Meta, action: &str, reason: &str, note: String, warning: bool) {
        let _turn = self.requests.acquire().await;
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(events::shortened(&note)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &events::reference::<ProverPool>(pool)).await {
            tracing::warn!(pool = %pool.key, "the event {reason} was not written: {error}");
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
