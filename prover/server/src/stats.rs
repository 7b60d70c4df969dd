//! What the server counts of its own work.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters and gauges, shared by both listeners.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Open gRPC connections.
    pub grpc_connections: Gauge,
    /// Open HTTP connections.
    pub http_connections: Gauge,
    /// gRPC connections closed because of a bound or because they did not speak HTTP/2 or TLS.
    pub grpc_refused: Counter,
    /// HTTP connections closed for a newer one.
    pub http_refused: Counter,
    /// Open watches.
    pub watches: Gauge,
    /// Events that slow watches did not get.
    pub skipped_events: Counter,
    /// Watches ended for being too slow.
    pub lagged_watches: Counter,
    requests: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// A number of things that exist.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Stats {
    /// Counts one gRPC request by method and result (`ok`, `refused`: the client's fault, `failed`: ours).
    pub fn request(&self, method: &'static str, code: tonic::Code) {
        let result = match code {
            tonic::Code::Ok => "ok",
            tonic::Code::Internal | tonic::Code::Unknown | tonic::Code::DataLoss => "failed",
            _ => "refused",
        };
        *self.lock().entry((method, result)).or_default() += 1;
    }

    /// Requests by method and result.
    pub fn requests(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(&'static str, &'static str), u64>> {
        // A count is whole whatever panicked while holding it.
        self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gauge {
    /// One more, until the guard goes. `select` finds the gauge in the shared statistics.
    pub fn enter(stats: &std::sync::Arc<Stats>, select: fn(&Stats) -> &Self) -> Entered {
        select(stats).0.fetch_add(1, Ordering::Relaxed);
        Entered { stats: std::sync::Arc::clone(stats), select }
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keeps a gauge up by one.
#[must_use]
pub(crate) struct Entered {
    stats: std::sync::Arc<Stats>,
    select: fn(&Stats) -> &Gauge,
}

impl Drop for Entered {
    fn drop(&mut self) {
        (self.select)(&self.stats).0.fetch_sub(1, Ordering::Relaxed);
    }
}
