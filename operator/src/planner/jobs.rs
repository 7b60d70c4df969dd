//! What becomes of a job.

use std::time::Duration;

use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use proofmill_crds::hex;
use proofmill_crds::proof_job::ProofJobStatus;
use proofmill_proto::v1;

use super::evidence::pool_of;
use super::pools::Pool;
use super::{Change, Command, OutputFault, Planner, Subject, Verification, VerifyFault, WriteFault, apply};
use crate::clock::Now;
use crate::index::{CircuitObject, JobObject, Key};
use crate::jobs::failure;
use crate::jobs::record::{Job, Outcome, Phase};
use crate::jobs::status::{self, Why};

/// A reason is written once it has lasted so long: most are over before.
const REASON_AFTER: Duration = Duration::from_secs(1);
/// After so many searches for a verifying key a proof is made again.
const KEY_TRIES: u32 = 5;

impl Planner {
    pub(super) fn see_jobs(&mut self, change: Change<JobObject>) {
        let concerned = match change {
            Change::Applied(object) => {
                let key = object.meta.key.clone();
                self.see_job(*object);
                vec![key]
            }
            Change::Deleted(key) => {
                self.forget(&key);
                Vec::new()
            }
            listed @ Change::Listed(..) => {
                // The records hold the objects: let the index do its work on them, then take over what changed.
                let mut objects = self.jobs.iter().map(|(key, job)| (key.clone(), job.object.clone())).collect();
                let concerned = apply(&mut objects, listed);
                for key in &concerned {
                    match objects.remove(key) {
                        Some(object) => self.see_job(object),
                        None => self.forget(key),
                    }
                }
                concerned
            }
        };
        self.dirty.extend(concerned.into_iter().map(Subject::Job));
    }

    fn see_job(&mut self, object: JobObject) {
        let key = object.meta.key.clone();
        if let Some(known) = self.jobs.get(&key) {
            if known.object.meta.uid != object.meta.uid {
                self.forget(&key);
            } else if known.object.spec.priority != object.spec.priority {
                // Its place in the queue goes by its priority.
                self.unqueue_all(&key);
                let pods: Vec<String> = known_pods(&self.jobs[&key]);
                for pod in pods {
                    let job = object.meta.uid.clone();
                    let priority = crate::jobs::message::priority(object.spec.priority);
                    self.commands.push(Command::Reprioritise { pod, job, priority });
                }
            }
        }
        self.by_uid.insert(object.meta.uid.clone(), key.clone());
        if self.jobs.contains_key(&key) {
            self.update(&key, object);
        } else {
            let job = Job::new(object);
            self.over += usize::from(job.is_over());
            self.jobs.insert(key, job);
        }
    }

