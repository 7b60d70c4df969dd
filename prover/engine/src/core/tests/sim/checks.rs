//! What must always hold, and what must hold at the end.

use std::time::Duration;

use super::Sim;
use crate::core::budget::Area;
use crate::core::device::Work;
use crate::core::{Action, Grant, Ticket};

impl Sim {
    /// Whoever starts now comes before everybody who could have started instead.
    pub(super) fn check_order(&self, action: &Action) {
        let order = |ticket: &Ticket| self.core.partitions.get(ticket).map(|partition| partition.order);
        match action {
            Action::Synthesize { ticket, .. } => {
                if let (Some(mine), Some(&first)) = (order(ticket), self.core.ready.first()) {
                    assert!(mine < first, "{mine:?} was synthesised before {first:?}");
                }
            }
            Action::Prepare { ticket, worker } => {
                let Some(mine) = order(ticket) else { return };
                let mut others = self.core.device_queue.iter();
                let passed = others.find(|other| self.core.is_eligible(other.ticket, worker.device) && **other < mine);
                assert!(passed.is_none(), "{mine:?} was prepared before {passed:?}");
            }
            _ => {}
        }
    }

    pub(super) fn check(&self) {
        let budget = self.core.budget();
        assert!(budget.total() <= budget.limit());
        assert!(budget.used(Area::Inputs) <= budget.input_limit());
        assert!(budget.used(Area::Keys) + budget.used(Area::WorkingSets) <= budget.work_limit(true));
        for device in &self.core.devices {
            assert!(device.facts.memory.is_none_or(|memory| device.memory_used <= memory));
        }
        for outcomes in self.outcomes.iter() {
            assert!(
                outcomes.1.len() <= self.accepted.get(outcomes.0).copied().unwrap_or(0),
                "{outcomes:?} ended twice"
            );
        }
    }

    /// Nothing is left behind.
    pub(super) fn check_rest(&mut self) {
        let stages: Vec<_> = self.core.partitions.values().map(|p| (&p.name, p.order, p.stage, p.parked_on)).collect();
        assert_eq!(
            self.core.live(),
            0,
            "lost: {stages:?} {:?} {:?} releasing {} inputs {}",
            self.core.budget(),
            self.core.keys,
            self.core.releasing,
            self.core.fetch_queue.len()
        );
        assert!(self.core.partitions.is_empty(), "not reaped: {stages:#?}");
        assert!(self.busy_threads.is_empty() && self.leases.is_empty());
        for (id, &count) in &self.accepted {
            assert_eq!(self.outcomes.get(id).map_or(0, Vec::len), count, "{id} has not one outcome per submission");
        }
        assert_eq!(self.released.len(), self.names.len());
        let core = &self.core;
        let queues = [&core.fetch_queue, &core.ready, &core.device_queue, &core.finish_queue];
        assert!(queues.iter().all(|queue| queue.is_empty()));
        assert_eq!(core.budget().used(Area::WorkingSets), 0);
        assert_eq!(core.budget().used(Area::Inputs), 0);
        assert_eq!(core.releasing, 0);
        let resident: u64 = core.keys.iter().filter_map(|(_, key)| key.grant.as_ref()).map(Grant::bytes).sum();
        assert_eq!(core.budget().used(Area::Keys), resident);
        for (_, key) in core.keys.iter() {
            assert!(key.leases == 0 && key.users.is_empty() && key.fed.is_empty());
        }
        for device in &core.devices {
            assert!(device.memory_used == 0 && device.work == [Work::Idle; 2]);
        }
        let snapshot = self.core.snapshot(self.now, "boot");
        for device in &snapshot.devices {
            assert_eq!(device.ledger.values().sum::<Duration>(), device.watermark);
            assert_eq!(device.watermark, self.now, "with nothing under way the ledger is complete");
            assert_eq!(device.ledger[&("idle", "unattributed")], Duration::ZERO);
        }
    }
}
