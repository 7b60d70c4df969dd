//! Ctrl-C and SIGTERM: the first asks to stop, the second stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGPIPE, SIGTERM};
use signal_hook::flag;

use crate::error::CliError;

/// Lets a closed pipe behind stdout or stderr end the process as it ends other tools: without a word. Not for a daemon,
/// whose clients may close what they like.
pub fn end_on_broken_pipe() -> Result<(), CliError> {
    flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true)))
        .map(drop)
        .map_err(|e| CliError::Engine(format!("cannot catch signals: {e}")))
}

/// Set once the user has asked to stop.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on. The second one ends the process with code 130.
    pub fn catch() -> Result<Self, CliError> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the shutdown looks at the flag that the signal before has set.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .map_err(|e| CliError::Engine(format!("cannot catch signals: {e}")))?;
        }
        Ok(Self(asked))
    }

    /// Whether a signal has come.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
