//! A log that nobody reads: it may hold up the thread that writes a line, never the engine.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{mk_circuit, mk_config, mk_device, mk_engine, mk_simulated, mk_submission, wait_until};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber whose reader has stopped reading.
struct Stuck {
    stuck: Arc<AtomicBool>,
    released: Arc<AtomicBool>,
}

impl Subscriber for Stuck {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "proofmill::timing"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.stuck.store(true, Ordering::Release);
        while !self.released.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_stuck_log_does_not_hold_the_lock() {
    let (stuck, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let log = Stuck { stuck: Arc::clone(&stuck), released: Arc::clone(&released) };
    tracing::subscriber::set_global_default(log).unwrap();
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    engine.submit(mk_submission("a", &mk_circuit("chain", mk_simulated(1)), "x")).unwrap();
    wait_until("a line is being written", || stuck.load(Ordering::Acquire));

    let (sender, receiver) = mpsc::channel();
    let asked = engine.clone();
    std::thread::spawn(move || sender.send(asked.snapshot().boot_id));
    let answered = receiver.recv_timeout(Duration::from_secs(10));
    released.store(true, Ordering::Release);
    assert!(answered.is_ok(), "the engine waited for its log");
}
