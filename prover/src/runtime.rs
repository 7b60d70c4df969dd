//! The threads of commands that talk over sockets.

use crate::error::CliError;

/// Runs `work` to its end. Two threads: sockets wait most of the time, and the cores are for proving.
pub fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::Engine(format!("cannot start threads: {e}")))?;
    let ended = runtime.block_on(work);
    // What still blocks a thread, such as the look-up of a name, holds up nobody who was interrupted.
    runtime.shutdown_background();
    ended
}
