//! The AI SDK's [UI message stream](https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol), version 1,
//! which `useChat` of npm `ai` 5, 6 and 7 reads, as `text/event-stream`.
//!
//! Only parts that all three versions know are sent, because an unknown part ends the stream in the
//! client. `PROTOCOL.md`, section "The AI SDK's wire" (`[A-nn]`), lists the parts of each event.
//! This file tracks what is open in the client: the text part, the thought and the tool calls.
//! [`AiSdkDecoder`] reads the streams of this encoder and those of any other server of the protocol.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{AiSdk, End, Metadata};
//!
//! let (mut encoder, mut bytes) = (AiSdk::default().message_id("m-1").encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert_eq!(
//!     String::from_utf8(bytes.to_vec()).unwrap(),
//!     concat!(
//!         "data: {\"type\":\"start\",\"messageId\":\"m-1\"}\n\n",
//!         "data: {\"type\":\"text-start\",\"id\":\"text-1\"}\n\n",
//!         "data: {\"type\":\"text-delta\",\"id\":\"text-1\",\"delta\":\"Yes.\"}\n\n",
//!         "data: {\"type\":\"text-end\",\"id\":\"text-1\"}\n\n",
//!         "data: {\"type\":\"finish\",\"finishReason\":\"stop\",\"messageMetadata\":{\"citations\":[],\"tools_used\":[]}}\n\n",
//!         "data: [DONE]\n\n",
//!     )
//! );
//! ```

mod decode;
mod part;
mod question;
mod sources;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::BytesMut;
use serde::Serialize;
use serde_json::Value;

pub use self::decode::{AiSdkDecoder, CallWait, WaitingCall};
use self::part::{CustomData, Data, DataType, Details, Json, Numbered, Part, ProviderMetadata};
use self::question::Refusals;
use self::sources::Documents;
use self::steps::SEARCH;
use super::activity::{Activities, Activity};
use super::calls::{ASK, Call, Calls};
use super::object::{self, Late, Line};
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::{Event, InputRequested, ToolCall, ToolResult};
use crate::frame::{End, Status};
use crate::json;
use crate::order::Phase;
use crate::time::Timestamp;

/// The wire of the AI SDK's UI message stream.
///
/// The [module](self) has an example.
#[derive(Clone, Debug, Default)]
pub struct AiSdk {
    limits: Limits,
    parks: bool,
    message_id: Option<Arc<str>>,
}

impl AiSdk {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// The name of the tool with which [`parks`](Self::parks) asks a human. The ID of its call is
    /// the question's `request_id`.
    pub const ASK_TOOL: &'static str = ASK;

    /// Sets the ID of the message that the client builds. Without one the client generates it.
    #[must_use]
    pub fn message_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// Asks a human as `ai` 6 and later do: with a tool, `ask_question`, that ends the stream and
    /// whose answer arrives with the next request. An approval expects `addToolApprovalResponse`,
    /// any other question `addToolOutput`. Do not use it with `ai` 5, which aborts at an approval.
    ///
    /// This is for journaled turns, whose answer continues in another stream
    /// (`turn::Journal::request`). It has no effect on any other turn.
    #[must_use]
    pub fn parks(mut self) -> Self {
        self.parks = true;
        self
    }

    /// Sets the limits: of the JSON of one part (line), and of the message's metadata (trailer).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates a decoder for one stream, with the limits of this wire.
    pub fn decoder(&self) -> AiSdkDecoder {
        AiSdkDecoder::new(self.limits)
    }
}

impl Wire for AiSdk {
    fn name(&self) -> &'static str {
        "ai_sdk"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("x-vercel-ai-ui-message-stream", "v1")]
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(AiSdkSpelling {
            wire: self.clone(),
            parks: false,
            state: State::default(),
            thought: None,
            activities: Activities::default(),
            calls: Calls::default(),
            refusals: Refusals::default(),
            documents: Documents::default(),
        })
    }
}

#[derive(Debug)]
struct AiSdkSpelling {
    wire: AiSdk,
    /// Whether the stream may end at a question.
    parks: bool,
    state: State,
    /// The ID of the thought whose pieces are being written.
    thought: Option<Arc<str>>,
    activities: Activities,
    calls: Calls,
    refusals: Refusals,
    documents: Documents,
}

/// The state that is restored if an event does not fit.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    has_started: bool,
    is_text_open: bool,
    texts: u64,
    reasonings: u64,
    /// The number of calls that arrived without an ID.
    unnamed_calls: u64,
    /// Whether the step has ended at a question, so that the next frame begins another.
    is_parked: bool,
}

