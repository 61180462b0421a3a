//! Reads AG-UI streams: ours, and those of any other server, such as Pydantic AI's, LangGraph's and
//! CopilotKit's.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{AgUi, Interrupt};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::frame::{Frame, Status};
use crate::metadata::Usage;
use crate::time::Timestamp;
use crate::wire::activity::is_shown;
use crate::wire::calls::{Call, Calls, MAX_OPEN_CALLS};
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::foreign::{self, ClientCalls};
use crate::wire::members::{self, DONE, Members, member, required, take, take_members, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits};

/// Decodes an AG-UI stream of one run, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished object and the
/// arguments of unfinished calls, each within the larger of the two limits, and the frames that
/// were not taken yet.
///
/// A run that ends with an interrupt has not ended its turn: the stream is then truncated, and the
/// next run gets the answers ([`interrupts`](Self::interrupts)).
/// `PROTOCOL.md`, `[G-06]` to `[G-08]`, lists the frame of each object, and what a turn loses on
/// this wire.
///
/// ```
/// use ragwire::wire::ag_ui::AgUiDecoder;
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::Frame;
///
/// let mut decoder = AgUiDecoder::default();
/// decoder.feed(b"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"Yes.\"}\n\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// decoder.feed(b"data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n");
/// assert!(matches!(decoder.next(), Some(Ok(Frame::End(_)))));
/// assert_eq!(decoder.finish(), Finish::Complete);
/// ```
#[derive(Debug)]
pub struct AgUiDecoder {
    messages: Messages<Run>,
    limits: Limits,
}

impl AgUiDecoder {
    /// Creates a decoder for one run, with these limits of each object.
    pub fn new(limits: Limits) -> Self {
        Self::reading(Run::default(), limits)
    }

    fn reading(run: Run, limits: Limits) -> Self {
        let run = Run {
            max_argument_bytes: limits.larger(),
            ..run
        };
        Self {
            messages: Messages::events(run, limits.larger()),
            limits,
        }
    }

    /// Returns the questions at which the run has ended; at most 64. Each is also an
    /// `input_requested`. The next run of the thread needs their answers.
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.messages.reader().interrupts
    }

    /// Returns the decoder for the next run of the thread, which knows the calls that have no result
    /// yet.
    #[must_use]
    pub fn next_run(&self) -> Self {
        let ended = self.messages.reader();
        let run = Run {
            calls: ended.calls.clone(),
            thoughts: ended.thoughts,
            ..Run::default()
        };
        Self::reading(run, self.limits)
    }
}

decoder!(AgUiDecoder);

impl Default for AgUiDecoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// The state between two objects.
#[derive(Debug, Default)]
struct Run {
    decoded: Decoded,
    max_argument_bytes: usize,
    /// Calls whose arguments are not complete, oldest first. At most [`MAX_OPEN_CALLS`].
    begun: VecDeque<BegunCall>,
    /// Calls without a result.
    calls: Calls,
    /// The same calls, with what the client may have to find for them.
    client_calls: ClientCalls,
    /// The questions at which the run has ended. At most [`MAX_OPEN_CALLS`].
    interrupts: Vec<Interrupt>,
    /// The ID of the call whose chunks are being read. Any other object completes it.
    chunked_call: Option<String>,
    /// The message of another role than the assistant's, whose text is not the answer.
    skipped_message: Option<String>,
    /// The thought whose pieces are being read: the members of each besides the content.
    thought: Option<Members>,
    /// The message of the thought, if it has one.
    thought_message: Option<String>,
    thoughts: u64,
    /// Whether text was decoded.
    has_text: bool,
    /// The answer in the last snapshot of the messages, for servers that do not stream it.
    snapshot_answer: Option<String>,
    /// The question that the last object asked. Ours ends its run.
    asked: Option<String>,
    has_ended: bool,
}

#[derive(Debug)]
struct BegunCall {
    id: String,
    tool: String,
    arguments: String,
    /// Members of the event that the protocol has no member for.
    metadata: Members,
}

