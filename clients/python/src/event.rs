//! Events, made from keyword arguments.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use ragwire::event::Custom;
use serde_json::{Map, Value};

use crate::{errors, json, misuse};

#[doc = stub!("Event")]
#[pyclass(frozen, module = "ragwire")]
pub(crate) struct Event(pub(crate) ragwire::Event);

/// Makes an event. A custom event has either `data` or the members as its data.
pub(crate) fn make(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    data: Option<&Bound<'_, PyAny>>,
    members: Option<&Bound<'_, PyDict>>,
) -> PyResult<ragwire::Event> {
    let Ok(name) = name.cast::<PyString>() else {
        return Err(misuse::no_name(name));
    };
    let name = name.to_str()?;
    let mut members = match members {
        Some(members) => json::to_map(members)?,
        None => Map::new(),
    };
    let is_typed = ragwire::Event::NAMES.contains(&name);
    let event = match data {
        Some(data) if is_typed && data.is_instance_of::<PyDict>() => {
            return Err(misuse::positional_members(py, name));
        }
        Some(data) if members.is_empty() && !is_typed => {
            Custom::new(name, &json::to_value(data)?).map(ragwire::Event::from)
        }
        Some(data) => {
            members.insert("data".to_owned(), json::to_value(data)?);
            ragwire::Event::from_members(name, members)
        }
        None => ragwire::Event::from_members(name, members),
    };
    event.map_err(|error| errors::event(py, name, &error))
}

#[pymethods]
impl Event {
    /// The names of the typed events.
    #[classattr]
    #[pyo3(name = "NAMES")]
    fn names() -> Vec<&'static str> {
        ragwire::Event::NAMES.to_vec()
    }

    #[new]
    #[pyo3(signature = (name, /, data=None, **members), text_signature = None)]
    fn new(
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        data: Option<&Bound<'_, PyAny>>,
        members: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        make(py, name, data, members).map(Self)
    }

    #[doc = stub!("Event.name")]
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[doc = stub!("Event.as_dict")]
    #[pyo3(text_signature = None)]
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match serde_json::to_value(&self.0) {
            Ok(Value::Object(members)) => json::from_map(py, &members),
            Ok(_) | Err(_) => Ok(PyDict::new(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("Event({:?})", self.0.name())
    }
}
