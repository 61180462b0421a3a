//! Messages for the mistakes that are easy to make: they name the value and what to write instead.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict};
use ragwire::event::EventError;

use crate::errors;
use crate::event::Event;
use crate::metadata::Metadata;

/// The longest value that a message repeats.
const MAX_VALUE_CHARS: usize = 60;

/// Returns a value for a message, with its type: `'x' (str)`.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let class = class(value);
    if value.is_none() {
        return class;
    }
    let Ok(repr) = value.repr() else { return class };
    let repr = repr.to_string_lossy().into_owned();
    match repr.char_indices().nth(MAX_VALUE_CHARS) {
        None => format!("{repr} ({class})"),
        Some((end, _)) => format!("{}... ({class})", &repr[..end]),
    }
}

/// Returns the name of a value's type.
pub(crate) fn class(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "None".to_owned();
    }
    let name = value.get_type().name();
    name.map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

fn has(value: &Bound<'_, PyAny>, name: &str) -> bool {
    value.get_type().hasattr(name).unwrap_or(false)
}

/// What to write instead of a value that is neither text nor an event.
fn advice(value: &Bound<'_, PyAny>) -> &'static str {
    if value.is_none() {
        "skip the pieces of a model that have no text: `if text: await sink.text(text)`"
    } else if value.is_instance_of::<Event>() {
        "send an event with `await sink.send(event)`"
    } else if value.is_instance_of::<Metadata>() {
        "return the metadata at the end, or yield it last"
    } else if value.is_instance_of::<PyDict>() {
        "send an event with `await sink.event(name, **members)`, or yield `ragwire.Event(name, **members)`"
    } else if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        "decode it first"
    } else if has(value, "__await__") {
        "`await` it first"
    } else if has(value, "__aiter__") {
        "send each piece: `async for text in stream: await sink.text(text)`"
    } else if has(value, "__next__") {
        "send each piece: `for text in stream: await sink.text(text)`"
    } else {
        "send the text in it, such as `chunk.content`, or `str(value)`"
    }
}

/// The error of `sink.text` for anything but a string.
pub(crate) fn no_text(call: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let (class, advice) = (class(value), advice(value));
    PyTypeError::new_err(format!("{call} takes a str, not {class}: {advice}"))
}

/// The error of `sink.send` and of generators for anything but a string and an event.
pub(crate) fn no_item(value: &Bound<'_, PyAny>) -> PyErr {
    let (class, advice) = (class(value), advice(value));
    PyTypeError::new_err(format!("a turn has str and ragwire.Event, not {class}: {advice}"))
}

/// The error for an event whose first argument is not its name.
pub(crate) fn no_name(value: &Bound<'_, PyAny>) -> PyErr {
    let advice = if value.is_instance_of::<Event>() {
        "send an event with `await sink.send(event)`"
    } else {
        "`await sink.event(\"search\", tool=\"bm25\")`"
    };
    PyTypeError::new_err(format!(
        "an event begins with its name, a str, not {}: {advice}",
        class(value)
    ))
}

/// The error for a typed event whose members are one dictionary.
pub(crate) fn positional_members(py: Python<'_>, name: &str) -> PyErr {
    let problem = format!("its members are keyword arguments: (\"{name}\", **members)");
    let name = name.to_owned();
    errors::event(py, "", &EventError::Members { name, problem })
}

/// The error for a question that is neither `Question` nor a string.
pub(crate) fn no_question(value: &Bound<'_, PyAny>) -> PyErr {
    let advice = if value.is_instance_of::<PyDict>() {
        "`ragwire.Question(**question)`"
    } else {
        "`ragwire.Question(prompt, history=...)`"
    };
    PyTypeError::new_err(format!(
        "a question is a ragwire.Question or its prompt, a str, not {}: {advice}",
        class(value)
    ))
}
