//! Version 16 as the published clients read it.
//!
//! A step is what the clients show as one block: a thought and a part of the answer at most. So a second thought begins another
//! step, and an answer that is too long to be repeated in each line goes on in another.

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Eve;
use super::line::{Lines, data, others, some, word, write_own};
use crate::event::{
    AuthorizationCompleted, AuthorizationRequired, Event, InputRequested, ToolCall, ToolResult,
};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::calls::{ASK, Call, Calls};
use crate::wire::{EncodeError, Spelling};

/// What Eve says of a result that is an error without a code of its own.
const RESULT_FAILED: &str = "ACTION_RESULT_FAILED";

#[derive(Debug)]
pub(super) struct Shipped {
    wire: Eve,
    /// The stream may end at a question.
    parks: bool,
    turn_id: String,
    place: Place,
    calls: Calls,
    /// The answer in this step, at most `max_message_bytes`.
    so_far: String,
}

/// What an event may change besides the calls; put back where the event does not fit.
#[derive(Clone, Copy, Debug)]
struct Place {
    lines: Lines,
    started: bool,
    /// The step that is open.
    step: u64,
    /// Steps begun.
    steps: u64,
    /// The open step has its thought.
    has_thought: bool,
    /// The step has ended at a question; what comes next begins another.
    is_parked: bool,
    /// Events seen: the number in ids.
    events: u64,
}

/// Where something belongs, behind its own members.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct At<'a> {
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_index: Option<u64>,
    turn_id: &'a str,
}

/// Data of a line with its place.
#[derive(Serialize)]
struct Placed<'a, D: Serialize> {
    #[serde(flatten)]
    data: D,
    #[serde(flatten)]
    at: At<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Appended<'a> {
    message_delta: &'a str,
    message_so_far: &'a str,
}

impl Shipped {
    pub(super) fn new(wire: Eve) -> Self {
        Self {
            parks: false,
            turn_id: format!("turn_{}", wire.sequence),
            place: Place {
                lines: Lines::new(None),
                started: false,
                step: 0,
                steps: 1,
                has_thought: false,
                is_parked: false,
                events: 0,
            },
            calls: Calls::default(),
            so_far: String::new(),
            wire,
        }
    }

    /// The id of a call that came without one.
    fn id(&self) -> String {
        format!("{}_call_{}", self.turn_id, self.place.events)
    }

    /// Appends a line of a step.
    fn write(
        &mut self,
        kind: &str,
        data: impl Serialize,
        step: u64,
        timestamp: Option<Timestamp>,
        max_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let at = At {
            sequence: self.wire.sequence,
            step_index: Some(step),
            turn_id: &self.turn_id,
        };
        let data = Placed { data, at };
        self.place
            .lines
            .write(kind, Some(&data), timestamp, max_bytes, out)
    }

    /// [`Shipped::write`] in the open step and without a limit, for what always serialises.
    fn append(&mut self, kind: &str, data: impl Serialize, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let written = self.write(kind, data, self.place.step, timestamp, usize::MAX, out);
        debug_assert!(written.is_ok(), "{written:?}");
    }

    /// Appends a line of the turn, without a limit.
    fn append_of_turn(
        &mut self,
        kind: &str,
        data: impl Serialize,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) {
        let at = At {
            sequence: self.wire.sequence,
            step_index: None,
            turn_id: &self.turn_id,
        };
        let data = Placed { data, at };
        self.place.lines.append(kind, Some(&data), timestamp, out);
    }

    /// Begins the turn, once.
    fn start(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        if std::mem::replace(&mut self.place.is_parked, false) {
            self.begin_step(timestamp, out);
        }
        if std::mem::replace(&mut self.place.started, true) {
            return;
        }
        let nothing = Map::new();
        if self.wire.sequence == 0 {
            self.place
                .lines
                .append("session.started", Some(&nothing), timestamp, out);
        }
        self.append_of_turn("turn.started", &nothing, timestamp, out);
        if let Some(message) = self.wire.message.clone() {
            self.append_of_turn("message.received", json!({"message": &*message}), timestamp, out);
        }
        self.append("step.started", &nothing, timestamp, out);
    }

