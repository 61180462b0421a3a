//! The vocabulary of Eve's page of events.

use bytes::BytesMut;
use serde_json::{Map, Value, json};

use super::Eve;
use super::line::{Lines, data, others, some, word, write_undefined};
use crate::event::{AuthorizationOutcome, Event, InputRequested, ToolCall, ToolResult};
use crate::frame::{End, Status};
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::activity::{Activities, Activity};
use crate::wire::answer::Answer;
use crate::wire::calls::{Call, Calls};
use crate::wire::{EncodeError, Spelling, padding};

#[derive(Debug)]
pub(super) struct Documented {
    wire: Eve,
    /// Whether the stream may end at a question.
    parks: bool,
    state: State,
    calls: Calls,
    /// The answer for `message.appended`.
    content: Answer,
    /// Calls for `message.appended`, together at most `max_trailer_bytes`, measured as their events
    /// on the wire.
    tool_calls: Vec<Value>,
    tool_bytes: usize,
    are_tools_cut: bool,
}

/// The state that is restored if an event does not fit.
#[derive(Clone, Debug)]
struct State {
    lines: Lines,
    started: bool,
    /// The number of events so far, which is used in IDs.
    events: u64,
    /// The retrieval as tool calls.
    activities: Activities,
}

impl Documented {
    pub(super) fn new(wire: Eve) -> Self {
        Self {
            parks: false,
            state: State {
                lines: Lines::new(Some(wire.first_index)),
                started: false,
                events: 0,
                activities: Activities::default(),
            },
            calls: Calls::default(),
            content: Answer::with_limit(Eve::MAX_CONTENT_BYTES),
            tool_calls: Vec::new(),
            tool_bytes: 0,
            are_tools_cut: false,
            wire,
        }
    }

    fn append(
        &mut self,
        kind: &str,
        data: Option<&Map<String, Value>>,
        at: Option<Timestamp>,
        out: &mut BytesMut,
    ) {
        self.state.lines.append(kind, data, at, out);
    }

    /// Begins the turn if it has not begun.
    fn start(&mut self, at: Option<Timestamp>, out: &mut BytesMut) {
        if std::mem::replace(&mut self.state.started, true) {
            return;
        }
        if self.wire.sequence == 0 {
            self.append("session.started", Some(&Map::new()), at, out);
        }
        if let Some(message) = self.wire.message.clone() {
            let said = self.message("user", &message);
            self.append("message.appended", Some(&said), at, out);
        }
        self.append("agent.start", None, at, out);
    }

    fn message(&self, role: &str, content: &str) -> Map<String, Value> {
        data([
            ("id", Some(format!("msg_{}_{role}", self.wire.sequence).into())),
            ("role", Some(role.into())),
            ("content", Some(content.into())),
        ])
    }

    /// The ID of a call that arrived without one.
    fn id(&self) -> String {
        format!("turn_{}_call_{}", self.wire.sequence, self.state.events)
    }

    fn call_id(&self, call: &ToolCall) -> String {
        call.call_id.clone().unwrap_or_else(|| self.id())
    }

    fn answered(&self, result: &ToolResult) -> String {
        let call = self.calls.answered_by(result.call_id.as_deref(), &result.tool);
        call.map(|(_, call)| call.id.clone())
            .or_else(|| result.call_id.clone())
            .unwrap_or_else(|| self.id())
    }

    /// A step of the retrieval as the call of a tool or its result. IDs are looked up in all turns of
    /// the session.
    fn shown(&self, activity: Activity<'_>) -> Event {
        let prefixed = |id: &str| format!("turn_{}_{id}", self.wire.sequence);
        match activity {
            Activity::Call { id, tool, input } => ToolCall::new(tool, input).call_id(prefixed(&id)).into(),
            Activity::Result { id, tool, output } => {
                ToolResult::new(tool, output).call_id(prefixed(&id)).into()
            }
        }
    }

