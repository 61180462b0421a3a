//! The sink, into which the orchestrator sends events and text.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use ragwire::turn::{Ask, Authorize, TrySendError};
use ragwire::{Failure, SendError};

use crate::event::{self, Event};
use crate::event_loop::{EventLoop, lock};
use crate::promise::{Done, Outcome, Promise};
use crate::{errors, json, misuse};

/// Longer texts are sent in pieces of this size, as by `ragwire::Sink::send`.
const MAX_PIECE_BYTES: usize = 16 * 1024;

#[doc = stub!("Sink")]
#[pyclass(frozen, module = "ragwire")]
pub(crate) struct Sink {
    sink: ragwire::Sink,
    event_loop: Arc<EventLoop>,
}

/// Something that is sent.
#[expect(
    clippy::large_enum_variant,
    reason = "one exists per waiting send, in its task"
)]
enum Owned {
    Text(String),
    Event(ragwire::Event),
}

impl Sink {
    pub(crate) fn new(sink: ragwire::Sink, event_loop: Arc<EventLoop>) -> Self {
        Self { sink, event_loop }
    }

    fn done(py: Python<'_>) -> PyResult<Py<PyAny>> {
        static DONE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let done = DONE.get_or_try_init(py, || Py::new(py, Done).map(Py::into_any))?;
        Ok(done.clone_ref(py))
    }

    /// Sends what the queue had no room for: on the loop's thread when it is awaited, on others by
    /// blocking.
    fn send_later(&self, py: Python<'_>, item: Owned) -> PyResult<Py<PyAny>> {
        let sink = self.sink.clone();
        if !self.event_loop.is_here() {
            let sent = py.detach(move || match item {
                Owned::Text(text) => sink.blocking_send(text),
                Owned::Event(event) => sink.blocking_send(event),
            });
            sent.map_err(|error| errors::send(py, &error))?;
            return Self::done(py);
        }
        let unsent = sink.clone();
        let sending = async move {
            sent_outcome(match item {
                Owned::Text(text) => sink.send(text).await,
                Owned::Event(event) => sink.send(event).await,
            })
        };
        let promise = Promise::new("sink.text()", sending).or_if_unawaited(move || lose(&unsent));
        Ok(Py::new(py, promise)?.into_any())
    }

    /// Sends what has room at once, so that a plain call is enough, and the rest later.
    fn send_text(&self, py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let mut rest = text.to_str()?;
        loop {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
            // Copying and encoding a piece takes less time than releasing the GIL and taking it again.
            match self.event_loop.enter(py, || self.sink.try_send(piece)) {
                Ok(()) if after.is_empty() => return Self::done(py),
                Ok(()) => rest = after,
                Err(TrySendError::Full) => return self.send_later(py, Owned::Text(rest.to_owned())),
                Err(TrySendError::Send(error)) => return Err(errors::send(py, &error)),
                Err(error) => return Err(PyTypeError::new_err(error.to_string())),
            }
        }
    }

    fn send_event(&self, py: Python<'_>, event: ragwire::Event) -> PyResult<Py<PyAny>> {
        match self.event_loop.enter(py, || self.sink.try_send(event.clone())) {
            Ok(()) => Self::done(py),
            Err(TrySendError::Full) => self.send_later(py, Owned::Event(event)),
            Err(TrySendError::Send(error)) => Err(errors::send(py, &error)),
            Err(error) => Err(PyTypeError::new_err(error.to_string())),
        }
    }
}

/// Fails the turn of an item that waited for room and was never awaited: the answer would have a
/// gap.
fn lose(sink: &ragwire::Sink) {
    if sink.closed().is_none() {
        tracing::error!(
            target: "ragwire",
            "the queue of a turn was full and the result of `sink` was not awaited; the turn fails"
        );
        let _ = sink.fail(Failure::default());
    }
}

fn sent_outcome(sent: Result<(), SendError>) -> Outcome {
    Box::new(move |py| match sent {
        Ok(()) => Ok(py.None()),
        Err(error) => Err(errors::send(py, &error)),
    })
}

#[pymethods]
impl Sink {
    #[doc = stub!("Sink.text")]
    #[pyo3(text_signature = None)]
    fn text(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match text.cast::<PyString>() {
            Ok(text) => self.send_text(py, text),
            Err(_) => Err(misuse::no_text("sink.text", text)),
        }
    }

