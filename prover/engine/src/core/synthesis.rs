//! Memory, synthesis workers, and how far synthesis runs ahead of the devices.

use std::time::Duration;

use proofmill_groth16::device::WorkingSet;

use super::budget::Area;
use super::event::{Action, KeyFacts, KeyId, Ticket};
use super::keys::KeyState;
use super::partition::{Order, Stage};
use super::{Core, Grant};
use crate::job::{Failure, FailureKind};
use crate::meter::Usage;
use crate::snapshot::KeyFailure;
use crate::trace::{Flow, Track};

/// The weight of a new figure in the moving averages.
const NEWS: u32 = 4;

/// How far synthesis runs ahead: as many partitions as keep the devices fed, no more, since each holds memory.
#[derive(Debug, Default)]
pub(super) struct RunAhead {
    synthesis: Option<Duration>,
    device: Option<Duration>,
}

impl RunAhead {
    fn synthesised(&mut self, took: Duration) {
        average(&mut self.synthesis, took);
    }

    pub fn proved(&mut self, took: Duration) {
        average(&mut self.device, took);
    }

    /// Partitions that should be in synthesis or in the device queue: one ready per device worker, and as many in
    /// synthesis as devices finish while one synthesis lasts.
    pub fn target(&self, devices: usize, workers: usize) -> usize {
        let spare = 2 * devices;
        let (Some(synthesis), Some(device)) = (self.synthesis, self.device) else { return spare + workers };
        let ratio = synthesis.as_secs_f64() / device.as_secs_f64().max(1e-6);
        // The ratio is finite and the result is clamped, so the cast can't go wrong.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let in_flight = (ratio * devices as f64).ceil().clamp(1.0, workers as f64) as usize;
        spare + in_flight
    }
}

fn average(slot: &mut Option<Duration>, news: Duration) {
    *slot = Some(slot.map_or(news, |old| (old * (NEWS - 1) + news) / NEWS));
}

/// What a partition of this circuit takes while it is worked on: the most of all devices.
fn working_set(facts: &KeyFacts) -> WorkingSet {
    facts.working_sets.iter().fold(WorkingSet::default(), |most, set| WorkingSet {
        evaluations: most.evaluations.max(set.evaluations),
        host: most.host.max(set.host),
        device: most.device.max(set.device),
    })
}

impl Core {
    /// Gives memory in strict order to syntheses and key loads: nobody overtakes whoever waits for memory.
    pub(super) fn pump_memory(&mut self) -> bool {
        let mut progress = false;
        loop {
            let ready = self.next_ready();
            let load = self.loaders.free().and_then(|slot| self.keys.next_load().map(|load| (slot, load)));
            let load_first = match (ready, load) {
                (Some((order, _)), Some((_, (id, _)))) => self.first_fed(id).is_some_and(|first| first < order),
                (None, Some(_)) => true,
                (_, None) => false,
            };
            let (started, for_partition) = match (ready, load) {
                (_, Some((slot, (id, bytes)))) if load_first => {
                    let wanted = self.keys.get(id).is_some_and(|key| !key.users.is_empty());
                    (self.try_load(id, slot, bytes), wanted)
                }
                (Some((order, slot)), _) => (self.try_synthesis(order, slot), true),
                (None, _) => break,
            };
            match started {
                Some(()) => progress = true,
                None => {
                    // A warm-up that does not fit now keeps no device from anything.
                    self.memory_blocked = for_partition;
                    return progress;
                }
            }
        }
        self.memory_blocked = false;
        progress
    }

    /// The first partition that may be synthesised now, and by which worker.
    fn next_ready(&self) -> Option<(Order, usize)> {
        let &order = self.ready.first()?;
        let regular = self.config.synthesis_workers.max(1);
        if order.is_critical() {
            return self.synthesizers.free().map(|slot| (order, slot));
        }
        let ahead = self.device_queue.len() + self.synthesizers.taken();
        if ahead >= self.run_ahead.target(self.devices.len(), regular) {
            return None;
        }
        self.synthesizers.free_below(regular).map(|slot| (order, slot))
    }

