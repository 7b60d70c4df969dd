//! Who listens to which partitions.

use std::collections::HashMap;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::engine::{PartitionEvent, Watch};
use crate::job::PartitionId;

/// Watches of one partition after which those whose receivers are gone are looked for.
const SWEEP: usize = 256;

/// All watchers.
#[derive(Default)]
pub(super) struct Watchers {
    all: Vec<UnboundedSender<PartitionEvent>>,
    single: HashMap<PartitionId, Vec<UnboundedSender<PartitionEvent>>>,
    added: usize,
}

impl Watchers {
    /// A new watcher, told of the present state first.
    pub fn add(&mut self, only: Option<PartitionId>, current: Vec<PartitionEvent>) -> Watch {
        let (sender, receiver) = unbounded_channel();
        let ended = only.is_some() && current.iter().any(|event| event.state.is_final());
        for event in current {
            // The receiver is in our hands.
            let _ = sender.send(event);
        }
        self.sweep();
        match only {
            None => self.all.push(sender),
            // The stream of an ended partition is complete.
            Some(_) if ended => {}
            Some(id) => self.single.entry(id).or_default().push(sender),
        }
        receiver
    }

    /// Tells everybody whom it concerns. The streams of an ended partition end.
    pub fn tell(&mut self, event: PartitionEvent) {
        self.all.retain(|watcher| watcher.send(event.clone()).is_ok());
        if event.state.is_final() {
            for watcher in self.single.remove(&event.id).into_iter().flatten() {
                // Whoever has gone does not want to know.
                let _ = watcher.send(event.clone());
            }
        } else if let Some(watchers) = self.single.get_mut(&event.id) {
            watchers.retain(|watcher| watcher.send(event.clone()).is_ok());
        }
    }

    /// Forgets, now and then, watchers that went away before their partition ended or came.
    fn sweep(&mut self) {
        self.added += 1;
        if self.added.is_multiple_of(SWEEP) {
            self.single.retain(|_, watchers| {
                watchers.retain(|watcher| !watcher.is_closed());
                !watchers.is_empty()
            });
        }
    }
}
