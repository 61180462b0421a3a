//! Writes the frames of a turn as the events of a run.

use std::sync::Arc;

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Value, json};

use super::message::{self, Chunk, Last, MODEL, TOOLS, ToolCall};
use super::state::{Open, State};
use super::{INTERRUPT, LangGraph, MARK, MARK_EVENT, MARK_NATIVE, MARK_TEXT, Modes};
use crate::event::{Event, InputRequested};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::json;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::activity::{Activities, Activity};
use crate::wire::calls::{Call, Calls};
use crate::wire::object::{self, Late};
use crate::wire::{EncodeError, Limits, Spelling, padding};

/// A whole message is sent again (`messages/partial`) when it has grown by this part of its length.
/// All of them together then have at most 33 times the length of the message.
const PARTIAL_GROWTH: usize = 32;

#[derive(Debug)]
pub(super) struct LangGraphSpelling {
    run_id: String,
    thread_id: Option<String>,
    /// The prefix of the IDs of messages and calls.
    prefix: String,
    modes: Modes,
    /// The messages of the thread before the answer.
    before: Arc<[Value]>,
    limits: Limits,
    wants_to_park: bool,
    /// Whether the run may end at a question.
    parks: bool,
    lines: Lines,
    has_begun: bool,
    /// Number of IDs made so far.
    ids: u64,
    activities: Activities,
    calls: Calls,
    /// The ID of the thought that the last event was a piece of.
    thought: Option<String>,
    open: Option<Open>,
    state: State,
    /// Counts the events that no mode shows.
    late: Late,
}

/// The events of the stream and their numbers.
#[derive(Debug)]
struct Lines {
    /// The number of the next event.
    next: u64,
    /// The modes, as they follow the number.
    modes: String,
    /// Events up to this number are left out.
    after: Option<u64>,
    /// Whether the next events have numbers.
    is_numbered: bool,
}

impl Lines {
    fn write(&mut self, kind: &str, out: &mut BytesMut, data: impl FnOnce(&mut BytesMut)) {
        if self.is_numbered {
            let number = self.next;
            self.next += 1;
            if self.after.is_some_and(|after| number <= after) {
                return;
            }
            out.extend_from_slice(format!("id: {number}{}\n", self.modes).as_bytes());
        }
        out.extend_from_slice(format!("event: {kind}\ndata: ").as_bytes());
        data(out);
        out.extend_from_slice(b"\n\n");
    }

    fn json(&mut self, kind: &str, out: &mut BytesMut, data: &impl Serialize) {
        self.write(kind, out, |out| write(out, data));
    }
}

