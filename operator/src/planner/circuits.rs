//! What becomes of a Circuit: engines that load it tell what its files hold, and its status says so.

use std::collections::BTreeMap;
use std::time::Duration;

use proofmill_crds::circuit::{CircuitStatus, Curve};
use proofmill_crds::conditions::{ConditionStatus, reasons, types};
use proofmill_crds::hex;
use proofmill_proto::v1;

use super::{Change, Command, Planner, SETTLE, Subject, WriteFault, apply};
use crate::clock::Now;
use crate::conditions::Conditions;
use crate::index::{CircuitObject, Key};
use crate::jobs::failure;

/// An engine that was told to forget a circuit has done so after this; what it says then is of the new one.
const EVICTED_AFTER: Duration = Duration::from_secs(10);

/// What engines found out about a circuit.
#[derive(Clone, Debug, Default)]
pub(super) struct Finding {
    facts: Option<v1::CircuitFacts>,
    /// Another pod found a key with this other digest.
    other: Option<(String, Vec<u8>)>,
    /// A status write is under way.
    writing: bool,
    /// How often it has failed in a row.
    failures: u32,
}

impl Planner {
    pub(super) fn see_circuits(&mut self, change: Change<CircuitObject>) {
        let before: BTreeMap<Key, String> =
            self.circuits.iter().map(|(key, circuit)| (key.clone(), circuit.meta.uid.clone())).collect();
        for key in apply(&mut self.circuits, change) {
            let uid = self.circuits.get(&key).map(|circuit| &circuit.meta.uid);
            if uid != before.get(&key) {
                // Another one of the same name has other files.
                self.pace.forget(&key);
                self.findings.remove(&key);
                self.evict(&key);
            }
            self.touch_jobs_of(|job| job.object.meta.key.sibling(&job.object.spec.circuit_ref.name) == key);
            let mut keepers = Vec::new();
            for (name, pool) in self.pools.iter().filter(|(name, _)| name.namespace == key.namespace) {
                if pool.object.spec.circuits.contains(&key.name) {
                    keepers.push(Subject::Pool(name.clone()));
                }
            }
            self.dirty.extend(keepers);
            self.dirty.insert(Subject::Circuit(key));
        }
    }

    /// Engines forget the circuit of this name that was.
    fn evict(&mut self, key: &Key) {
        let until = self.now + EVICTED_AFTER;
        for (pod, engine) in self.engines.iter_mut().filter(|(_, engine)| engine.pool.namespace == key.namespace) {
            engine.preloaded.remove(&key.name);
            engine.loaded.remove(&key.name);
            let failed = engine.key_failures.remove(&key.name).is_some();
            if failed || engine.resident.contains(&key.name) {
                engine.outdated.insert(key.name.clone(), until);
                self.commands.push(Command::Evict { pod: pod.clone(), circuit: key.name.clone() });
            }
        }
    }

    /// Takes over what an engine says of the circuits that it has in memory.
    pub(super) fn see_circuit_facts(&mut self, pod: &str, status: &v1::EngineStatus) {
        let Some(engine) = self.engines.get(pod) else { return };
        let (pod, pool) = (engine.pod.name.clone(), engine.pool.clone());
        let failed = status.key_failures.iter().map(|failure| failure.circuit.as_str());
        let loaded = status.circuits.iter().map(|circuit| circuit.name.as_str());
        let mut changed: Vec<Key> = failed.chain(loaded).map(|name| pool.sibling(name)).collect();
        let outdated = engine.outdated.clone();
        for circuit in &status.circuits {
            if outdated.contains_key(&circuit.name) {
                continue;
            }
            let Some(facts) = &circuit.facts else { continue };
            let finding = self.findings.entry(pool.sibling(&circuit.name)).or_default();
            match &finding.facts {
                None => finding.facts = Some(facts.clone()),
                Some(known) if known.key_digest != facts.key_digest && finding.other.is_none() => {
                    finding.other = Some((pod.clone(), facts.key_digest.clone()));
                }
                Some(_) => {}
            }
        }
        changed.retain(|key| self.circuits.get(key).is_some_and(|circuit| self.circuit_status(circuit).is_some()));
        for key in changed {
            self.look_again(Subject::Circuit(key), self.now + SETTLE);
        }
    }

    /// Writes a Circuit's status if it says something new.
    pub(super) fn look_at_circuit(&mut self, key: &Key, now: &Now) {
        let Some(circuit) = self.circuits.get(key).filter(|circuit| !circuit.meta.deleting) else { return };
        if self.findings.get(key).is_some_and(|finding| finding.writing) {
            return;
        }
        let Some(mut status) = self.circuit_status(circuit) else { return };
        let (condition, reason, message) = self.readiness(circuit);
        let mut conditions =
            Conditions { list: &mut status.conditions, generation: circuit.meta.generation, time: now.time() };
        conditions.set(types::READY, condition, reason, &message);
        let circuit = Box::new(circuit.meta.clone());
        self.findings.entry(key.clone()).or_default().writing = true;
        self.commands.push(Command::WriteCircuit { circuit, status: Box::new(status) });
    }

