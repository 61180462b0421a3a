//! Keyword arguments as options: absent or `None` leaves the default, and an unknown name is an
//! error.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::sink::seconds;

/// The options that are not read yet.
pub(crate) struct Options<'py> {
    remaining: Bound<'py, PyDict>,
    known: Vec<&'static str>,
}

impl<'py> Options<'py> {
    pub(crate) fn new(py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        Ok(Self {
            remaining: match options {
                Some(options) => options.copy()?,
                None => PyDict::new(py),
            },
            known: Vec::new(),
        })
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.remaining.py()
    }

    /// Takes an option as it is. `None` counts as absent.
    pub(crate) fn object(&mut self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.push(name);
        let Some(value) = self.remaining.get_item(name)? else {
            return Ok(None);
        };
        self.remaining.del_item(name)?;
        Ok(Some(value).filter(|value| !value.is_none()))
    }

    /// Takes an option of a type.
    pub(crate) fn take<T>(&mut self, name: &'static str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.object(name)? else {
            return Ok(None);
        };
        match value.extract::<T>() {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let error: PyErr = error.into();
                let reason = error.value(self.py()).to_string();
                Err(errors::option(self.py(), format!("{name}: {reason}")))
            }
        }
    }

    /// Takes a number of seconds.
    pub(crate) fn seconds(&mut self, name: &'static str) -> PyResult<Option<Duration>> {
        let value = self.take::<f64>(name)?;
        value.map(|value| seconds(self.py(), name, value)).transpose()
    }

    /// Takes a number of seconds that can be turned off with `None`. The outer option is `None` if
    /// it is absent.
    pub(crate) fn optional_seconds(&mut self, name: &'static str) -> PyResult<Option<Option<Duration>>> {
        match self.remaining.get_item(name)? {
            Some(value) if value.is_none() => {
                self.known.push(name);
                self.remaining.del_item(name)?;
                Ok(Some(None))
            }
            Some(_) => Ok(self.seconds(name)?.map(Some)),
            None => {
                self.known.push(name);
                Ok(None)
            }
        }
    }

    /// Refuses options that were not read.
    pub(crate) fn finish(self) -> PyResult<()> {
        let Some((name, _)) = self.remaining.iter().next() else {
            return Ok(());
        };
        let known = self.known.join(", ");
        Err(errors::option(
            self.py(),
            format!("unknown option {name}; known: {known}"),
        ))
    }
}