    /// Ends the open step and begins the next.
    fn next_step(&mut self, finish_reason: &str, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        self.append(
            "step.completed",
            json!({"finishReason": finish_reason}),
            timestamp,
            out,
        );
        self.begin_step(timestamp, out);
    }

    fn begin_step(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        self.place.step = self.place.steps;
        self.place.steps += 1;
        self.place.has_thought = false;
        self.append("step.started", Map::new(), timestamp, out);
    }

    /// Ends the open step behind a question, and lets the session wait. The line has no metadata: the turn is not over.
    fn end_at_question(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let reason = "tool-calls";
        if !self.so_far.is_empty() {
            let message = std::mem::take(&mut self.so_far);
            let data = json!({"finishReason": reason, "message": message});
            self.append("message.completed", data, timestamp, out);
        }
        self.append("step.completed", json!({"finishReason": reason}), timestamp, out);
        let (kind, data) = waiting();
        self.place.lines.append(kind, Some(&data), timestamp, out);
        self.place.is_parked = true;
    }

    /// What of an event changes `place` only.
    fn write_event(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        let (kind, data) = match event {
            Event::Reasoning(reasoning) => {
                return self.write_thought(&reasoning.content, event, timestamp, out);
            }
            Event::Thinking(thinking) => return self.write_thought(&thinking.content, event, timestamp, out),
            Event::ToolCall(call) => ("actions.requested", self.request(call, event)?),
            Event::ToolResult(result) => ("action.result", self.result(result, event)?),
            Event::InputRequested(request) => ("input.requested", question(request)),
            Event::InputResolved(resolved) => {
                let response = resolved.response.as_ref().unwrap_or(&Value::Null);
                (
                    "action.result",
                    outcome(&resolved.request_id, ASK, response, None),
                )
            }
            Event::AuthorizationRequired(required) => ("authorization.required", consent(required)),
            Event::AuthorizationCompleted(completed) => ("authorization.completed", consented(completed)),
            Event::StructuredResult(result) => (
                "result.completed",
                data([("result", Some(result.result.clone()))]),
            ),
            event => return write_own(&mut self.place.lines, event, timestamp, max_bytes, out),
        };
        self.write(kind, data, self.place.step, timestamp, max_bytes, out)
    }

    fn write_thought(
        &mut self,
        thought: &str,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        // Clients keep one thought for each step, and the step with the answer stays open.
        let aside = self.place.has_thought && !self.so_far.is_empty();
        if self.place.has_thought && !aside {
            self.next_step("other", timestamp, out);
        }
        let mut step = self.place.step;
        if aside {
            step = self.place.steps;
            self.place.steps += 1;
            self.write("step.started", Map::new(), step, timestamp, max_bytes, out)?;
        }
        let appended = json!({"reasoningDelta": thought, "reasoningSoFar": thought});
        self.write("reasoning.appended", appended, step, timestamp, max_bytes, out)?;
        let mut completed = data([("reasoning", Some(thought.into()))]);
        add_others(&mut completed, others(event, &["content"])?);
        self.write("reasoning.completed", completed, step, timestamp, max_bytes, out)?;
        if aside {
            let other = json!({"finishReason": "other"});
            return self.write("step.completed", other, step, timestamp, max_bytes, out);
        }
        self.place.has_thought = true;
        Ok(())
    }

    fn request(&self, call: &ToolCall, event: &Event) -> Result<Map<String, Value>, EncodeError> {
        let action = json!({
            "callId": self.call_id(call),
            "input": object(&call.input),
            "kind": "tool-call",
            "toolName": call.tool,
        });
        let mut data = data([("actions", Some(json!([action])))]);
        add_others(&mut data, others(event, &["tool", "input", "call_id"])?);
        Ok(data)
    }

    fn result(&self, result: &ToolResult, event: &Event) -> Result<Map<String, Value>, EncodeError> {
        let id = self.answered(result.call_id.as_deref(), &result.tool);
        let error = (result.is_error == Some(true)).then(|| error_of(&result.result));
        let mut data = outcome(&id, &result.tool, &result.result, error);
        add_others(
            &mut data,
            others(event, &["tool", "result", "call_id", "is_error"])?,
        );
        Ok(data)
    }