    /// Takes over a newer state of a job's object; an older one changes nothing.
    fn update(&mut self, key: &Key, object: JobObject) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let version = |object: &JobObject| object.meta.resource_version.parse::<u64>().unwrap_or(0);
        if version(&object) >= version(&job.object) {
            self.over -= usize::from(job.is_over());
            job.object = object;
            self.over += usize::from(job.is_over());
        }
    }

    /// A job that is gone: what works on it is cancelled.
    fn forget(&mut self, key: &Key) {
        self.unqueue_all(key);
        self.cancel(key);
        if let Some(job) = self.jobs.remove(key) {
            self.release(&job);
            self.over -= usize::from(job.is_over());
            self.by_uid.remove(&job.object.meta.uid);
        }
        self.dirty.remove(&Subject::Job(key.clone()));
    }

    /// Decides what a job needs now.
    pub(super) fn look_at_job(&mut self, key: &Key, now: &Now) {
        let Some(job) = self.jobs.get(key) else { return };
        if job.is_over() {
            self.end(key, now);
            return;
        }
        if job.outcome.is_none() {
            self.further(key, now);
        }
        let Some(job) = self.jobs.get_mut(key) else { return };
        if job.is_proved() && job.outcome.is_none() && !job.verifying && now.mono >= job.write_after {
            job.verifying = true;
            self.verify(key);
        }
        self.write(key, now);
    }

    /// Moves a job on its way to an outcome.
    fn further(&mut self, key: &Key, now: &Now) {
        let circuit = self.circuit_of(key).map(|circuit| circuit.spec.clone());
        let pool = self.jobs.get(key).map(|job| key.sibling(&job.object.spec.pool_ref.name));
        let pool = pool.is_some_and(|pool| self.pools.contains_key(&pool));
        let Some(job) = self.jobs.get_mut(key) else { return };
        if let Some(circuit) = &circuit {
            job.set_circuit(circuit);
        }
        if !job.object.spec.suspend && job.started.is_none() {
            let before = job.object.status.start_time.as_ref().map_or(Duration::ZERO, |time| now.since(time));
            job.started = Some((now.mono, before));
        }
        match job.deadline_left(now) {
            Some(Duration::ZERO) => {
                let seconds = job.object.spec.active_deadline_seconds.unwrap_or_default();
                let message = format!("no proof {seconds} s after the job was first seen (activeDeadlineSeconds)");
                job.outcome = Some(Outcome::Failed { reason: reasons::DEADLINE_EXCEEDED, message });
            }
            Some(left) => self.look_again(Subject::Job(key.clone()), now.mono + left),
            None => {}
        }
        let Some(job) = self.jobs.get_mut(key) else { return };
        if circuit.is_none() && job.outcome.is_none() && job.was_scheduled() {
            let name = &job.object.spec.circuit_ref.name;
            let message = format!("the Circuit `{name}` was deleted while this job was under way; create both anew");
            job.outcome = Some(Outcome::Failed { reason: reasons::CIRCUIT_DELETED, message });
        }
        if job.outcome.is_some() || job.object.spec.suspend || job.object.meta.deleting {
            self.unqueue_all(key);
            self.cancel(key);
        } else if circuit.is_some() && pool {
            self.queue(key);
        } else {
            self.unqueue_all(key);
        }
    }

    /// Cancels what pods have of a job.
    fn cancel(&mut self, key: &Key) {
        let sent = self.jobs.get(key).into_iter().flat_map(Job::sent);
        let sent: Vec<(u32, String)> = sent.map(|(index, pod, _)| (index, pod.to_owned())).collect();
        for (index, pod) in sent {
            let Some(job) = self.jobs.get_mut(key) else { return };
            let id = job.id(index);
            if let Some(partition) = job.partitions.get_mut(index as usize) {
                partition.send_again(Duration::ZERO);
            }
            if let Some(engine) = self.engines.get_mut(&pod) {
                engine.unassign(&(key.clone(), index), self.now);
            }
            self.commands.push(Command::Cancel { pod: pod.clone(), id });
            self.engine_changed(&pod);
        }
    }

    fn verify(&mut self, key: &Key) {
        let circuit = self.circuit_of(key);
        let simulated = circuit.is_some_and(|circuit| circuit.spec.simulated.is_some());
        let digest = circuit.and_then(|circuit| hex::decode_sha256(circuit.status.verifying_key_digest.as_deref()?));
        let Some(job) = self.jobs.get(key) else { return };
        // The pods that proved it know the key; any other may.
        let mut pods: Vec<String> = known_pods(job);
        pods.extend(self.engines.iter().filter(|(_, engine)| engine.connected.is_some()).map(|(uid, _)| uid.clone()));
        self.commands.push(Command::Verify(Box::new(Verification {
            job: key.clone(),
            uid: job.object.meta.uid.clone(),
            pods,
            simulated,
            verifying_key: digest,
            proofs: status::proofs(job).cloned().collect(),
        })));
    }

    pub(super) fn see_verified(&mut self, key: &Key, uid: &str, fault: Option<VerifyFault>, now: &Now) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.object.meta.uid == uid && job.outcome.is_none()) else {
            return;
        };
        job.verifying = false;
        match fault {
            None if job.is_proved() => {
                if job.object.spec.output.is_some() && !job.output_written {
                    job.verifying = true;
                    let proofs = status::proofs(job).cloned().collect();
                    self.commands.push(Command::WriteOutput { job: Box::new(job.object.clone()), proofs });
                } else {
                    job.outcome = Some(Outcome::Proved);
                }
            }
            None => {}
            Some(VerifyFault::NoKey(message)) => {
                job.delivery_failures += 1;
                tracing::warn!(job = %key, "the proofs wait for their check: {message}");
                job.write_after = now.mono + failure::pause(job.delivery_failures);
                if job.delivery_failures % KEY_TRIES == 0 {
                    // No engine has the circuit in memory any more; whoever proves it again has.
                    let proved = job.partitions.iter_mut().filter(|p| matches!(p.phase, Phase::Proved { .. }));
                    proved.for_each(|partition| partition.send_again(now.mono));
                }
                let at = job.write_after;
                self.look_again(Subject::Job(key.clone()), at);
            }
            Some(VerifyFault::Wrong(message)) => {
                job.outcome = Some(Outcome::Failed { reason: reasons::VERIFICATION_FAILED, message });
            }
        }
        self.dirty.insert(Subject::Job(key.clone()));
    }

    pub(super) fn see_output(&mut self, key: &Key, uid: &str, fault: Option<OutputFault>, now: &Now) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.object.meta.uid == uid && job.outcome.is_none()) else {
            return;
        };
        job.verifying = false;
        match fault {
            None => {
                job.output_written = true;
                job.outcome = Some(Outcome::Proved);
            }
            Some(OutputFault::Conflict) => {
                let name = job.object.spec.output.as_ref().map_or("", |output| &output.config_map_name);
                let message = format!(
                    "a ConfigMap `{name}` exists that this job does not own; it is not touched: delete it, or create a new \
                     job with another output.configMapName"
                );
                job.outcome = Some(Outcome::Failed { reason: reasons::OUTPUT_CONFLICT, message });
            }
            Some(OutputFault::Impossible(message)) => {
                let message = format!("the ConfigMap of the output cannot be written: {message}");
                job.outcome = Some(Outcome::Failed { reason: reasons::OUTPUT_CONFLICT, message });
            }
            Some(OutputFault::Failed(message)) => {
                job.delivery_failures += 1;
                tracing::warn!(job = %key, "the output was not written: {message}");
                job.write_after = now.mono + failure::pause(job.delivery_failures);
                let at = job.write_after;
                self.look_again(Subject::Job(key.clone()), at);
            }
        }
        self.dirty.insert(Subject::Job(key.clone()));
    }

    /// Writes a status that tells something new.
    fn write(&mut self, key: &Key, now: &Now) {
        let why = self.why(key);
        let Some(job) = self.jobs.get_mut(key) else { return };
        let since = match job.reason {
            Some((reason, since)) if reason == why.reason => since,
            _ => {
                job.reason = Some((why.reason, now.mono));
                now.mono
            }
        };
        if job.writing {
            return;
        }
        if now.mono < job.write_after {
            let at = job.write_after;
            self.look_again(Subject::Job(key.clone()), at);
            return;
        }
        let status = status::status(job, &why, now);
        if !tells_more(&job.object.status, &status) {
            return;
        }
        let lasting = since + REASON_AFTER;
        // Partitions of many that are proved are kept at once; what may be over in a moment is not written.
        let proofs = job.partitions.len() > 1 && job.proved() > stored(&job.object.status);
        if job.outcome.is_none() && !proofs && now.mono < lasting {
            self.look_again(Subject::Job(key.clone()), lasting);
            return;
        }
        job.writing = true;
        let job = Box::new(job.object.meta.clone());
        self.commands.push(Command::WriteStatus { job, status: Box::new(status) });
    }

    pub(super) fn see_written(&mut self, key: &Key, uid: &str, result: Result<Box<JobObject>, WriteFault>, now: &Now) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| job.object.meta.uid == uid) else { return };
        job.writing = false;
        match result {
            Ok(object) => {
                job.write_failures = 0;
                self.update(key, *object);
            }
            // A watch brings what is there now.
            Err(WriteFault::Conflict | WriteFault::Gone) => {
                job.write_failures += 1;
                let again = job.write_failures - 1;
                job.write_after = now.mono + if again == 0 { Duration::from_millis(50) } else { failure::pause(again) };
                let at = job.write_after;
                self.look_again(Subject::Job(key.clone()), at);
            }
            Err(WriteFault::Failed(message)) => {
                job.write_failures += 1;
                job.write_after = now.mono + failure::pause(job.write_failures);
                let at = job.write_after;
                tracing::warn!(job = %key, "the status was not written: {message}");
                self.look_again(Subject::Job(key.clone()), at);
            }
        }
        self.dirty.insert(Subject::Job(key.clone()));
    }

    /// A job whose outcome is written: engines may forget it, and in time the API server too.
    fn end(&mut self, key: &Key, now: &Now) {
        self.unqueue_all(key);
        self.cancel(key);
        let Some(job) = self.jobs.get_mut(key) else { return };
        let proved = std::mem::take(&mut job.partitions);
        // What an operator before this one decided was told then.
        let told = std::mem::replace(&mut job.told, true);
        let job = &self.jobs[key];
        if let Some(outcome) = job.outcome.as_ref().filter(|_| !told) {
            let (reason, note, warning) = match outcome {
                Outcome::Failed { reason, message } => (*reason, message.clone(), true),
                Outcome::Proved => (reasons::PROVED, "proved and verified".to_owned(), false),
            };
            *self.account.pool(&pool_of(job)).ended.entry(reason).or_default() += 1;
            let job = Box::new(job.object.meta.clone());
            self.commands.push(Command::Tell { job, reason, note, warning });
        }
        for (index, partition) in (0..).zip(proved) {
            if let Phase::Proved { pod, .. } = partition.phase {
                let id = v1::PartitionId { attempt: partition.attempt, ..job.id(index) };
                self.commands.push(Command::Ack { pod, id });
            }
        }
        self.acknowledge(key, now);
        let Some(job) = self.jobs.get(key) else { return };
        let default = (!job.object.meta.tracked).then_some(self.settings.default_ttl);
        let own = job.object.spec.ttl_seconds_after_finished.map(|s| Duration::from_secs(s.unsigned_abs().into()));
        let (Some(ttl), Some(ended)) = (own.or(default), &job.object.status.completion_time) else { return };
        let age = now.since(ended);
        if job.object.meta.deleting {
            return;
        }
        if age >= ttl {
            self.commands.push(Command::DeleteJob(Box::new(job.object.meta.clone())));
            // Should it fail.
            self.look_again(Subject::Job(key.clone()), now.mono + Duration::from_secs(60));
        } else {
            self.look_again(Subject::Job(key.clone()), now.mono + (ttl - age));
        }
    }

    /// The status of an ended job says that a later change of its spec was seen: tools wait for that. Nothing else changes.
    fn acknowledge(&mut self, key: &Key, now: &Now) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let generation = job.object.meta.generation;
        if job.object.status.observed_generation == Some(generation) || job.object.meta.deleting || job.writing {
            return;
        }
        if now.mono < job.write_after {
            let at = job.write_after;
            self.look_again(Subject::Job(key.clone()), at);
            return;
        }
        job.writing = true;
        let status = ProofJobStatus { observed_generation: Some(generation), ..job.object.status.clone() };
        self.commands.push(Command::WriteStatus { job: Box::new(job.object.meta.clone()), status: Box::new(status) });
    }

    /// Lets engines forget what they hold of a job that is gone.
    fn release(&mut self, job: &Job) {
        for (index, partition) in (0..).zip(&job.partitions) {
            if let Phase::Proved { pod, .. } = &partition.phase {
                self.commands.push(Command::Ack { pod: pod.clone(), id: job.id(index) });
            }
        }
    }

    /// The circuit of a job.
    pub(super) fn circuit_of(&self, key: &Key) -> Option<&CircuitObject> {
        let job = self.jobs.get(key)?;
        self.circuits.get(&key.sibling(&job.object.spec.circuit_ref.name))
    }

    /// Why a job has no proof yet.
    fn why(&self, key: &Key) -> Why {
        let why = |reason, message: String| Why { reason, message };
        let Some(job) = self.jobs.get(key) else { return why(reasons::INTERNAL, String::new()) };
        let (circuit, pool) = (&job.object.spec.circuit_ref.name, &job.object.spec.pool_ref.name);
        if job.object.spec.suspend {
            return why(reasons::SUSPENDED, "spec.suspend is set".into());
        }
        if !self.circuits.contains_key(&key.sibling(circuit)) {
            return why(reasons::WAITING_FOR_CIRCUIT, format!("there is no Circuit `{circuit}` in this namespace"));
        }
        if !self.pools.contains_key(&key.sibling(pool)) {
            return why(reasons::WAITING_FOR_POOL, format!("there is no ProverPool `{pool}` in this namespace"));
        }
        let furthest = job.sent().map(|(_, pod, state)| (state, pod)).max_by_key(|(state, _)| *state as i32);
        if let Some((state, pod)) = furthest {
            let pod = self.engines.get(pod).map_or("a pod", |engine| &engine.pod.name);
            return at_pod(state, pod);
        }
        if job.is_proved() {
            return why(reasons::PROVING, "the operator checks the proof".into());
        }
        let engines = || self.engines.values().filter(|engine| engine.pool == key.sibling(pool));
        let ready = engines().filter(|engine| engine.ready && engine.connected.is_some()).count();
        let refusal = job.partitions.iter().find_map(|partition| partition.refusal.as_ref());
        if let Some(refused) = refusal.filter(|refused| refused.no_input) {
            return why(reasons::FETCHING_INPUT, refused.message.clone());
        }
        let failure = job.partitions.iter().find_map(|partition| Some(&partition.last_failure.as_ref()?.1));
        let failure = failure.or_else(|| refusal.map(|refused| &refused.message));
        let trouble = self.pools.get(&key.sibling(pool)).and_then(Pool::trouble);
        let message = match (failure, ready, trouble) {
            (Some(failure), ..) => format!("the last try failed and is repeated: {failure}"),
            (None, 0, Some((reason, message))) => format!("pool `{pool}`: {reason}: {message}"),
            (None, 0, None) => format!("pool `{pool}` has no ready pod ({} not ready)", engines().count()),
            (None, ..) => format!("{} partitions go first in pool `{pool}`", self.ahead_of(key)),
        };
        why(reasons::WAITING_FOR_CAPACITY, message)
    }
}

