//! Fetching as tests do it: impatient, bytes that tell their places apart.

use std::time::Duration;

use proofmill_sources::policy::{Network, Retries};
use proofmill_sources::{FetchError, Fetcher};

/// Bytes that differ everywhere.
pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// Impatient enough for tests.
pub fn impatient() -> Network {
    Network {
        connect_timeout: Duration::from_secs(3),
        idle_timeout: Duration::from_millis(500),
        total_timeout: Duration::from_secs(30),
        retries: Retries {
            count: 3,
            base: Duration::from_millis(20),
            cap: Duration::from_millis(100),
            retry_after_cap: Duration::from_millis(400),
            jitter: false,
        },
        ..Network::default()
    }
}

pub fn get(fetcher: &Fetcher, url: &str) -> Result<Vec<u8>, FetchError> {
    fetcher.fetch_bytes(url, None, 1 << 24, &|| false, &|_, _| {})
}