/// The time of an object as a member of an event.
fn time(object: &Members) -> Option<Timestamp> {
    let millis = object.get("timestamp")?.as_i64()?;
    Some(Timestamp::from_micros(millis.checked_mul(1_000)?))
}

fn timestamp(object: &Members) -> Option<(String, Value)> {
    Some(member("timestamp", time(object)?.to_string()))
}

/// Returns `true` for a call or a result as which an event of ours is shown.
fn is_mark(metadata: &Members) -> bool {
    word(metadata, "event").is_some_and(is_shown)
}

impl ReadMessage for Run {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        if message.data.trim() == DONE {
            // Not of this protocol, but some servers write it.
            return Ok(());
        }
        if self.has_ended {
            return Err(DecodeError::TrailingBytes);
        }
        let mut object = members::parse_filled(message.data)?;
        let kind = take(&mut object, "type");
        let kind = kind.as_str().ok_or(DecodeError::BadEvent)?;
        if kind != "TOOL_CALL_CHUNK" {
            self.complete_chunks()?;
        }
        let asked = self.asked.take();
        match kind {
            "TEXT_MESSAGE_START" => {
                self.skip_others(&object);
                Ok(())
            }
            "TEXT_MESSAGE_CHUNK" => {
                self.skip_others(&object);
                self.text(&object)
            }
            "TEXT_MESSAGE_CONTENT" => self.text(&object),
            "TOOL_CALL_START" => {
                let (id, tool) = (
                    required(&object, "toolCallId")?,
                    required(&object, "toolCallName")?,
                );
                let (id, tool) = (id.to_owned(), tool.to_owned());
                self.begin_call(id, tool, &mut object)
            }
            "TOOL_CALL_ARGS" => self.arguments(required(&object, "toolCallId")?, &object),
            "TOOL_CALL_END" => self.complete_call(required(&object, "toolCallId")?),
            "TOOL_CALL_CHUNK" => self.call_chunk(object),
            "TOOL_CALL_RESULT" => self.result(object),
            "REASONING_MESSAGE_START" | "THINKING_TEXT_MESSAGE_START" => {
                self.begin_thought(&mut object);
                Ok(())
            }
            "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_CHUNK" | "THINKING_TEXT_MESSAGE_CONTENT" => {
                self.think(&mut object)
            }
            "REASONING_MESSAGE_END" | "THINKING_TEXT_MESSAGE_END" | "THINKING_END" => {
                self.thought = None;
                Ok(())
            }
            "STEP_STARTED" | "STEP_FINISHED" => step(&mut self.decoded, kind, &object),
            "CUSTOM" => {
                self.asked = custom(&mut self.decoded, object)?;
                Ok(())
            }
            "STATE_SNAPSHOT" => self.decoded.push_custom(
                "ag_ui.state_snapshot",
                take(&mut object, "snapshot"),
                time(&object),
            ),
            "STATE_DELTA" => {
                self.decoded
                    .push_custom("ag_ui.state_delta", take(&mut object, "delta"), time(&object))
            }
            "ACTIVITY_SNAPSHOT" => activity(&mut self.decoded, "ag_ui.activity_snapshot", object),
            "ACTIVITY_DELTA" => activity(&mut self.decoded, "ag_ui.activity_delta", object),
            "MESSAGES_SNAPSHOT" => {
                self.snapshot_answer = last_answer(&object);
                Ok(())
            }
            "RUN_FINISHED" => self.finished(object, asked.as_deref()),
            "RUN_ERROR" => self.failed(object),
            // The beginnings and ends of other objects, and objects of newer versions.
            _ => Ok(()),
        }
    }

    fn read_after_end(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let may_follow = message.data.trim() == DONE;
        may_follow.then_some(()).ok_or(DecodeError::TrailingBytes)
    }
}

impl Run {
    /// Notes whose text follows.
    fn skip_others(&mut self, object: &Members) {
        match word(object, "role") {
            Some("assistant") => self.skipped_message = None,
            Some(_) => self.skipped_message = word(object, "messageId").map(str::to_owned),
            None => {}
        }
    }

