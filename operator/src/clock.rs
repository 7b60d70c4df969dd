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

    /// How long ago a time of the API was; zero if it lies ahead.
    pub fn since(&self, time: &Time) -> Duration {
        let micros = self.wall.as_microsecond().saturating_sub(time.0.as_microsecond());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}
