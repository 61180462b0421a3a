//! The frames of a turn as the events of a response.

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json};

use self::items::{McpCall, Message, Outcome, Search, Thought};
use super::Responses;
use super::output::{Events, ITEM_BYTES, Output, of_item, write};
use crate::event::Event;
use crate::failure::FailureKind;
use crate::frame::{End, Status};
use crate::metadata::Usage;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::utf8::pieces;
use crate::wire::MAX_PIECE_BYTES;
use crate::wire::activity::{Activities, Activity};
use crate::wire::annotations::{self, Markers};
use crate::wire::answer::Answer;
use crate::wire::calls::Calls;
use crate::wire::object::{self, Late};
use crate::wire::reasoning::Reasoning;
use crate::wire::{EncodeError, Spelling, padding};

mod calls;
mod items;

/// The state of one turn.
#[derive(Debug)]
pub(super) struct ResponsesSpelling {
    wire: Responses,
    events: Events,
    output: Output,
    has_begun: bool,
    activities: Activities,
    /// The items of searches without a result, by the ID of their activity.
    searches: Vec<(String, Search)>,
    calls: Calls,
    /// The items of calls without a result, by the ID of their call.
    open_calls: Vec<(String, McpCall)>,
    /// Number of calls without an ID of their own.
    unnamed_calls: u64,
    reasoning: Reasoning,
    thought: Option<Thought>,
    message: Option<Message>,
    /// Memory that is left for the answer.
    max_answer_bytes: usize,
    is_cut: bool,
}

/// The event for a piece of the answer, of which there are many.
#[derive(Serialize)]
struct TextDelta<'a> {
    item_id: &'a str,
    output_index: usize,
    content_index: usize,
    delta: &'a str,
    logprobs: [(); 0],
}

impl ResponsesSpelling {
    pub(super) fn new(wire: Responses) -> Self {
        Self {
            events: Events::new(wire.starting_after),
            output: Output::new(wire.limits.max_trailer_bytes),
            wire,
            has_begun: false,
            activities: Activities::default(),
            searches: Vec::new(),
            calls: Calls::default(),
            open_calls: Vec::new(),
            unnamed_calls: 0,
            reasoning: Reasoning::default(),
            thought: None,
            message: None,
            max_answer_bytes: Answer::MAX_BYTES,
            is_cut: false,
        }
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let mut head = self.wire.in_progress();
        if self.wire.extension {
            // Marks the stream as ours for our decoder.
            head["ragwire"] = json!({});
        }
        let mut response = BytesMut::new();
        write(&head, &mut response);
        for kind in ["response.created", "response.in_progress"] {
            self.events.write_response(kind, &response, out);
        }
    }

    // ---- items ----

    fn add(&mut self, prefix: &str) -> (usize, String) {
        if let Some(message) = &mut self.message {
            message.is_passed = true;
        }
        self.output.add(prefix, &self.wire.id)
    }

    fn write_added(&mut self, index: usize, item: &Value, out: &mut BytesMut) {
        let members = json!({"output_index": index, "item": item});
        self.events.write("response.output_item.added", &members, out);
    }

    fn write_done(&mut self, index: usize, item: &Value, out: &mut BytesMut) {
        let members = json!({"output_index": index, "item": item});
        self.events.write("response.output_item.done", &members, out);
        self.output.finish(index, item);
    }

    fn show_step(&mut self, event: &Event, out: &mut BytesMut) {
        let Some(content) = self.reasoning.line(event) else {
            return;
        };
        let continues = self.thought.is_some() && self.reasoning.continues(event);
        let part = if continues { 0 } else { ITEM_BYTES };
        if !self.output.reserve(part + content.len()) {
            return;
        }
        self.reasoning.advance(event);
        let mut thought = match self.thought.take() {
            Some(thought) => thought,
            None => {
                let (index, id) = self.add("rs");
                let thought = Thought {
                    index,
                    id,
                    parts: Vec::new(),
                    text: String::new(),
                };
                self.write_added(index, &thought.item("in_progress"), out);
                thought
            }
        };
        if !continues {
            self.close_part(&mut thought, out);
            let part = json!({"type": "summary_text", "text": ""});
            self.write_part("part.added", &thought, &json!({"part": part}), out);
        }
        self.write_part("text.delta", &thought, &json!({"delta": content}), out);
        thought.text.push_str(&content);
        self.thought = Some(thought);
    }

