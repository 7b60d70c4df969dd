//! What engines say, and which engines there should be connections to.

use std::collections::BTreeSet;
use std::time::Duration;

use proofmill_proto::v1;
use proofmill_proto::v1::partition_event::Outcome as Ended;

use super::{Address, Command, EngineNews, Planner, Refusal, SETTLE, Subject};
use crate::clock::Now;
use crate::fleet::{Engine, LOST_AFTER};
use crate::index::{Key, PodObject};
use crate::jobs::failure::{self, Verdict};
use crate::jobs::record::{Job, Outcome, Phase};
use crate::{account, pool};

/// How long a partition waits that did not fit into a pod in whose place a larger one comes.
const GROWTH: Duration = Duration::from_secs(5);

impl Planner {
    /// Connections to all pods with an address, and to no others. Only a leader has any.
    pub(super) fn match_engines(&mut self, now: &Now) {
        if self.leads.is_none() {
            return;
        }
        let wanted = |pod: &PodObject| pod.address.is_some() && !is_over(pod);
        let gone: Vec<String> = {
            let there: BTreeSet<&str> =
                self.pods.values().filter(|pod| wanted(pod)).map(|pod| pod.meta.uid.as_str()).collect();
            self.engines.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect()
        };
        for uid in gone {
            self.commands.push(Command::Disconnect(uid.clone()));
            self.account.forget_engine(&uid);
            if let Some(engine) = self.engines.remove(&uid) {
                self.take_back(&uid, engine.assigned, now);
            }
        }
        for pod in self.pods.values().filter(|pod| wanted(pod)) {
            let (uid, key) = (&pod.meta.uid, &pod.meta.key);
            let draining = pod.meta.deleting || pool::is_draining(pod) || self.node(pod).leaving;
            if let Some(engine) = self.engines.get_mut(uid) {
                engine.draining = engine.closed || draining;
                continue;
            }
            let mut engine = Engine::new(key.clone(), key.sibling(&pod.pool), now.mono);
            engine.draining = draining;
            self.engines.insert(uid.clone(), engine);
            self.commands.push(Command::Connect(Address {
                pod: uid.clone(),
                key: key.clone(),
                pool: pod.pool.clone(),
                ip: pod.address.clone().unwrap_or_default(),
            }));
        }
    }

    pub(super) fn see_engine(&mut self, pod: &str, news: EngineNews, now: &Now) {
        let Some(engine) = self.engines.get_mut(pod) else { return };
        let before = face(engine);
        match news {
            EngineNews::Lost(why) => {
                engine.silence = why;
                if engine.connected.take().is_some() {
                    engine.silent_since = now.mono;
                }
                engine.ready = false;
                engine.preloaded.clear();
                engine.loaded.clear();
                engine.tried = true;
                // Told again at every try to connect.
                if now.mono >= engine.silent_since + LOST_AFTER {
                    let lost = engine.assign_all(BTreeSet::new(), now.mono);
                    self.take_back(pod, lost, now);
                }
            }
            EngineNews::Status(status) => {
                engine.report(&status, now.mono);
                self.see_circuit_facts(pod, &status);
                self.account_for(pod, status, now);
            }
            EngineNews::Listed(list) => {
                engine.connected = Some(now.mono);
                engine.listed = true;
                engine.close(list.draining);
                self.see_list(pod, list, now);
            }
            EngineNews::Partition(event) => self.see_partition(pod, &event, now),
        }
        if self.engines.get(pod).is_some_and(|engine| face(engine) != before) {
            self.engine_changed(pod);
        }
    }

    /// Something that its pool cares for has changed at an engine.
    pub(super) fn engine_changed(&mut self, pod: &str) {
        if let Some(pool) = self.engines.get(pod).map(|engine| engine.pool.clone()) {
            self.look_again(Subject::Pool(pool), self.now + SETTLE);
        }
    }

    /// All that an engine works on: what it has lost goes back, what it has and nobody knew is adopted, and what nobody
    /// wants is cancelled.
    fn see_list(&mut self, pod: &str, list: v1::ListResponse, now: &Now) {
        let mut there = BTreeSet::new();
        for status in list.partitions {
            let Some(id) = status.id else { continue };
            let state = v1::PartitionState::try_from(status.state).unwrap_or_default();
            match self.adopt(pod, &id, state) {
                Some(place) => {
                    there.insert(place);
                }
                None if is_final(state) => self.commands.push(Command::Ack { pod: pod.to_owned(), id }),
                None => self.commands.push(Command::Cancel { pod: pod.to_owned(), id }),
            }
        }
        let Some(engine) = self.engines.get_mut(pod) else { return };
        let before = engine.assign_all(there, now.mono);
        let lost = before.difference(&engine.assigned).cloned().collect();
        self.take_back(pod, lost, now);
    }

