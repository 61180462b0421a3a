//! A coroutine that waits for Rust: a waker that completes an asyncio future.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use pyo3::intern;
use pyo3::prelude::*;

use crate::event_loop::{EventLoop, lock};

/// Wakes at most one asyncio future at a time.
pub(crate) struct Waiter {
    event_loop: Arc<EventLoop>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the waker was called since the last `clear`.
    is_woken: bool,
    future: Option<Py<PyAny>>,
}

impl Waiter {
    pub(crate) fn new(event_loop: Arc<EventLoop>) -> Arc<Self> {
        Arc::new(Self {
            event_loop,
            state: Mutex::default(),
        })
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Forgets earlier wakes. Call it before the poll whose outcome is waited for.
    pub(crate) fn clear(&self) {
        lock(&self.state).is_woken = false;
    }

    /// Returns a future that completes with the next wake since `clear`, or `None` if that has
    /// happened already.
    pub(crate) fn future<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let future = self.event_loop.create_future(py)?;
        let mut state = lock(&self.state);
        if state.is_woken {
            return Ok(None);
        }
        state.future = Some(future.clone().unbind());
        Ok(Some(future))
    }

    /// Completes the future, on the loop's thread.
    pub(crate) fn resume(&self, py: Python<'_>) {
        let Some(future) = lock(&self.state).future.take() else {
            return;
        };
        let future = future.bind(py);
        let completed = future.call_method0(intern!(py, "done")).and_then(|done| {
            // The coroutine that awaited it may have been cancelled.
            if !done.is_truthy()? {
                future.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
            Ok(())
        });
        if let Err(error) = completed {
            error.write_unraisable(py, Some(future));
        }
    }
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        let is_waited_for = {
            let mut state = lock(&self.state);
            let was_woken = std::mem::replace(&mut state.is_woken, true);
            !was_woken && state.future.is_some()
        };
        if is_waited_for {
            let event_loop = Arc::clone(&self.event_loop);
            event_loop.push_waiter(self);
        }
    }
}
