//! What the model does before it answers, as the objects that clients draw: tools, retrieval as
//! tools, and thoughts.

use std::sync::Arc;

use bytes::BytesMut;
use serde_json::{Value, json};

use super::line::{Line, Lines};
use super::{AgUiSpelling, members};
use crate::event::{Event, ToolCall, ToolResult};
use crate::wire::EncodeError;
use crate::wire::activity::{Activity, to_json};
use crate::wire::reasoning::thought_of;

/// A thought whose pieces are being written.
#[derive(Clone, Debug)]
pub(super) struct Thought {
    id: Arc<str>,
    /// The number of the event with its first piece, which is in the message's ID.
    number: u64,
}

impl AgUiSpelling {
    pub(super) fn write_call(
        &self,
        call: &ToolCall,
        event: &Event,
        number: u64,
        lines: Lines,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let fallback = self.id("call", number);
        let tool_call_id = call.call_id.as_deref().unwrap_or(&fallback);
        let metadata = members(event, &["tool", "input", "call_id"])?;
        let input = match &call.input {
            // Clients parse the arguments, and an empty string does not parse.
            Value::Null => "{}".to_owned(),
            input => input.to_string(),
        };
        write_whole_call(tool_call_id, &call.tool, &input, metadata, lines, out)
    }

    /// Writes a result. Returns the index of its call in `calls` if neither has an ID.
    pub(super) fn write_result(
        &self,
        result: &ToolResult,
        event: &Event,
        number: u64,
        lines: Lines,
        out: &mut BytesMut,
    ) -> Result<Option<usize>, EncodeError> {
        let answered = match &result.call_id {
            Some(_) => None,
            None => self.calls.iter().position(|(tool, _)| *tool == result.tool),
        };
        let call = answered.and_then(|at| self.calls.get(at));
        let fallback = self.id("call", call.map_or(number, |(_, number)| *number));
        let content = match &result.result {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        lines.write(
            &Line::ToolCallResult {
                message_id: &self.id("result", number),
                tool_call_id: result.call_id.as_deref().unwrap_or(&fallback),
                content: &content,
                metadata: members(event, &["result", "call_id"])?,
            },
            out,
        )?;
        Ok(answered)
    }

    /// Writes the calls and results as which the event `name` is shown. Their IDs begin with the
    /// run's, because the client keeps the tools of all runs.
    pub(super) fn write_activities(
        &self,
        activities: &[Activity<'_>],
        name: &str,
        lines: Lines,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        for activity in activities {
            let metadata = json!({ "event": name });
            match activity {
                Activity::Call { id, tool, input } => {
                    let id = format!("{}-{id}", self.prefix());
                    write_whole_call(&id, tool, &to_json(input), metadata, lines, out)?;
                }
                Activity::Result { id, output, .. } => {
                    let id = format!("{}-{id}", self.prefix());
                    lines.write(
                        &Line::ToolCallResult {
                            message_id: &format!("{id}-result"),
                            tool_call_id: &id,
                            content: &to_json(output),
                            metadata,
                        },
                        out,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if `event` is the next piece of the thought that is being written.
    pub(super) fn continues_thought(&self, event: &Event) -> bool {
        let id = thought_of(event);
        id.is_some() && id == self.thought.as_ref().map(|thought| &*thought.id)
    }

    /// Writes a thought, or a piece of the thought `id`. Returns that thought if it began: it stays
    /// open for more pieces.
    pub(super) fn write_thought(
        &self,
        id: Option<&str>,
        event: &Event,
        delta: &str,
        number: u64,
        lines: Lines,
        out: &mut BytesMut,
    ) -> Result<Option<Thought>, EncodeError> {
        let open = self.thought.as_ref().filter(|_| self.continues_thought(event));
        let message_id = &self.id("reasoning", open.map_or(number, |thought| thought.number));
        if open.is_none() {
            let metadata = members(event, &["content"])?;
            lines.write(&Line::ReasoningStart { message_id }, out)?;
            lines.write(
                &Line::ReasoningMessageStart {
                    message_id,
                    role: "reasoning",
                    metadata,
                },
                out,
            )?;
        }
        lines.write(&Line::ReasoningMessageContent { message_id, delta }, out)?;
        let Some(id) = id else {
            write_thought_end(message_id, lines, out)?;
            return Ok(None);
        };
        Ok(Some(Thought {
            id: id.into(),
            number,
        }))
    }

    /// Writes the end of the thought that is being written, if there is one.
    pub(super) fn write_thought_end(&self, lines: Lines, out: &mut BytesMut) -> Result<(), EncodeError> {
        match &self.thought {
            Some(thought) => write_thought_end(&self.id("reasoning", thought.number), lines, out),
            None => Ok(()),
        }
    }
}

fn write_whole_call(
    tool_call_id: &str,
    tool_call_name: &str,
    input: &str,
    metadata: Value,
    lines: Lines,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    lines.write(
        &Line::ToolCallStart {
            tool_call_id,
            tool_call_name,
            metadata,
        },
        out,
    )?;
    lines.write(
        &Line::ToolCallArgs {
            tool_call_id,
            delta: input,
        },
        out,
    )?;
    lines.write(&Line::ToolCallEnd { tool_call_id }, out)
}

fn write_thought_end(message_id: &str, lines: Lines, out: &mut BytesMut) -> Result<(), EncodeError> {
    lines.write(&Line::ReasoningMessageEnd { message_id }, out)?;
    lines.write(&Line::ReasoningEnd { message_id }, out)
}
