//! Futures on a blocking thread, given up as soon as the caller wants.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;

/// How often the cancel flag is looked at while nothing comes.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `future` to its end on this thread, with `runtime` for its timers and connections; `None` if cancelled.
///
/// `Runtime::block_on` would panic on a thread that runs tasks of another runtime, and knows no cancel flag.
pub(crate) fn drive<F: Future>(runtime: &Handle, cancel: &dyn Fn() -> bool, future: F) -> Option<F::Output> {
    let _entered = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if cancel() {
            return None;
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        std::thread::park_timeout(LOOK);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
