//! The vocabulary of version 16, as the published clients read it.
//!
//! The clients show a step as one block with at most one thought and one part of the answer.
//! Therefore a second thought begins another step, and an answer that is too long to be repeated in
//! each line continues in another.

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Eve;
use super::line::{Lines, data, others, some, word, write_undefined};
use crate::event::{
    AuthorizationCompleted, AuthorizationRequired, Event, InputRequested, ToolCall, ToolResult,
};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::calls::{ASK, Call, Calls};
use crate::wire::{EncodeError, Spelling};

/// Eve's code for an error result that has no code.
const RESULT_FAILED: &str = "ACTION_RESULT_FAILED";

#[derive(Debug)]
pub(super) struct Shipped {
    wire: Eve,
    /// Whether the stream may end at a question.
    parks: bool,
    turn_id: String,
    state: State,
    calls: Calls,
    /// The answer in this step, at most `max_message_bytes`.
    so_far: String,
}

/// The state that is restored if an event does not fit.
#[derive(Clone, Copy, Debug)]
struct State {
    lines: Lines,
    started: bool,
    /// The index of the open step.
    step: u64,
    /// The number of steps begun.
    steps: u64,
    /// Whether the open step has its thought.
    has_thought: bool,
    /// Whether the step has ended at a question, so that the next frame begins another.
    is_parked: bool,
    /// The number of events so far, which is used in IDs.
    events: u64,
}

/// The turn and step that a line belongs to, after its other members.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Position<'a> {
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_index: Option<u64>,
    turn_id: &'a str,
}

/// The data of a line with its position.
#[derive(Serialize)]
struct Positioned<'a, D: Serialize> {
    #[serde(flatten)]
    data: D,
    #[serde(flatten)]
    position: Position<'a>,
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
            state: State {
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

    /// The ID of a call that arrived without one.
    fn id(&self) -> String {
        format!("{}_call_{}", self.turn_id, self.state.events)
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
        let position = Position {
            sequence: self.wire.sequence,
            step_index: Some(step),
            turn_id: &self.turn_id,
        };
        let data = Positioned { data, position };
        self.state
            .lines
            .write(kind, Some(&data), timestamp, max_bytes, out)
    }

    /// [`Shipped::write`] in the open step and without a limit, for data that always serialises.
    fn append(&mut self, kind: &str, data: impl Serialize, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let written = self.write(kind, data, self.state.step, timestamp, usize::MAX, out);
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
        let position = Position {
            sequence: self.wire.sequence,
            step_index: None,
            turn_id: &self.turn_id,
        };
        let data = Positioned { data, position };
        self.state.lines.append(kind, Some(&data), timestamp, out);
    }

    /// Begins the turn if it has not begun.
    fn start(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        if std::mem::replace(&mut self.state.is_parked, false) {
            self.begin_step(timestamp, out);
        }
        if std::mem::replace(&mut self.state.started, true) {
            return;
        }
        let nothing = Map::new();
        if self.wire.sequence == 0 {
            self.state
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
        self.state.step = self.state.steps;
        self.state.steps += 1;
        self.state.has_thought = false;
        self.append("step.started", Map::new(), timestamp, out);
    }

    /// Ends the open step after a question, with `session.waiting`. This line has no metadata,
    /// because the turn continues.
    fn end_at_question(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let reason = "tool-calls";
        if !self.so_far.is_empty() {
            let message = std::mem::take(&mut self.so_far);
            let data = json!({"finishReason": reason, "message": message});
            self.append("message.completed", data, timestamp, out);
        }
        self.append("step.completed", json!({"finishReason": reason}), timestamp, out);
        let (kind, data) = waiting();
        self.state.lines.append(kind, Some(&data), timestamp, out);
        self.state.is_parked = true;
    }

    /// Writes an event, and changes only `state`.
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
            event => return write_undefined(&mut self.state.lines, event, timestamp, max_bytes, out),
        };
        self.write(kind, data, self.state.step, timestamp, max_bytes, out)
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
        let aside = self.state.has_thought && !self.so_far.is_empty();
        if self.state.has_thought && !aside {
            self.next_step("other", timestamp, out);
        }
        let mut step = self.state.step;
        if aside {
            step = self.state.steps;
            self.state.steps += 1;
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
        self.state.has_thought = true;
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

    /// The ID of the call that a result answers; a new one if there is no such call.
    fn answered(&self, id: Option<&str>, tool: &str) -> String {
        let call = self.calls.answered_by(id, tool).map(|(_, call)| call.id.clone());
        call.or_else(|| id.map(str::to_owned))
            .unwrap_or_else(|| self.id())
    }

    fn call_id(&self, call: &ToolCall) -> String {
        call.call_id.clone().unwrap_or_else(|| self.id())
    }

    /// Updates the open calls after an event was written.
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

    /// Writes a result for every open call: it ended with the turn.
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
        // An event that does not fit must not change the state.
        let before = self.state;
        self.start(timestamp, out);
        self.state.events += 1;
        match self.write_event(event, timestamp, out) {
            Ok(()) => {
                self.remember(event);
                if self.parks && matches!(event, Event::InputRequested(_)) {
                    self.end_at_question(timestamp, out);
                }
            }
            Err(error) => {
                self.state = before;
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
                // Without `message.completed`: clients take an answer that has it for complete.
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

    fn allow_parking(&mut self) -> bool {
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
        self.state.lines.append_last(kind, &data, end, max_bytes, out);
    }
}

fn waiting() -> (&'static str, Map<String, Value>) {
    (
        "session.waiting",
        data([("wait", Some("next-user-message".into()))]),
    )
}

/// Adds the members that Eve does not have under `metadata`.
fn add_others(data: &mut Map<String, Value>, others: Map<String, Value>) {
    if !others.is_empty() {
        data.insert("metadata".into(), others.into());
    }
}

/// The arguments of a call, which must be an object.
fn object(input: &Value) -> Value {
    match input {
        Value::Null => json!({}),
        Value::Object(_) => input.clone(),
        input => json!({ "input": input }),
    }
}

/// The data of `action.result`, failed if there is an error.
fn outcome(id: &str, tool: &str, output: &Value, error: Option<(String, String)>) -> Map<String, Value> {
    let is_error = error.is_some();
    let result = data([
        ("callId", Some(id.into())),
        ("isError", is_error.then_some(true.into())),
        ("kind", Some("tool-result".into())),
        // The protocol requires an output in every result.
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

/// The code and the message of an error result.
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
    // The protocol requires a description; this is Eve's own.
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