    fn text(&mut self, object: &Members) -> Result<(), DecodeError> {
        let delta = word(object, "delta").unwrap_or_default();
        let id = word(object, "messageId");
        let is_skipped =
            self.skipped_message.is_some() && (id.is_none() || id == self.skipped_message.as_deref());
        if delta.is_empty() || is_skipped {
            return Ok(());
        }
        self.has_text = true;
        self.decoded.push_text(delta)
    }

    fn begin_call(&mut self, id: String, tool: String, object: &mut Members) -> Result<(), DecodeError> {
        // A call that begins again, or one too many, has all the arguments that it will get.
        self.complete_call(&id)?;
        if self.begun.len() >= MAX_OPEN_CALLS
            && let Some(oldest) = self.begun.pop_front()
        {
            self.push_call(oldest)?;
        }
        let time = timestamp(object);
        let mut metadata = take_members(object, "metadata");
        metadata.extend(time);
        self.begun.push_back(BegunCall {
            id,
            tool,
            arguments: String::new(),
            metadata,
        });
        Ok(())
    }

    fn arguments(&mut self, id: &str, object: &Members) -> Result<(), DecodeError> {
        let delta = word(object, "delta").unwrap_or_default();
        if let Some(call) = self.begun.iter_mut().find(|call| call.id == id) {
            call.arguments.push_str(delta);
        }
        let bytes: usize = self.begun.iter().map(|call| call.arguments.len()).sum();
        if bytes > self.max_argument_bytes {
            return Err(DecodeError::LineTooLong);
        }
        Ok(())
    }

    fn complete_call(&mut self, id: &str) -> Result<(), DecodeError> {
        let at = self.begun.iter().position(|call| call.id == id);
        match at.and_then(|at| self.begun.remove(at)) {
            Some(call) => self.push_call(call),
            None => Ok(()),
        }
    }

