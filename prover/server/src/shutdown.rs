//! How a run is asked to end: first kindly, then at once.

use std::io;

use tokio::sync::watch;

/// What is wished of a run. Wishes only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Go on.
    Run,
    /// Finish what can be finished within the grace period, then end.
    Drain,
    /// End now.
    Stop,
}

/// The asking side.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<Wish>);

/// The listening side.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Wish>);

/// A pair of both.
pub fn pair() -> (ShutdownHandle, Shutdown) {
    let (sender, receiver) = watch::channel(Wish::Run);
    (ShutdownHandle(sender), Shutdown(receiver))
}

/// SIGTERM or SIGINT: the first drains, the second stops at once. Needs a tokio runtime.
pub fn on_signals() -> io::Result<Shutdown> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (handle, shutdown) = pair();
    tokio::spawn(async move {
        for wish in [Wish::Drain, Wish::Stop] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            handle.wish(wish);
        }
    });
    Ok(shutdown)
}

impl ShutdownHandle {
    /// Asks for `wish`, unless more was asked already.
    pub fn wish(&self, wish: Wish) {
        self.0.send_if_modified(|present| {
            let more = wish > *present;
            *present = wish.max(*present);
            more
        });
    }
}

impl Shutdown {
    /// Waits until at least `wish` is asked; forever if the handle is gone.
    pub async fn asked(&mut self, wish: Wish) {
        if self.0.wait_for(|present| *present >= wish).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wishes_only_grow() {
        let (handle, mut shutdown) = pair();
        handle.wish(Wish::Stop);
        handle.wish(Wish::Drain);
        shutdown.asked(Wish::Drain).await;
        shutdown.asked(Wish::Stop).await;
        drop(handle);
        shutdown.asked(Wish::Stop).await;
    }

    #[tokio::test]
    async fn a_lost_handle_asks_for_nothing() {
        let (handle, mut shutdown) = pair();
        drop(handle);
        let asked = tokio::time::timeout(std::time::Duration::from_millis(50), shutdown.asked(Wish::Drain)).await;
        assert!(asked.is_err());
    }
}