    /// Ends the steps of the retrieval that are still open.
    fn close_activities(&mut self, at: Option<Timestamp>, out: &mut BytesMut) {
        for activity in self.state.activities.close() {
            let (event, from) = (self.shown(activity), out.len());
            if self.write_event(&event, at, out).is_ok() {
                self.remember(&event, out.len() - from);
            } else {
                out.truncate(from);
            }
        }
    }

    fn write_event(
        &mut self,
        event: &Event,
        at: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        let (kind, data) = match event {
            Event::ToolCall(call) => ("agent.tool_call", self.call(call, event)?),
            Event::ToolResult(result) => ("agent.tool_result", self.result(result, event)?),
            Event::InputRequested(request) => ("input.requested", question(request)),
            Event::InputResolved(resolved) => (
                "input.resolved",
                data([
                    ("requestId", Some(resolved.request_id.as_str().into())),
                    ("response", resolved.response.clone()),
                ]),
            ),
            Event::AuthorizationRequired(required) => (
                "authorization.required",
                data([
                    ("connection", Some(required.connection.as_str().into())),
                    ("authUrl", Some(required.auth_url.as_str().into())),
                    ("description", word(required.description.as_ref())),
                ]),
            ),
            Event::AuthorizationCompleted(completed) => {
                let granted = completed.outcome == AuthorizationOutcome::Authorized;
                let outcome = (!granted).then(|| completed.outcome.as_str().into());
                let data = data([
                    ("connection", Some(completed.connection.as_str().into())),
                    ("outcome", outcome),
                    ("reason", word(completed.reason.as_ref())),
                ]);
                let kind = if granted {
                    "authorization.granted"
                } else {
                    "authorization.completed"
                };
                (kind, data)
            }
            Event::StructuredResult(result) => (
                "result.completed",
                data([("result", Some(result.result.clone()))]),
            ),
            Event::Search(_)
            | Event::Reasoning(_)
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
            | Event::Retract(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => return write_undefined(&mut self.state.lines, event, at, max_bytes, out),
        };
        self.state.lines.write(kind, some(&data), at, max_bytes, out)
    }

    fn call(&self, call: &ToolCall, event: &Event) -> Result<Map<String, Value>, EncodeError> {
        let tool = data([
            ("name", Some(call.tool.as_str().into())),
            ("description", word(call.description.as_ref())),
            ("parameters", call.parameters.clone()),
        ]);
        let mut data = data([
            ("toolCallId", Some(self.call_id(call).into())),
            ("tool", Some(tool.into())),
            ("args", Some(arguments(call))),
        ]);
        let placed = ["tool", "input", "call_id", "description", "parameters"];
        data.extend(others(event, &placed)?);
        Ok(data)
    }

    fn result(&self, result: &ToolResult, event: &Event) -> Result<Map<String, Value>, EncodeError> {
        let mut data = data([
            ("toolCallId", Some(self.answered(result).into())),
            ("tool", Some(json!({"name": result.tool}))),
            ("result", Some(result.result.clone())),
            ("isError", Some((result.is_error == Some(true)).into())),
        ]);
        data.extend(others(event, &["tool", "result", "call_id", "is_error"])?);
        Ok(data)
    }

    /// Keeps the tool call or result of an event that was written in `bytes` bytes.
    fn remember(&mut self, event: &Event, bytes: usize) {
        if !matches!(event, Event::ToolCall(_) | Event::ToolResult(_)) {
            return;
        }
        self.tool_bytes = self.tool_bytes.saturating_add(bytes);
        let room = self.tool_bytes <= self.wire.limits.max_trailer_bytes;
        self.are_tools_cut |= !room;
        if let Event::ToolCall(call) = event {
            let id = self.call_id(call);
            if room {
                self.keep_call(&id, &call.tool, &arguments(call));
            }
            self.calls.open_bounded(Call {
                id,
                tool: call.tool.clone(),
                unnamed: call.call_id.is_none(),
            });
        } else if let Event::ToolResult(result) = event {
            let id = self.answered(result);
            if room {
                self.keep_result(&id, result);
            }
            self.calls.close(&id);
        }
    }

    fn keep_call(&mut self, id: &str, tool: &str, arguments: &Value) {
        let call = json!({
            "id": format!("tc_{}", self.tool_calls.len() + 1),
            "toolCallId": id,
            "toolName": tool,
            "args": arguments,
            "status": "pending",
        });
        self.tool_calls.push(call);
    }

    fn keep_result(&mut self, id: &str, result: &ToolResult) {
        let open = |call: &Value| call["toolCallId"] == id && call["status"] == "pending";
        let at = self.tool_calls.iter().position(open).unwrap_or_else(|| {
            self.keep_call(id, &result.tool, &json!({}));
            self.tool_calls.len() - 1
        });
        if let Some(Value::Object(call)) = self.tool_calls.get_mut(at) {
            call.shift_remove("status");
            call.insert("result".into(), result.result.clone());
            call.insert("isError".into(), (result.is_error == Some(true)).into());
            call.insert("status".into(), "complete".into());
        }
    }
}

impl Spelling for Documented {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        // An event that does not fit must not change the state.
        let before = self.state.clone();
        self.start(timestamp, out);
        self.state.events += 1;
        let retrieval = self.state.activities.of(event);
        let shown: Vec<Event> = retrieval
            .into_iter()
            .map(|activity| self.shown(activity))
            .collect();
        let mut sizes = Vec::new();
        for event in shown.iter().chain([event]) {
            let from = out.len();
            if let Err(error) = self.write_event(event, timestamp, out) {
                self.state = before;
                return Err(error);
            }
            sizes.push(out.len() - from);
        }
        for (event, bytes) in shown.iter().chain([event]).zip(sizes) {
            self.remember(event, bytes);
        }
        if matches!(event, Event::InputRequested(_)) && self.parks {
            self.close_activities(timestamp, out);
            self.append("session.waiting", Some(&Map::new()), timestamp, out);
        }
        if let Event::Retract(retract) = event {
            // The state at the end has the answer without the withdrawn text.
            self.content.retract(retract.kept);
        }
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.start(None, out);
        self.close_activities(None, out);
        self.content.push(text);
        let delta = data([("text", Some(text.into()))]);
        self.append("agent.content.delta", Some(&delta), None, out);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let at = end.timing.map(|timing| timing.timestamp);
        self.start(at, out);
        self.close_activities(at, out);
        let mut message = self.message("assistant", self.content.text());
        let cut = self.content.is_cut().then_some(true);
        let whole = data([("truncated", cut.map(Value::from))]);
        message.extend(whole);
        let mut state = message.clone();
        state.insert("toolCalls".into(), std::mem::take(&mut self.tool_calls).into());
        if self.are_tools_cut {
            state.insert("truncated".into(), true.into());
        }
        self.append("message.appended", Some(&state), at, out);
        if end.status == Status::Completed {
            self.append("message.completed", Some(&message), at, out);
            self.append("agent.complete", None, at, out);
        }
        let (kind, last) = match &end.status {
            Status::Failed(failure) => {
                let last = [
                    ("sessionId", Some((*self.wire.session_id).into())),
                    ("error", Some(failure.message.as_ref().into())),
                    ("code", Some(failure.code().into())),
                ];
                ("session.failed", data(last))
            }
            Status::Completed | Status::Stopped => ("session.waiting", Map::new()),
        };
        let max_bytes = self.wire.limits.max_trailer_bytes;
        self.state.lines.append_last(kind, &last, end, max_bytes, out);
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

fn arguments(call: &ToolCall) -> Value {
    match &call.input {
        Value::Null => json!({}),
        input => input.clone(),
    }
}

fn question(request: &InputRequested) -> Map<String, Value> {
    data([
        ("type", Some(request.kind.as_str().into())),
        ("prompt", Some(request.prompt.as_str().into())),
        ("options", request.options.as_deref().map(Value::from)),
        ("requestId", Some(request.request_id.as_str().into())),
    ])
}