    fn push_call(&mut self, call: BegunCall) -> Result<(), DecodeError> {
        if is_mark(&call.metadata) {
            return Ok(());
        }
        let input = match call.arguments.as_str() {
            "" => json!({}),
            // Arguments that are not JSON are still what the model wrote.
            arguments => serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into()),
        };
        self.client_calls.open(&call.id, &call.tool, &input);
        let ours = [
            member("tool", &*call.tool),
            member("input", input),
            member("call_id", &*call.id),
        ];
        self.decoded
            .push_named("tool_call", call.metadata.into_iter().chain(ours))?;
        self.calls.open_bounded(Call {
            tool: call.tool,
            id: call.id,
            unnamed: false,
        });
        Ok(())
    }

    /// A call that is sent in chunks without an end.
    fn call_chunk(&mut self, mut object: Members) -> Result<(), DecodeError> {
        let id = word(&object, "toolCallId").map(str::to_owned);
        let tool = word(&object, "toolCallName").map(str::to_owned);
        let is_next = id.is_some() && id != self.chunked_call;
        if let (Some(id), Some(tool), true) = (&id, tool, is_next) {
            self.complete_chunks()?;
            self.begin_call(id.clone(), tool, &mut object)?;
            self.chunked_call = Some(id.clone());
        }
        match id.or_else(|| self.chunked_call.clone()) {
            Some(id) => self.arguments(&id, &object),
            None => Ok(()),
        }
    }

    fn complete_chunks(&mut self) -> Result<(), DecodeError> {
        match self.chunked_call.take() {
            Some(id) => self.complete_call(&id),
            None => Ok(()),
        }
    }

    fn result(&mut self, mut object: Members) -> Result<(), DecodeError> {
        let id = required(&object, "toolCallId")?.to_owned();
        self.complete_call(&id)?;
        let (time, metadata) = (timestamp(&object), take_members(&mut object, "metadata"));
        if is_mark(&metadata) {
            return Ok(());
        }
        let call = self.calls.answered_by(Some(&id), "");
        let tool = call.map_or("unknown", |(_, call)| &call.tool).to_owned();
        self.calls.close(&id);
        self.client_calls.close(&id);
        let result = match take(&mut object, "content") {
            Value::String(content) => read_content(content),
            content => content,
        };
        let ours = [member("result", result), member("call_id", id)];
        let members = [member("tool", tool)].into_iter().chain(metadata).chain(time);
        self.decoded.push_named("tool_result", members.chain(ours))
    }

    fn begin_thought(&mut self, object: &mut Members) {
        self.thoughts += 1;
        let mut members = Members::new();
        members.extend([member("id", format!("thought-{}", self.thoughts))]);
        // The ID of a thought of ours replaces the number.
        members.extend(take_members(object, "metadata"));
        self.thought_message = word(object, "messageId").map(str::to_owned);
        self.thought = Some(members);
    }

    fn think(&mut self, object: &mut Members) -> Result<(), DecodeError> {
        let id = word(object, "messageId").map(str::to_owned);
        if self.thought.is_none() || (id.is_some() && id != self.thought_message) {
            self.begin_thought(object);
        }
        let content = member("content", word(object, "delta").unwrap_or_default());
        let members = self.thought.clone().unwrap_or_default().into_iter();
        self.decoded
            .push_named("thinking", members.chain([content]).chain(timestamp(object)))
    }

    fn finished(&mut self, mut object: Members, asked: Option<&str>) -> Result<(), DecodeError> {
        self.complete_calls()?;
        self.has_ended = true;
        let outcome = take(&mut object, "outcome");
        let status = match outcome.get("type").and_then(Value::as_str) {
            Some("cancelled") => Status::Stopped,
            Some("interrupt") => return self.interrupted(&outcome, asked),
            _ => Status::Completed,
        };
        self.ask_for_results(&outcome)?;
        if let Some(answer) = self.snapshot_answer.take().filter(|_| !self.has_text) {
            self.decoded.push_text(answer)?;
        }
        let result = match take(&mut object, "result") {
            Value::Object(members) => members,
            Value::Null => Members::new(),
            result => Members::from_iter([member("result", result)]),
        };
        end(&mut self.decoded, result, status, &object)
    }

    /// The questions of another server at which its run ended. Ours was `asked` before: the ID of its
    /// interrupt is that of the question, after a prefix.
    fn interrupted(&mut self, outcome: &Value, asked: Option<&str>) -> Result<(), DecodeError> {
        let interrupts = outcome["interrupts"].as_array();
        for interrupt in interrupts.into_iter().flatten() {
            let (Some(id), Some(kind)) = (interrupt["id"].as_str(), interrupt["reason"].as_str()) else {
                return Err(DecodeError::BadEvent);
            };
            if let Some(asked) = asked.filter(|asked| id.ends_with(asked)) {
                self.interrupts.push(Interrupt::ours(asked, id));
                continue;
            }
            let (read, options) = Interrupt::read(id, interrupt);
            // A question with yes and no is an approval, however the agent calls its reason.
            let kind = if read.is_approval() { "approval" } else { kind };
            let tool = || {
                let call = self.calls.answered_by(interrupt["toolCallId"].as_str(), "");
                call.map(|(_, call)| format!("Run {}?", call.tool))
            };
            let prompt = interrupt["message"].as_str().map(str::to_owned);
            let prompt = prompt.or_else(tool).unwrap_or_default();
            let members = [
                member("request_id", id),
                member("kind", kind),
                member("prompt", prompt),
            ];
            let options = options.map(|options| member("options", options));
            self.decoded
                .push_named("input_requested", members.into_iter().chain(options))?;
            if self.interrupts.len() < MAX_OPEN_CALLS {
                self.interrupts.push(read);
            }
        }
        Ok(())
    }

    /// Asks for the results of the calls that the run has left to its client.
    fn ask_for_results(&mut self, outcome: &Value) -> Result<(), DecodeError> {
        let pending = outcome["pendingToolCallIds"].as_array();
        for id in pending.into_iter().flatten().filter_map(Value::as_str) {
            let Some(prompt) = self.client_calls.take(id) else {
                continue;
            };
            let members = [
                member("request_id", id),
                member("kind", foreign::RESULT),
                member("prompt", prompt),
            ];
            self.decoded.push_named("input_requested", members)?;
            self.interrupts.push(Interrupt::tool(id));
        }
        Ok(())
    }

    fn failed(&mut self, mut object: Members) -> Result<(), DecodeError> {
        self.complete_calls()?;
        self.has_ended = true;
        let mut failure = Failure::default();
        if let Some(code) = word(&object, "code") {
            failure.kind = FailureKind::from(code.to_owned());
        }
        if let Some(message) = word(&object, "message") {
            failure.message = message.to_owned().into();
        }
        let metadata = take_members(&mut object, "metadata");
        end(&mut self.decoded, metadata, Status::Failed(failure), &object)
    }

    fn complete_calls(&mut self) -> Result<(), DecodeError> {
        while let Some(call) = self.begun.pop_front() {
            self.push_call(call)?;
        }
        Ok(())
    }
}