impl Job {
    /// Time until the deadline; `None` without one.
    pub(super) fn deadline_left(&self, now: &Now) -> Option<Duration> {
        let seconds = self.object.spec.active_deadline_seconds?.unsigned_abs();
        let (seen, before) = self.started?;
        Some(Duration::from_secs(seconds).saturating_sub(before + now.mono.saturating_sub(seen)))
    }

    /// The digest that the input must have: the spec's, or that of the first fetch.
    pub(super) fn input_digest(&self) -> Option<[u8; 32]> {
        let first = || status::proofs(self).find_map(|proof| proof.input_digest.clone().try_into().ok());
        self.object
            .spec
            .input
            .sha256_bytes()
            .or_else(|| hex::decode_sha256(self.object.status.input_digest.as_deref()?))
            .or_else(first)
    }
}

/// The pods that have or had partitions of a job.
fn known_pods(job: &Job) -> Vec<String> {
    let pod = |partition: &crate::jobs::record::Partition| match &partition.phase {
        Phase::Sent { pod, .. } | Phase::Proved { pod, .. } => Some(pod.clone()),
        Phase::Waiting(_) | Phase::Failed => None,
    };
    let mut pods: Vec<String> = job.partitions.iter().filter_map(pod).collect();
    pods.dedup();
    pods
}

