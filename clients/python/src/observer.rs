//! Functions in Python that receive the figures of each turn after its end.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pyo3::prelude::*;
use ragwire::turn::{FinishedTurn, TurnObserver, TurnOutcome};
use ragwire::{Failure, Usage};

use crate::event_loop::{EventLoop, lock};
use crate::metadata::written;
use crate::options::Options;
use crate::{errors, misuse};

/// Calls a function on the event loop that served the turn. Not at once: a turn may end under a lock,
/// or while its task is dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    call: Arc<Py<PyAny>>,
    /// For turns that end elsewhere.
    home: Arc<Mutex<Weak<EventLoop>>>,
}

impl Observer {
    /// Takes the option `observer`.
    pub(crate) fn take(
        options: &mut Options<'_>,
        home: Arc<Mutex<Weak<EventLoop>>>,
    ) -> PyResult<Option<Arc<Self>>> {
        let Some(call) = options.object("observer")? else {
            return Ok(None);
        };
        if !call.is_callable() {
            let shown = misuse::shown(&call);
            let message = format!("observer must be a function of a ragwire.FinishedTurn, not {shown}");
            return Err(errors::option(options.py(), message));
        }
        let call = Arc::new(call.unbind());
        Ok(Some(Arc::new(Self { call, home })))
    }
}

impl TurnObserver for Observer {
    fn finished(&self, turn: &FinishedTurn<'_>) {
        let Some(event_loop) = EventLoop::polling().or_else(|| lock(&self.home).upgrade()) else {
            return;
        };
        let (call, figures) = (Arc::clone(&self.call), Figures::of(turn));
        event_loop.spawn(Box::pin(async move {
            // Fails only while the interpreter shuts down.
            let _ = Python::try_attach(|py| {
                if let Err(error) = figures.pass(py, &call) {
                    log(py, &error);
                }
            });
        }));
    }
}

/// Logs what the function raised: the turn has ended, so nothing else can report it.
fn log(py: Python<'_>, error: &PyErr) {
    let logged = py.import("ragwire._observer").and_then(|module| {
        let value = error.value(py);
        module.getattr("log_error")?.call1((value,)).map(drop)
    });
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}

/// A `FinishedTurn` that borrows nothing.
struct Figures {
    id: String,
    outcome: &'static str,
    failure: Option<Failure>,
    wire: Option<&'static str>,
    duration: Duration,
    first_event: Option<Duration>,
    first_text: Option<Duration>,
    frames: u64,
    stalls: u64,
    waited: Option<Duration>,
    usage: Option<Usage>,
}

impl Figures {
    fn of(turn: &FinishedTurn<'_>) -> Self {
        let (outcome, failure) = match turn.outcome {
            TurnOutcome::Completed => ("completed", None),
            TurnOutcome::Stopped => ("stopped", None),
            TurnOutcome::Failed(failure) => ("failed", Some(failure.clone())),
            TurnOutcome::Rejected(failure) => ("rejected", Some(failure.clone())),
            TurnOutcome::Disconnected => ("disconnected", None),
        };
        Self {
            id: turn.id.to_string(),
            outcome,
            failure,
            wire: turn.wire,
            duration: turn.duration,
            first_event: turn.first_event,
            first_text: turn.first_text,
            frames: turn.frames,
            stalls: turn.stalls,
            waited: turn.waited,
            usage: turn.usage.cloned(),
        }
    }

    fn pass(self, py: Python<'_>, call: &Py<PyAny>) -> PyResult<()> {
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
        let turn = py.import("ragwire._observer")?.getattr("FinishedTurn")?.call1((
            self.id,
            self.outcome,
            self.failure.map(|failure| written(py, &failure)).transpose()?,
            self.wire,
            self.duration.as_secs_f64(),
            seconds(self.first_event),
            seconds(self.first_text),
            self.frames,
            self.stalls,
            seconds(self.waited),
            self.usage.map(|usage| written(py, &usage)).transpose()?,
        ))?;
        call.call1(py, (turn,)).map(drop)
    }
}