impl Spelling for AiSdkSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let before = (self.state, self.thought.clone());
        let mut activities = self.activities.clone();
        let mut shown = activities.of(event);
        if self.parks && matches!(event, Event::InputRequested(_)) {
            // The stream may end here, and a page that waits for a tool does not send the answer.
            shown = activities.close();
        }
        self.write_event(event, &shown, timestamp, out)
            .inspect(|()| self.activities = activities)
            .inspect_err(|_| (self.state, self.thought) = before)
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.start(out);
        if !self.state.is_text_open {
            self.close_thought(out);
            self.close_searches(None, out);
            self.state.is_text_open = true;
            self.state.texts += 1;
            write(&Part::TextStart { id: self.text_id() }, out);
        }
        let id = self.text_id();
        write(&Part::TextDelta { id, delta: text }, out);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        self.start(out);
        self.close_thought(out);
        self.close_text(out);
        self.close_calls(&end.status, out);
        match &end.status {
            Status::Completed => {
                self.documents
                    .write(&end.metadata.citations, self.wire.limits, out);
                let finish = if end.metadata.is_cut_short() {
                    r#""finish","finishReason":"length""#
                } else {
                    r#""finish","finishReason":"stop""#
                };
                self.write_metadata(finish, end, out);
            }
            Status::Stopped => self.write_metadata(r#""finish","finishReason":"other""#, end, out),
            Status::Failed(failure) => {
                // `useChat` stops reading at the error, so the metadata comes before it.
                self.write_metadata(r#""message-metadata""#, end, out);
                write(
                    &Part::Error {
                        error_text: &failure.message,
                    },
                    out,
                );
                write(
                    &Part::Finish {
                        finish_reason: "error",
                    },
                    out,
                );
            }
        }
        out.extend_from_slice(DONE);
    }

    fn allow_parking(&mut self) -> bool {
        self.parks = self.wire.parks;
        self.parks
    }

    fn park(&mut self, _: &InputRequested, _: Option<Timestamp>, out: &mut BytesMut) {
        write(
            &Part::Finish {
                finish_reason: "tool-calls",
            },
            out,
        );
        out.extend_from_slice(DONE);
    }

    fn unpark(&mut self, out: &mut BytesMut) {
        let message_id = self.wire.message_id.as_deref();
        write(&Part::Start { message_id }, out);
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}

/// The end of every stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

impl AiSdkSpelling {
    fn start(&mut self, out: &mut BytesMut) {
        if !self.state.has_started {
            self.state.has_started = true;
            let message_id = self.wire.message_id.as_deref();
            write(&Part::Start { message_id }, out);
        }
        if std::mem::replace(&mut self.state.is_parked, false) {
            // If the last step has answers and nothing else is open, the page sends them again and
            // again.
            write(&Part::StartStep {}, out);
        }
    }

    fn text_id(&self) -> Numbered {
        Numbered("text", self.state.texts)
    }

    /// Ends the text part. The client shows parts in the order in which they began, so a part
    /// between two texts is shown there only if it ends the first.
    fn close_text(&mut self, out: &mut BytesMut) {
        if self.state.is_text_open {
            self.state.is_text_open = false;
            write(&Part::TextEnd { id: self.text_id() }, out);
        }
    }

    /// Closes all calls. A call that stays open looks busy forever and cannot be sent back to a
    /// model.
    fn close_calls(&mut self, status: &Status, out: &mut BytesMut) {
        let error_text = match status {
            Status::Completed => None,
            Status::Failed(failure) => Some(failure.message.as_ref()),
            Status::Stopped => Some("The turn was stopped."),
        };
        self.close_searches(error_text, out);
        for call in self.calls.take_all() {
            write_close(&call.id, error_text, None, out);
        }
    }

    /// Writes the part that begins with `kind` and ends with the metadata.
    fn write_metadata(&self, kind: &str, end: &End, out: &mut BytesMut) {
        out.extend_from_slice(br#"data: {"type":"#);
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(br#","messageMetadata":"#);
        object::write_end(end, &Late::default(), self.wire.limits.max_trailer_bytes, out);
        out.extend_from_slice(b"}\n\n");
    }

    /// Writes an event, `shown` as these calls and results.
    fn write_event(
        &mut self,
        event: &Event,
        shown: &[Activity<'_>],
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.start(out);
        let details = Details {
            event: event.name(),
            timestamp,
            ..Details::default()
        };
        if let Event::Thinking(thinking) = event {
            let id = thinking.id.as_deref();
            let details = Details {
                id,
                round: thinking.round,
                max_rounds: thinking.max_rounds,
                ..details
            };
            return self.write_thought(id, &thinking.content, &details, out);
        }
        self.close_thought(out);
        match event {
            Event::Reasoning(reasoning) => self.write_thought(None, &reasoning.content, &details, out),
            Event::ToolCall(call) => self.write_call(call, details, out),
            Event::ToolResult(result) => self.write_result(result, details, out),
            Event::InputRequested(question) if self.parks => {
                self.write_activities(shown, &SEARCH, out)?;
                self.write_question(question, details, out)
            }
            Event::InputResolved(resolved) if self.parks => self.write_answer(resolved, details, out),
            Event::Custom(custom) => self.write_data(event, &CustomData { custom, timestamp }, out),
            Event::Sources(sources) => {
                self.write_data(event, &Line { event, timestamp }, out)?;
                self.documents.add(sources);
                Ok(())
            }
            Event::Retract(_) => {
                // No part takes text back. The page can do it: the text before this part is what
                // the event counts in.
                self.close_text(out);
                self.write_data(event, &Line { event, timestamp }, out)
            }
            Event::Search(_)
            | Event::Review(_)
            | Event::QueryAnalysis(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::RetrievalStart(_)
            | Event::RetrievalResult(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Thinking(_)
            | Event::Verification(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_) => {
                // The time is in the data.
                let details = Details {
                    timestamp: None,
                    ..details
                };
                self.write_activities(shown, &details, out)?;
                self.write_data(event, &Line { event, timestamp }, out)
            }
        }
    }

    fn write_call(
        &mut self,
        call: &ToolCall,
        details: Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.close_text(out);
        let id = self.call_id(call.call_id.as_deref());
        let details = Details {
            iteration: call.iteration,
            description: call.description.as_deref(),
            parameters: call
                .parameters
                .as_ref()
                .filter(|parameters| !parameters.is_null()),
            round: call.round,
            max_rounds: call.max_rounds,
            ..details
        };
        self.open_call(&id, &call.tool, Json::Value(&call.input), Some(&details), out)?;
        self.calls.open(Call {
            tool: call.tool.clone(),
            unnamed: call.call_id.is_none(),
            id: id.into_owned(),
        });
        // A call that was removed without an output would stay open forever.
        while let Some(oldest) = self.calls.take_excess() {
            write_close(&oldest.id, None, None, out);
        }
        Ok(())
    }

    fn write_result(
        &mut self,
        result: &ToolResult,
        details: Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let answered = self.calls.answered_by(result.call_id.as_deref(), &result.tool);
        let (answered, id) = match answered {
            Some((at, call)) => (Some(at), Cow::Owned(call.id.clone())),
            None => {
                self.close_text(out);
                let id = self.call_id(result.call_id.as_deref());
                self.open_call(&id, &result.tool, Json::Value(&Value::Null), None, out)?;
                (None, id)
            }
        };
        let details = Details {
            duration_ms: result.duration_ms,
            round: result.round,
            max_rounds: result.max_rounds,
            ..details
        };
        let provider_metadata = Some(ProviderMetadata { ragwire: &details });
        if result.is_error == Some(true) {
            let error_text: &str = &match &result.result {
                Value::String(text) => Cow::Borrowed(text.as_str()),
                Value::Null => Cow::Borrowed("The tool failed."),
                value => Cow::Owned(value.to_string()),
            };
            self.check(
                &Part::ToolOutputError {
                    tool_call_id: &id,
                    error_text,
                    dynamic: true,
                    provider_metadata,
                },
                out,
            )?;
        } else {
            self.check(
                &Part::ToolOutputAvailable {
                    tool_call_id: &id,
                    output: Json::Value(&result.result),
                    dynamic: true,
                    provider_metadata,
                },
                out,
            )?;
        }
        if let Some(at) = answered {
            self.calls.take(at);
        }
        Ok(())
    }

    /// The caller's ID, or one that no caller is likely to use.
    fn call_id<'a>(&mut self, id: Option<&'a str>) -> Cow<'a, str> {
        if let Some(id) = id {
            return Cow::Borrowed(id);
        }
        self.state.unnamed_calls += 1;
        Cow::Owned(format!("ragwire-call-{}", self.state.unnamed_calls))
    }

    fn write_data(
        &self,
        event: &Event,
        data: &impl Serialize,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        // A part replaces an earlier one with its type and ID.
        let id = if let Event::InputRequested(request) = event {
            Some(request.request_id.as_str())
        } else if let Event::AuthorizationRequired(request) = event {
            Some(request.connection.as_str())
        } else {
            matches!(event, Event::Queued(_)).then_some("queued")
        };
        let kind = DataType(event.name());
        self.check(&Data { kind, id, data }, out)
    }

    /// Writes a part, unless it exceeds the limit.
    fn check(&self, part: &impl Serialize, out: &mut BytesMut) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        out.extend_from_slice(b"data: ");
        let from = out.len();
        json::write(out, part)?;
        if out.len() - from > max_bytes {
            return Err(EncodeError::TooLarge { max_bytes });
        }
        out.extend_from_slice(b"\n\n");
        Ok(())
    }
}

/// Writes the output of a call that has none yet: an error, or nothing.
fn write_close(
    tool_call_id: &str,
    error_text: Option<&str>,
    provider_metadata: Option<ProviderMetadata<'_>>,
    out: &mut BytesMut,
) {
    let part = match error_text {
        Some(error_text) => Part::ToolOutputError {
            tool_call_id,
            error_text,
            dynamic: true,
            provider_metadata,
        },
        None => Part::ToolOutputAvailable {
            tool_call_id,
            output: Json::Value(&Value::Null),
            dynamic: true,
            provider_metadata,
        },
    };
    write(&part, out);
}

/// Writes a part of strings only, which always serialises.
fn write(part: &Part<'_>, out: &mut BytesMut) {
    let from = out.len();
    out.extend_from_slice(b"data: ");
    match json::write(out, part) {
        Ok(()) => out.extend_from_slice(b"\n\n"),
        Err(_) => out.truncate(from),
    }
}
