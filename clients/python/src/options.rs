//! Keyword arguments as options: absent or `None` leaves the default, and an unknown name is an
//! error.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::sink::seconds;
use crate::stores::{Journal, Sessions, TurnGroup};
use crate::{errors, misuse};

/// What an option of this type is called in messages.
pub(crate) trait Expected {
    const NAME: &'static str;
}

impl Expected for bool {
    const NAME: &'static str = "True or False";
}
impl Expected for f64 {
    const NAME: &'static str = "a number";
}
impl Expected for usize {
    const NAME: &'static str = "a whole number from 0";
}
impl Expected for u8 {
    const NAME: &'static str = "a whole number from 0 to 255";
}
impl Expected for String {
    const NAME: &'static str = "a str";
}
impl Expected for Vec<String> {
    const NAME: &'static str = "a list of str";
}
impl Expected for PyRef<'_, Journal> {
    const NAME: &'static str = "a ragwire.Journal";
}
impl Expected for PyRef<'_, Sessions> {
    const NAME: &'static str = "a ragwire.Sessions";
}
impl Expected for PyRef<'_, TurnGroup> {
    const NAME: &'static str = "a ragwire.TurnGroup";
}

fn wrong<T: Expected>(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let expected = T::NAME;
    let message = match value.get_type().hasattr("__await__") {
        Ok(true) => format!("{name} must be {expected}, not an awaitable: await it first"),
        Ok(false) | Err(_) => format!("{name} must be {expected}, not {}", misuse::shown(value)),
    };
    errors::option(value.py(), message)
}

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
        T: Expected + for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.object(name)? else {
            return Ok(None);
        };
        value
            .extract::<T>()
            .map(Some)
            .map_err(|_| wrong::<T>(name, &value))
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