    /// Makes a partition that an engine has this engine's, unless its job is over or another try of it is better.
    fn adopt(&mut self, pod: &str, id: &v1::PartitionId, state: v1::PartitionState) -> Option<(Key, u32)> {
        let key = self.by_uid.get(&id.job)?.clone();
        let name = self.engines.get(pod)?.pod.name.clone();
        if let Some(circuit) = self.circuit_of(&key).map(|circuit| circuit.spec.clone()) {
            self.jobs.get_mut(&key)?.set_circuit(&circuit);
        }
        let job = self.jobs.get_mut(&key)?;
        if job.is_over() || job.outcome.is_some() || job.object.spec.suspend {
            return None;
        }
        let partition = job.partitions.get_mut(id.partition as usize)?;
        match &mut partition.phase {
            Phase::Sent { pod: has, state: known, .. } if has == pod && id.attempt == partition.attempt => {
                *known = state;
            }
            Phase::Waiting(_) => {
                partition.attempt = id.attempt;
                partition.phase = Phase::Sent { pod: pod.to_owned(), pod_name: name, state };
            }
            Phase::Sent { .. } | Phase::Proved { .. } | Phase::Failed => return None,
        }
        self.unqueue(&key, id.partition);
        self.dirty.insert(Subject::Job(key.clone()));
        Some((key, id.partition))
    }

    fn see_partition(&mut self, pod: &str, event: &v1::PartitionEvent, now: &Now) {
        let Some(id) = &event.id else { return };
        let Some(key) = self.by_uid.get(&id.job).cloned() else { return self.let_go(pod, event) };
        let circuit = self.circuit_of(&key).map(|circuit| circuit.meta.key.clone());
        let too_large = |failure: &v1::Failure| failure.kind() == v1::FailureKind::MemoryBudget;
        let grows = matches!(&event.outcome, Some(Ended::Failure(failure)) if too_large(failure))
            && circuit.as_ref().is_some_and(|circuit| self.may_grow(pod, circuit));
        let Some(job) = self.jobs.get_mut(&key) else { return };
        let limit = u32::try_from(job.object.spec.backoff_limit).unwrap_or(0);
        let Some(partition) = job.partitions.get_mut(id.partition as usize) else { return self.let_go(pod, event) };
        let (pod_name, state) = match &mut partition.phase {
            Phase::Sent { pod: has, pod_name, state } if has == pod && id.attempt == partition.attempt => {
                (pod_name, state)
            }
            // Told again: the engine keeps it until it is written.
            Phase::Proved { pod: has, .. } if has == pod && id.attempt == partition.attempt => return,
            // Of an older try, of one that was cancelled, or of a pod that this partition was taken from.
            _ => return self.let_go(pod, event),
        };
        *state = v1::PartitionState::try_from(event.state).unwrap_or_default();
        let mut retried = None;
        match &event.outcome {
            None => {
                self.dirty.insert(Subject::Job(key));
                return;
            }
            Some(Ended::Proof(proof)) => {
                if let (Some(timings), Some(circuit)) = (&proof.timings, &circuit) {
                    self.pace.observe(circuit, timings);
                }
                let proof = Box::new(proof.clone());
                partition.phase = Phase::Proved { pod: pod.to_owned(), pod_name: std::mem::take(pod_name), proof };
            }
            Some(Ended::Failure(failure)) => {
                let kind = v1::FailureKind::try_from(failure.kind).unwrap_or_default();
                self.commands.push(Command::Ack { pod: pod.to_owned(), id: id.clone() });
                partition.last_failure = Some((kind, failure.message.clone()));
                let verdict = if grows { Verdict::Elsewhere } else { failure::verdict(kind) };
                if verdict == Verdict::Retry {
                    partition.failures += 1;
                }
                if verdict == Verdict::Final || partition.failures > limit {
                    partition.phase = Phase::Failed;
                    let tries = if verdict == Verdict::Final { String::new() } else { tries(partition.failures) };
                    job.outcome = Some(Outcome::Failed {
                        reason: failure::reason(kind),
                        message: format!("{tries}{}", failure.message),
                    });
                } else {
                    partition.avoid = Some(pod.to_owned());
                    let pause = match verdict {
                        Verdict::Retry => failure::pause(partition.failures),
                        _ if grows => GROWTH,
                        _ => Duration::ZERO,
                    };
                    partition.send_again(now.mono + pause);
                    retried = (verdict == Verdict::Retry).then(|| failure::reason(kind));
                }
            }
        }
        if let Some(engine) = self.engines.get_mut(pod) {
            engine.unassign(&(key.clone(), id.partition), now.mono);
        }
        if let Some(reason) = retried {
            self.account_for_retry(&key, reason);
        }
        self.dirty.insert(Subject::Job(key));
    }