    /// The id of the call that is answered; a new one where there is none.
    fn answered(&self, id: Option<&str>, tool: &str) -> String {
        let call = self.calls.answered_by(id, tool).map(|(_, call)| call.id.clone());
        call.or_else(|| id.map(str::to_owned))
            .unwrap_or_else(|| self.id())
    }

    fn call_id(&self, call: &ToolCall) -> String {
        call.call_id.clone().unwrap_or_else(|| self.id())
    }

    /// Remembers what an event that was written asks for, and forgets what it answers.
    fn remember(&mut self, event: &Event) {
        match event {
            Event::ToolCall(call) => self.calls.open_bounded(Call {
                id: self.call_id(call),
                tool: call.tool.clone(),
                unnamed: call.call_id.is_none(),
            }),
            Event::ToolResult(result) => {
                let id = self.answered(result.call_id.as_deref(), &result.tool);
                self.calls.close(&id);
            }
            _ => {}
        }
    }

    /// Says of every call that has no result how it ended: with the turn.
    fn close_calls(&mut self, status: &Status, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let failure = Failure::of(status);
        let error = failure.map(|failure| (failure.code().to_owned(), failure.message.into_owned()));
        for call in self.calls.take_all() {
            let data = outcome(&call.id, &call.tool, &Value::Null, error.clone());
            self.append("action.result", data, timestamp, out);
        }
    }
}

impl Spelling for Shipped {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        // An event that does not fit must leave nothing behind.
        let before = self.place;
        self.start(timestamp, out);
        self.place.events += 1;
        match self.write_event(event, timestamp, out) {
            Ok(()) => {
                self.remember(event);
                if self.parks && matches!(event, Event::InputRequested(_)) {
                    self.end_at_question(timestamp, out);
                }
            }
            Err(error) => {
                self.place = before;
                return Err(error);
            }
        }
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.start(None, out);
        let mut rest = text;
        while !rest.is_empty() {
            let fits = rest.floor_char_boundary(self.wire.max_message_bytes - self.so_far.len());
            if fits == 0 {
                let message = std::mem::take(&mut self.so_far);
                let data = json!({"finishReason": "length", "message": message});
                self.append("message.completed", data, None, out);
                self.next_step("length", None, out);
                continue;
            }
            let (delta, later) = rest.split_at(fits);
            let mut so_far = std::mem::take(&mut self.so_far);
            so_far.push_str(delta);
            let data = Appended {
                message_delta: delta,
                message_so_far: &so_far,
            };
            self.append("message.appended", data, None, out);
            self.so_far = so_far;
            rest = later;
        }
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let timestamp = end.timing.map(|timing| timing.timestamp);
        self.start(timestamp, out);
        self.close_calls(&end.status, timestamp, out);
        let reason = match &end.status {
            Status::Completed => "stop",
            Status::Stopped => "other",
            Status::Failed(failure) => {
                // Without `message.completed`, by which clients take an answer for whole.
                let error = json!({"code": failure.kind, "message": failure.message});
                self.append("step.failed", &error, timestamp, out);
                self.append_of_turn("turn.failed", &error, timestamp, out);
                let last = if self.wire.ends_session(end) {
                    let id = json!(&*self.wire.session_id);
                    let of_session = [
                        ("code", error["code"].clone()),
                        ("message", error["message"].clone()),
                    ];
                    let [code, message] = of_session.map(|(name, value)| (name, Some(value)));
                    ("session.failed", data([code, message, ("sessionId", Some(id))]))
                } else {
                    waiting()
                };
                return self.append_last(last, end, out);
            }
        };
        let message = (!self.so_far.is_empty()).then(|| std::mem::take(&mut self.so_far));
        let completed = json!({"finishReason": reason, "message": message});
        self.append("message.completed", completed, timestamp, out);
        let usage = end.metadata.usage.as_ref().map(|usage| {
            data([
                ("inputTokens", usage.input_tokens.map(Value::from)),
                ("outputTokens", usage.output_tokens.map(Value::from)),
            ])
        });
        let step = data([
            ("finishReason", Some(reason.into())),
            (
                "usage",
                usage.as_ref().and_then(some).map(|usage| usage.clone().into()),
            ),
        ]);
        self.append("step.completed", step, timestamp, out);
        self.append_of_turn("turn.completed", Map::new(), timestamp, out);
        self.append_last(waiting(), end, out);
    }

    fn may_park(&mut self) -> bool {
        self.parks = self.wire.parks;
        self.parks
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(b"\n");
    }
}

