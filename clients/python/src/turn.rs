//! Turns, for applications with routes of their own.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use ragwire::turn::{Collected, Disconnect, Pending, QueueLimits, TurnHandle};
use ragwire::{Commit, Status, Timeouts, Turn as CoreTurn};

use crate::event_loop::{EventLoop, lock};
use crate::exchange::Exchange;
use crate::metadata::{Metadata, written};
use crate::observer::Observer;
use crate::options::Options;
use crate::orchestrator;
use crate::promise::Promise;
use crate::question::Question;
use crate::sink::outcome;
use crate::stores::{Journal, TurnGroup};
use crate::wire::{self, WireOptions};
use crate::{errors, json, misuse};

#[doc = stub!("Turn")]
#[pyclass(frozen, module = "ragwire")]
pub(crate) struct Turn {
    event_loop: Arc<EventLoop>,
    handle: TurnHandle,
    state: Arc<Mutex<State>>,
}

enum State {
    Pending(Pending),
    Committed(CoreTurn),
    /// It is being committed, was read, or was rejected.
    Taken,
}

impl Turn {
    pub(crate) fn resumed(py: Python<'_>, turn: CoreTurn) -> PyResult<Self> {
        Ok(Self {
            event_loop: EventLoop::current(py)?,
            handle: turn.handle(),
            state: Arc::new(Mutex::new(State::Committed(turn))),
        })
    }

    fn take(&self) -> PyResult<CoreTurn> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Committed(turn) => Ok(turn),
            State::Pending(pending) => {
                *state = State::Pending(pending);
                Err(PyRuntimeError::new_err("await commit() before the turn is read"))
            }
            State::Taken => Err(PyRuntimeError::new_err("a turn is committed once and read once")),
        }
    }
}

/// Reads the time limits that `Turn` and `Endpoints` have in common.
pub(crate) fn timeouts(options: &mut Options<'_>) -> PyResult<Timeouts> {
    let mut timeouts = Timeouts::default();
    if let Some(after) = options.optional_seconds("keep_alive")? {
        timeouts = timeouts.keep_alive(after);
    }
    if let Some(after) = options.optional_seconds("idle")? {
        timeouts = timeouts.idle(after);
    }
    if let Some(after) = options.optional_seconds("total")? {
        timeouts = timeouts.total(after);
    }
    if let Some(after) = options.optional_seconds("write_stall")? {
        timeouts = timeouts.write_stall(after);
    }
    Ok(timeouts)
}

fn commit(options: &mut Options<'_>) -> PyResult<Commit> {
    let py = options.py();
    let commit = match options.take::<String>("commit_on")?.as_deref() {
        None | Some("first_frame") => Commit::first_frame(),
        Some("first_text") => Commit::first_text(),
        Some(other) => {
            let message = format!("commit_on must be first_frame or first_text, not {other:?}");
            return Err(errors::option(py, message));
        }
    };
    Ok(match options.seconds("commit_after")? {
        Some(after) => commit.or_after(after),
        None => commit,
    })
}

fn disconnect(options: &mut Options<'_>) -> PyResult<Disconnect> {
    let py = options.py();
    let Some(policy) = options.object("on_disconnect")? else {
        return Ok(Disconnect::cancel());
    };
    if let Ok(policy) = policy.cast::<PyString>() {
        return match policy.to_str()? {
            "cancel" => Ok(Disconnect::cancel()),
            "run_to_end" => Ok(Disconnect::run_to_end()),
            other => {
                let message = format!("on_disconnect must be cancel, run_to_end or seconds, not {other:?}");
                Err(errors::option(py, message))
            }
        };
    }
    let Ok(seconds) = policy.extract() else {
        let shown = misuse::shown(&policy);
        let message = format!("on_disconnect must be cancel, run_to_end or seconds, not {shown}");
        return Err(errors::option(py, message));
    };
    let grace = crate::sink::seconds(py, "on_disconnect", seconds)?;
    Ok(Disconnect::grace(grace))
}

