//! The metadata that an orchestrator returns.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ragwire::{Citation, Usage};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{errors, json, misuse};

#[doc = stub!("Metadata")]
#[pyclass(frozen, module = "ragwire")]
#[derive(Clone)]
pub(crate) struct Metadata(pub(crate) ragwire::Metadata);

fn read<T: DeserializeOwned>(py: Python<'_>, what: &str, value: Value) -> PyResult<T> {
    serde_json::from_value(value).map_err(|error| errors::option(py, format!("{what}: {error}")))
}

fn citations(value: &Bound<'_, PyAny>) -> PyResult<Vec<Citation>> {
    let py = value.py();
    let Value::Array(items) = json::to_value(value)? else {
        let message = format!(
            "citations must be a list of dictionaries, not {}",
            misuse::class(value)
        );
        return Err(errors::option(py, message));
    };
    let numbered = items.into_iter().enumerate();
    numbered
        .map(|(index, item)| read(py, &format!("citations[{index}]"), item))
        .collect()
}

#[pymethods]
impl Metadata {
    #[new]
    #[pyo3(signature = (*, citations=None, tools_used=None, mode=None, usage=None, **extra), text_signature = None)]
    fn new(
        py: Python<'_>,
        citations: Option<&Bound<'_, PyAny>>,
        tools_used: Option<&Bound<'_, PyAny>>,
        mode: Option<String>,
        usage: Option<&Bound<'_, PyAny>>,
        extra: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut metadata = ragwire::Metadata::default();
        if let Some(citations) = citations {
            metadata.citations = self::citations(citations)?;
        }
        if let Some(tools) = tools_used {
            metadata.tools_used = tools.extract().map_err(|_| {
                let shown = misuse::shown(tools);
                errors::option(py, format!("tools_used must be a list of str, not {shown}"))
            })?;
        }
        metadata.mode = mode;
        if let Some(usage) = usage {
            metadata.usage = Some(read::<Usage>(py, "usage", json::to_value(usage)?)?);
        }
        if let Some(extra) = extra {
            metadata.extra = json::to_map(extra)?;
        }
        Ok(Self(metadata))
    }

    #[doc = stub!("Metadata.citations")]
    #[getter]
    fn citations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.citations)
    }

    #[doc = stub!("Metadata.tools_used")]
    #[getter]
    fn tools_used(&self) -> Vec<String> {
        self.0.tools_used.clone()
    }

    #[doc = stub!("Metadata.mode")]
    #[getter]
    fn mode(&self) -> Option<&str> {
        self.0.mode.as_deref()
    }

    #[doc = stub!("Metadata.usage")]
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.usage)
    }

    #[doc = stub!("Metadata.extra")]
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        json::from_map(py, &self.0.extra)
    }

    #[doc = stub!("Metadata.events_dropped")]
    #[getter]
    fn events_dropped(&self) -> u64 {
        self.0.events_dropped
    }

    fn __repr__(&self) -> String {
        format!("Metadata({} citations)", self.0.citations.len())
    }
}

/// Converts a value of the core to Python objects.
pub(crate) fn written<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    // The core's own types always have a JSON form.
    json::from_value(py, &serde_json::to_value(value).unwrap_or(Value::Null))
}