    fn close_part(&mut self, thought: &mut Thought, out: &mut BytesMut) {
        if thought.text.is_empty() {
            return;
        }
        let part = json!({"type": "summary_text", "text": thought.text});
        self.write_part("text.done", thought, &json!({"text": thought.text}), out);
        self.write_part("part.done", thought, &json!({"part": part}), out);
        thought.parts.push(part);
        thought.text.clear();
    }

    /// Writes an event about the part of the summary that is being written.
    fn write_part(&mut self, kind: &str, thought: &Thought, more: &Value, out: &mut BytesMut) {
        let mut members = of_item(
            &thought.id,
            thought.index,
            json!({"summary_index": thought.parts.len()}),
        );
        members.extend(more.as_object().cloned().unwrap_or_default());
        self.events
            .write(&format!("response.reasoning_summary_{kind}"), &members, out);
    }

    fn close_thought(&mut self, status: &str, out: &mut BytesMut) {
        if let Some(mut thought) = self.thought.take() {
            self.close_part(&mut thought, out);
            self.write_done(thought.index, &thought.item(status), out);
        }
    }

    // ---- the answer ----

    fn open_message(&mut self, out: &mut BytesMut) -> Message {
        let first_char = match self.message.take() {
            Some(message) if !message.is_passed => return message,
            Some(message) => {
                let chars = message.first_char + message.text.text().chars().count() as u64;
                self.close_message(&message, "completed", &[], out);
                chars
            }
            None => 0,
        };
        let (index, id) = self.add("msg");
        let message = Message {
            index,
            id,
            text: Answer::with_limit(self.max_answer_bytes),
            first_char,
            markers: Markers::default(),
            is_passed: false,
        };
        self.write_added(index, &message.item("in_progress", &[]), out);
        let part = of_item(
            &message.id,
            index,
            json!({"content_index": 0, "part": message.part(&[])}),
        );
        self.events.write("response.content_part.added", &part, out);
        message
    }

    fn close_message(&mut self, message: &Message, status: &str, annotations: &[Value], out: &mut BytesMut) {
        self.max_answer_bytes -= message.text.text().len();
        self.is_cut |= message.text.is_cut();
        let members = |more| of_item(&message.id, message.index, more);
        for (at, annotation) in annotations.iter().enumerate() {
            let added =
                members(json!({"content_index": 0, "annotation_index": at, "annotation": annotation}));
            self.events
                .write("response.output_text.annotation.added", &added, out);
        }
        let done = members(json!({"content_index": 0, "text": message.text.text(), "logprobs": []}));
        self.events.write("response.output_text.done", &done, out);
        let part = message.part(annotations);
        let done = members(json!({"content_index": 0, "part": part}));
        self.events.write("response.content_part.done", &done, out);
        self.write_done(message.index, &message.item(status, &[part]), out);
    }

    /// Takes back text that is not finished. Deltas that were sent stay with the reader until the
    /// whole text arrives.
    fn retract(&mut self, kept: u64) {
        if let Some(message) = &mut self.message {
            message.text.retract(kept.saturating_sub(message.first_char));
            message.markers = Markers::default();
            message.markers.push(message.text.text());
        }
    }

    // ---- the end ----

    /// Finishes all items and returns the response.
    pub(super) fn finish(&mut self, end: &End, out: &mut BytesMut) -> Bytes {
        let (status, of_items) = match &end.status {
            Status::Completed if end.metadata.is_cut_short() => ("incomplete", "incomplete"),
            Status::Completed => ("completed", "completed"),
            Status::Failed(_) => ("failed", "incomplete"),
            Status::Stopped => ("cancelled", "incomplete"),
        };
        self.close_thought(of_items, out);
        for activity in self.activities.close() {
            if let Activity::Result { id, .. } = activity {
                self.close_search(&id, of_items, out);
            }
        }
        for call in self.calls.take_all() {
            self.finish_call(&call.id, &Outcome::None, out);
        }
        // A failed answer has no evidence.
        let citations = match end.status {
            Status::Failed(_) => &[],
            Status::Completed | Status::Stopped => &end.metadata.citations[..],
        };
        if self.message.is_some() || !citations.is_empty() {
            let message = match self.message.take() {
                Some(message) => message,
                None => self.open_message(out),
            };
            let max_bytes = self.wire.limits.max_trailer_bytes;
            let annotations = annotations::annotations(citations, &message.markers, max_bytes);
            self.close_message(&message, of_items, &annotations, out);
        }
        self.response(status, end)
    }

