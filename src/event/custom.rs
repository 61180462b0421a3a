//! Events of the application's own, and of strangers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Event;
use crate::event::item::Item;

/// Longest name of a [`Custom`] event, in bytes: it ends up in SSE `event:` lines and in AG-UI names, where nobody expects prose.
pub const MAX_NAME_BYTES: usize = 128;

/// An event of the application's own: a name and anything that serialises.
///
/// On the wire it is `{"event":NAME,"data":…}`. It is serialised where it is made, so an error returns to its producer and a
/// queue holds finished JSON values only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Custom {
    /// The event's name; see [`Custom::new`] for what it may be.
    #[serde(rename = "event")]
    pub(crate) name: String,
    /// The event's data.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl Custom {
    /// Serialises `data` under `name`.
    ///
    /// # Errors
    ///
    /// [`EventError::Name`] for a name that is empty, longer than [`MAX_NAME_BYTES`], holds a control character or is one of
    /// [`Event::NAMES`]; [`EventError::Data`] where `data` does not serialise.
    pub fn new(name: impl Into<String>, data: &impl Serialize) -> Result<Self, EventError> {
        let name = name.into();
        if name.is_empty()
            || name.len() > MAX_NAME_BYTES
            || name.chars().any(char::is_control)
            || Event::NAMES.contains(&name.as_str())
        {
            return Err(EventError::Name);
        }
        Ok(Self {
            name,
            data: serde_json::to_value(data).map_err(EventError::Data)?,
        })
    }

    /// The event's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<Custom> for Item<'_> {
    fn from(event: Custom) -> Self {
        Self::Event(event.into())
    }
}

impl From<Custom> for Event {
    fn from(event: Custom) -> Self {
        Self::Custom(event)
    }
}

/// Reads any object with a string `event`: the last resort of [`Event`], so an event of a newer version or of a stranger
/// is never an error. Members besides a lone `data` become the data themselves.
impl<'de> Deserialize<'de> for Custom {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Map::deserialize(deserializer)?;
        let Some(Value::String(name)) = members.shift_remove("event") else {
            return Err(serde::de::Error::custom("an event needs a string member `event`"));
        };
        let data = match members.shift_remove("data") {
            Some(data) if members.is_empty() => data,
            Some(data) => {
                members.insert("data".into(), data);
                Value::Object(members)
            }
            None => Value::Object(members),
        };
        Ok(Self { name, data })
    }
}

/// Why an event of the application's own was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The name cannot stand on every wire.
    #[error(
        "event name must have 1 to {MAX_NAME_BYTES} bytes, no control characters, and not be a built-in name"
    )]
    Name,
    /// The data does not serialise.
    #[error("event data does not serialise")]
    Data(#[source] serde_json::Error),
}

impl EventError {
    /// Stable machine word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name => "event_name",
            Self::Data(_) => "event_data",
        }
    }
}
