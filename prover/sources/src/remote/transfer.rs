//! One fetch: attempts, each continuing where the last one broke off if it can, with pauses between.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::drive::drive;
use super::{Failed, Origin, Passing};
use crate::error::FetchError;
use crate::policy::{Network, Retries};
use crate::sink::Sink;
use crate::url::SourceUrl;

/// Getting this much further makes a new failure the first one again: a large key over a bad line arrives in the end,
/// while a server that hands out a byte per attempt does not hold us for ever.
const HEADWAY: u64 = 1 << 20;

/// A fetch under way.
pub(super) struct Transfer<'a> {
    url: String,
    network: &'a Network,
    runtime: &'a Handle,
    cancel: &'a dyn Fn() -> bool,
    deadline: Instant,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(
        url: &SourceUrl,
        network: &'a Network,
        runtime: &'a Handle,
        cancel: &'a dyn Fn() -> bool,
    ) -> Self {
        // Limits beyond a year are none.
        let total = network.total_timeout.min(Duration::from_secs(365 * 86400));
        Self { url: url.redacted(), network, runtime, cancel, deadline: Instant::now() + total }
    }

    /// Everything that `origin` has, into `sink`.
    pub(super) fn run(
        &self,
        mut origin: Origin<'_>,
        sink: &mut Sink,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<(), FetchError> {
        let retries = &self.network.retries;
        let (mut failures, mut attempts, mut farthest) = (0, 0, 0);
        loop {
            attempts += 1;
            let passing = match self.attempt(&mut origin, sink, progress) {
                Ok(()) => return Ok(()),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Passing(passing)) => passing,
            };
            if sink.len() >= farthest + HEADWAY {
                farthest = sink.len();
                failures = 0;
            }
            if passing.restart {
                sink.restart()?;
            }
            failures += 1;
            if failures > retries.count {
                return Err(FetchError::Unavailable { url: self.url.clone(), cause: passing.cause, attempts });
            }
            let pause = pause(retries, failures, passing.after);
            if pause >= self.deadline.saturating_duration_since(Instant::now()) {
                return Err(self.timed_out(passing.cause));
            }
            tracing::warn!(
                url = self.url,
                cause = passing.cause,
                have = sink.len(),
                ?pause,
                "fetch interrupted, will go on"
            );
            drive(self.runtime, self.cancel, async { tokio::time::sleep(pause).await })
                .ok_or_else(|| self.cancelled())?;
        }
    }

    fn attempt(
        &self,
        origin: &mut Origin<'_>,
        sink: &mut Sink,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<(), Failed> {
        let patience = self.network.connect_timeout.saturating_add(self.network.idle_timeout);
        let mut opened = self.within(patience, "no answer", sink, |have| origin.open(have))??;
        if opened.start != sink.len() {
            sink.restart()?;
        }
        sink.expect(opened.total)?;
        progress(sink.len(), opened.total);
        loop {
            let chunk =
                self.within(self.network.idle_timeout, "no more bytes came", sink, |_| opened.body.chunk())??;
            let Some(bytes) = chunk else { break };
            sink.push(&bytes)?;
            progress(sink.len(), opened.total);
        }
        match opened.total {
            Some(total) if sink.len() < total => {
                Err(Passing::new(format!("the body ended after {} of {total} bytes", sink.len())).into())
            }
            Some(total) if sink.len() > total => {
                Err(Passing::restart(format!("more bytes came than the {total} announced")).into())
            }
            _ => Ok(()),
        }
    }

    /// Runs a future within `patience` and within what is left of the whole fetch.
    fn within<F: Future>(
        &self,
        patience: Duration,
        what: &str,
        sink: &Sink,
        make: impl FnOnce(u64) -> F,
    ) -> Result<F::Output, Failed> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limit = patience.min(left);
        let have = sink.len();
        let limited = async { tokio::time::timeout(limit, make(have)).await };
        match drive(self.runtime, self.cancel, limited) {
            None => Err(self.cancelled().into()),
            Some(Ok(output)) => Ok(output),
            Some(Err(_)) if patience >= left => Err(self.timed_out(format!("{have} bytes had come")).into()),
            Some(Err(_)) => Err(Passing::new(format!("{what} for {} s", limit.as_secs_f32())).into()),
        }
    }

    fn cancelled(&self) -> FetchError {
        FetchError::Cancelled { url: self.url.clone() }
    }

    fn timed_out(&self, cause: String) -> FetchError {
        FetchError::TimedOut { url: self.url.clone(), after: self.network.total_timeout, cause }
    }
}

/// The pause before the next attempt: what the server asks for, bounded, or exponential back-off.
fn pause(retries: &Retries, failures: u32, asked: Option<Duration>) -> Duration {
    let doubled = retries.base.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(retries.cap);
    let varied = if retries.jitter {
        // Random enough to spread a fleet; no generator needed.
        let half = doubled / 2;
        half + half.mul_f64((RandomState::new().hash_one(failures) >> 11) as f64 / (1u64 << 53) as f64)
    } else {
        doubled
    };
    varied.max(asked.unwrap_or_default().min(retries.retry_after_cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap_and_respect_servers_within_bounds() {
        let ms = Duration::from_millis;
        let retries = Retries { count: 5, base: ms(100), cap: ms(500), retry_after_cap: ms(2000), jitter: false };
        let of = |failures, asked| pause(&retries, failures, asked);
        assert_eq!([1, 2, 3, 4, 99].map(|failures| of(failures, None)), [100, 200, 400, 500, 500].map(ms));
        assert_eq!(of(1, Some(ms(1500))), ms(1500));
        assert_eq!(of(1, Some(Duration::from_secs(u64::MAX))), ms(2000));
        assert_eq!(of(3, Some(ms(1))), ms(400));
        let varied = Retries { jitter: true, ..retries };
        for failures in 1..50 {
            let pause = pause(&varied, failures, None);
            let whole = of(failures, None);
            assert!(pause >= whole / 2 && pause <= whole, "{failures}: {pause:?}");
        }
    }
}
