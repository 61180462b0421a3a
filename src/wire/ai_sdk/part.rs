//! The parts of the stream as JSON. The parent module decides which part is written when.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::event::Custom;
use crate::time::Timestamp;
use crate::wire::activity::{Input, Output};

/// The parts that are sent: those that all clients know, and two for clients that know approvals.
///
/// A tool is `dynamic`, because the page does not know it by name (`ai` 5 requires this for outputs
/// too), and `providerExecuted`: otherwise `onToolCall` asks the page to run it, and
/// `sendAutomaticallyWhen` sends its result as a new turn.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Part<'a> {
    Start {
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a str>,
    },
    StartStep {},
    TextStart {
        id: Numbered,
    },
    TextDelta {
        id: Numbered,
        delta: &'a str,
    },
    TextEnd {
        id: Numbered,
    },
    ReasoningStart {
        id: Numbered,
        provider_metadata: ProviderMetadata<'a>,
    },
    ReasoningDelta {
        id: Numbered,
        delta: &'a str,
    },
    ReasoningEnd {
        id: Numbered,
    },
    ToolInputStart {
        tool_call_id: &'a str,
        tool_name: &'a str,
        dynamic: bool,
        #[serde(skip_serializing_if = "is_false")]
        provider_executed: bool,
    },
    ToolInputAvailable {
        tool_call_id: &'a str,
        tool_name: &'a str,
        input: Json<'a>,
        dynamic: bool,
        #[serde(skip_serializing_if = "is_false")]
        provider_executed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<ProviderMetadata<'a>>,
    },
    ToolOutputAvailable {
        tool_call_id: &'a str,
        output: Json<'a>,
        dynamic: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<ProviderMetadata<'a>>,
    },
    ToolOutputError {
        tool_call_id: &'a str,
        error_text: &'a str,
        dynamic: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<ProviderMetadata<'a>>,
    },
    /// From `ai` 6 on.
    ToolApprovalRequest {
        approval_id: &'a str,
        tool_call_id: &'a str,
    },
    /// From `ai` 6 on.
    ToolOutputDenied {
        tool_call_id: &'a str,
    },
    Error {
        error_text: &'a str,
    },
    Finish {
        finish_reason: &'static str,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A part of the type `data-NAME`, where NAME is the event's name.
#[derive(Serialize)]
pub(super) struct Data<'a, T> {
    #[serde(rename = "type")]
    pub(super) kind: DataType<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) data: &'a T,
}

pub(super) struct DataType<'a>(pub(super) &'a str);

impl Serialize for DataType<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data-{}", self.0))
    }
}

/// `text-1`, `text-2`, …
#[derive(Clone, Copy)]
pub(super) struct Numbered(pub(super) &'static str, pub(super) u64);

impl Serialize for Numbered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.0, self.1))
    }
}

/// The input or the output of a tool.
#[derive(Clone, Copy)]
pub(super) enum Json<'a> {
    /// A value; `{}` instead of `null`.
    Value(&'a Value),
    Input(Input<'a>),
    Output(Output<'a>),
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(Value::Null) => Output::Nothing.serialize(serializer),
            Self::Value(value) => value.serialize(serializer),
            Self::Input(input) => input.serialize(serializer),
            Self::Output(output) => output.serialize(serializer),
        }
    }
}

/// The data of an application event, unchanged; an object without a timestamp gets one.
pub(super) struct CustomData<'a> {
    pub(super) custom: &'a Custom,
    pub(super) timestamp: Option<Timestamp>,
}

impl Serialize for CustomData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = match &self.custom.data {
            Value::Object(members) => Some(members),
            Value::Null => None,
            data => return data.serialize(serializer),
        };
        let mut map = serializer.serialize_map(None)?;
        let mut timestamp = self.timestamp;
        for (name, value) in members.into_iter().flatten() {
            timestamp = timestamp.filter(|_| name != "timestamp");
            map.serialize_entry(name, value)?;
        }
        if let Some(timestamp) = timestamp {
            map.serialize_entry("timestamp", &timestamp)?;
        }
        map.end()
    }
}

/// The members of an event that a part has no member for, under our own name as the protocol
/// requires.
#[derive(Clone, Copy, Serialize)]
pub(super) struct ProviderMetadata<'a> {
    pub(super) ragwire: &'a Details<'a>,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Details<'a> {
    pub(super) event: &'a str,
    /// The ID of a thought, which its pieces share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<Timestamp>,
}
