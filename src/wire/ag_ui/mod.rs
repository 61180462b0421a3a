//! [AG-UI](https://docs.ag-ui.com) 1.0: server-sent events whose data is one JSON object with a
//! `type`.
//!
//! The AG-UI client fails a run if any object is out of order, so one state machine here tracks
//! what is open: the run, the step before the text, the message, and a thought. It has no clock and
//! no random numbers: every ID is the run's ID with a number. The rules are in `PROTOCOL.md`,
//! section "AG-UI" (`[G-nn]`). [`AgUiDecoder`] reads the streams of this encoder and those of any other
//! server of the protocol.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{AgUi, End, Metadata};
//!
//! let (mut encoder, mut bytes) = (AgUi::new("thread-1", "run-1").encoder(), BytesMut::new());
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert!(bytes.starts_with(b"data: {\"type\":\"RUN_STARTED\",\"threadId\":\"thread-1\",\"runId\":\"run-1\"}\n\n"));
//! ```

mod decode;
mod interrupt;
mod line;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::BytesMut;
use serde_json::{Map, Value, json};

pub use self::decode::AgUiDecoder;
pub use self::interrupt::Interrupt;
use self::line::{AskedLine, Line, Lines, Outcome, Tokens};
use self::steps::Thought;
use super::activity::{Activities, Activity};
use super::object::{self, Late};
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::{Event, InputRequested};
use crate::frame::{End, Status};
use crate::order::Phase;
use crate::time::Timestamp;

/// The AG-UI wire, for one run.
///
/// ```
/// use bytes::BytesMut;
/// use ragwire::event::ToolCall;
/// use ragwire::wire::Wire;
/// use ragwire::AgUi;
///
/// let (mut encoder, mut bytes) = (AgUi::new("thread-1", "run-1").encoder(), BytesMut::new());
/// let call = ToolCall::new("bm25", serde_json::json!({"query": "commit"}));
/// encoder.event(&call.into(), None, &mut bytes).unwrap();
/// let text = String::from_utf8(bytes.to_vec()).unwrap();
/// assert!(text.contains("\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"run-1-call-1\""));
/// ```
#[derive(Clone, Debug)]
pub struct AgUi {
    ids: Ids,
    parks: bool,
    limits: Limits,
}

impl AgUi {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// The name of the step that lasts until the first text.
    pub const STEP: &'static str = "retrieval";

    /// Creates the wire of a run from the IDs that the client sent in its request.
    pub fn new(thread_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self {
            ids: Ids {
                thread_id: thread_id.into(),
                run_id: run_id.into(),
                prefix: None,
            },
            parks: false,
            limits: Limits::default(),
        }
    }

    /// Asks a human as AG-UI does: the run ends with the outcome `interrupt`, and the client
    /// answers with `resume` in the next run, which uses this wire with the IDs of that run.
    ///
    /// This is for journaled turns, whose answer continues in another stream
    /// (`turn::Journal::request`). It has no effect on any other turn.
    #[must_use]
    pub fn parks(mut self) -> Self {
        self.parks = true;
        self
    }

    /// Sets the prefix of the IDs of messages and calls. Default: the run's ID.
    ///
    /// If a turn has several runs ([`parks`](Self::parks)), use the same prefix in all of them, so
    /// that a result finds its call. The interrupt of a question then has the ID `PREFIX-REQUEST`,
    /// so that the answer identifies the turn; without a prefix it has the ID of the question.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.ids.prefix = Some(prefix.into());
        self
    }

    /// Sets the limits of each object of an event, and of the metadata.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Wire for AgUi {
    fn name(&self) -> &'static str {
        "ag_ui"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(AgUiSpelling {
            ids: self.ids.clone(),
            limits: self.limits,
            wants_to_park: self.parks,
            parks: false,
            open: Open::Nothing,
            thought: None,
            activities: Activities::default(),
            messages: 0,
            events: 0,
            calls: VecDeque::new(),
        })
    }
}

#[derive(Clone, Debug)]
struct Ids {
    thread_id: String,
    run_id: String,
    /// The prefix of the other IDs, if it is not the run's ID.
    prefix: Option<String>,
}

/// The objects that must be closed before the run may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// The run has not begun.
    Nothing,
    /// The run only.
    Run,
    /// The run and its step.
    Step,
    /// The run and the message.
    Message,
}

/// The maximum number of calls without an ID that wait for a result; one more drops the oldest.
const MAX_UNNAMED_CALLS: usize = 64;
/// The maximum size of their tools' names together: 1 KiB for each, far more than model servers
/// allow.
const MAX_UNNAMED_CALL_BYTES: usize = MAX_UNNAMED_CALLS * 1024;

