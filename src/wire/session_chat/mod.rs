//! The server-sent events of the round-based session chat: `data: JSON` only, with the whole answer
//! in `complete`.
//!
//! The table of events is in `PROTOCOL.md`, section "Session chat", the vectors in
//! `tests/vectors/session_chat`; `docs/protocols.md` introduces the protocol. This module does not
//! store sessions: pass the session to [`SessionChat::session`].
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::SessionChat;
//! use ragwire::event::RoundStart;
//! use ragwire::wire::Wire;
//!
//! let (mut encoder, mut bytes) = (SessionChat::default().encoder(), BytesMut::new());
//! encoder.event(&RoundStart::new(1u32, 8u32).into(), None, &mut bytes).unwrap();
//! assert_eq!(&bytes[..], b"data: {\"type\":\"round_start\",\"round\":1,\"max_rounds\":8}\n\n");
//! ```

use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use serde_json::{Map, Value, json};

mod decode;
mod steps;

pub use self::decode::SessionChatDecoder;
use self::steps::Progress;
use super::answer::Answer;
use super::object::{self, Late};
use super::typed::{self, KEEP_ALIVE};
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::Event;
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::metadata::Metadata;
use crate::order::Phase;
use crate::time::Timestamp;

/// The wire of the session chat.
///
/// `complete` contains the whole answer, so the encoder keeps up to 4 MiB of it, as much as a
/// collected turn. A longer answer is cut at a character boundary, and `response.truncated` is set.
///
/// The [module](self) has an example.
#[derive(Clone, Debug, Default)]
pub struct SessionChat {
    limits: Limits,
    session: Option<Arc<OnceLock<Map<String, Value>>>>,
}

impl SessionChat {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Sets the limits of an event's data (line), and of the tool calls and results in `complete`
    /// (trailer).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the session, including the user's message of this turn: {id, profile_name, messages,
    /// title, created_at, updated_at}.
    ///
    /// `complete` contains it with the answer appended to `messages`, and with `updated_at` set to
    /// the time of the end if that is known. Without a session `complete` has no member `session`.
    #[must_use]
    pub fn session(self, session: Map<String, Value>) -> Self {
        self.session_at_end(Arc::new(OnceLock::from(session)))
    }

    /// Sets the session of a turn in the waiting list, which becomes known only when the turn
    /// starts. The value of `session` at the end of the stream is used; if it is empty, `complete`
    /// has no `session`.
    #[must_use]
    pub fn session_at_end(mut self, session: Arc<OnceLock<Map<String, Value>>>) -> Self {
        self.session = Some(session);
        self
    }

    /// Returns the last object of the stream (`complete`, or `error` for a failed turn) of a
    /// collected turn, for the route that does not stream.
    pub fn complete<'a>(
        &self,
        events: impl IntoIterator<Item = &'a (Event, Option<Timestamp>)>,
        text: &str,
        end: &End,
    ) -> Value {
        let (mut chat, mut scratch) = (self.chat(), BytesMut::new());
        for (event, timestamp) in events {
            // An event over the limit would not have been in the stream either.
            let _ = chat.write_event(event, *timestamp, &mut scratch);
            scratch.clear();
        }
        chat.close(Failure::of(&end.status).as_ref(), &mut scratch);
        chat.content.push(text);
        chat.terminal(end).into()
    }

    fn chat(&self) -> Chat {
        Chat {
            wire: self.clone(),
            progress: Progress::default(),
            content: Answer::default(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            tool_bytes: 0,
            are_tools_cut: false,
        }
    }
}

impl Wire for SessionChat {
    fn name(&self) -> &'static str {
        "session_chat"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(self.chat())
    }
}

/// The event types of this wire.
const TYPES: [&str; 7] = [
    "round_start",
    "generating",
    "thinking",
    "tool_start",
    "tool_end",
    "complete",
    "error",
];

/// The state of one turn.
#[derive(Debug)]
struct Chat {
    wire: SessionChat,
    progress: Progress,
    content: Answer,
    /// Calls and results have together at most `max_trailer_bytes`, measured as their events on the
    /// wire.
    tool_calls: Vec<Value>,
    tool_results: Vec<Value>,
    tool_bytes: usize,
    /// Whether some of them were left out.
    are_tools_cut: bool,
}

/// A tool call or result as `complete` has it.
#[derive(Debug)]
struct Tool {
    is_result: bool,
    object: Map<String, Value>,
    /// The size of its event on the wire.
    bytes: usize,
}

impl Spelling for Chat {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.write_event(event, timestamp, out)
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.close(None, out);
        self.content.push(text);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        self.close(Failure::of(&end.status).as_ref(), out);
        let (from, terminal) = (out.len(), self.terminal(end));
        if write_frame(&terminal, usize::MAX, out).is_err() {
            // JSON values always serialise, but a partial frame must not remain in any case.
            out.truncate(from);
        }
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(KEEP_ALIVE);
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}

