//! An orchestrator in Python: each question becomes an asyncio task of the event loop that serves
//! it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use ragwire::orchestrator::Answering;
use ragwire::turn::BoxError;
use ragwire::{Failure, FailureKind};

use crate::errors;
use crate::event_loop::{EventLoop, Variables, lock};
use crate::metadata::Metadata;
use crate::question::Question;
use crate::sink::Sink;

/// A function `run(question, sink, reply)` that returns a coroutine.
#[derive(Clone)]
pub(crate) struct Orchestrator {
    run: Arc<Py<PyAny>>,
    /// The loop that served the last request, for turns that start elsewhere.
    home: Arc<Mutex<Weak<EventLoop>>>,
}

impl Orchestrator {
    pub(crate) fn new(run: Py<PyAny>) -> Self {
        Self {
            run: Arc::new(run),
            home: Arc::default(),
        }
    }

    /// Returns where the loop is found that served the last request.
    pub(crate) fn home(&self) -> Arc<Mutex<Weak<EventLoop>>> {
        Arc::clone(&self.home)
    }

    pub(crate) fn set_home(&self, event_loop: &Arc<EventLoop>) {
        *lock(&self.home) = Arc::downgrade(event_loop);
    }
}

impl ragwire::Orchestrator for Orchestrator {
    fn answer(&self, question: ragwire::Question, sink: ragwire::Sink) -> Answering {
        let event_loop = EventLoop::polling().or_else(|| lock(&self.home).upgrade());
        let run = Arc::clone(&self.run);
        Box::pin(answer(run, event_loop, EventLoop::variables(), question, sink))
    }
}

/// Runs one question as a task. Dropping the future cancels the task at its current `await`.
pub(crate) async fn answer(
    run: Arc<Py<PyAny>>,
    event_loop: Option<Arc<EventLoop>>,
    variables: Variables,
    question: ragwire::Question,
    sink: ragwire::Sink,
) -> Result<ragwire::Metadata, BoxError> {
    let event_loop = event_loop.ok_or("no event loop serves the orchestrator")?;
    let slot = Arc::new(Slot::default());
    let _cancel = CancelOnDrop {
        event_loop: Arc::clone(&event_loop),
        slot: Arc::clone(&slot),
    };
    Python::attach(|py| start(py, &run, &event_loop, &variables, question, sink, &slot))
        .map_err(|error| error.to_string())?;
    poll_fn(|cx| {
        let mut state = lock(&slot.0);
        match state.result.take() {
            Some(result) => {
                state.is_finished = true;
                Poll::Ready(result)
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

fn start(
    py: Python<'_>,
    run: &Py<PyAny>,
    event_loop: &Arc<EventLoop>,
    variables: &Variables,
    question: ragwire::Question,
    sink: ragwire::Sink,
    slot: &Arc<Slot>,
) -> PyResult<()> {
    let question = Py::new(py, Question(question))?;
    let sink = Py::new(py, Sink::new(sink, Arc::clone(event_loop)))?;
    let reply = Py::new(
        py,
        Reply {
            slot: Arc::clone(slot),
            event_loop: Arc::clone(event_loop),
        },
    )?;
    let coroutine = run.bind(py).call1((question, sink, reply))?.unbind();
    if event_loop.is_here() {
        let task = event_loop.create_task(coroutine.bind(py), variables)?;
        slot.started(py, task.unbind());
        return Ok(());
    }
    let (event_loop_there, slot, variables) = (Arc::clone(event_loop), Arc::clone(slot), variables.clone());
    let starter = PyCFunction::new_closure(
        py,
        None,
        None,
        move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let py = args.py();
            let task = event_loop_there.create_task(coroutine.bind(py), &variables)?;
            slot.started(py, task.unbind());
            PyResult::Ok(())
        },
    )?;
    event_loop.call(&starter)
}

/// Where the task leaves its result.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    result: Option<Result<ragwire::Metadata, BoxError>>,
    waker: Option<Waker>,
    task: Option<Py<PyAny>>,
    /// Whether the turn has taken the result.
    is_finished: bool,
    /// Whether the turn ended before.
    is_cancelled: bool,
}

impl Slot {
    fn started(&self, py: Python<'_>, task: Py<PyAny>) {
        let mut state = lock(&self.0);
        if !state.is_cancelled {
            state.task = Some(task);
            return;
        }
        drop(state);
        // The turn ended before its task existed.
        let _ = task.call_method0(py, "cancel");
    }

    fn put(&self, result: Result<ragwire::Metadata, BoxError>) {
        let waker = {
            let mut state = lock(&self.0);
            state.result.get_or_insert(result);
            state.task = None;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Cancels the task if the turn ends before it.
struct CancelOnDrop {
    event_loop: Arc<EventLoop>,
    slot: Arc<Slot>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let task = {
            let mut state = lock(&self.slot.0);
            if state.is_finished {
                return;
            }
            state.is_cancelled = true;
            state.task.take()
        };
        let Some(task) = task else { return };
        // Fails only while the interpreter shuts down, which ends all tasks.
        let _ = Python::try_attach(|py| {
            let cancelled = task
                .bind(py)
                .getattr("cancel")
                .and_then(|cancel| self.event_loop.call(&cancel));
            if let Err(error) = cancelled {
                // The loop is closed, and its tasks with it.
                tracing::debug!(%error, "a task was not cancelled");
            }
        });
    }
}

/// Takes the result of an orchestrator.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct Reply {
    slot: Arc<Slot>,
    event_loop: Arc<EventLoop>,
}

#[pymethods]
impl Reply {
    /// Ends the turn as completed.
    fn complete(&self, py: Python<'_>, metadata: Option<&Bound<'_, Metadata>>) {
        let metadata = metadata
            .map(|metadata| metadata.get().0.clone())
            .unwrap_or_default();
        self.put(py, Ok(metadata));
    }

    /// Ends the turn with a failure: `Failure`, or the general one.
    fn fail(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) {
        let failure = error.and_then(errors::as_failure).unwrap_or_default();
        self.put(py, Err(failure.into()));
    }

    /// Ends the turn because its task was cancelled by something else: the event loop shuts down.
    fn interrupt(&self, py: Python<'_>) {
        self.put(py, Err(shutting_down().into()));
    }

    /// Whether the turn has ended, so that the task was cancelled.
    #[getter]
    fn is_cancelled(&self) -> bool {
        lock(&self.slot.0).is_cancelled
    }
}

impl Reply {
    fn put(&self, py: Python<'_>, result: Result<ragwire::Metadata, BoxError>) {
        self.event_loop.enter(py, || self.slot.put(result));
    }
}

/// The failure of a turn whose server shuts down.
pub(crate) fn shutting_down() -> Failure {
    Failure::new(
        FailureKind::ShuttingDown,
        "The server is shutting down. Please retry.",
    )
}
