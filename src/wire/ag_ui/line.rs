//! The objects of AG-UI as JSON. Which object is written when is decided in the parent module.

use std::borrow::Cow;

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::json;
use crate::time::Timestamp;
use crate::wire::EncodeError;

/// The objects of this wire.
#[derive(Serialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub(super) enum Line<'a> {
    RunStarted {
        thread_id: &'a str,
        run_id: &'a str,
    },
    RunFinished {
        thread_id: &'a str,
        run_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[Tokens<'a>; 1]>,
    },
    RunError {
        message: &'a str,
        code: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[Tokens<'a>; 1]>,
    },
    StepStarted {
        step_name: &'a str,
    },
    StepFinished {
        step_name: &'a str,
    },
    TextMessageStart {
        message_id: &'a str,
        role: &'a str,
    },
    TextMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    TextMessageEnd {
        message_id: &'a str,
    },
    ToolCallStart {
        tool_call_id: &'a str,
        tool_call_name: &'a str,
        #[serde(skip_serializing_if = "is_empty")]
        metadata: Value,
    },
    ToolCallArgs {
        tool_call_id: &'a str,
        delta: &'a str,
    },
    ToolCallEnd {
        tool_call_id: &'a str,
    },
    ToolCallResult {
        message_id: &'a str,
        tool_call_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "is_empty")]
        metadata: Value,
    },
    ReasoningStart {
        message_id: &'a str,
    },
    ReasoningMessageStart {
        message_id: &'a str,
        role: &'a str,
        #[serde(skip_serializing_if = "is_empty")]
        metadata: Value,
    },
    ReasoningMessageContent {
        message_id: &'a str,
        delta: &'a str,
    },
    ReasoningMessageEnd {
        message_id: &'a str,
    },
    ReasoningEnd {
        message_id: &'a str,
    },
    Custom {
        name: &'a str,
        value: &'a Value,
    },
}

/// The outcome of a run that did not end in success. The client takes an unknown outcome for
/// success.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Outcome<'a> {
    Cancelled,
    Interrupt { interrupts: [AskedLine<'a>; 1] },
}

/// A question that a run waits for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AskedLine<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_schema: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tokens<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens: Option<u64>,
}

/// Writes objects as server-sent events, within a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    max_bytes: usize,
    /// Milliseconds since 1970.
    timestamp: Option<i64>,
}

impl Lines {
    pub(super) fn new(max_bytes: usize, timestamp: Option<Timestamp>) -> Self {
        Self {
            max_bytes,
            timestamp: timestamp.map(|timestamp| timestamp.as_micros() / 1_000),
        }
    }

    pub(super) fn write(self, line: &Line<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
        #[derive(Serialize)]
        struct TimestampedLine<'a> {
            #[serde(flatten)]
            line: &'a Line<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            timestamp: Option<i64>,
        }
        out.extend_from_slice(b"data: ");
        let from = out.len();
        let timestamp = self.timestamp;
        json::write(out, &TimestampedLine { line, timestamp })?;
        if out.len() - from > self.max_bytes {
            return Err(EncodeError::TooLarge {
                max_bytes: self.max_bytes,
            });
        }
        out.extend_from_slice(b"\n\n");
        Ok(())
    }

    /// [`Lines::write`] without a limit, for strings and numbers, which always serialise.
    pub(super) fn append(self, line: &Line<'_>, out: &mut BytesMut) {
        let written = self.write(line, out);
        debug_assert!(written.is_ok(), "{written:?}");
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