impl Chat {
    /// Appends an event and what it means to the readers of this wire, and keeps the parts that
    /// `complete` contains. On an error only `out` changes.
    fn write_event(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let limits = self.wire.limits;
        if self.progress.continue_thought(event, limits) {
            self.progress.timestamp = timestamp.or(self.progress.timestamp);
            return Ok(());
        }
        let before = self.progress.clone();
        let mut tools = Vec::new();
        for step in self.progress.steps(event, limits) {
            match self.write_step(&step, timestamp, limits.max_line_bytes, out) {
                Ok(tool) => tools.extend(tool),
                Err(error) => {
                    self.progress = before;
                    return Err(error);
                }
            }
        }
        self.progress.timestamp = timestamp.or(self.progress.timestamp);
        tools.into_iter().for_each(|tool| self.keep(tool));
        if let Event::Retract(retract) = event {
            self.content.retract(retract.kept);
        }
        Ok(())
    }

    /// Appends what must not stay open.
    fn close(&mut self, failure: Option<&Failure>, out: &mut BytesMut) {
        for step in self.progress.close(failure) {
            let from = out.len();
            match self.write_step(&step, None, usize::MAX, out) {
                Ok(tool) => tool.into_iter().for_each(|tool| self.keep(tool)),
                // JSON values always serialise, but a partial frame must not remain in any case.
                Err(_) => out.truncate(from),
            }
        }
    }

