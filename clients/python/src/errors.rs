//! Raises the exceptions of `ragwire._errors`, which are defined in Python so that they have types
//! and documentation there.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ragwire::session::SessionError;
use ragwire::turn::{AnswerError, AskError, RedisError, Rejected, ResumeError, StopError};
use ragwire::{Failure, SendError};

fn new<'py>(py: Python<'py>, class: &str, args: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let error = py
        .import("ragwire._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(args));
    match error {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// `Failure`, if `error` is one.
pub(crate) fn as_failure(error: &Bound<'_, PyAny>) -> Option<Failure> {
    let class = error
        .py()
        .import("ragwire._errors")
        .ok()?
        .getattr("Failure")
        .ok()?;
    if !error.is_instance(&class).ok()? {
        return None;
    }
    let code: String = error.getattr("code").ok()?.extract().ok()?;
    let message: String = error.getattr("message").ok()?.extract().ok()?;
    let failure = Failure::new(code, message);
    match error.getattr("recoverable").ok()?.is_truthy().ok()? {
        true => Some(failure),
        false => Some(failure.permanent()),
    }
}

pub(crate) fn forked(py: Python<'_>) -> PyErr {
    new(py, "ForkError", PyTuple::empty(py))
}

pub(crate) fn option(py: Python<'_>, message: impl Into<String>) -> PyErr {
    new(py, "OptionError", (message.into(),))
}

pub(crate) fn event(py: Python<'_>, name: &str, error: &ragwire::event::EventError) -> PyErr {
    let message = match error {
        ragwire::event::EventError::Name => format!("{error}: {name:?}"),
        _ => error.to_string(),
    };
    new(py, "EventError", (error.code(), message))
}

pub(crate) fn send(py: Python<'_>, error: &SendError) -> PyErr {
    let message = match error {
        SendError::Invalid(source) => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    new(py, "SendError", (error.code(), message))
}

pub(crate) fn ask(py: Python<'_>, error: &AskError) -> PyErr {
    match error {
        AskError::Send(error) => send(py, error),
        _ => new(py, "AskError", (error.code(), error.to_string())),
    }
}

pub(crate) fn answer(py: Python<'_>, error: AnswerError) -> PyErr {
    new(
        py,
        "AnswerError",
        (error.status().as_u16(), error.code(), error.to_string()),
    )
}

pub(crate) fn rejected(py: Python<'_>, rejected: &Rejected) -> PyErr {
    let Failure {
        message, recoverable, ..
    } = &rejected.failure;
    let retry_after = rejected.retry_after.map(|after| after.as_secs_f64());
    let args = (
        rejected.status().as_u16(),
        rejected.failure.code(),
        message.as_ref(),
        *recoverable,
        retry_after,
        rejected.id.to_string(),
    );
    new(py, "Rejected", args)
}

pub(crate) fn resume(py: Python<'_>, error: ResumeError) -> PyErr {
    rejected(py, &error.into())
}

pub(crate) fn stop(py: Python<'_>, error: StopError) -> PyErr {
    rejected(py, &error.into())
}

pub(crate) fn redis(py: Python<'_>, error: &RedisError) -> PyErr {
    new(py, "RedisError", (error.code(), error.to_string()))
}

pub(crate) fn session(py: Python<'_>, error: &SessionError) -> PyErr {
    new(py, "SessionError", (error.code(), error.to_string()))
}