    #[doc = stub!("Sink.event")]
    #[pyo3(signature = (name, /, data=None, **members))]
    fn event(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        data: Option<&Bound<'_, PyAny>>,
        members: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let event = event::make(py, name, data, members)?;
        self.send_event(py, event)
    }

    #[doc = stub!("Sink.send")]
    #[pyo3(text_signature = None)]
    fn send(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Ok(text) = item.cast::<PyString>() {
            return self.send_text(py, text);
        }
        if let Ok(event) = item.cast::<Event>() {
            return self.send_event(py, event.get().0.clone());
        }
        Err(misuse::no_item(item))
    }

    #[doc = stub!("Sink.ask")]
    #[pyo3(
        signature = (prompt, *, kind=None, options=None, request_id=None, within=300.0, shown_elsewhere=false),
        text_signature = None
    )]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn ask(
        &self,
        py: Python<'_>,
        prompt: String,
        kind: Option<&str>,
        options: Option<Vec<String>>,
        request_id: Option<String>,
        within: f64,
        shown_elsewhere: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut ask = match kind {
            Some("approval") => Ask::approval(prompt),
            Some(kind) => Ask::new(kind, prompt),
            None if options.is_some() => Ask::choice(prompt),
            None => Ask::text(prompt),
        };
        if let Some(options) = options {
            ask = ask.options(options);
        }
        if let Some(id) = request_id {
            ask = ask.request_id(id);
        }
        if shown_elsewhere {
            ask = ask.shown_elsewhere();
        }
        ask = ask.within(seconds(py, "within", within)?);
        let sink = self.sink.clone();
        self.wait(py, "sink.ask()", async move {
            let answer = sink.ask(ask).await;
            outcome(move |py| match answer {
                Ok(answer) => Ok(json::from_value(py, &answer)?.unbind()),
                Err(error) => Err(errors::ask(py, &error)),
            })
        })
    }

    #[doc = stub!("Sink.authorize")]
    #[pyo3(
        signature = (
            connection, auth_url, *, description=None, request_id=None, within=300.0, shown_elsewhere=false
        ),
        text_signature = None
    )]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn authorize(
        &self,
        py: Python<'_>,
        connection: String,
        auth_url: String,
        description: Option<String>,
        request_id: Option<String>,
        within: f64,
        shown_elsewhere: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut authorize = Authorize::new(connection, auth_url);
        if let Some(description) = description {
            authorize = authorize.description(description);
        }
        if let Some(id) = request_id {
            authorize = authorize.request_id(id);
        }
        if shown_elsewhere {
            authorize = authorize.shown_elsewhere();
        }
        authorize = authorize.within(seconds(py, "within", within)?);
        let sink = self.sink.clone();
        self.wait(py, "sink.authorize()", async move {
            let authorized = sink.authorize(authorize).await;
            outcome(move |py| match authorized {
                Ok(outcome) => Ok(PyString::new(py, outcome.as_str()).into_any().unbind()),
                Err(error) => Err(errors::ask(py, &error)),
            })
        })
    }

    #[doc = stub!("Sink.is_closed")]
    #[getter]
    fn is_closed(&self) -> bool {
        self.sink.closed().is_some()
    }

    #[doc = stub!("Sink.turn_id")]
    #[getter]
    fn turn_id(&self) -> String {
        self.sink.handle().id().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Sink of turn {}>", self.turn_id())
    }
}

impl Sink {
    /// Returns an awaitable on the loop's thread, and waits on others.
    fn wait<F>(&self, py: Python<'_>, call: &'static str, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        if self.event_loop.is_here() {
            return Ok(Py::new(py, Promise::new(call, future))?.into_any());
        }
        let runtime = self.event_loop.runtime().clone();
        let outcome = Mutex::new(None);
        py.detach(|| *lock(&outcome) = Some(runtime.block_on(future)));
        let outcome = lock(&outcome).take();
        match outcome {
            Some(outcome) => outcome(py),
            None => Ok(py.None()),
        }
    }
}

pub(crate) fn outcome(make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static) -> Outcome {
    Box::new(make)
}

/// Converts a number of seconds.
pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        errors::option(
            py,
            format!("{name} must be a number of seconds from 0, not {seconds}"),
        )
    })
}