#[derive(Debug)]
struct AgUiSpelling {
    ids: Ids,
    limits: Limits,
    wants_to_park: bool,
    /// Whether the run may end at a question.
    parks: bool,
    open: Open,
    /// The thought whose pieces are being written; the message is closed meanwhile.
    thought: Option<Thought>,
    activities: Activities,
    /// The number of messages begun. A message ends where the client shows something else: a tool,
    /// a thought or a question.
    messages: u64,
    /// The number of events so far, which is used in IDs.
    events: u64,
    /// Calls that arrived without an ID and have no result yet: their tool and the number in their
    /// ID.
    calls: VecDeque<(String, u64)>,
}

impl Spelling for AgUiSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let lines = Lines::new(self.limits.max_line_bytes, timestamp);
        // The state changes only after everything is written: an event that does not fit must not
        // change it.
        let number = self.events + 1;
        let mut open = self.open;
        if open == Open::Nothing {
            lines.write(&self.started(), out)?;
            lines.write(
                &Line::StepStarted {
                    step_name: AgUi::STEP,
                },
                out,
            )?;
            open = Open::Step;
        }
        let continues = self.continues_thought(event);
        if !continues {
            self.write_thought_end(lines, out)?;
        }
        let mut activities = self.activities.clone();
        let shown = activities.of(event);
        // The client shows messages in the order in which they began. Text after one of these is a
        // message of its own, below it.
        let is_drawn = matches!(
            event,
            Event::ToolCall(_) | Event::Thinking(_) | Event::Reasoning(_) | Event::Retract(_)
        ) || shown
            .iter()
            .any(|activity| matches!(activity, Activity::Call { .. }));
        // The run may end at a question.
        let asks = self.parks && matches!(event, Event::InputRequested(_));
        if asks {
            self.write_activities(&activities.close(), "search", lines, out)?;
        }
        if asks || (is_drawn && open == Open::Message) {
            self.write_close(open, lines, out)?;
            open = Open::Run;
        }
        let mut answered = None;
        let mut thought = None;
        match event {
            Event::ToolCall(call) => self.write_call(call, event, number, lines, out)?,
            Event::ToolResult(result) => answered = self.write_result(result, event, number, lines, out)?,
            Event::Thinking(thinking) => {
                let id = thinking.id.as_deref();
                thought = self.write_thought(id, event, &thinking.content, number, lines, out)?;
            }
            Event::Reasoning(reasoning) => {
                thought = self.write_thought(None, event, &reasoning.content, number, lines, out)?;
            }
            Event::Custom(custom) => {
                // The client refuses a record without a value.
                let empty = Value::Object(Map::new());
                let value = if custom.data.is_null() {
                    &empty
                } else {
                    &custom.data
                };
                lines.write(
                    &Line::Custom {
                        name: custom.name(),
                        value,
                    },
                    out,
                )?;
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
            | Event::Retract(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_) => {
                self.write_activities(&shown, event.name(), lines, out)?;
                let value = members(event, &[])?;
                lines.write(
                    &Line::Custom {
                        name: event.name(),
                        value: &value,
                    },
                    out,
                )?;
            }
        }
        if let Some(at) = answered {
            self.calls.remove(at);
        }
        if let Event::ToolCall(call) = event
            && call.call_id.is_none()
        {
            self.calls.push_back((call.tool.clone(), number));
            let mut bytes: usize = self.calls.iter().map(|(tool, _)| tool.len()).sum();
            while self.calls.len() > MAX_UNNAMED_CALLS || bytes > MAX_UNNAMED_CALL_BYTES {
                let oldest = self.calls.pop_front();
                bytes -= oldest.map_or(bytes, |(tool, _)| tool.len());
            }
        }
        if !continues {
            self.thought = thought;
        }
        self.activities = activities;
        self.events = number;
        self.open = open;
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        let lines = Lines::new(usize::MAX, None);
        if self.open != Open::Message {
            self.close(lines, out);
            self.messages += 1;
        }
        let message_id = &self.message_id();
        if self.open != Open::Message {
            lines.append(
                &Line::TextMessageStart {
                    message_id,
                    role: "assistant",
                },
                out,
            );
            self.open = Open::Message;
        }
        lines.append(
            &Line::TextMessageContent {
                message_id,
                delta: text,
            },
            out,
        );
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let lines = Lines::new(usize::MAX, end.timing.map(|timing| timing.timestamp));
        self.close(lines, out);
        let usage = end.metadata.usage.as_ref().map(|usage| {
            [Tokens {
                model: usage.model.as_deref(),
                input_tokens: usage.input_tokens,
                cached_input_tokens: usage.cached_input_tokens,
                output_tokens: usage.output_tokens,
            }]
        });
        let Ids {
            thread_id, run_id, ..
        } = &self.ids;
        let (line, member) = match &end.status {
            Status::Failed(failure) => (
                Line::RunError {
                    message: &failure.message,
                    code: failure.code(),
                    usage,
                },
                br#","metadata":"#.as_slice(),
            ),
            Status::Completed | Status::Stopped => (
                Line::RunFinished {
                    thread_id,
                    run_id,
                    outcome: (end.status == Status::Stopped).then_some(Outcome::Cancelled),
                    usage,
                },
                br#","result":"#.as_slice(),
            ),
        };
        lines.append(&line, out);
        // The object is opened again for the metadata, which has its own limit.
        out.truncate(out.len() - CLOSE.len());
        out.extend_from_slice(member);
        object::write_end(end, &Late::default(), self.limits.max_trailer_bytes, out);
        out.extend_from_slice(CLOSE);
    }

    fn allow_parking(&mut self) -> bool {
        self.parks = self.wants_to_park;
        self.parks
    }

    fn park(&mut self, question: &InputRequested, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let Ids {
            thread_id, run_id, ..
        } = &self.ids;
        let interrupt = AskedLine {
            id: self.interrupt_id(&question.request_id),
            reason: &question.kind,
            message: &question.prompt,
            response_schema: response_schema(question),
        };
        let line = Line::RunFinished {
            thread_id,
            run_id,
            outcome: Some(Outcome::Interrupt {
                interrupts: [interrupt],
            }),
            usage: None,
        };
        Lines::new(usize::MAX, timestamp).append(&line, out);
    }

    fn unpark(&mut self, out: &mut BytesMut) {
        Lines::new(usize::MAX, None).append(&self.started(), out);
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

/// The end of every object.
const CLOSE: &[u8] = b"}\n\n";

impl AgUiSpelling {
    fn id(&self, kind: &str, number: u64) -> String {
        format!("{}-{kind}-{number}", self.prefix())
    }

    fn prefix(&self) -> &str {
        self.ids.prefix.as_deref().unwrap_or(&self.ids.run_id)
    }

    fn interrupt_id<'a>(&self, request_id: &'a str) -> Cow<'a, str> {
        match &self.ids.prefix {
            Some(prefix) => format!("{prefix}-{request_id}").into(),
            None => request_id.into(),
        }
    }

    fn message_id(&self) -> String {
        match self.messages {
            0 | 1 => format!("{}-message", self.prefix()),
            number => self.id("message", number),
        }
    }

    fn started(&self) -> Line<'_> {
        Line::RunStarted {
            thread_id: &self.ids.thread_id,
            run_id: &self.ids.run_id,
        }
    }

    /// Closes everything but the run.
    fn close(&mut self, lines: Lines, out: &mut BytesMut) {
        if self.open == Open::Nothing {
            lines.append(&self.started(), out);
        }
        let shown = self.activities.close();
        let written = self
            .write_thought_end(lines, out)
            .and_then(|()| self.write_activities(&shown, "search", lines, out))
            .and_then(|()| self.write_close(self.open, lines, out));
        debug_assert!(written.is_ok(), "{written:?}");
        self.thought = None;
        self.open = Open::Run;
    }

    /// Writes the object that closes what is open in the run.
    fn write_close(&self, open: Open, lines: Lines, out: &mut BytesMut) -> Result<(), EncodeError> {
        match open {
            Open::Nothing | Open::Run => Ok(()),
            Open::Step => lines.write(
                &Line::StepFinished {
                    step_name: AgUi::STEP,
                },
                out,
            ),
            Open::Message => {
                let message_id = &self.message_id();
                lines.write(&Line::TextMessageEnd { message_id }, out)
            }
        }
    }
}

/// The JSON Schema of an answer, if its form is known.
fn response_schema(question: &InputRequested) -> Option<Value> {
    match (question.kind.as_str(), question.options.as_deref()) {
        ("text", _) => Some(json!({"type": "string"})),
        (_, Some(options @ [_, ..])) => Some(json!({"type": "string", "enum": options})),
        _ => None,
    }
}

/// The members of an event except its name and the members `elsewhere`.
fn members(event: &Event, elsewhere: &[&str]) -> Result<Value, EncodeError> {
    let mut value = serde_json::to_value(event)?;
    if let Value::Object(members) = &mut value {
        members
            .retain(|name, value| name != "event" && !elsewhere.contains(&name.as_str()) && !value.is_null());
    }
    Ok(value)
}