/// What a partition waits for that a pod has.
fn at_pod(state: v1::PartitionState, pod: &str) -> Why {
    use v1::PartitionState as S;
    let (reason, what) = match state {
        S::FetchingInput => (reasons::FETCHING_INPUT, "fetches the input"),
        S::LoadingKey => (reasons::LOADING_KEY, "loads the proving key"),
        S::MemoryBudget => (reasons::MEMORY_BUDGET, "has no memory for it yet"),
        S::Synthesis => (reasons::PROVING, "computes the witness"),
        S::Proving | S::Finishing | S::Succeeded => (reasons::PROVING, "proves it"),
        S::DeviceQueue => (reasons::WAITING_FOR_CAPACITY, "has it in its device's queue"),
        S::Queued | S::Unspecified | S::Failed | S::Cancelled => (reasons::WAITING_FOR_CAPACITY, "has it in its queue"),
    };
    Why { reason, message: format!("pod {pod} {what}") }
}

/// Partitions whose proofs a status holds.
fn stored(status: &ProofJobStatus) -> usize {
    status.partitions.iter().filter(|partition| partition.proof.is_some()).count()
}

/// Whether a status says anything that the old one did not; another sentence for the same reason does not count.
fn tells_more(old: &ProofJobStatus, new: &ProofJobStatus) -> bool {
    let reasons = |status: &ProofJobStatus| {
        let reason = |c: &proofmill_crds::conditions::Condition| (c.type_.clone(), c.status, c.reason.clone());
        status.conditions.iter().map(reason).collect::<Vec<_>>()
    };
    let outcome = |status: &ProofJobStatus| {
        status.conditions.iter().any(|c| c.type_ == types::SUCCEEDED && c.status != ConditionStatus::Unknown)
    };
    reasons(old) != reasons(new)
        || old.partitions != new.partitions
        || old.progress != new.progress
        || old.observed_generation != new.observed_generation
        || outcome(old) != outcome(new)
}