    pub(super) fn see_circuit_written(&mut self, key: &Key, uid: &str, result: Result<Box<CircuitObject>, WriteFault>) {
        if self.circuits.get(key).is_none_or(|circuit| circuit.meta.uid != uid) {
            return;
        }
        let finding = self.findings.entry(key.clone()).or_default();
        finding.writing = false;
        let mut pause = SETTLE;
        match result {
            Ok(circuit) => {
                finding.failures = 0;
                self.see_circuits(Change::Applied(circuit));
                return;
            }
            Err(WriteFault::Conflict | WriteFault::Gone) => {}
            Err(WriteFault::Failed(message)) => {
                finding.failures += 1;
                pause = failure::pause(finding.failures);
                tracing::warn!(circuit = %key, "the status was not written: {message}");
            }
        }
        self.look_again(Subject::Circuit(key.clone()), self.now + pause);
    }

    /// The status of a circuit, the conditions as they were; `None` if it would say nothing new.
    fn circuit_status(&self, circuit: &CircuitObject) -> Option<CircuitStatus> {
        let old = &circuit.status;
        let mut new = CircuitStatus { observed_generation: Some(circuit.meta.generation), ..old.clone() };
        let key = &circuit.meta.key;
        let resident = self.engines.values().filter(|engine| {
            engine.pool.namespace == key.namespace && engine.connected.is_some() && engine.resident.contains(&key.name)
        });
        new.resident_pods = i32::try_from(resident.count()).ok();
        new.partitions = Some(circuit.spec.simulated.as_ref().map_or(1, |simulated| simulated.partitions));
        if let Some(simulated) = &circuit.spec.simulated {
            new.key_bytes = Some(simulated.bytes.key);
            new.partition_bytes = Some(simulated.bytes.working_set);
        }
        if let Some(facts) = self.findings.get(key).and_then(|finding| finding.facts.as_ref()) {
            let number = |bytes: u64| Some(i64::try_from(bytes).unwrap_or(i64::MAX));
            new.digest = Some(hex::encode(&facts.key_digest));
            new.curve = match facts.curve.as_str() {
                "bn128" => Some(Curve::Bn254),
                "bls12381" => Some(Curve::Bls12381),
                _ => None,
            };
            new.constraints = Some(facts.constraints.into());
            new.domain = 1_i64.checked_shl(facts.domain_log);
            new.key_bytes = number(facts.key_bytes);
            new.partition_bytes = number(facts.partition_bytes);
            new.verifying_key_digest = Some(hex::encode(&facts.verifying_key_digest));
            new.insecure_key = Some(facts.insecure_key);
        }
        // What no engine could load tells its size all the same.
        if new.key_bytes.is_none() {
            let engines = self.engines.values().filter(|engine| engine.pool.namespace == key.namespace);
            let failures = engines.filter_map(|engine| engine.key_failures.get(&key.name));
            let size = failures.map(|failure| failure.too_large_bytes).max().filter(|bytes| *bytes > 0);
            new.key_bytes = size.and_then(|bytes| i64::try_from(bytes).ok());
        }
        let (status, reason, _) = self.readiness(circuit);
        let ready = old.conditions.iter().find(|condition| condition.type_ == types::READY);
        let same = ready.is_some_and(|known| known.status == status && known.reason == reason);
        (new != *old || !same).then_some(new)
    }

    /// Whether a circuit is fit for proving, why, and in words.
    fn readiness(&self, circuit: &CircuitObject) -> (ConditionStatus, &'static str, String) {
        let key = &circuit.meta.key;
        let finding = self.findings.get(key);
        let known = circuit.status.digest.clone();
        let found = finding.and_then(|finding| finding.facts.as_ref()).map(|facts| hex::encode(&facts.key_digest));
        if let Some((pod, digest)) = finding.and_then(|finding| finding.other.as_ref()) {
            let first = found.or(known).unwrap_or_default();
            let message = format!(
                "pod {pod} found a key with SHA-256 {} where another found {first}: pin spec.groth16.zkey.sha256 in a new \
                 Circuit",
                hex::encode(digest)
            );
            return (ConditionStatus::False, reasons::DIGEST_MISMATCH, message);
        }
        if circuit.spec.simulated.is_some() {
            return (ConditionStatus::True, reasons::INSPECTED, "simulated: there are no files to read".to_owned());
        }
        let engines = || self.engines.values().filter(|engine| engine.pool.namespace == key.namespace);
        let failure = engines().find_map(|engine| Some((engine, engine.key_failures.get(&key.name)?)));
        if let Some((engine, failed)) = failure
            && !engines().any(|engine| engine.resident.contains(&key.name))
        {
            let (reason, words) = failure::of_key(failed);
            return (ConditionStatus::False, reason, format!("pod {}: {words}", engine.pod.name));
        }
        match found.or(known) {
            Some(_) => (ConditionStatus::True, reasons::INSPECTED, "its files have been read".to_owned()),
            None => {
                let message = "no pod has read its files yet: the first job does, or a pool with it in spec.circuits";
                (ConditionStatus::Unknown, reasons::INSPECTING, message.to_owned())
            }
        }
    }
}
