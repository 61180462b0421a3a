//! Events that the application defines, and unknown events of decoded streams.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Event;
use super::item::Item;

/// The maximum length of a [`Custom`] event's name in bytes. Names are written to SSE `event:`
/// lines and AG-UI names, which are meant to be short.
pub const MAX_NAME_BYTES: usize = 128;

/// An event that the application defines: a name and any serializable data.
///
/// On the wire it is `{"event":NAME,"data":…}`. The data is serialized when the event is created,
/// so that an error returns to its producer and queues contain only finished JSON values.
///
/// ```
/// use ragwire::event::{Custom, Event};
/// use serde_json::json;
///
/// let event = Event::from(Custom::new("my_step", &json!({"n": 1}))?);
/// assert_eq!(serde_json::to_string(&event)?, r#"{"event":"my_step","data":{"n":1}}"#);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Custom {
    /// The event's name. [`Custom::new`] lists its limits.
    #[serde(rename = "event")]
    pub(crate) name: String,
    /// The event's data.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl Custom {
    /// Serializes `data` under `name`.
    ///
    /// # Errors
    ///
    /// Returns [`EventError::Name`] for a name that is empty, longer than 128 bytes, contains a
    /// control character or is one of [`Event::NAMES`]. Returns [`EventError::Data`] if `data` does
    /// not serialize.
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

    /// Returns the event's name.
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

/// Reads any object with a string `event`. It is the fallback of [`Event`], so that events of newer
/// versions and of other systems are never errors. If `data` is not the only other member, all
/// members together become the data.
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

/// Why a [`Custom`] event was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Some wires cannot write the name.
    #[error(
        "event name must have 1 to {MAX_NAME_BYTES} bytes, no control characters, and not be a built-in name"
    )]
    Name,
    /// The data does not serialize.
    #[error("event data does not serialize")]
    Data(#[source] serde_json::Error),
    /// A member of a typed event is missing, unknown or has the wrong type.
    #[error("event `{name}`: {problem}")]
    Members {
        /// The event's name.
        name: String,
        /// The error, with the name of the member.
        problem: String,
    },
}

/// Reads a typed event and refuses unknown members, which are mostly misspelled. `null` counts as
/// absent.
pub(super) fn strict<T: DeserializeOwned + Serialize>(
    name: &str,
    members: Map<String, Value>,
) -> Result<T, EventError> {
    let wrong = |problem| EventError::Members {
        name: name.to_owned(),
        problem,
    };
    let given: Vec<String> = members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(member, _)| member.clone())
        .collect();
    let present = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    let event: T =
        serde_json::from_value(Value::Object(present)).map_err(|error| wrong(error.to_string()))?;
    let written = serde_json::to_value(&event).map_err(EventError::Data)?;
    match given.into_iter().find(|member| written.get(member).is_none()) {
        Some(member) => Err(wrong(format!("unknown member `{member}`"))),
        None => Ok(event),
    }
}

impl EventError {
    /// Returns a stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name => "event_name",
            Self::Data(_) => "event_data",
            Self::Members { .. } => "event_members",
        }
    }
}