/// The result of a tool is a string, often of JSON. A number or a word that is JSON stays a string:
/// it was probably written as one.
fn read_content(content: String) -> Value {
    match serde_json::from_str(&content) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        Ok(_) | Err(_) => content.into(),
    }
}

/// A step of another server, which names its own; ours only frames the retrieval.
fn step(decoded: &mut Decoded, kind: &str, object: &Members) -> Result<(), DecodeError> {
    let event = match kind {
        "STEP_STARTED" => "ag_ui.step_started",
        _ => "ag_ui.step_finished",
    };
    match word(object, "stepName") {
        Some(AgUi::STEP) | None => Ok(()),
        Some(name) => decoded.push_custom(event, json!({ "step": name }), time(object)),
    }
}

fn activity(decoded: &mut Decoded, name: &str, mut object: Members) -> Result<(), DecodeError> {
    let time = time(&object);
    object.shift_remove("timestamp");
    decoded.push_custom(name, object.into(), time)
}

/// Adds an event of ours or of the application. Returns the ID of the question that it asks.
fn custom(decoded: &mut Decoded, mut object: Members) -> Result<Option<String>, DecodeError> {
    let name = required(&object, "name")?.to_owned();
    match take(&mut object, "value") {
        Value::Object(value) if Event::NAMES.contains(&name.as_str()) => {
            decoded.push_named(&name, value.into_iter().chain(timestamp(&object)))?;
        }
        value => decoded.push_custom(&name, value, time(&object))?,
    }
    Ok(match decoded.last_mut() {
        Some(Frame::Event {
            event: Event::InputRequested(question),
            ..
        }) => Some(question.request_id.clone()),
        _ => None,
    })
}

/// The last text of the assistant after the last message of the user.
fn last_answer(object: &Members) -> Option<String> {
    let messages = object.get("messages")?.as_array()?;
    let role = |message: &&Value, role: &str| message["role"] == role;
    let this_run = messages.iter().rev().take_while(|message| !role(message, "user"));
    let mut answers = this_run.filter(|message| role(message, "assistant"));
    let answer = answers.find_map(|message| message["content"].as_str().filter(|text| !text.is_empty()))?;
    Some(answer.to_owned())
}

/// Adds the end. The numbers of tokens are those of `object` if the metadata has none.
fn end(
    decoded: &mut Decoded,
    metadata: Members,
    status: Status,
    object: &Members,
) -> Result<(), DecodeError> {
    let mut end = foreign::end(metadata, status)?;
    if end.metadata.usage.is_none() {
        end.metadata.usage = usage(object);
    }
    decoded.push(Frame::End(end))
}

fn usage(object: &Members) -> Option<Usage> {
    let models = object.get("usage")?.as_array()?;
    let usages = models.iter().map(|model| {
        let number = |name: &str| model[name].as_u64();
        Usage {
            model: model["model"].as_str().map(str::to_owned),
            input_tokens: number("inputTokens"),
            cached_input_tokens: number("cachedInputTokens"),
            output_tokens: number("outputTokens"),
            ..Usage::default()
        }
    });
    usages.reduce(|all, model| all.plus(&model))
}
