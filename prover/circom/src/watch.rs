//! One generation's thread. The generator runs on a thread of its own, with a stack of the size it may use, while the
//! caller's thread waits for it: it passes log lines on and looks at the clock and at the caller's wish to cancel. To
//! stop the generator it sets a flag and advances the engine's epoch, at which every instance looks at its own flag; no
//! timer runs otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use wasmtime::Engine;

use crate::error::CircomError;

/// How often the caller is asked whether it still wants the result.
const POLL: Duration = Duration::from_millis(10);

/// Log lines that may wait for the caller; the generator then waits too.
const QUEUE: usize = 64;

/// Stack for the host's own frames below the generator's.
const HOST_STACK: usize = 1 << 20;

const RUN: u8 = 0;
const CANCELLED: u8 = 1;
const LATE: u8 = 2;

/// Why a generator has to stop, if it has to.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicU8);

impl Stop {
    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != RUN
    }
}

/// What a running generator tells.
pub(crate) enum Event {
    /// A line of `log()`.
    Log(String),
    /// It has ended.
    Done,
}

/// The watcher's side of one run.
pub(crate) struct Watch<'a> {
    /// The engine that the generator was compiled for.
    pub(crate) engine: &'a Engine,
    /// Bytes of stack that the generator may use.
    pub(crate) stack: usize,
    /// Its time.
    pub(crate) time: Duration,
    /// The caller's wish.
    pub(crate) cancel: &'a dyn Fn() -> bool,
}

impl Watch<'_> {
    /// Runs `work` on a thread of its own until it returns, at most a moment longer than it may.
    pub(crate) fn run<T: Send>(
        &self,
        log: &mut dyn FnMut(&str),
        work: impl FnOnce(Arc<Stop>, SyncSender<Event>) -> Result<T, CircomError> + Send,
    ) -> Result<T, CircomError> {
        let deadline = Instant::now() + self.time;
        let stop = Arc::new(Stop::default());
        let (events, received) = sync_channel(QUEUE);
        std::thread::scope(|scope| {
            let worker = {
                let stop = stop.clone();
                move || {
                    let result = work(stop, events.clone());
                    // The receiver lives until this thread has ended.
                    let _ = events.send(Event::Done);
                    result
                }
            };
            let worker = std::thread::Builder::new()
                .name("circom".to_owned())
                .stack_size(self.stack.saturating_add(HOST_STACK))
                .spawn_scoped(scope, worker)
                .map_err(|error| CircomError::Machine { message: error.to_string() })?;
            loop {
                match received.recv_timeout(POLL.min(deadline.saturating_duration_since(Instant::now()))) {
                    Ok(Event::Log(line)) => log(&line),
                    Ok(Event::Done) | Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if (self.cancel)() {
                    stop.0.store(CANCELLED, Ordering::Release);
                } else if Instant::now() >= deadline {
                    stop.0.store(LATE, Ordering::Release);
                }
                if stop.is_set() {
                    self.engine.increment_epoch();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            match worker.join() {
                Ok(Err(error)) => Err(self.reason(&stop).unwrap_or(error)),
                Ok(result) => result,
                Err(_) => Err(CircomError::Machine { message: "its thread ended unexpectedly".to_owned() }),
            }
        })
    }

    fn reason(&self, stop: &Stop) -> Option<CircomError> {
        match stop.0.load(Ordering::Acquire) {
            CANCELLED => Some(CircomError::Cancelled),
            LATE => Some(CircomError::TimeLimit { limit: self.time }),
            _ => None,
        }
    }
}
