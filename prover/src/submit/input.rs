//! Inputs that are files here travel with the submission; others are left to the daemon.

use std::path::Path;
use std::sync::Arc;

use proofmill_engine::job::{FailureKind, Input};
use proofmill_server::client::message;
use proofmill_sources::policy::Policy;
use proofmill_sources::url::{Scheme, SourceUrl};
use proofmill_sources::{FetchError, Fetcher};

use crate::error::CliError;
use crate::inputs::fetch_failure;
use crate::interrupt::Interrupt;
use crate::manifest::PlannedJob;
use crate::results::JobFailure;
use proofmill_crds::hex;

/// Inputs up to this size travel with the submission.
const INLINE_LIMIT: u64 = 1 << 20;
/// Characters of a job's name in its identity; the protocol takes 128 in all.
const NAME_LENGTH: usize = 100;

/// The job with its input, if that is a file here, and the identity that follows from its content: a changed request is
/// another one to the daemon. The inner error is the job's alone.
pub fn attach(mut job: PlannedJob, interrupt: &Interrupt) -> Result<Result<PlannedJob, JobFailure>, CliError> {
    // All partitions of a job have one input.
    let given = job.submissions.first().map(|submission| submission.input.clone());
    if let Some(Input::Fetch(source)) = given
        && is_here(&source.url, &job.folder)
    {
        let fetcher = Fetcher::new(Policy::run("/")).map_err(|e| CliError::Engine(e.to_string()))?;
        let url = proofmill_sources::resolve(&source.url, &job.folder).map_err(|e| CliError::Usage(e.to_string()))?;
        match fetcher.fetch_bytes(&url, source.sha256, INLINE_LIMIT, &|| interrupt.requested(), &|_, _| {}) {
            Ok(bytes) => {
                let bytes: Arc<[u8]> = Arc::from(bytes);
                job.submissions.iter_mut().for_each(|s| s.input = Input::Inline(Arc::clone(&bytes)));
            }
            Err(FetchError::Cancelled { .. }) => return Err(CliError::Interrupted),
            Err(error) => return Ok(Err(failure(&error))),
        }
    }
    for submission in &mut job.submissions {
        submission.digest = message::digest(submission);
        let name: String = job.name.replace('/', ":").chars().take(NAME_LENGTH).collect();
        submission.id.job = format!("{name}:{}", &hex::encode(&submission.digest)[..16]);
    }
    Ok(Ok(job))
}

fn failure(error: &FetchError) -> JobFailure {
    let mut failure = JobFailure::from(&fetch_failure(error, "the input", FailureKind::BadInput));
    if matches!(error, FetchError::TooLarge { .. }) {
        failure.message +=
            "; larger inputs go beneath the daemon's --file-root, or on a server: then name them by that URL";
    }
    failure
}

/// Whether a URL names a file here.
fn is_here(url: &str, folder: &Path) -> bool {
    let url = SourceUrl::parse(url).ok().filter(|url| url.scheme() == Scheme::File);
    url.and_then(|url| url.file_path().ok().map(|path| folder.join(path))).is_some_and(|path| path.is_file())
}