    /// Appends one event. Returns what `complete` contains of it.
    fn write_step(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        max_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<Option<Tool>, EncodeError> {
        let (from, timestamp) = (out.len(), timestamp.or(self.progress.timestamp));
        let mut object = self.object(event)?;
        let round = object.get("round").and_then(Value::as_u64);
        stamp(&mut object, timestamp);
        write_frame(&object, max_bytes, out)?;

        let progress = &mut self.progress;
        if let Event::RoundStart(start) = event {
            (progress.round, progress.max_rounds) = (start.round, start.max_rounds);
        }
        if !matches!(event, Event::Custom(_))
            && let Some(round) = round.and_then(|round| u32::try_from(round).ok())
        {
            progress.rounds_used = progress.rounds_used.max(round);
        }
        let is_result = matches!(event, Event::ToolResult(_));
        if !is_result && !matches!(event, Event::ToolCall(_)) {
            return Ok(None);
        }
        for name in ["type", "max_rounds", "timestamp"] {
            object.shift_remove(name);
        }
        Ok(Some(Tool {
            is_result,
            object,
            bytes: out.len() - from,
        }))
    }

    /// Keeps a tool call or result for `complete`, if there is room.
    fn keep(&mut self, tool: Tool) {
        self.tool_bytes = self.tool_bytes.saturating_add(tool.bytes);
        if self.tool_bytes > self.wire.limits.max_trailer_bytes {
            self.are_tools_cut = true;
            return;
        }
        let tools = if tool.is_result {
            &mut self.tool_results
        } else {
            &mut self.tool_calls
        };
        tools.push(tool.object.into());
    }

    /// The object of an event, without its timestamp.
    fn object(&self, event: &Event) -> serde_json::Result<Map<String, Value>> {
        let mut members = typed::members(event)?;
        let (kind, names): (_, &[&str]) = match event {
            Event::RoundStart(_) => ("round_start", &[]),
            Event::Generating(_) => ("generating", &[]),
            Event::Thinking(_) | Event::Reasoning(_) => ("thinking", &["content"]),
            Event::ToolCall(call) => {
                members.shift_remove("tool");
                members.shift_remove("input");
                members.insert("tool_name".into(), call.tool.as_str().into());
                let arguments = match &call.input {
                    Value::Null => json!({}),
                    Value::Object(_) => call.input.clone(),
                    // The protocol requires an object.
                    input => json!({ "input": input }),
                };
                members.insert("tool_args".into(), arguments);
                ("tool_start", &["tool_name", "tool_args"])
            }
            Event::ToolResult(result) => {
                members.shift_remove("tool");
                members.shift_remove("result");
                members.insert("tool_name".into(), result.tool.as_str().into());
                members.insert(
                    "tool_result".into(),
                    serde_json::to_string(&result.result)?.into(),
                );
                ("tool_end", &["tool_name", "tool_result"])
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
            | Event::Retract(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => {
                return Ok(typed::object(
                    &typed::unreserved_name(event, &TYPES),
                    &[],
                    members,
                ));
            }
        };
        let (round, max_rounds) = (self.progress.round.into(), self.progress.max_rounds.into());
        members.entry("round").or_insert(round);
        members.entry("max_rounds").or_insert(max_rounds);
        let names: Vec<&str> = names.iter().copied().chain(["round", "max_rounds"]).collect();
        Ok(typed::object(kind, &names, members))
    }

    /// `complete` or `error`.
    fn terminal(&self, end: &End) -> Map<String, Value> {
        let timestamp = end
            .timing
            .map(|timing| timing.timestamp)
            .or(self.progress.timestamp);
        let mut object = Map::new();
        if let Status::Failed(failure) = &end.status {
            object.insert("type".into(), "error".into());
            object.insert("error".into(), failure.message.as_ref().into());
            // The answer so far: this wire sends it nowhere else.
            object.insert("response".into(), self.response(end).into());
        } else {
            object.insert("type".into(), "complete".into());
            if let Some(session) = self.session(end) {
                object.insert("session".into(), session.into());
            }
            object.insert("response".into(), self.response(end).into());
            object.insert("queue_stats".into(), queue_stats(&end.metadata));
        }
        if let Some(metadata) = self.metadata(end) {
            object.insert("metadata".into(), metadata);
        }
        stamp(&mut object, timestamp);
        object
    }

    fn session(&self, end: &End) -> Option<Map<String, Value>> {
        let mut session = self.wire.session.as_ref()?.get()?.clone();
        let answer = json!({ "role": "assistant", "content": self.content.text() });
        let messages = session.entry("messages").or_insert_with(|| json!([]));
        if let Value::Array(messages) = messages {
            messages.push(answer);
        }
        if let Some(timing) = end.timing {
            session.insert("updated_at".into(), seconds(timing.timestamp).into());
        }
        Some(session)
    }

    fn response(&self, end: &End) -> Map<String, Value> {
        let mut response = Map::new();
        response.insert("content".into(), self.content.text().into());
        response.insert("tool_calls".into(), self.tool_calls.as_slice().into());
        response.insert("tool_results".into(), self.tool_results.as_slice().into());
        response.insert("rounds_used".into(), self.progress.rounds_used.into());
        response.insert("finished".into(), (end.status == Status::Completed).into());
        if let Some(timing) = end.timing {
            response.insert("latency_ms".into(), (timing.elapsed_ms as f64).into());
        }
        if self.content.is_cut() || self.are_tools_cut {
            response.insert("truncated".into(), true.into());
        }
        response
    }

    /// The members that the protocol does not have: citations, usage and so on, as on the framed
    /// wire. `None` if there are none.
    fn metadata(&self, end: &End) -> Option<Value> {
        let mut metadata = end.metadata.clone();
        if !matches!(end.status, Status::Failed(_)) {
            // `complete` has its own member for them, `error` does not.
            metadata.queue_stats = None;
        }
        // `response.finished` reports a stop; only the metadata report a failure.
        let status = match &end.status {
            Status::Failed(_) => end.status.clone(),
            Status::Completed | Status::Stopped => Status::Completed,
        };
        if metadata == Metadata::default() && status == Status::Completed {
            return None;
        }
        let end = End {
            status,
            metadata,
            timing: None,
        };
        let mut out = BytesMut::new();
        object::write_end(
            &end,
            &Late::default(),
            self.wire.limits.max_trailer_bytes,
            &mut out,
        );
        serde_json::from_slice(&out).ok()
    }
}

/// The queue statistics of a turn. A turn without any did not wait.
fn queue_stats(metadata: &Metadata) -> Value {
    let stats = metadata.queue_stats.as_ref();
    let waited = stats.and_then(|stats| stats.queue_wait_ms).unwrap_or(0.0);
    json!({
        "was_queued": stats.is_some_and(|stats| stats.was_queued),
        "queue_wait_ms": if waited.is_finite() { waited } else { 0.0 },
        "queue_position": stats.map_or(0, |stats| stats.queue_position),
    })
}

/// Adds the timestamp as the last member, if there is one.
fn stamp(object: &mut Map<String, Value>, timestamp: Option<Timestamp>) {
    if let Some(timestamp) = timestamp {
        object.insert("timestamp".into(), seconds(timestamp).into());
    }
}

/// Seconds since 1970; exact to the microsecond up to the year 2255.
fn seconds(timestamp: Timestamp) -> f64 {
    timestamp.as_micros() as f64 / 1e6
}

/// Appends one server-sent event. On an error `out` may contain a part of it.
fn write_frame(object: &Map<String, Value>, max_bytes: usize, out: &mut BytesMut) -> Result<(), EncodeError> {
    out.extend_from_slice(b"data: ");
    typed::write_line(object, max_bytes, out)?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}
