//! The circuits that the engine knows: which are resident, who needs them, which may go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budget::Grant;
use super::event::{KeyFacts, KeyId};
use super::partition::Order;
use crate::job::Circuit;
use crate::snapshot::KeyFailure;

/// Circuits whose last failure is kept: names come from clients.
const FAILURES: usize = 256;

/// How far a circuit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    /// Nothing is known but its place.
    Unknown,
    /// A loader finds its size.
    Estimating,
    /// Its size is known; it waits for memory and a loader.
    Sized(u64),
    /// A loader loads it.
    Loading,
    /// It is resident.
    Loaded,
    /// It is resident and damaged: it goes when the last partition that has it ends, and is loaded anew for others.
    Leaving,
}

/// One circuit.
#[derive(Debug)]
pub(super) struct Key {
    pub circuit: Circuit,
    pub state: KeyState,
    /// Partitions that wait for it or will synthesise with it.
    pub users: BTreeSet<Order>,
    /// Those of them that have their input. Only they count when memory is short: one without its input could wait for
    /// the memory that inputs may take, and so for others, who must not wait for its key in turn.
    pub fed: BTreeSet<Order>,
    /// Partitions from their synthesis on to their end.
    pub leases: u32,
    /// Wanted by [`super::Core::preload`].
    pub warm: bool,
    pub last_used: Duration,
    pub grant: Option<Grant>,
    pub facts: KeyFacts,
    /// The load under way was asked to stop.
    pub cancelled: bool,
    /// First in line for memory that is not there.
    pub blocked: bool,
    pub progress: Option<(u64, u64)>,
    /// When that was last told.
    pub progress_at: Option<Duration>,
}

impl Key {
    /// Somebody waits for it to be loaded.
    pub fn is_awaited(&self) -> bool {
        (self.warm || !self.users.is_empty()) && self.state != KeyState::Loaded
    }

    /// A partition will need it.
    pub fn join(&mut self, order: Order, has_input: bool) {
        self.users.insert(order);
        if has_input {
            self.fed.insert(order);
        }
    }

    /// A partition no longer waits for it; false if it did not.
    pub fn leave(&mut self, order: Order) -> bool {
        self.fed.remove(&order);
        self.users.remove(&order)
    }

    /// Its place in the order of loads: that of its first user with an input, then of its first user, then preloads.
    fn urgency(&self) -> (bool, Option<Order>, bool, Option<Order>) {
        let (fed, first) = (self.fed.first().copied(), self.users.first().copied());
        (fed.is_none(), fed, first.is_none(), first)
    }
}

/// All circuits.
#[derive(Debug, Default)]
pub(super) struct Keys {
    by_id: BTreeMap<KeyId, Key>,
    by_name: BTreeMap<String, Vec<KeyId>>,
    next: KeyId,
    /// Why the last load of a circuit failed, by name, until one succeeds; of so many circuits at most.
    pub failures: BTreeMap<String, KeyFailure>,
}

impl Keys {
    /// The circuit's name to the engine, and whether it is new.
    pub fn intern(&mut self, circuit: &Circuit, now: Duration) -> (KeyId, bool) {
        let ids = self.by_name.entry(circuit.name.clone()).or_default();
        let known = ids.iter().find(|id| self.by_id.get(id).is_some_and(|key| key.circuit == *circuit));
        if let Some(&id) = known {
            return (id, false);
        }
        let id = self.next;
        self.next += 1;
        ids.push(id);
        self.by_id.insert(
            id,
            Key {
                circuit: circuit.clone(),
                state: KeyState::Unknown,
                users: BTreeSet::new(),
                fed: BTreeSet::new(),
                leases: 0,
                warm: false,
                last_used: now,
                grant: None,
                facts: KeyFacts::default(),
                cancelled: false,
                blocked: false,
                progress: None,
                progress_at: None,
            },
        );
        (id, true)
    }

    /// Keeps why a load failed.
    pub fn failed(&mut self, name: String, failure: KeyFailure) {
        if self.failures.len() >= FAILURES && !self.failures.contains_key(&name) {
            self.failures.pop_first();
        }
        self.failures.insert(name, failure);
    }

    pub fn get(&self, id: KeyId) -> Option<&Key> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: KeyId) -> Option<&mut Key> {
        self.by_id.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        self.by_id.iter().map(|(&id, key)| (id, key))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Key> {
        self.by_id.values_mut()
    }

    /// Ids of the circuits of this name.
    pub fn named(&self, name: &str) -> Vec<KeyId> {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    /// Forgets a circuit that nobody needs and that is not resident; true if it did.
    pub fn forget_unused(&mut self, id: KeyId) -> bool {
        let Some(key) = self.by_id.get(&id) else { return false };
        let idle = matches!(key.state, KeyState::Unknown | KeyState::Sized(_)) && key.leases == 0;
        if key.warm || !key.users.is_empty() || !idle {
            return false;
        }
        if let Some(ids) = self.by_name.get_mut(&key.circuit.name) {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.by_name.remove(&key.circuit.name);
            }
        }
        self.by_id.remove(&id);
        true
    }

    /// The most urgent circuit whose size must be found.
    pub fn next_estimate(&self) -> Option<KeyId> {
        self.most_urgent(|key| key.state == KeyState::Unknown).map(|(id, _)| id)
    }

    /// The most urgent circuit that waits for memory, and its size.
    pub fn next_load(&self) -> Option<(KeyId, u64)> {
        let (id, key) = self.most_urgent(|key| matches!(key.state, KeyState::Sized(_)))?;
        let KeyState::Sized(bytes) = key.state else { return None };
        Some((id, bytes))
    }

    /// Idle resident circuits of at least `bytes` together that may go in favour of `order` (`None`: of a load that no
    /// partition with an input waits for), or nothing if they are too few. First those that nobody needs, least recently
    /// used first, preloaded ones last; then those that only partitions after `order` wait for, the last ones first.
    pub fn victims(&self, bytes: u64, order: Option<Order>, spare: KeyId) -> Vec<KeyId> {
        let mut idle: Vec<(KeyId, &Key)> = self
            .iter()
            .filter(|&(id, key)| id != spare && key.state == KeyState::Loaded && key.leases == 0)
            .filter(|(_, key)| match order {
                Some(order) => key.fed.first().is_none_or(|&first| first > order),
                None => key.users.is_empty() && !key.warm,
            })
            .collect();
        idle.sort_by_key(|(_, key)| {
            let (fed, first) = (key.fed.first().copied(), key.users.first().copied());
            let needed = (fed.is_some(), first.is_some());
            (needed, std::cmp::Reverse(fed), std::cmp::Reverse(first), key.warm, key.last_used)
        });
        let mut found = 0_u64;
        let mut victims = Vec::new();
        for (id, key) in idle {
            if found >= bytes {
                break;
            }
            found += key.grant.as_ref().map_or(0, Grant::bytes);
            victims.push(id);
        }
        if found >= bytes { victims } else { Vec::new() }
    }

    /// A partition or warm-up waits for a circuit that is not waiting for memory.
    pub fn any_awaited(&self) -> bool {
        self.by_id.values().any(|key| key.is_awaited() && !key.blocked)
    }

    fn most_urgent(&self, wanted: impl Fn(&Key) -> bool) -> Option<(KeyId, &Key)> {
        self.iter().filter(|(_, key)| key.is_awaited() && wanted(key)).min_by_key(|(_, key)| key.urgency())
    }
}
