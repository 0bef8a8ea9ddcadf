//! One fetch that others wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    wakers: Vec<Waker>,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Well or not: whoever waited asks the cache again, and may be next.
    pub(super) fn end(&self) {
        let wakers = {
            let mut state = self.lock();
            state.is_over = true;
            std::mem::take(&mut state.wakers)
        };
        self.ended.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Ready when somebody else's fetch of the file is over.
///
/// That one may be slow, or slowed down on purpose by whoever asked for the
/// file first: wait for a while only, then fetch without the cache.
#[derive(Debug)]
pub struct Waiting(Arc<Flight>);

impl Waiting {
    pub(super) fn on(flight: &Arc<Flight>) -> Self {
        Self(Arc::clone(flight))
    }

    /// Blocks, and says whether the fetch is over.
    pub fn wait(self, most: Duration) -> bool {
        let state = self.0.lock();
        let waited = self.0.ended.wait_timeout_while(state, most, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_over {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
