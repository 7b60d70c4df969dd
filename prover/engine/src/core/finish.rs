//! Finalizers: `prove_finish`, then the verification without which nothing succeeds.

use std::sync::Arc;
use std::time::Duration;

use super::Core;
use super::device::Work;
use super::event::{Action, Ticket, Verdict, WorkerId};
use super::partition::Stage;
use crate::meter::Usage;
use crate::trace::{Flow, Span, Track};

impl Core {
    /// Gives outputs to finalizers. As many outputs may wait as there are finalizers; beyond that device workers wait.
    pub(super) fn pump_finalizers(&mut self) -> bool {
        let mut progress = false;
        loop {
            while let Some(slot) = self.finalizers.free()
                && let Some(order) = self.finish_queue.pop_first()
            {
                let ticket = order.ticket;
                let Some(partition) = self.partitions.get(&ticket) else { continue };
                let device = partition.last_device.unwrap_or(0);
                self.finalizers.set(slot, true);
                self.actions.push(Action::Finish { ticket, slot, device });
                self.enter(ticket, Stage::Finishing);
                progress = true;
            }
            let Some((worker, ticket)) = self.first_waiting_output() else { return progress };
            if self.finish_queue.len() >= self.config.finalizers.max(1) {
                return progress;
            }
            let Some(partition) = self.partitions.get(&ticket) else { return progress };
            self.finish_queue.insert(partition.order);
            self.set_work(worker, Work::Idle);
            self.enter(ticket, Stage::FinishQueue);
            progress = true;
        }
    }

    fn first_waiting_output(&self) -> Option<(WorkerId, Ticket)> {
        let workers = self.devices.iter().enumerate().flat_map(|(device, state)| {
            state.work.iter().enumerate().filter_map(move |(slot, work)| match work {
                Work::AwaitingFinalizer(ticket) => Some((WorkerId { device, slot }, *ticket)),
                _ => None,
            })
        });
        workers.min_by_key(|(_, ticket)| self.partitions.get(ticket).map(|partition| partition.order))
    }

    pub(super) fn on_finished(
        &mut self,
        ticket: Ticket,
        slot: usize,
        (started, finished): (Duration, Duration),
        usage: Usage,
        result: Result<(), String>,
    ) {
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.usage += usage;
        partition.timings.finish += finished.saturating_sub(started);
        let (ended, device) = (partition.ended, partition.last_device.unwrap_or(0));
        self.finalizer_spans(ticket, slot, "finish", (started, finished), usage);
        if let Err(message) = result {
            self.finalizers.set(slot, false);
            if ended {
                self.reap(ticket);
            } else {
                self.device_failed(device, None, ticket, &message);
            }
        }
    }

    pub(super) fn on_verified(
        &mut self,
        ticket: Ticket,
        slot: usize,
        (started, finished): (Duration, Duration),
        usage: Usage,
        verdict: Verdict,
    ) {
        self.finalizers.set(slot, false);
        let now = self.now;
        let Some(partition) = self.partitions.get_mut(&ticket) else { return };
        partition.usage += usage;
        partition.timings.verify += finished.saturating_sub(started);
        let (ended, device) = (partition.ended, partition.last_device.unwrap_or(0));
        self.finalizer_spans(ticket, slot, "verify", (started, finished), usage);
        if ended {
            return self.reap(ticket);
        }
        match verdict {
            Verdict::Valid(mut proof) => {
                self.proof_is_right(ticket);
                if let Some(partition) = self.partitions.get_mut(&ticket) {
                    partition.timings.total = now.saturating_sub(partition.submitted);
                    // No finalizer has it any more, so that it ends at once.
                    partition.stage = Stage::FinishQueue;
                    proof.timings = partition.timings;
                }
                proof.device = self.devices.get(device).map_or_else(String::new, |state| state.facts.id.clone());
                self.end(ticket, Ok(Arc::from(proof)));
            }
            Verdict::Invalid => self.proof_is_wrong(ticket),
            Verdict::Error(failure) => {
                if let Some(partition) = self.partitions.get_mut(&ticket) {
                    partition.stage = Stage::FinishQueue;
                }
                self.end(ticket, Err(failure));
            }
        }
    }

    /// What a finalizer did, and its wait for the engine's lock, which it has now.
    fn finalizer_spans(
        &mut self,
        ticket: Ticket,
        slot: usize,
        name: &'static str,
        (start, end): (Duration, Duration),
        usage: Usage,
    ) {
        let subject = self.partitions.get(&ticket).map(|partition| partition.name.clone());
        let (track, flow, usage) = (Track::Finalizer(slot), Flow::None, Some(usage));
        self.trace.push(Span { track, name, start, end, subject: subject.clone(), usage, flow });
        if end < self.now {
            self.span(track, "lock_wait", end, subject, None, flow);
        }
    }
}
