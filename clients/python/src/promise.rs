//! A Rust future that Python awaits.

use std::ffi::CString;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyRuntimeWarning, PyStopIteration};
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
pub(crate) struct Promise {
    /// The call that returned it, for messages.
    call: &'static str,
    state: Mutex<State>,
}

struct State {
    /// What happens if nothing ever awaits.
    unawaited: Unawaited,
    future: Option<Running>,
    waiter: Option<(Arc<EventLoop>, Arc<Waiter>)>,
    variables: Variables,
}

/// What happens to an awaitable that is dropped before anything awaits it.
enum Unawaited {
    Nothing,
    /// A `RuntimeWarning`, as for a coroutine: the call had no effect.
    Warning(&'static str),
    Call(Box<dyn FnOnce() + Send>),
}

impl Promise {
    /// Creates the awaitable that `call` returns, for example `sink.ask()`. The output of `future`
    /// makes the result. Python warns if nothing awaits it.
    pub(crate) fn new<F>(call: &'static str, future: F) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        Self {
            call,
            state: Mutex::new(State {
                unawaited: Unawaited::Warning(call),
                future: Some(Box::pin(future)),
                waiter: None,
                variables: EventLoop::variables(),
            }),
        }
    }

    /// Calls `unawaited` if nothing awaits it, instead of the warning.
    pub(crate) fn or_if_unawaited(self, unawaited: impl FnOnce() + Send + 'static) -> Self {
        lock(&self.state).unawaited = Unawaited::Call(Box::new(unawaited));
        self
    }

    /// Allows that nothing awaits it.
    pub(crate) fn may_be_unawaited(self) -> Self {
        lock(&self.state).unawaited = Unawaited::Nothing;
        self
    }
}

impl Drop for State {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.unawaited, Unawaited::Nothing) {
            Unawaited::Nothing => {}
            Unawaited::Warning(call) => warn(call),
            Unawaited::Call(unawaited) => unawaited(),
        }
    }
}

fn warn(call: &str) {
    // Fails only while the interpreter shuts down.
    let _ = Python::try_attach(|py| {
        // An exception that unwinds the frame which held the awaitable stays the one that is raised.
        let unwinding = PyErr::take(py);
        let message = CString::new(format!("{call} was never awaited")).unwrap_or_default();
        let warned = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1);
        if let Err(error) = warned {
            // Warnings are errors, which a destructor cannot raise.
            error.write_unraisable(py, None);
        }
        if let Some(unwinding) = unwinding {
            unwinding.restore(py);
        }
    });
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
        let Ok(mut state) = self.state.try_lock() else {
            return Err(PyRuntimeError::new_err(format!(
                "{} is awaited on two threads",
                self.call
            )));
        };
        state.unawaited = Unawaited::Nothing;
        let State {
            future,
            waiter,
            variables,
            ..
        } = &mut *state;
        let Some(running) = future else {
            return Err(PyRuntimeError::new_err(format!(
                "{} was awaited twice",
                self.call
            )));
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

    /// Python calls it for attributes that do not exist, as in `turn.commit().response()`.
    fn __getattr__(&self, name: &str) -> PyResult<Py<PyAny>> {
        Err(PyAttributeError::new_err(format!(
            "{} has to be awaited first: (await {}).{name}",
            self.call, self.call
        )))
    }

    fn __repr__(&self) -> String {
        format!("<awaitable of {}>", self.call)
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
