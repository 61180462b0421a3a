//! The question as the orchestrator reads it.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::metadata::written;
use crate::{errors, json};

#[doc = stub!("Question")]
#[pyclass(frozen, module = "ragwire")]
pub(crate) struct Question(pub(crate) ragwire::Question);

#[pymethods]
impl Question {
    #[new]
    #[pyo3(signature = (prompt, **members), text_signature = None)]
    fn new(py: Python<'_>, prompt: String, members: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut question = match members {
            Some(members) => json::to_map(members)?,
            None => serde_json::Map::new(),
        };
        const MEMBERS: [&str; 6] = ["history", "owner", "mode", "effort", "attachments", "options"];
        if let Some(unknown) = question.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            let names = MEMBERS.join(", ");
            return Err(errors::option(
                py,
                format!("unknown member of a question: {unknown}; known: {names}"),
            ));
        }
        question.insert("prompt".to_owned(), Value::String(prompt));
        serde_json::from_value(Value::Object(question))
            .map(Self)
            .map_err(|error| errors::option(py, format!("question: {error}")))
    }

    #[doc = stub!("Question.prompt")]
    #[getter]
    fn prompt(&self) -> &str {
        &self.0.prompt
    }

    #[doc = stub!("Question.history")]
    #[getter]
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.history)
    }

    #[doc = stub!("Question.owner")]
    #[getter]
    fn owner(&self) -> &str {
        &self.0.owner
    }

    #[doc = stub!("Question.mode")]
    #[getter]
    fn mode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.mode)
    }

    #[doc = stub!("Question.effort")]
    #[getter]
    fn effort<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.effort)
    }

    #[doc = stub!("Question.attachments")]
    #[getter]
    fn attachments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.attachments)
    }

    #[doc = stub!("Question.instructions")]
    #[getter]
    fn instructions(&self) -> Option<&str> {
        self.0.options.instructions.as_deref()
    }

    #[doc = stub!("Question.output_schema")]
    #[getter]
    fn output_schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.options.output_schema)
    }

    #[doc = stub!("Question.extra")]
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        json::from_map(py, &self.0.options.extra)
    }

    #[doc = stub!("Question.headers")]
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        for (name, value) in self.0.options.headers.iter() {
            // The first of several headers with this name, as `Headers::get` returns it.
            if !headers.contains(name)? {
                headers.set_item(name, value)?;
            }
        }
        Ok(headers)
    }

    #[doc = stub!("Question.options")]
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        written(py, &self.0.options)
    }

    /// Without the text: questions do not belong in a log.
    fn __repr__(&self) -> String {
        format!("<Question of {} bytes>", self.0.prompt.len())
    }
}
