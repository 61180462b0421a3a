//! Questions to a human as tools that the page must answer. The caller decides whether the stream
//! ends at one.

use std::collections::VecDeque;

use bytes::BytesMut;
use serde_json::{Value, json};

use super::part::{Details, Json, Part, ProviderMetadata};
use super::{AiSdkSpelling, write_close};
use crate::event::{InputRequested, InputResolved};
use crate::wire::EncodeError;
use crate::wire::calls::{ASK, Call, MAX_OPEN_CALLS};

/// The `kind` of a question that is answered with yes or no.
const APPROVAL: &str = "approval";

/// The text that the page shows for a question without an answer.
const UNANSWERED: &str = "Nobody answered.";

/// The negative answers of open approvals; as many as there may be open calls.
#[derive(Debug, Default)]
pub(super) struct Refusals(VecDeque<(String, Value)>);

impl Refusals {
    fn remember(&mut self, request_id: &str, no: Value) {
        self.0.push_back((request_id.to_owned(), no));
        if self.0.len() > MAX_OPEN_CALLS {
            self.0.pop_front();
        }
    }

    fn take(&mut self, request_id: &str) -> Option<Value> {
        let at = self.0.iter().position(|(id, _)| id == request_id)?;
        self.0.remove(at).map(|(_, no)| no)
    }
}

/// The negative answer of an approval with options.
fn refusal(question: &InputRequested) -> Option<Value> {
    match question.options.as_deref() {
        Some([_, .., no]) if question.kind == APPROVAL => Some(no.as_str().into()),
        _ => None,
    }
}

impl AiSdkSpelling {
    /// Writes a tool call that waits for the human, the last of its step. It leaves no text open,
    /// because the stream may end here.
    pub(super) fn write_question(
        &mut self,
        question: &InputRequested,
        details: Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.close_text(out);
        // The page sends its answers when every call of the last step has one, so a call that runs
        // elsewhere may not be in that step.
        if self.calls.has_only_tools() {
            self.check(&Part::StartStep {}, out)?;
        }
        let id = question.request_id.as_str();
        let refusal = refusal(question);
        let mut input = json!({"kind": question.kind, "prompt": question.prompt});
        if let Some(options) = &question.options {
            input["options"] = options.as_slice().into();
        }
        // The page answers every question but an approval: `onToolCall` gets it, and
        // `sendAutomaticallyWhen` sends the answer.
        self.open_tool(
            id,
            ASK,
            Json::Value(&input),
            Some(&details),
            refusal.is_some(),
            out,
        )?;
        if let Some(no) = refusal {
            self.check(
                &Part::ToolApprovalRequest {
                    approval_id: id,
                    tool_call_id: id,
                },
                out,
            )?;
            self.refusals.remember(id, no);
        }
        self.calls.open(Call {
            tool: ASK.to_owned(),
            id: id.to_owned(),
            unnamed: false,
        });
        while let Some(oldest) = self.calls.take_excess() {
            write_close(&oldest.id, None, None, out);
        }
        self.state.is_parked = true;
        Ok(())
    }

    /// Writes the answer as the output of the tool.
    pub(super) fn write_answer(
        &mut self,
        resolved: &InputResolved,
        details: Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let id = resolved.request_id.as_str();
        if !self.calls.has(id) {
            // The page does not show the question, so there is nothing to remove.
            return Ok(());
        }
        let provider_metadata = Some(ProviderMetadata { ragwire: &details });
        let denied = self.refusals.take(id);
        match &resolved.response {
            Some(answer) if denied.as_ref() == Some(answer) => {
                self.check(&Part::ToolOutputDenied { tool_call_id: id }, out)?;
            }
            Some(answer) => self.check(
                &Part::ToolOutputAvailable {
                    tool_call_id: id,
                    output: Json::Value(answer),
                    dynamic: true,
                    provider_metadata,
                },
                out,
            )?,
            None => self.check(
                &Part::ToolOutputError {
                    tool_call_id: id,
                    error_text: UNANSWERED,
                    dynamic: true,
                    provider_metadata,
                },
                out,
            )?,
        }
        self.calls.close(id);
        Ok(())
    }
}