#[pymethods]
impl Turn {
    #[doc = stub!("Turn.start")]
    #[staticmethod]
    #[pyo3(signature = (answer, question=None, **options), text_signature = None)]
    fn start(
        py: Python<'_>,
        answer: Py<PyAny>,
        question: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let event_loop = EventLoop::current(py)?;
        let run = py
            .import("ragwire._orchestrator")?
            .getattr("adapt")?
            .call1((answer,))?
            .unbind();
        let variables = py
            .import("contextvars")?
            .getattr("copy_context")?
            .call0()?
            .unbind();
        let question = self::question(question)?;
        let mut options = Options::new(py, options)?;
        let mut builder = CoreTurn::builder()
            .commit_on(commit(&mut options)?)
            .timeouts(timeouts(&mut options)?)
            .on_disconnect(disconnect(&mut options)?);
        let mut queue = QueueLimits::default();
        if let Some(frames) = options.take("max_queue_frames")? {
            queue = queue.max_frames(frames);
        }
        if let Some(bytes) = options.take("max_queue_bytes")? {
            queue = queue.max_bytes(bytes);
        }
        if let Some(bytes) = options.take("max_event_bytes")? {
            queue = queue.max_event_bytes(bytes);
        }
        builder = builder.queue(queue);
        if let Some(mode) = options.take::<String>("mode")? {
            builder = builder.mode(mode);
        }
        if let Some(after) = options.seconds("delay_first_text")? {
            builder = builder.delay_first_text(after);
        }
        if let Some(journal) = options.take::<PyRef<'_, Journal>>("journal")? {
            builder = builder.journal(&journal.0);
        }
        if let Some(group) = options.take::<PyRef<'_, TurnGroup>>("group")? {
            builder = builder.group(&group.group());
        }
        if let Some(owner) = options.take::<String>("owner")? {
            builder = builder.owner(owner);
        }
        if let Some(lane) = options.take::<String>("lane")? {
            builder = builder.lane(lane);
        }
        if let Some(client) = options.take::<String>("client")? {
            builder = builder.client(client);
        }
        let home = Arc::new(Mutex::new(Arc::downgrade(&event_loop)));
        if let Some(observer) = Observer::take(&mut options, home)? {
            builder = builder.observer(observer);
        }
        options.finish()?;
        let (run, variables) = (Arc::new(run), Some(Arc::new(variables)));
        let (at, its) = (Arc::clone(&event_loop), variables.clone());
        let waker = std::task::Waker::noop();
        let pending = event_loop.poll(py, &variables, waker, |_| {
            builder.start(|sink| orchestrator::answer(run, Some(at), its, question, sink))
        });
        Ok(Self {
            event_loop,
            handle: pending.handle(),
            state: Arc::new(Mutex::new(State::Pending(pending))),
        })
    }

    #[doc = stub!("Turn.commit")]
    #[pyo3(text_signature = None)]
    fn commit(this: Py<Self>, py: Python<'_>) -> PyResult<Promise> {
        let state = Arc::clone(&this.borrow(py).state);
        let pending = match std::mem::replace(&mut *lock(&state), State::Taken) {
            State::Pending(pending) => pending,
            other @ (State::Committed(_) | State::Taken) => {
                *lock(&state) = other;
                return Err(PyRuntimeError::new_err("a turn is committed once"));
            }
        };
        Ok(Promise::new("turn.commit()", async move {
            let committed = pending.commit().await;
            outcome(move |py| match committed {
                Ok(turn) => {
                    *lock(&state) = State::Committed(turn);
                    Ok(this.into_any())
                }
                Err(rejected) => Err(errors::rejected(py, &rejected)),
            })
        }))
    }

    #[doc = stub!("Turn.response")]
    #[pyo3(
        signature = (wire="framed", *, model="ragwire".to_owned(), thread_id=String::new(), pad_to=0),
        text_signature = None
    )]
    fn response<'py>(
        &self,
        py: Python<'py>,
        wire: &str,
        model: String,
        thread_id: String,
        pad_to: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = WireOptions { model, thread_id };
        let wire = wire::by_name(py, wire, self.handle.id(), options)?;
        let turn = self.take()?.pad_to(pad_to);
        let response = self
            .event_loop
            .poll(py, &None, std::task::Waker::noop(), |_| turn.respond(wire));
        let response = response.map(Body::new);
        let exchange = Exchange::ready(Arc::clone(&self.event_loop), self.handle.clone(), response);
        py.import("ragwire._response")?
            .getattr("Stream")?
            .call1((exchange,))
    }

    #[doc = stub!("Turn.collect")]
    #[pyo3(text_signature = None)]
    fn collect(&self) -> PyResult<Promise> {
        let turn = self.take()?;
        Ok(Promise::new("turn.collect()", async move {
            let collected = turn.collect().await;
            outcome(move |py| match collected {
                Ok(collected) => Ok(complete(py, &collected)?.into_any().unbind()),
                Err(error) => Err(PyRuntimeError::new_err(error.to_string())),
            })
        }))
    }

    #[doc = stub!("Turn.stop")]
    #[pyo3(text_signature = None)]
    fn stop(&self, py: Python<'_>) -> bool {
        self.event_loop.enter(py, || self.handle.stop())
    }

    #[doc = stub!("Turn.answer")]
    #[pyo3(text_signature = None)]
    fn answer(&self, py: Python<'_>, request_id: &str, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = json::to_value(answer)?;
        let answered = self
            .event_loop
            .enter(py, || self.handle.answer(request_id, answer));
        answered.map(|_| ()).map_err(|error| errors::answer(py, error))
    }

    #[doc = stub!("Turn.open_questions")]
    #[pyo3(text_signature = None)]
    fn open_questions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let questions = self.handle.open_questions().into_iter();
        questions
            .map(|question| {
                let dict = PyDict::new(py);
                dict.set_item("request_id", question.request_id)?;
                dict.set_item("kind", question.kind)?;
                dict.set_item("prompt", question.prompt)?;
                dict.set_item("options", question.options)?;
                Ok(dict)
            })
            .collect()
    }

    #[doc = stub!("Turn.id")]
    #[getter]
    fn id(&self) -> String {
        self.handle.id().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Turn {}>", self.handle.id())
    }
}

/// Reads the question: a `Question`, its prompt, or nothing.
fn question(question: Option<&Bound<'_, PyAny>>) -> PyResult<ragwire::Question> {
    let Some(question) = question else {
        return Ok(ragwire::Question::default());
    };
    if let Ok(question) = question.cast::<Question>() {
        return Ok(question.get().0.clone());
    }
    match question.cast::<PyString>() {
        Ok(prompt) => Ok(ragwire::Question::new(prompt.to_str()?)),
        Err(_) => Err(misuse::no_question(question)),
    }
}

/// Returns a complete turn as a dictionary.
fn complete<'py>(py: Python<'py>, collected: &Collected) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("text", &collected.text)?;
    let events: Vec<_> = collected.events.iter().map(|(event, _)| event).collect();
    dict.set_item("events", written(py, &events)?)?;
    dict.set_item("status", collected.end.status.as_str())?;
    let error = match &collected.end.status {
        Status::Failed(failure) => Some(written(py, failure)?),
        Status::Completed | Status::Stopped => None,
    };
    dict.set_item("error", error)?;
    dict.set_item("metadata", Metadata(collected.end.metadata.clone()))?;
    Ok(dict)
}
