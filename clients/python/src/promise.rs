//! A Rust future that Python awaits.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;

use crate::event_loop::{EventLoop, Variables, lock};
use crate::waiter::Waiter;

/// Makes the result, with the GIL.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An awaitable that runs a Rust future on the event loop that awaits it. Nothing runs before, and
/// cancelling the coroutine that awaits it drops the future.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct Promise(Mutex<State>);

struct State {
    /// Called if nothing ever awaits.
    unawaited: Option<Box<dyn FnOnce() + Send>>,
    future: Option<Running>,
    waiter: Option<(Arc<EventLoop>, Arc<Waiter>)>,
    variables: Variables,
}

impl Promise {
    /// Creates the awaitable of `future`, whose output makes the result.
    pub(crate) fn new<F>(future: F) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        Self(Mutex::new(State {
            unawaited: None,
            future: Some(Box::pin(future)),
            waiter: None,
            variables: EventLoop::variables(),
        }))
    }

    /// Calls `unawaited` if the awaitable is dropped before anything awaits it.
    pub(crate) fn or_if_unawaited(self, unawaited: impl FnOnce() + Send + 'static) -> Self {
        lock(&self.0).unawaited = Some(Box::new(unawaited));
        self
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(unawaited) = self.unawaited.take() {
            unawaited();
        }
    }
}

#[pymethods]
impl Promise {
    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Polls the future. Yields an asyncio future while it is pending, and returns its result.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Never waits: the other thread may need the GIL.
        let Ok(mut state) = self.0.try_lock() else {
            return Err(PyRuntimeError::new_err("awaited on two threads"));
        };
        state.unawaited = None;
        let State {
            future,
            waiter,
            variables,
            ..
        } = &mut *state;
        let Some(running) = future else {
            return Err(PyRuntimeError::new_err("awaited twice"));
        };
        let (event_loop, waiter) = match waiter {
            Some(waiter) => waiter,
            None => {
                let event_loop = EventLoop::current(py)?;
                let new = Waiter::new(Arc::clone(&event_loop));
                waiter.insert((event_loop, new))
            }
        };
        loop {
            waiter.clear();
            let waker = waiter.waker();
            match event_loop.poll(py, variables, &waker, |cx| running.as_mut().poll(cx)) {
                Poll::Ready(outcome) => {
                    *future = None;
                    drop(state);
                    return Err(PyStopIteration::new_err((outcome(py)?,)));
                }
                Poll::Pending => {
                    if let Some(waited) = waiter.future(py)? {
                        // What `Future.__await__` does before it yields itself to its task.
                        waited.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
                        return Ok(waited);
                    }
                }
            }
        }
    }

    fn __repr__(&self) -> &'static str {
        "<ragwire awaitable>"
    }
}

/// An awaitable that is done already, so that a call which need not wait costs no future.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct Done;

#[pymethods]
impl Done {
    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }

    fn __repr__(&self) -> &'static str {
        "<ragwire awaitable, done>"
    }
}
