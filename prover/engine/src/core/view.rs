//! Snapshots: the whole state at one instant, as plain data.

use std::time::Duration;

use super::Core;
use super::budget::{Area, Grant};
use super::device::Work;
use super::health::Health;
use crate::job::PartitionState;
use crate::ledger::DeviceTime;
use crate::snapshot::{DeviceSnapshot, PartitionSnapshot, Snapshot};

impl Core {
    /// The state of everything at `now`.
    pub fn snapshot(&mut self, now: Duration, boot_id: &str) -> Snapshot {
        self.at(now);
        let now = self.now;
        for device in &mut self.devices {
            device.ledger.advance(now);
        }
        let mut snapshot = Snapshot {
            boot_id: boot_id.to_owned(),
            at: now,
            draining: self.draining,
            devices: self.devices.iter().map(|device| device.snapshot()).collect(),
            phases: self.stats.phases.clone(),
            outcomes: self.stats.outcomes.clone(),
            key_failures: self.keys.failures.clone(),
            ..Snapshot::default()
        };
        for (area, name) in [(Area::Keys, "keys"), (Area::WorkingSets, "working_sets"), (Area::Inputs, "inputs")] {
            snapshot.memory.insert(name, self.budget.used(area));
        }
        snapshot.memory.insert("budget", self.budget.limit());
        snapshot.memory.insert("free", self.budget.limit() - self.budget.total());
        for (_, key) in self.keys.iter() {
            if let Some(bytes) = key.grant.as_ref().map(Grant::bytes) {
                *snapshot.keys.entry(key.circuit.name.clone()).or_default() += bytes;
                let facts = key.facts.circuit.clone().map(|facts| (key.circuit.name.clone(), facts));
                snapshot.circuits.extend(facts);
            }
        }
        self.list_partitions(&mut snapshot);
        snapshot
    }

    fn list_partitions(&self, snapshot: &mut Snapshot) {
        let mut live: Vec<_> = self.live.values().filter_map(|ticket| self.partitions.get(ticket)).collect();
        live.sort_by_key(|partition| partition.order);
        for partition in live {
            let priority = partition.order.priority;
            *snapshot.queues.entry((state_name(partition.visible), priority)).or_default() += 1;
            snapshot.partitions.push(PartitionSnapshot {
                id: partition.id.clone(),
                circuit: self.keys.get(partition.key).map_or_else(String::new, |key| key.circuit.name.clone()),
                priority,
                state: partition.visible,
                since: partition.since,
            });
        }
        snapshot.partitions.extend(self.results.iter().map(|(id, kept)| PartitionSnapshot {
            id: id.clone(),
            circuit: kept.circuit.clone(),
            priority: kept.priority,
            state: kept.state(),
            since: kept.at,
        }));
    }
}

impl super::device::DeviceState {
    fn snapshot(&self) -> DeviceSnapshot {
        let running = self.work.iter().find_map(|work| match work {
            Work::Stepping(_, phase) => Some(DeviceTime::from(*phase)),
            Work::CanaryRunning => Some(DeviceTime::OtherKernel),
            _ => None,
        });
        let preparing = self.work.iter().any(|work| matches!(work, Work::Preparing(_))).then_some(DeviceTime::HostPrep);
        // Whoever asks for the state now must not wait for the reports: a running step counts as its phase.
        let mut now = self.ledger.cause();
        for other in [running, preparing].into_iter().flatten() {
            now = now.min(other);
        }
        let (state, cause) = now.labels();
        DeviceSnapshot {
            id: self.facts.id.clone(),
            state,
            cause,
            ledger: self.ledger.by_label(),
            watermark: self.ledger.watermark(),
            cpu: self.cpu,
            verification_failures: self.verification_failures,
            quarantined: matches!(self.health, Health::Quarantined { .. }),
            ready: self.proven,
        }
    }
}

/// A state's name in metrics and traces.
pub(super) const fn state_name(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Queued => "queued",
        PartitionState::FetchingInput => "fetching_input",
        PartitionState::LoadingKey => "loading_key",
        PartitionState::MemoryBudget => "memory_budget",
        PartitionState::Synthesis => "synthesis",
        PartitionState::DeviceQueue => "device_queue",
        PartitionState::Proving => "proving",
        PartitionState::Finishing => "finishing",
        PartitionState::Succeeded => "succeeded",
        PartitionState::Failed => "failed",
        PartitionState::Cancelled => "cancelled",
    }
}