/// Appends values that always serialise: strings, numbers and JSON values.
fn write(out: &mut BytesMut, value: &impl Serialize) {
    let written = json::write(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

impl LangGraphSpelling {
    pub(super) fn new(wire: &LangGraph) -> Self {
        Self {
            run_id: wire.run_id.clone(),
            thread_id: wire.thread_id.clone(),
            prefix: wire.prefix.clone().unwrap_or_else(|| wire.run_id.clone()),
            modes: wire.modes,
            before: Arc::clone(&wire.messages),
            limits: wire.limits,
            wants_to_park: wire.parks,
            parks: false,
            lines: Lines {
                next: 0,
                modes: wire.modes.letters(),
                after: wire.after,
                is_numbered: true,
            },
            has_begun: false,
            ids: 0,
            activities: Activities::default(),
            calls: Calls::default(),
            thought: None,
            open: None,
            state: State::default(),
            late: Late::default(),
        }
    }

    fn next_id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{}-{kind}-{}", self.prefix, self.ids)
    }

    /// How messages that are made of events are marked.
    fn mark(&self) -> &'static str {
        if self.modes.custom {
            MARK_EVENT
        } else {
            MARK_NATIVE
        }
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.write_opening(out);
        }
    }

    /// Writes the metadata and the state before the answer.
    fn write_opening(&mut self, out: &mut BytesMut) {
        let mut metadata = json!({"run_id": self.run_id, "attempt": 1});
        if let Some(thread_id) = &self.thread_id {
            metadata["thread_id"] = thread_id.as_str().into();
        }
        self.lines.json("metadata", out, &metadata);
        self.write_values(None, out);
    }

    /// Writes the whole state, with the question that the run waits for.
    fn write_values(&mut self, question: Option<&InputRequested>, out: &mut BytesMut) {
        #[derive(Serialize)]
        struct Values<'a> {
            messages: Vec<&'a Value>,
            #[serde(rename = "__interrupt__", skip_serializing_if = "Option::is_none")]
            interrupt: Option<Value>,
        }
        if !self.modes.values {
            return;
        }
        let open = self.open.as_ref().map(|open| open.message(self.mark()));
        let messages = self.before.iter().chain(self.state.messages()).chain(&open);
        let values = Values {
            messages: messages.collect(),
            interrupt: question.map(interrupts),
        };
        self.lines.json("values", out, &values);
    }

    /// Writes a piece of a message.
    fn write_message(&mut self, message: &impl Serialize, node: &str, mark: &str, out: &mut BytesMut) {
        #[derive(Serialize)]
        struct Source<'a> {
            langgraph_node: &'a str,
            run_id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            thread_id: Option<&'a str>,
            // The member is `MARK`.
            ragwire: &'a str,
        }
        if self.modes.messages_tuple {
            let source = Source {
                langgraph_node: node,
                run_id: &self.run_id,
                thread_id: self.thread_id.as_deref(),
                ragwire: mark,
            };
            self.lines.json("messages", out, &(message, source));
        }
    }

    /// Returns the AI message that is being written, after opening one if there is none.
    fn open_message(&mut self, out: &mut BytesMut) -> &mut Open {
        let id = match &self.open {
            Some(_) => String::new(),
            None => self.next_id("message"),
        };
        if self.open.is_none() && self.modes.messages {
            let source = json!({"metadata": {"langgraph_node": MODEL, "run_id": self.run_id}});
            self.lines
                .json("messages/metadata", out, &json!({(id.as_str()): source}));
        }
        self.open.get_or_insert_with(|| Open::new(id))
    }

    /// Writes the whole AI message so far, if it has grown enough.
    fn write_partial(&mut self, out: &mut BytesMut) {
        let mark = self.mark();
        let Some(open) = self.open.as_mut().filter(|_| self.modes.messages) else {
            return;
        };
        let length = open.text.text().len() + open.reasoning.text().len();
        if open.shown == 0 || length - open.shown >= open.shown.div_ceil(PARTIAL_GROWTH) {
            open.shown = length;
            self.lines.json("messages/partial", out, &[open.message(mark)]);
        }
    }

    /// Closes the AI message that is being written.
    fn close_message(&mut self, last: Option<&Last>, out: &mut BytesMut) {
        let mark = self.mark();
        let Some(open) = self.open.take() else { return };
        self.thought = None;
        if !self.modes.has_whole_messages() && open.text.text().is_empty() {
            return;
        }
        let mut message = open.message(mark);
        if let Some(last) = last {
            last.complete(&mut message);
        }
        self.write_whole(message, MODEL, out);
    }

    fn write_whole(&mut self, message: Value, node: &str, out: &mut BytesMut) {
        if self.modes.messages {
            self.lines.json("messages/complete", out, &[&message]);
        }
        if self.modes.updates {
            self.lines
                .json("updates", out, &json!({node: {"messages": [&message]}}));
        }
        if self.modes.has_whole_messages() || message["type"] == "ai" {
            self.state.push(message);
        }
    }

    fn call(&mut self, id: &str, tool: &str, input: &Value, out: &mut BytesMut) {
        let mark = self.mark();
        let call = ToolCall::new(id.to_owned(), tool, input);
        let open = self.open_message(out);
        let (message_id, number) = (open.id.clone(), open.add_call(call.clone()));
        self.write_message(&Chunk::call(&message_id, number, &call), MODEL, mark, out);
    }

    fn result(&mut self, call_id: &str, tool: &str, result: &Value, is_error: bool, out: &mut BytesMut) {
        self.close_message(None, out);
        let (id, mark) = (self.next_id("result"), self.mark());
        let message = message::tool(&id, call_id, tool, result, is_error, mark);
        self.write_message(&message, TOOLS, mark, out);
        self.write_whole(message, TOOLS, out);
    }

    fn show(&mut self, activities: Vec<Activity<'_>>, out: &mut BytesMut) {
        for activity in activities {
            match activity {
                Activity::Call { id, tool, input } => {
                    // A step after text of the answer is not a part of that message.
                    if self
                        .open
                        .as_ref()
                        .is_some_and(|open| !open.text.text().is_empty())
                    {
                        self.close_message(None, out);
                    }
                    let id = format!("{}-{id}", self.prefix);
                    self.call(&id, tool, &input.into(), out);
                }
                Activity::Result { id, tool, output } => {
                    let id = format!("{}-{id}", self.prefix);
                    self.result(&id, tool, &output.into(), false, out);
                }
            }
        }
    }

    fn close_activities(&mut self, out: &mut BytesMut) {
        let results = self.activities.close();
        self.show(results, out);
    }

    /// Writes a thought, or the next piece of one. Clients concatenate the thoughts of a message,
    /// so a blank line separates two of them.
    fn think(&mut self, content: &str, thought: Option<&str>, out: &mut BytesMut) {
        let mark = self.mark();
        let continues = thought.is_some() && self.thought.as_deref() == thought;
        // A message of which text is withdrawn is sent again.
        let keeps = self.modes.has_whole_messages() || self.modes.messages_tuple;
        let open = self.open_message(out);
        let is_first = open.thought == 0;
        let gap = if continues || is_first { "" } else { "\n\n" };
        let piece = format!("{gap}{content}");
        open.thought += piece.len();
        if keeps {
            open.reasoning.push(&piece);
        }
        let id = open.id.clone();
        self.thought = thought.map(str::to_owned);
        self.write_message(&Chunk::reasoning(&id, &piece), MODEL, mark, out);
        self.write_partial(out);
    }

    /// Takes back the text after the first `kept` characters: the message is removed, and one with
    /// another ID takes its position.
    fn retract(&mut self, kept: u64, out: &mut BytesMut) {
        let mark = self.mark();
        let before = self.state.characters();
        if kept < before {
            self.state.retract(kept);
        }
        let text = self.open.as_ref().map_or("", |open| open.text.text());
        let stays = usize::try_from(kept.saturating_sub(before)).unwrap_or(usize::MAX);
        let cut = text.char_indices().nth(stays).map(|(at, _)| at);
        if let Some((at, old)) = cut.zip(self.open.take_if(|_| cut.is_some())) {
            let removed = json!({"type": "remove", "id": old.id, "content": ""});
            self.write_message(&removed, MODEL, mark, out);
            let open = self.open_message(out);
            let id = open.id.clone();
            open.text.push(&old.text.text()[..at]);
            open.reasoning = old.reasoning;
            open.calls = old.calls;
            let (calls, reasoning) = (open.calls.clone(), open.reasoning.text().to_owned());
            if !reasoning.is_empty() {
                self.write_message(&Chunk::reasoning(&id, &reasoning), MODEL, mark, out);
            }
            for (number, call) in calls.iter().enumerate() {
                self.write_message(&Chunk::call(&id, number, call), MODEL, mark, out);
            }
            self.write_message(&Chunk::text(&id, &old.text.text()[..at]), MODEL, mark, out);
            self.write_partial(out);
        } else if kept >= before {
            return;
        }
        self.write_values(None, out);
    }

    fn ask(&mut self, question: &InputRequested, out: &mut BytesMut) {
        if self.parks {
            // The run may end after it.
            self.close_activities(out);
            self.close_message(None, out);
        }
        if self.modes.updates {
            self.lines
                .json("updates", out, &json!({INTERRUPT: interrupts(question)}));
        }
        self.write_values(Some(question), out);
    }

    /// Writes `event` in the shapes that clients draw. Returns `false` if it has none.
    fn show_event(&mut self, event: &Event, out: &mut BytesMut) -> bool {
        match event {
            Event::ToolCall(call) => {
                let unnamed = call.call_id.is_none();
                let id = call.call_id.clone().unwrap_or_else(|| self.next_id("call"));
                self.call(&id, &call.tool, &call.input, out);
                let tool = call.tool.clone();
                self.calls.open_bounded(Call { tool, id, unnamed });
            }
            Event::ToolResult(result) => {
                let answered = self
                    .calls
                    .answered_by(result.call_id.as_deref(), &result.tool)
                    .map(|(at, _)| at);
                let call = answered.and_then(|at| self.calls.take(at));
                let id = call
                    .map(|call| call.id)
                    .or_else(|| result.call_id.clone())
                    .unwrap_or_else(|| self.next_id("call"));
                let is_error = result.is_error == Some(true);
                self.result(&id, &result.tool, &result.result, is_error, out);
            }
            Event::Thinking(thought) => self.think(&thought.content, thought.id.as_deref(), out),
            Event::Reasoning(step) => self.think(&step.content, None, out),
            Event::Retract(retract) => self.retract(retract.kept, out),
            Event::InputRequested(question) => self.ask(question, out),
            // A client shows the question until it gets a state without it.
            Event::InputResolved(_) => self.write_values(None, out),
            Event::Search(_)
            | Event::RetrievalStart(_)
            | Event::RetrievalResult(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::Verification(_)
            | Event::Review(_) => {
                let activities = self.activities.of(event);
                self.show(activities, out);
            }
            Event::QueryAnalysis(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => return false,
        }
        true
    }
}

impl Spelling for LangGraphSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        // Everything that can fail comes first: an event that does not fit must not change the
        // state.
        let mut data = BytesMut::new();
        object::write_event(event, timestamp, &mut data)?;
        object::check_line(data.len(), self.limits)?;
        self.begin(out);
        if self.modes.custom {
            self.lines
                .write("custom", out, |out| out.extend_from_slice(&data));
        }
        if !self.show_event(event, out) && !self.modes.custom {
            self.late.dropped += 1;
        }
        if !matches!(event, Event::Thinking(_)) {
            self.thought = None;
        }
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        self.begin(out);
        self.close_activities(out);
        let open = self.open_message(out);
        open.text.push(text);
        let id = open.id.clone();
        self.thought = None;
        self.write_message(&Chunk::text(&id, text), MODEL, MARK_TEXT, out);
        self.write_partial(out);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        self.begin(out);
        self.close_activities(out);
        let max_bytes = self.limits.max_trailer_bytes;
        if let Status::Failed(failure) = &end.status {
            self.close_message(None, out);
            let late = &self.late;
            // The last event is sent to every reader: one that has it does not come back.
            self.lines.after = None;
            self.lines.write("error", out, |out| {
                write(out, &ErrorObject::new(failure));
                out.truncate(out.len() - 1);
                out.extend_from_slice(format!(",\"{MARK}\":").as_bytes());
                object::write_end(end, late, max_bytes, out);
                out.extend_from_slice(b"}");
            });
            return;
        }
        let last = Last::new(&end.metadata, end.status == Status::Completed);
        self.finish_answer(&last, out);
        self.write_values(None, out);
        self.lines.after = None;
        let late = &self.late;
        self.lines.write("end", out, |out| {
            object::write_end(end, late, max_bytes, out);
        });
    }

    fn shows_events(&self, _: Phase) -> bool {
        self.modes.custom || self.modes.messages_tuple
    }

    fn allow_parking(&mut self) -> bool {
        self.parks = self.wants_to_park;
        self.parks
    }

    fn park(&mut self, _: &InputRequested, _: Option<Timestamp>, out: &mut BytesMut) {
        // Without a number: for a reader that continues, the next frame has it.
        out.extend_from_slice(b"event: end\ndata: null\n\n");
    }

    fn unpark(&mut self, out: &mut BytesMut) {
        self.lines.is_numbered = false;
        self.write_opening(out);
        self.lines.is_numbered = true;
    }

    fn expands_snapshots(&self) -> bool {
        // The numbers of a stream that begins with a snapshot are not those of the whole stream.
        self.lines.after.is_none()
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        // Without a blank line, which the JavaScript client takes for an event without a type.
        out.extend_from_slice(b": keep-alive\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::line(bytes, out);
    }
}

