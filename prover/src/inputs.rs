//! How the engine gets its inputs: by URL, within the limits that were set.

use std::sync::Arc;

use proofmill_engine::job::{Failure, FailureKind, Source};
use proofmill_engine::parts::{Cancel, InputSource};
use proofmill_sources::{ErrorClass, FetchError, Fetcher};

use crate::room::Room;

/// How far memory is asked for ahead of an input of unknown length.
const STEP: u64 = 1 << 20;

/// Fetches inputs.
pub struct Inputs {
    /// Shared with the keys.
    pub fetcher: Arc<Fetcher>,
    /// The largest input, in bytes.
    pub limit: u64,
}

impl InputSource for Inputs {
    fn fetch(
        &self,
        source: &Source,
        cancel: &Cancel,
        reserve: &dyn Fn(u64) -> Result<(), Failure>,
    ) -> Result<Arc<[u8]>, Failure> {
        let room = Room::new(STEP, reserve);
        let stop = || cancel.is_cancelled() || room.is_refused();
        let fetched = self
            .fetcher
            .fetch_bytes(&source.url, source.sha256, self.limit, &stop, &|done, all| room.expect(done, all));
        room.granted()?;
        fetched.map(Arc::from).map_err(|e| fetch_failure(&e, "the input", FailureKind::BadInput))
    }
}

/// A failed fetch of `what`, as the engine reports it; `bad` is the kind for content or requests that can't be right.
pub fn fetch_failure(error: &FetchError, what: &str, bad: FailureKind) -> Failure {
    let kind = match error.class() {
        ErrorClass::Request | ErrorClass::Content => bad,
        ErrorClass::Unavailable => FailureKind::Unavailable,
        ErrorClass::Machine => FailureKind::Internal,
        ErrorClass::Cancelled => FailureKind::Cancelled,
    };
    Failure { kind, message: format!("{what}: {error}") }
}