    /// Whether a synthesis worker has nothing to do.
    pub(super) fn has_free_synthesizer(&self) -> bool {
        self.synthesizers.free_below(self.config.synthesis_workers.max(1)).is_some()
    }

    /// Starts a load, or fails it for good; `None` if it must wait for memory.
    fn try_load(&mut self, id: KeyId, slot: usize, bytes: u64) -> Option<()> {
        let user = self.keys.get(id).and_then(|key| key.fed.first().or_else(|| key.users.first())).copied();
        let critical = user.is_some_and(Order::is_critical);
        let limit = self.budget.work_limit(critical);
        if bytes > limit {
            let message = format!(
                "the circuit takes {bytes} bytes when loaded, and at most {limit} of the memory budget ({}) are \
                 available to it; give the engine more memory",
                self.budget.limit()
            );
            self.too_large(id, user, bytes, Failure { kind: FailureKind::MemoryBudget, message });
            return Some(());
        }
        let grant = self.reserve(Area::Keys, [bytes], critical, self.first_fed(id), id);
        self.set_key_blocked(id, grant.is_none());
        let [grant] = grant?;
        self.start_load(id, slot, grant);
        Some(())
    }

    /// The first partition with an input that waits for a circuit.
    fn first_fed(&self, id: KeyId) -> Option<Order> {
        self.keys.get(id)?.fed.first().copied()
    }