impl Shipped {
    fn append_last(&mut self, (kind, data): (&str, Map<String, Value>), end: &End, out: &mut BytesMut) {
        let max_bytes = self.wire.limits.max_trailer_bytes;
        self.place.lines.append_last(kind, &data, end, max_bytes, out);
    }
}

fn waiting() -> (&'static str, Map<String, Value>) {
    (
        "session.waiting",
        data([("wait", Some("next-user-message".into()))]),
    )
}

/// Puts what Eve has no place for under `metadata`.
fn add_others(data: &mut Map<String, Value>, others: Map<String, Value>) {
    if !others.is_empty() {
        data.insert("metadata".into(), others.into());
    }
}

/// Arguments as the object that they have to be.
fn object(input: &Value) -> Value {
    match input {
        Value::Null => json!({}),
        Value::Object(_) => input.clone(),
        input => json!({ "input": input }),
    }
}

/// The data of `action.result`; with an error the action failed.
fn outcome(id: &str, tool: &str, output: &Value, error: Option<(String, String)>) -> Map<String, Value> {
    let is_error = error.is_some();
    let result = data([
        ("callId", Some(id.into())),
        ("isError", is_error.then_some(true.into())),
        ("kind", Some("tool-result".into())),
        // The contract has an output in every result.
        ("output", Some(output.clone())),
        ("toolName", Some(tool.into())),
    ]);
    data([
        (
            "error",
            error.map(|(code, message)| json!({"code": code, "message": message})),
        ),
        ("result", Some(result.into())),
        (
            "status",
            Some(if is_error { "failed" } else { "completed" }.into()),
        ),
    ])
}

/// Code and message of a result that is an error.
fn error_of(result: &Value) -> (String, String) {
    let word = |name| {
        result
            .get(name)
            .and_then(Value::as_str)
            .filter(|word| !word.is_empty())
    };
    if let (Some(code), Some(message)) = (word("code"), word("message")) {
        return (code.to_owned(), message.to_owned());
    }
    let message = match result {
        Value::Null => "The tool failed.".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (RESULT_FAILED.to_owned(), message)
}

fn question(request: &InputRequested) -> Map<String, Value> {
    let id = request.request_id.as_str();
    let display = match request.kind.as_str() {
        "approval" => Some("confirmation"),
        "choice" => Some("select"),
        "text" => Some("text"),
        _ => None,
    };
    let options = request
        .options
        .iter()
        .flatten()
        .map(|option| json!({"id": option, "label": option}));
    let options: Vec<Value> = options.collect();
    let question = data([
        (
            "action",
            Some(
                json!({"callId": id, "input": {"prompt": request.prompt}, "kind": "tool-call", "toolName": ASK}),
            ),
        ),
        ("allowFreeform", options.is_empty().then_some(true.into())),
        ("display", display.map(Value::from)),
        ("options", (!options.is_empty()).then(|| options.into())),
        ("prompt", Some(request.prompt.as_str().into())),
        ("requestId", Some(id.into())),
    ]);
    let mut asked = data([("requests", Some(json!([question])))]);
    add_others(&mut asked, data([("kind", Some(request.kind.as_str().into()))]));
    asked
}

fn consent(required: &AuthorizationRequired) -> Map<String, Value> {
    let description = word(required.description.as_ref());
    // The contract has a description in every request; this is Eve's own.
    let fallback = || format!("Authorization required for {}", required.connection).into();
    data([
        ("authorization", Some(json!({"url": required.auth_url}))),
        ("description", Some(description.unwrap_or_else(fallback))),
        ("name", Some(required.connection.as_str().into())),
    ])
}

fn consented(completed: &AuthorizationCompleted) -> Map<String, Value> {
    data([
        ("name", Some(completed.connection.as_str().into())),
        ("outcome", Some(completed.outcome.as_str().into())),
        ("reason", word(completed.reason.as_ref())),
    ])
}
