//! Log lines to stderr.

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;
use crate::error::CliError;

/// What is logged when nothing is said: what went wrong.
const DEFAULT_FILTER: &str = "warn";

/// Starts logging with `filter`, e.g. `info` or `warn,proofmill::timing=info`.
pub fn init(filter: Option<&str>, format: LogFormat) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(filter.unwrap_or(DEFAULT_FILTER)).map_err(|e| {
        CliError::Usage(format!(
            "the log filter is not understood: {e}; try --log info or --log warn,proofmill::timing=info"
        ))
    })?;
    // A line that cannot be written is dropped: to complain about it on the same closed stderr would panic.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    // A second start in one process (tests) keeps the first one's settings.
    drop(started);
    Ok(())
}