    /// Starts a synthesis, or fails it for good; `None` if it must wait for memory.
    fn try_synthesis(&mut self, order: Order, slot: usize) -> Option<()> {
        let ticket = order.ticket;
        let Some(partition) = self.partitions.get(&ticket) else {
            self.ready.remove(&order);
            return Some(());
        };
        let id = partition.key;
        let facts = self.keys.get(id).map(|key| key.facts.clone()).unwrap_or_default();
        if let Err(failure) = self.fits_at_all(&facts, order.is_critical()) {
            self.end(ticket, Err(failure));
            return Some(());
        }
        let set = working_set(&facts);
        let amounts = [facts.scratch, set.evaluations, set.host];
        let grants = self.reserve(Area::WorkingSets, amounts, order.is_critical(), Some(order), id);
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            partition.blocked = grants.is_none();
        }
        self.refresh(ticket);
        let [scratch, evaluations, host] = grants?;
        self.ready.remove(&order);
        self.synthesizers.set(slot, true);
        if let Some(key) = self.keys.get_mut(id) {
            key.leave(order);
            key.leases += 1;
            key.last_used = self.now;
        }
        if let Some(partition) = self.partitions.get_mut(&ticket) {
            (partition.scratch, partition.evaluations, partition.host) = (Some(scratch), Some(evaluations), Some(host));
            partition.leased = true;
        }
        self.actions.push(Action::Synthesize { ticket, slot });
        self.enter(ticket, Stage::Synthesizing);
        Some(())
    }

    /// Takes memory; if it is not there, sends idle circuits away and takes nothing.
    fn reserve<const N: usize>(
        &mut self,
        area: Area,
        amounts: [u64; N],
        critical: bool,
        order: Option<Order>,
        spare: KeyId,
    ) -> Option<[Grant; N]> {
        let grants = self.budget.take_all(area, amounts, critical);
        if grants.is_none() {
            let sum = amounts.iter().fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
            let missing = self.budget.missing(area, sum, critical).saturating_sub(self.releasing);
            if missing > 0 {
                for victim in self.keys.victims(missing, order, spare) {
                    self.evict_key(victim);
                }
            }
        }
        grants
    }

    /// Whether a partition could ever run, with all memory to itself.
    fn fits_at_all(&self, facts: &KeyFacts, critical: bool) -> Result<(), Failure> {
        let set = working_set(facts);
        let need = [facts.resident, facts.scratch, set.evaluations, set.host]
            .iter()
            .fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
        let limit = self.budget.work_limit(critical);
        let failed = |message| Err(Failure { kind: FailureKind::MemoryBudget, message });
        if need > limit {
            return failed(format!(
                "a partition of this circuit takes {need} bytes ({} of them the circuit itself), and at most {limit} of \
                 the memory budget ({}) are available to it; give the engine more memory",
                facts.resident,
                self.budget.limit()
            ));
        }
        let sets = facts.working_sets.iter().zip(&self.devices);
        if !sets.clone().any(|(set, device)| device.can_hold(set.device)) {
            let most = sets.filter_map(|(_, device)| device.facts.memory).max().unwrap_or(0);
            return failed(format!(
                "a partition of this circuit takes {} bytes of a device's memory, and the largest device has {most}",
                set.device
            ));
        }
        Ok(())
    }

    /// A circuit can never be loaded: its first user ends, or nobody needs it any more.
    fn too_large(&mut self, id: KeyId, user: Option<Order>, bytes: u64, failure: Failure) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let name = key.circuit.name.clone();
        if user.is_none() {
            key.warm = false;
        }
        self.keys.failed(name, KeyFailure { failure: failure.clone(), too_large: Some(bytes) });
        match user {
            Some(user) => self.end(user.ticket, Err(failure)),
            None => self.forget(id),
        }
    }

    fn set_key_blocked(&mut self, id: KeyId, blocked: bool) {
        let Some(key) = self.keys.get_mut(id) else { return };
        if std::mem::replace(&mut key.blocked, blocked) != blocked {
            self.refresh_users(id);
        }
    }

    /// A synthesis told what it really took: the next ones of its circuit get as much.
    pub(super) fn learn_scratch(&mut self, ticket: Ticket, scratch: Option<u64>) {
        let key = self.partitions.get(&ticket).and_then(|partition| self.keys.get_mut(partition.key));
        if let (Some(key), Some(bytes)) = (key, scratch) {
            key.facts.scratch = bytes;
        }
    }

    pub(super) fn on_synthesized(
        &mut self,
        ticket: Ticket,
        slot: usize,
        started: Duration,
        usage: Usage,
        result: Result<(), Failure>,
    ) {
        self.synthesizers.set(slot, false);
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.usage += usage;
        let (name, order, ended) = (partition.name.clone(), partition.order, partition.ended);
        let flow = if result.is_ok() { Flow::Out(ticket) } else { Flow::None };
        if let Some(scratch) = partition.scratch.take() {
            self.budget.give(scratch);
        }
        self.span(Track::Synthesis(slot), "synthesis", started, Some(name), Some(usage), flow);
        match result {
            _ if ended => self.reap(ticket),
            Err(failure) => {
                // No worker has it any more, so that it ends at once.
                self.enter(ticket, Stage::Ready);
                self.end(ticket, Err(failure));
            }
            Ok(()) => {
                self.run_ahead.synthesised(now.saturating_sub(started));
                self.device_queue.insert(order);
                self.enter(ticket, Stage::DeviceQueue);
            }
        }
    }

    /// Sends a partition back to its synthesis: its assignment was used up by a device that failed.
    pub(super) fn start_over(&mut self, ticket: Ticket) {
        let Some(mut partition) = self.partitions.remove(&ticket) else { return };
        let (order, key, holdings) = (partition.order, partition.key, partition.take_holdings());
        // First it waits for the key again, so that a damaged one is not forgotten as it goes.
        if let Some(key) = self.keys.get_mut(key) {
            key.join(order, true);
        }
        self.end_lease(&mut partition);
        let name = partition.name.clone();
        (partition.parked_on, partition.next_phase) = (None, None);
        self.partitions.insert(ticket, partition);
        self.device_queue.remove(&order);
        self.release(ticket, name, true, holdings);
        let resident = self.keys.get(key).is_some_and(|key| key.state == KeyState::Loaded);
        if resident {
            self.ready.insert(order);
        }
        self.enter(ticket, if resident { Stage::Ready } else { Stage::Gathering });
    }
}
