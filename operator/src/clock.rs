//! Time as data: the core is given it and never asks for it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// One instant, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, since the process began: all decisions.
    pub mono: Duration,
    /// The wall's, for what users read and for deadlines that outlive a process.
    pub wall: Timestamp,
}

impl Now {
    /// As the API has it: whole seconds.
    pub fn time(&self) -> Time {
        let second = Timestamp::from_second(self.wall.as_second()).unwrap_or(self.wall);
        Time(second)
    }

    /// An instant of the monotonic clock as the API has it.
    pub fn time_at(&self, mono: Duration) -> Time {
        Time(Timestamp::from_second(self.seconds_at(mono)).unwrap_or(self.wall))
    }

    /// An instant of the monotonic clock on the wall's, seconds since 1970.
    pub fn seconds_at(&self, mono: Duration) -> i64 {
        let ago = self.mono.saturating_sub(mono).as_secs();
        self.wall.as_second().saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
    }

    /// A moment of the wall's clock, seconds since 1970, on the monotonic one; now, if it has passed.
    pub fn mono_at(&self, seconds: i64) -> Duration {
        let left = seconds.saturating_sub(self.wall.as_second());
        self.mono + Duration::from_secs(u64::try_from(left).unwrap_or(0))
    }

    /// How long ago a time of the API was; zero if it lies ahead.
    pub fn since(&self, time: &Time) -> Duration {
        let micros = self.wall.as_microsecond().saturating_sub(time.0.as_microsecond());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}
