//! The application's futures in the socket's task. A panic in one must not reach the others.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;

/// A future of the application. Panics while it is created, polled or dropped are caught.
pub(super) struct Guarded<T>(Option<BoxFuture<'static, T>>);

impl<T> Guarded<T> {
    pub(super) fn new(make: impl FnOnce() -> BoxFuture<'static, T>) -> Self {
        Self(guard(make))
    }

    /// Polls the future; ready with `None` if it panicked.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(None);
        };
        guard(|| future.as_mut().poll(cx)).map_or(Poll::Ready(None), |polled| polled.map(Some))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let future = self.0.take();
        let _ = guard(|| drop(future));
    }
}

impl<T> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guarded")
    }
}

fn guard<T>(run: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(run));
    if result.is_err() {
        tracing::error!("a gateway handler panicked");
    }
    result.ok()
}
