//! The process's tokio runtime: its one thread runs timers and sockets. Turns and Python code run on
//! the caller's event loop instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::promise::Promise;
use crate::sink::outcome;
use crate::{errors, log};

/// One thread: it only fires timers and, with Redis, moves bytes.
const THREADS: usize = 1;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
/// The process that started the runtime; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns the runtime, which starts with the first call, so that a process may fork before.
///
/// # Errors
///
/// `ForkError` in a process that was forked after the runtime started: its threads do not exist
/// there, and every wait would last forever. `RuntimeError` if no thread can be started.
pub(crate) fn handle(py: Python<'_>) -> PyResult<Handle> {
    let this = std::process::id();
    let runtime = RUNTIME.get_or_init(|| {
        PROCESS.store(this, Ordering::Release);
        log::install();
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("ragwire")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    if PROCESS.load(Ordering::Acquire) != this {
        return Err(errors::forked(py));
    }
    match runtime {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(error) => Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
            "cannot start the thread of ragwire: {error}"
        ))),
    }
}

/// Returns an awaitable whose future runs on the runtime, because its connections must outlive the
/// event loop that awaits it. Nothing has to await it: `Endpoints` does with the first request.
pub(crate) fn promise<S, F, M>(call: &'static str, start: S, make: M) -> Promise
where
    S: FnOnce() -> F + Send + 'static,
    F: Future<Output: Send> + Send + 'static,
    M: FnOnce(Python<'_>, F::Output) -> PyResult<Py<PyAny>> + Send + 'static,
{
    let opening = Promise::new(call, async move {
        // Polled by an event loop, which has entered the runtime.
        let finished = Handle::current().spawn(async move { start().await }).await;
        outcome(move |py| match finished {
            Ok(output) => make(py, output),
            Err(error) => Err(pyo3::exceptions::PyRuntimeError::new_err(error.to_string())),
        })
    });
    opening.may_be_unawaited()
}
