//! Streams of events for clients of any speed: the engine is never held up, memory is bounded, the newest state of each
//! partition always arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proofmill_engine::engine::{PartitionEvent, Watch};
use proofmill_engine::job::PartitionId;
use proofmill_proto::v1;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::grpc::refusal;
use crate::report;
use crate::stats::{Gauge, Stats};

/// Up to here a slow client misses nothing.
const FAITHFUL: usize = 1024;
/// Beyond this a client is cut off. Until then there is one event per partition.
const MOST: usize = 65_536;
/// Messages between this task and the connection.
const IN_FLIGHT: usize = 8;

/// Events that the client has not taken yet.
#[derive(Default)]
struct Pending {
    queue: VecDeque<Slot>,
    /// Number of the first slot, counted from the watch's begin.
    first: u64,
    /// Number of each partition's last slot.
    last: HashMap<PartitionId, u64>,
}

struct Slot {
    event: PartitionEvent,
    skipped: u64,
}

/// The client is too slow.
#[derive(Debug)]
struct Lagged;

/// How one watch is served.
pub(crate) struct Terms {
    pub boot_id: Arc<str>,
    pub stats: Arc<Stats>,
    /// Turns true when the server ends.
    pub closing: watch::Receiver<bool>,
    pub stall: Duration,
}

/// The stream of a watch: `first`, if there is one, then `events`.
pub(crate) fn stream(
    first: Option<PartitionEvent>,
    events: Watch,
    terms: Terms,
) -> ReceiverStream<Result<v1::WatchResponse, Status>> {
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    tokio::spawn(forward(first, events, sender, terms));
    ReceiverStream::new(receiver)
}

async fn forward(
    first: Option<PartitionEvent>,
    mut events: Watch,
    sender: mpsc::Sender<Result<v1::WatchResponse, Status>>,
    mut terms: Terms,
) {
    let _count = Gauge::enter(&terms.stats, |stats| &stats.watches);
    let mut pending = first.map(Pending::with).unwrap_or_default();
    let mut open = true;
    let mut moved = Instant::now();
    let end = loop {
        if pending.is_empty() {
            if !open {
                return;
            }
            moved = Instant::now();
        }
        tokio::select! {
            event = events.recv(), if open => match event {
                Some(event) => match pending.push(event) {
                    Ok(skipped) => terms.stats.skipped_events.add(skipped),
                    Err(Lagged) => break lagged(&terms),
                },
                None => open = false,
            },
            permit = sender.reserve(), if !pending.is_empty() => {
                let (Ok(permit), Some(slot)) = (permit, pending.pop()) else { return };
                permit.send(Ok(v1::WatchResponse {
                    boot_id: terms.boot_id.to_string(),
                    event: Some(report::event(&slot.event, slot.skipped)),
                }));
                moved = Instant::now();
            }
            () = sender.closed() => return,
            () = sleep_until(moved + terms.stall), if !pending.is_empty() => break lagged(&terms),
            () = closes(&mut terms.closing) => break stopping(),
        }
    };
    drop((events, pending));
    // Told as soon as the client reads on; one that never does is dropped.
    let _ = timeout(terms.stall, sender.send(Err(end))).await;
}

/// Waits until the server ends.
pub(crate) async fn closes(closing: &mut watch::Receiver<bool>) {
    // An error means that the server is gone already.
    let _ = closing.wait_for(|closing| *closing).await;
}

pub(crate) fn stopping() -> Status {
    refusal(tonic::Code::Unavailable, "Stopping", "this engine stops; watch again once it is back")
}

fn lagged(terms: &Terms) -> Status {
    terms.stats.lagged_watches.add(1);
    refusal(
        tonic::Code::Aborted,
        "WatchLagged",
        "this watch read too slowly and was ended; watch again: the present state of every partition comes first",
    )
}

impl Pending {
    fn with(first: PartitionEvent) -> Self {
        let last = HashMap::from([(first.id.clone(), 0)]);
        Self { queue: VecDeque::from([Slot { event: first, skipped: 0 }]), first: 0, last }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds an event; returns how many others that leaves out.
    fn push(&mut self, event: PartitionEvent) -> Result<u64, Lagged> {
        if let Some(&number) = self.last.get(&event.id) {
            let full = self.queue.len() >= FAITHFUL;
            let slot = &mut self.queue[(number - self.first) as usize];
            // Progress within one state is worth its newest figure alone.
            let same_state = slot.event.state == event.state && slot.event.outcome.is_none();
            if same_state || full {
                slot.event = event;
                slot.skipped += u64::from(!same_state);
                return Ok(u64::from(!same_state));
            }
        }
        if self.queue.len() >= MOST {
            return Err(Lagged);
        }
        self.last.insert(event.id.clone(), self.first + self.queue.len() as u64);
        self.queue.push_back(Slot { event, skipped: 0 });
        Ok(0)
    }

    fn pop(&mut self) -> Option<Slot> {
        let slot = self.queue.pop_front()?;
        if self.last.get(&slot.event.id) == Some(&self.first) {
            self.last.remove(&slot.event.id);
        }
        self.first += 1;
        Some(slot)
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