impl LangGraphSpelling {
    /// Adds the citations and the usage to the message of the answer. That is the last one with
    /// text, also if the answer was checked after it.
    fn finish_answer(&mut self, last: &Last, out: &mut BytesMut) {
        let is_open = self
            .open
            .as_ref()
            .is_some_and(|open| !open.text.text().is_empty());
        let closed = if is_open { None } else { self.state.complete(last) };
        if let Some(id) = closed {
            self.write_message(&Chunk::last(&id, last), MODEL, MARK_EVENT, out);
            self.close_message(None, out);
            return;
        }
        if self.open.is_none() && !last.is_complete {
            return;
        }
        let id = self.open_message(out).id.clone();
        self.write_message(&Chunk::last(&id, last), MODEL, MARK_EVENT, out);
        self.close_message(Some(last), out);
    }
}

/// The value of `__interrupt__`.
fn interrupts(question: &InputRequested) -> Value {
    let mut value = json!({"kind": question.kind, "prompt": question.prompt});
    if let Some(options) = &question.options {
        value["options"] = json!(options);
    }
    json!([{"id": question.request_id, "value": value}])
}

/// The data of `error`, as LangGraph's clients read it.
#[derive(Serialize)]
struct ErrorObject<'a> {
    error: &'a str,
    message: &'a str,
}

impl<'a> ErrorObject<'a> {
    fn new(failure: &'a Failure) -> Self {
        Self {
            error: failure.code(),
            message: &failure.message,
        }
    }
}
