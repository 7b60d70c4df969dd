//! The data of partitions and circuits on their way; the core knows them by number only.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proofmill_groth16::assignment::Assignment;
use proofmill_groth16::device::{ProveStart, StartOutput};

use crate::core::{KeyId, Ticket};
use crate::job::{Circuit, Input, Source};
use crate::parts::{Cancel, LoadedCircuit};

/// What one partition has at the moment.
#[derive(Default)]
pub(super) struct Payload {
    pub key: KeyId,
    pub partition: u32,
    pub source: Option<Source>,
    pub input: Option<Arc<[u8]>>,
    pub cancel: Cancel,
    /// From its synthesis on.
    pub circuit: Option<Arc<LoadedCircuit>>,
    pub public_signals: Vec<[u64; 4]>,
    pub assignment: Option<Assignment>,
    pub steps: Option<Box<dyn ProveStart>>,
    pub output: Option<StartOutput>,
}

/// What one circuit has at the moment.
struct KeyData {
    circuit: Arc<Circuit>,
    cancel: Cancel,
    loaded: Option<Arc<LoadedCircuit>>,
}

/// Memory that is dropped elsewhere.
pub(super) type Dropped = Vec<Box<dyn Any + Send>>;

/// All of them.
#[derive(Default)]
pub(super) struct Store {
    payloads: Mutex<HashMap<Ticket, Payload>>,
    keys: Mutex<HashMap<KeyId, KeyData>>,
}

impl Store {
    pub fn admit(&self, ticket: Ticket, key: KeyId, partition: u32, input: Input) {
        let (source, input) = match input {
            Input::Inline(bytes) => (None, Some(bytes)),
            Input::Fetch(source) => (Some(source), None),
        };
        lock(&self.payloads).insert(ticket, Payload { key, partition, source, input, ..Payload::default() });
    }

    /// Works with a partition's data, under the lock: only to move things in and out.
    pub fn with<R>(&self, ticket: Ticket, work: impl FnOnce(&mut Payload) -> R) -> Option<R> {
        lock(&self.payloads).get_mut(&ticket).map(work)
    }

    /// Takes out an input that will be fetched again.
    pub fn take_input(&self, ticket: Ticket) -> Dropped {
        let input = self.with(ticket, |payload| payload.input.take()).flatten();
        input.into_iter().map(|input| Box::new(input) as Box<dyn Any + Send>).collect()
    }

    pub fn cancel(&self, ticket: Ticket) {
        self.with(ticket, |payload| payload.cancel.cancel());
    }

    /// Takes out what a partition holds: all of it, or all but its input.
    pub fn release(&self, ticket: Ticket, keep_input: bool) -> Dropped {
        let mut payloads = lock(&self.payloads);
        let mut dropped: Dropped = Vec::new();
        if keep_input {
            if let Some(payload) = payloads.get_mut(&ticket) {
                let fresh = Payload {
                    key: payload.key,
                    partition: payload.partition,
                    source: payload.source.clone(),
                    input: payload.input.clone(),
                    ..Payload::default()
                };
                dropped.push(Box::new(std::mem::replace(payload, fresh)));
            }
        } else if let Some(payload) = payloads.remove(&ticket) {
            dropped.push(Box::new(payload));
        }
        dropped
    }

    pub fn learn(&self, key: KeyId, circuit: Circuit) {
        let data = KeyData { circuit: Arc::new(circuit), cancel: Cancel::default(), loaded: None };
        lock(&self.keys).insert(key, data);
    }

    pub fn forget(&self, key: KeyId) {
        lock(&self.keys).remove(&key);
    }

    /// A load or an estimate was asked for: it gets a flag of its own.
    pub fn renew_key_flag(&self, key: KeyId) {
        if let Some(data) = lock(&self.keys).get_mut(&key) {
            data.cancel = Cancel::default();
        }
    }

    /// The circuit to be loaded, with its flag.
    pub fn begin_load(&self, key: KeyId) -> Option<(Arc<Circuit>, Cancel)> {
        let keys = lock(&self.keys);
        let data = keys.get(&key)?;
        Some((Arc::clone(&data.circuit), data.cancel.clone()))
    }

    pub fn cancel_key(&self, key: KeyId) {
        if let Some(data) = lock(&self.keys).get(&key) {
            data.cancel.cancel();
        }
    }

    pub fn loaded(&self, key: KeyId, circuit: Arc<LoadedCircuit>) {
        if let Some(data) = lock(&self.keys).get_mut(&key) {
            data.loaded = Some(circuit);
        }
    }

    pub fn circuit(&self, key: KeyId) -> Option<Arc<LoadedCircuit>> {
        lock(&self.keys).get(&key)?.loaded.clone()
    }

    pub fn evict(&self, key: KeyId) -> Dropped {
        let loaded = lock(&self.keys).get_mut(&key).and_then(|data| data.loaded.take());
        loaded.into_iter().map(|loaded| Box::new(loaded) as Box<dyn Any + Send>).collect()
    }
}

/// A name for this start of the engine. std's hasher keys come from the system's randomness.
pub(super) fn boot_id() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