    fn response(&self, status: &str, end: &End) -> Bytes {
        let mut head = self.wire.head(status);
        if status == "incomplete" {
            head.insert(
                "incomplete_details".into(),
                json!({"reason": "max_output_tokens"}),
            );
        }
        if let Status::Failed(failure) = &end.status {
            let code = match failure.kind {
                FailureKind::Busy | FailureKind::TooMany | FailureKind::QueueTimeout => "rate_limit_exceeded",
                FailureKind::ChatFailed
                | FailureKind::Timeout
                | FailureKind::WriteStalled
                | FailureKind::ShuttingDown
                | FailureKind::Stopped
                | FailureKind::NotAcceptable
                | FailureKind::NotFound
                | FailureKind::NoDocuments
                | FailureKind::NoGraph
                | FailureKind::UnknownTurn
                | FailureKind::Gone
                | FailureKind::Ahead
                | FailureKind::Lost
                | FailureKind::Interrupted
                | FailureKind::Unavailable
                | FailureKind::UpstreamUnreachable
                | FailureKind::UpstreamRefused
                | FailureKind::UpstreamTimeout
                | FailureKind::UpstreamTruncated
                | FailureKind::UpstreamUnreadable
                | FailureKind::UpstreamTooLarge
                | FailureKind::UpstreamFailed
                | FailureKind::FileNotAccepted
                | FailureKind::Other(_) => "server_error",
            };
            head.insert(
                "error".to_owned(),
                json!({"code": code, "message": failure.message}),
            );
        }
        if let Some(usage) = end.metadata.usage.as_ref().and_then(usage_of) {
            head.insert("usage".to_owned(), usage);
        }
        let mut response = BytesMut::new();
        write(&head, &mut response);
        response.truncate(response.len() - 1);
        response.extend_from_slice(br#","output":"#);
        self.output.write(&mut response);
        if self.wire.extension {
            response.extend_from_slice(br#","ragwire":"#);
            let max_bytes = self.wire.limits.max_trailer_bytes;
            if self.is_cut {
                let mut end = end.clone();
                end.metadata.truncated = true;
                object::write_end(&end, &Late::default(), max_bytes, &mut response);
            } else {
                object::write_end(end, &Late::default(), max_bytes, &mut response);
            }
        }
        response.extend_from_slice(b"}");
        response.freeze()
    }
}

/// The usage in this protocol's form, which requires all members: what was not measured besides the
/// two counts is 0.
fn usage_of(usage: &Usage) -> Option<Value> {
    let (input, output) = usage.input_tokens.zip(usage.output_tokens)?;
    let cached = usage.cached_input_tokens.unwrap_or_default();
    Some(json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(output),
    }))
}

impl Spelling for ResponsesSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let mut extension = BytesMut::from(&br#"{"event":"#[..]);
        object::write_event(event, timestamp, &mut extension)?;
        extension.extend_from_slice(b"}");
        object::check_line(extension.len(), self.wire.limits)?;
        // From here on nothing can fail.
        self.begin(out);
        if self.wire.extension {
            self.events.carry(extension.freeze());
        }
        match event {
            Event::Search(_) | Event::RetrievalStart(_) | Event::RetrievalResult(_) => {
                let activities = self.activities.of(event);
                self.show(activities, out);
            }
            Event::ToolCall(call) => self.show_call(call, out),
            Event::ToolResult(result) => self.show_result(result, out),
            Event::Retract(retract) => self.retract(retract.kept),
            Event::Reasoning(_)
            | Event::Review(_)
            | Event::QueryAnalysis(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Thinking(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => self.show_step(event, out),
        }
        self.events.flush(out);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.begin(out);
        self.close_thought("completed", out);
        let closed = self.activities.close();
        self.show(closed, out);
        let mut message = self.open_message(out);
        for piece in pieces(text, MAX_PIECE_BYTES) {
            let delta = TextDelta {
                item_id: &message.id,
                output_index: message.index,
                content_index: 0,
                delta: piece,
                logprobs: [],
            };
            self.events.write("response.output_text.delta", &delta, out);
        }
        message.text.push(text);
        message.markers.push(text);
        self.message = Some(message);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        self.begin(out);
        let response = self.finish(end, out);
        let kind = match end.status {
            Status::Completed if !end.metadata.is_cut_short() => "response.completed",
            Status::Failed(_) => "response.failed",
            // The protocol has a status for a stop, and no event of its own.
            Status::Completed | Status::Stopped => "response.incomplete",
        };
        self.events.write_response(kind, &response, out);
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        // A comment, because an event would have a number.
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}
