//! JSON as Python objects, in both directions.

use std::fmt;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::misuse;

/// The maximum depth of nested lists and dictionaries, that of serde_json: one that contains itself
/// must not overflow the stack.
const MAX_DEPTH: usize = 128;

/// Converts a Python object to JSON.
///
/// # Errors
///
/// `TypeError` for an object that JSON has no form for, and `ValueError` for a number or a depth
/// that it has no form for.
pub(crate) fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(object, &Path::Root, MAX_DEPTH)
}

/// Converts keyword arguments to the members of an object.
pub(crate) fn to_map(fields: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    members(fields, &Path::Root, MAX_DEPTH)
}

/// Where a value is, for messages.
enum Path<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(outer, key) => write!(f, "{outer}[{key:?}]"),
            Self::Index(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

impl Path<'_> {
    fn message(&self, problem: &str) -> String {
        match self {
            Self::Root => problem.to_owned(),
            Self::Key(..) | Self::Index(..) => format!("{self}: {problem}"),
        }
    }
}

/// What to write instead of a value that JSON has no form for.
fn advice(object: &Bound<'_, PyAny>) -> &'static str {
    let has = |name: &str| object.get_type().hasattr(name).unwrap_or(false);
    if has("tolist") {
        "call its `tolist()`"
    } else if has("model_dump") {
        "call its `model_dump(mode=\"json\")`"
    } else if has("__dataclass_fields__") {
        "use `dataclasses.asdict(value)`"
    } else if has("isoformat") {
        "call its `isoformat()`"
    } else if has("__await__") {
        "`await` it first"
    } else {
        "use str, int, float, bool, None, list, tuple and dict"
    }
}

fn convert(object: &Bound<'_, PyAny>, path: &Path<'_>, depth: usize) -> PyResult<Value> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::Bool(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        if let Ok(number) = object.extract::<i64>() {
            return Ok(number.into());
        }
        let number = object.extract::<u64>();
        return number
            .map(Value::from)
            .map_err(|_| PyValueError::new_err(path.message("an integer in JSON has at most 64 bits")));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        let number = Number::from_f64(number.value());
        return number
            .map(Value::Number)
            .ok_or_else(|| PyValueError::new_err(path.message("JSON has no NaN and no infinite numbers")));
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err(format!(
            "JSON is nested deeper than {MAX_DEPTH}"
        )));
    };
    if let Ok(dict) = object.cast::<PyDict>() {
        return members(dict, path, depth).map(Value::Object);
    }
    if let Ok(list) = object.cast::<PyList>() {
        return items(list.iter(), path, depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return items(tuple.iter(), path, depth);
    }
    let problem = format!("{} is not JSON: {}", misuse::class(object), advice(object));
    Err(PyTypeError::new_err(path.message(&problem)))
}

fn items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    path: &Path<'_>,
    depth: usize,
) -> PyResult<Value> {
    items
        .enumerate()
        .map(|(index, item)| convert(&item, &Path::Index(path, index), depth))
        .collect()
}

fn members(dict: &Bound<'_, PyDict>, path: &Path<'_>, depth: usize) -> PyResult<Map<String, Value>> {
    dict.iter()
        .map(|(key, value)| {
            let Ok(key) = key.cast::<PyString>() else {
                let problem = format!("the keys of JSON are str, not {}", misuse::shown(&key));
                return Err(PyTypeError::new_err(path.message(&problem)));
            };
            let key = key.to_str()?;
            Ok((key.to_owned(), convert(&value, &Path::Key(path, key), depth)?))
        })
        .collect()
}

/// Converts JSON to Python objects.
pub(crate) fn from_value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, None, number) => PyFloat::new(py, number.unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(from_value(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(members) => from_map(py, members)?.into_any(),
    })
}

/// Converts the members of an object to a dictionary.
pub(crate) fn from_map<'py>(py: Python<'py>, members: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in members {
        dict.set_item(key, from_value(py, value)?)?;
    }
    Ok(dict)
}