    /// Lets an engine forget a result that nobody waits for.
    fn let_go(&mut self, pod: &str, event: &v1::PartitionEvent) {
        if let (Some(id), Some(_)) = (&event.id, &event.outcome) {
            self.commands.push(Command::Ack { pod: pod.to_owned(), id: id.clone() });
        }
    }

    pub(super) fn see_submitted(&mut self, pod: &str, id: &v1::PartitionId, refusal: Option<Refusal>, now: &Now) {
        let key = self.by_uid.get(&id.job).cloned();
        let job = key.as_ref().and_then(|key| self.jobs.get_mut(key));
        let awaited = |job: &&mut Job| {
            job.partitions.get(id.partition as usize).is_some_and(|partition| {
                matches!(&partition.phase, Phase::Sent { pod: has, .. } if has == pod)
                    && id.attempt == partition.attempt
            })
        };
        // It has come too late, or (the answer was lost) it may have come although nobody counts on it.
        if job.as_ref().is_none_or(|job| !awaited(job)) || matches!(refusal, Some(Refusal::Later(_))) {
            self.commands.push(Command::Cancel { pod: pod.to_owned(), id: id.clone() });
        }
        let Some(job) = key.as_ref().and_then(|key| self.jobs.get_mut(key)).filter(awaited) else { return };
        let Some(key) = key else { return };
        let Some(partition) = job.partitions.get_mut(id.partition as usize) else { return };
        let Some(refusal) = refusal else {
            partition.refusal = None;
            return;
        };
        if let Some(engine) = self.engines.get_mut(pod) {
            engine.unassign(&(key.clone(), id.partition), now.mono);
        }
        match refusal {
            Refusal::StaleEpoch => self.commands.push(Command::StepDown),
            Refusal::Later(message) => {
                partition.avoid = Some(pod.to_owned());
                partition.refused(message, false, now.mono);
            }
            Refusal::NoInput(message) => partition.refused(message, true, now.mono),
            Refusal::Invalid(message) | Refusal::BadInput(message) => {
                partition.phase = Phase::Failed;
                let reason = failure::reason(v1::FailureKind::BadInput);
                job.outcome = Some(Outcome::Failed { reason, message });
            }
        }
        self.dirty.insert(Subject::Job(key));
        self.engine_changed(pod);
    }

    /// Partitions that their pod has lost go back to the queue; nobody is blamed.
    fn take_back(&mut self, pod: &str, lost: BTreeSet<(Key, u32)>, now: &Now) {
        for (key, index) in lost {
            let Some(partition) = self.jobs.get_mut(&key).and_then(|job| job.partitions.get_mut(index as usize)) else {
                continue;
            };
            if matches!(&partition.phase, Phase::Sent { pod: has, .. } if has == pod) {
                partition.send_again(now.mono);
                self.account_for_retry(&key, account::LOST);
                self.dirty.insert(Subject::Job(key));
            }
        }
    }
}

/// What a pool cares for at an engine.
fn face(engine: &Engine) -> ([bool; 4], [usize; 4]) {
    let states = [engine.connected.is_some(), engine.ready, engine.draining, engine.assigned.is_empty()];
    (states, [engine.devices, engine.resident.len(), engine.loaded.len(), engine.key_failures.len()])
}

/// Whether a pod's containers have all ended for good.
fn is_over(pod: &PodObject) -> bool {
    let phase = pod.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_final(state: v1::PartitionState) -> bool {
    use v1::PartitionState as S;
    matches!(state, S::Succeeded | S::Failed | S::Cancelled)
}

fn tries(failures: u32) -> String {
    if failures == 1 { String::new() } else { format!("tried {failures} times; the last time: ") }
}
