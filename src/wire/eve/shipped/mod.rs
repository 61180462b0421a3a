//! The vocabulary of version 16, as the published clients read it.
//!
//! The clients show a step as one block with at most one thought and one part of the answer.
//! Therefore a second thought begins another step, and an answer that is too long to be repeated in
//! each line continues in another.

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value, json};

mod data;
mod thought;

use self::data::{add_others, consent, consented, error_of, object, outcome, question, waiting};
use self::thought::OpenThought;
use super::Eve;
use super::line::{Lines, data, others, some, write_undefined};
use crate::event::{Event, Retract, ToolCall, ToolResult};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::activity::{Activities, Activity};
use crate::wire::calls::{ASK, Call, Calls};
use crate::wire::{EncodeError, Spelling, padding};

#[derive(Debug)]
pub(super) struct Shipped {
    wire: Eve,
    /// Whether the stream may end at a question.
    parks: bool,
    turn_id: String,
    state: State,
    calls: Calls,
    /// The thought that further pieces may continue.
    thought: Option<OpenThought>,
    /// The answer in this step, at most `max_message_bytes`.
    so_far: String,
}

/// The state that is restored if an event does not fit.
#[derive(Clone, Debug)]
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
    /// The number of characters of the answer in earlier steps.
    earlier: u64,
    /// The retrieval as tool calls.
    activities: Activities,
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
                earlier: 0,
                activities: Activities::default(),
            },
            calls: Calls::default(),
            thought: None,
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
        // The session may wait for long, and a search would seem to run all the time.
        self.close_activities(None, timestamp, out);
        let reason = "tool-calls";
        if !self.so_far.is_empty() {
            let message = self.take_message();
            let data = json!({"finishReason": reason, "message": message});
            self.append("message.completed", data, timestamp, out);
        }
        self.append("step.completed", json!({"finishReason": reason}), timestamp, out);
        let (kind, data) = waiting();
        self.state.lines.append(kind, Some(&data), timestamp, out);
        self.state.is_parked = true;
    }

    /// Takes the answer of this step, which is then one of the earlier ones.
    fn take_message(&mut self) -> String {
        self.state.earlier += self.so_far.chars().count() as u64;
        std::mem::take(&mut self.so_far)
    }

    /// Writes an event, and changes only `state` and `thought`.
    fn write_event(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        let (kind, data) = match event {
            Event::Reasoning(step) => {
                return self.write_thought(&step.content, None, event, timestamp, out);
            }
            Event::Thinking(thought) => {
                return self.write_thought(&thought.content, thought.id.as_deref(), event, timestamp, out);
            }
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
            Event::Retract(retract) => {
                self.write_retract(retract, timestamp, out)?;
                return write_undefined(&mut self.state.lines, event, timestamp, max_bytes, out);
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
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => {
                for activity in self.state.activities.of(event) {
                    self.write_activity(activity, None, timestamp, max_bytes, out)?;
                }
                return write_undefined(&mut self.state.lines, event, timestamp, max_bytes, out);
            }
        };
        self.write(kind, data, self.state.step, timestamp, max_bytes, out)
    }

    /// Shows the answer of the open step without the withdrawn text. The answers of earlier steps
    /// are complete and stay.
    fn write_retract(
        &mut self,
        retract: &Retract,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let Some(end) = self.kept_bytes(retract) else {
            return Ok(());
        };
        let so_far = std::mem::take(&mut self.so_far);
        let data = Appended {
            message_delta: "",
            message_so_far: &so_far[..end],
        };
        let written = self.write(
            "message.appended",
            data,
            self.state.step,
            timestamp,
            usize::MAX,
            out,
        );
        self.so_far = so_far;
        written
    }

    /// The length of what stays of the answer in the open step, if anything of it is withdrawn.
    fn kept_bytes(&self, retract: &Retract) -> Option<usize> {
        let kept = usize::try_from(retract.kept.saturating_sub(self.state.earlier)).ok()?;
        self.so_far.char_indices().nth(kept).map(|(at, _)| at)
    }

    /// Writes a step of the retrieval as a tool call or its result; failed if there is an error.
    fn write_activity(
        &mut self,
        activity: Activity<'_>,
        error: Option<(String, String)>,
        timestamp: Option<Timestamp>,
        max_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let (kind, data) = match activity {
            Activity::Call { id, tool, input } => {
                let action = json!({
                    "callId": self.activity_id(&id),
                    "input": input,
                    "kind": "tool-call",
                    "toolName": tool,
                });
                ("actions.requested", data([("actions", Some(json!([action])))]))
            }
            Activity::Result { id, tool, output } => (
                "action.result",
                outcome(&self.activity_id(&id), tool, &output.into(), error),
            ),
        };
        self.write(kind, data, self.state.step, timestamp, max_bytes, out)
    }

    /// The ID of a step of the retrieval. Clients look up IDs in all turns of the session.
    fn activity_id(&self, id: &str) -> String {
        format!("{}_{id}", self.turn_id)
    }

    /// Ends the steps of the retrieval that are still open.
    fn close_activities(
        &mut self,
        error: Option<&(String, String)>,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) {
        for activity in self.state.activities.close() {
            let written = self.write_activity(activity, error.cloned(), timestamp, usize::MAX, out);
            debug_assert!(written.is_ok(), "{written:?}");
        }
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
        if let Event::ToolCall(call) = event {
            self.calls.open_bounded(Call {
                id: self.call_id(call),
                tool: call.tool.clone(),
                unnamed: call.call_id.is_none(),
            });
        } else if let Event::ToolResult(result) = event {
            let id = self.answered(result.call_id.as_deref(), &result.tool);
            self.calls.close(&id);
        } else if let Event::Retract(retract) = event {
            if let Some(end) = self.kept_bytes(retract) {
                self.so_far.truncate(end);
            }
            self.state.earlier = self.state.earlier.min(retract.kept);
        }
    }

    /// Writes a result for every open call: it ended with the turn.
    fn close_calls(&mut self, status: &Status, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let failure = Failure::of(status);
        let error = failure.map(|failure| (failure.code().to_owned(), failure.message.into_owned()));
        self.close_activities(error.as_ref(), timestamp, out);
        for call in self.calls.take_all() {
            let data = outcome(&call.id, &call.tool, &Value::Null, error.clone());
            self.append("action.result", data, timestamp, out);
        }
    }

    /// Completes the message of the open step, if it has one or `always`.
    fn complete_message(
        &mut self,
        reason: &str,
        always: bool,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) {
        if !always && self.so_far.is_empty() {
            return;
        }
        let message = (!self.so_far.is_empty()).then(|| self.take_message());
        let completed = json!({"finishReason": reason, "message": message});
        self.append("message.completed", completed, timestamp, out);
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
        if let Event::Thinking(piece) = event
            && self.continues(piece)
        {
            return self.continue_thought(&piece.content, timestamp, out);
        }
        // An event that does not fit must not change the state.
        let before = (self.state.clone(), self.thought.clone());
        self.end_thought(timestamp, out);
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
                (self.state, self.thought) = before;
                return Err(error);
            }
        }
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.end_thought(None, out);
        self.start(None, out);
        self.close_activities(None, None, out);
        let mut rest = text;
        while !rest.is_empty() {
            let fits = rest.floor_char_boundary(self.wire.max_message_bytes - self.so_far.len());
            if fits == 0 {
                self.complete_message("length", false, None, out);
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
        self.end_thought(timestamp, out);
        self.start(timestamp, out);
        self.close_calls(&end.status, timestamp, out);
        let reason = match &end.status {
            Status::Completed => end.metadata.finish_reason(),
            Status::Stopped => "other",
            Status::Failed(failure) => {
                // Clients would show the text as streaming for ever.
                self.complete_message("error", false, timestamp, out);
                let error = json!({"code": failure.kind, "message": failure.message});
                self.append("step.failed", &error, timestamp, out);
                self.append_of_turn("turn.failed", &error, timestamp, out);
                let last = [
                    ("code", Some(error["code"].clone())),
                    ("message", Some(error["message"].clone())),
                    ("sessionId", Some(json!(&*self.wire.session_id))),
                ];
                return self.append_last(("session.failed", data(last)), end, out);
            }
        };
        self.complete_message(reason, true, timestamp, out);
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

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::blank(bytes, out);
    }
}

impl Shipped {
    fn append_last(&mut self, (kind, data): (&str, Map<String, Value>), end: &End, out: &mut BytesMut) {
        let max_bytes = self.wire.limits.max_trailer_bytes;
        self.state.lines.append_last(kind, &data, end, max_bytes, out);
    }
}
