//! What an orchestrator wrote before its questions, as the messages that its protocol's clients send
//! back with the answers.

use ragwire::event::Event;
use ragwire::wire::ai_sdk::WaitingCall;
use serde_json::{Value, json};

use super::interrupts::{Answered, Interrupt};

/// The maximum size of what is kept, in bytes: the limit of an object on most wires.
pub(super) const MAX_TRANSCRIPT_BYTES: usize = 1024 * 1024;

/// Texts, calls and their results in their order.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pieces: Vec<Piece>,
    bytes: usize,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Call {
        id: String,
        tool: String,
        input: Value,
        /// The result, and whether it is an error.
        result: Option<(Value, bool)>,
    },
}

impl Transcript {
    /// Returns `true` if the limit is exceeded. Nothing is added then.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_TRANSCRIPT_BYTES
    }

    /// Adds a piece of the answer.
    pub(super) fn add_text(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.is_full() {
            self.pieces.clear();
        } else if let Some(Piece::Text(last)) = self.pieces.last_mut() {
            last.push_str(text);
        } else {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }

    /// Adds a call or its result. Other events are not part of a conversation.
    pub(super) fn add_event(&mut self, event: &Event) {
        if let Event::ToolCall(call) = event {
            self.bytes = self.bytes.saturating_add(size(&call.input));
            self.pieces.push(Piece::Call {
                id: call.call_id.clone().unwrap_or_default(),
                tool: call.tool.clone(),
                input: call.input.clone(),
                result: None,
            });
        } else if let Event::ToolResult(result) = event {
            let called = result.call_id.as_deref().unwrap_or_default();
            self.add_result(called, result.result.clone(), result.is_error == Some(true));
        }
        if self.is_full() {
            self.pieces.clear();
        }
    }

    /// Adds the result of a call.
    pub(super) fn add_result(&mut self, call: &str, value: Value, is_error: bool) {
        self.bytes = self.bytes.saturating_add(size(&value));
        for piece in &mut self.pieces {
            if let Piece::Call { id, result, .. } = piece
                && id == call
            {
                *result = Some((value, is_error));
                return;
            }
        }
    }

    /// Returns the messages of an AG-UI run, with IDs that begin with the turn's.
    pub(super) fn ag_ui(&self, turn: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => messages.push(json!({"role": "assistant", "content": text})),
                Piece::Call {
                    id,
                    tool,
                    input,
                    result,
                } => {
                    let function = json!({"name": tool, "arguments": input.to_string()});
                    let calls = [json!({"id": id, "type": "function", "function": function})];
                    messages.push(json!({"role": "assistant", "toolCalls": calls}));
                    if let Some((result, _)) = result {
                        let content = text_of(result);
                        messages.push(json!({"role": "tool", "toolCallId": id, "content": content}));
                    }
                }
            }
        }
        for (at, message) in messages.iter_mut().enumerate() {
            message["id"] = format!("{turn}-answer-{at}").into();
        }
        messages
    }

    /// Returns the parts of the AI SDK's message, with these approvals.
    pub(super) fn ui_parts(&self, answered: &Answered) -> Vec<Value> {
        let mut parts = Vec::new();
        let mut has_result = false;
        for piece in &self.pieces {
            if has_result && !matches!(piece, Piece::Call { result: Some(_), .. }) {
                parts.push(json!({"type": "step-start"}));
                has_result = false;
            }
            match piece {
                Piece::Text(text) => parts.push(json!({"type": "text", "text": text, "state": "done"})),
                Piece::Call {
                    id,
                    tool,
                    input,
                    result,
                } => {
                    let kind = format!("tool-{tool}");
                    let mut part = json!({"type": kind, "toolCallId": id, "input": input});
                    let answer = answered.iter().find_map(|(interrupt, answer)| match interrupt {
                        Interrupt::AiSdk(call) if call.call_id == *id => Some((call, answer)),
                        Interrupt::AiSdk(_) | Interrupt::LangGraph(_) | Interrupt::AgUi(_) => None,
                    });
                    match (result, answer) {
                        (Some((error, true)), _) => {
                            part["state"] = "output-error".into();
                            part["errorText"] = text_of(error).into();
                        }
                        (Some((output, false)), _) => {
                            part["state"] = "output-available".into();
                            part["output"] = output.clone();
                        }
                        (None, Some((call, answer))) => {
                            let is_approved = WaitingCall::is_approved_by(answer);
                            part["state"] = "approval-responded".into();
                            part["approval"] = json!({"id": call.id, "approved": is_approved});
                        }
                        (None, None) => part["state"] = "input-available".into(),
                    }
                    has_result = result.is_some();
                    parts.push(part);
                }
            }
        }
        parts
    }
}

fn size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Returns a string as it is, and any other value as JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
