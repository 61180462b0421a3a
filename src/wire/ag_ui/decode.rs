//! Reads AG-UI streams: ours, and those of any other server, such as Pydantic AI's, LangGraph's and
//! CopilotKit's.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::AgUi;
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::metadata::Usage;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::activity::is_shown;
use crate::wire::calls::{Call, Calls, MAX_OPEN_CALLS};
use crate::wire::decoded::Decoded;
use crate::wire::upstream::{
    DONE, Objects, member, push, push_custom, push_event, read_end, read_object, required, take, word,
};
use crate::wire::{Decode, DecodeError, Finish, Limits};

/// Decodes an AG-UI stream of one run, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished object and the
/// arguments of unfinished calls, each within the larger of the two limits, and the frames that
/// were not taken yet.
///
/// A run that ends with an interrupt has not ended its turn: the stream is then truncated.
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
    objects: Objects,
    run: Run,
}

impl AgUiDecoder {
    /// Creates a decoder for one run, with these limits of each object.
    pub fn new(limits: Limits) -> Self {
        Self {
            objects: Objects::new(limits),
            run: Run {
                max_argument_bytes: limits.larger(),
                ..Run::default()
            },
        }
    }

    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.objects.decoded.phase()
    }
}

impl Default for AgUiDecoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Decode for AgUiDecoder {
    fn feed(&mut self, bytes: &[u8]) {
        self.objects
            .feed(bytes, |decoded, data| self.run.take(decoded, data));
    }

    fn finish(&mut self) -> Finish {
        self.objects.decoded.finish()
    }
}

impl Iterator for AgUiDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.objects.decoded.next()
    }
}

/// The state between two objects.
#[derive(Debug, Default)]
struct Run {
    max_argument_bytes: usize,
    /// Calls whose arguments are not complete, oldest first. At most [`MAX_OPEN_CALLS`].
    begun: VecDeque<BegunCall>,
    /// Calls without a result.
    calls: Calls,
    /// The ID of the call whose chunks are being read. Any other object completes it.
    chunked_call: Option<String>,
    /// The message of another role than the assistant's, whose text is not the answer.
    skipped_message: Option<String>,
    /// The thought whose pieces are being read: the members of each besides the content.
    thought: Option<Map<String, Value>>,
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
    metadata: Map<String, Value>,
}

/// The time of an object as a member of an event.
fn time(object: &Map<String, Value>) -> Option<Timestamp> {
    let millis = object.get("timestamp")?.as_i64()?;
    Some(Timestamp::from_micros(millis.checked_mul(1_000)?))
}

fn timestamp(object: &Map<String, Value>) -> Option<(String, Value)> {
    Some(member("timestamp", time(object)?.to_string()))
}

fn metadata(object: &mut Map<String, Value>) -> Map<String, Value> {
    match take(object, "metadata") {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    }
}

/// Returns `true` for a call or a result as which an event of ours is shown.
fn is_mark(metadata: &Map<String, Value>) -> bool {
    word(metadata, "event").is_some_and(is_shown)
}

impl Run {
    fn take(&mut self, decoded: &mut Decoded, data: &str) -> Result<(), DecodeError> {
        if data.trim() == DONE {
            // Not of this protocol, but some servers write it.
            return Ok(());
        }
        if self.has_ended {
            return Err(DecodeError::TrailingBytes);
        }
        let mut object = read_object(data)?;
        let kind = take(&mut object, "type");
        let kind = kind.as_str().ok_or(DecodeError::BadEvent)?;
        if kind != "TOOL_CALL_CHUNK" {
            self.complete_chunks(decoded)?;
        }
        let asked = self.asked.take();
        match kind {
            "TEXT_MESSAGE_START" => {
                self.skip_others(&object);
                Ok(())
            }
            "TEXT_MESSAGE_CHUNK" => {
                self.skip_others(&object);
                self.text(decoded, &object)
            }
            "TEXT_MESSAGE_CONTENT" => self.text(decoded, &object),
            "TOOL_CALL_START" => {
                let (id, tool) = (
                    required(&object, "toolCallId")?,
                    required(&object, "toolCallName")?,
                );
                let (id, tool) = (id.to_owned(), tool.to_owned());
                self.begin_call(decoded, id, tool, &mut object)
            }
            "TOOL_CALL_ARGS" => self.arguments(required(&object, "toolCallId")?, &object),
            "TOOL_CALL_END" => self.complete_call(decoded, required(&object, "toolCallId")?),
            "TOOL_CALL_CHUNK" => self.call_chunk(decoded, object),
            "TOOL_CALL_RESULT" => self.result(decoded, object),
            "REASONING_MESSAGE_START" | "THINKING_TEXT_MESSAGE_START" => {
                self.begin_thought(&mut object);
                Ok(())
            }
            "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_CHUNK" | "THINKING_TEXT_MESSAGE_CONTENT" => {
                self.think(decoded, &mut object)
            }
            "REASONING_MESSAGE_END" | "THINKING_TEXT_MESSAGE_END" | "THINKING_END" => {
                self.thought = None;
                Ok(())
            }
            "STEP_STARTED" | "STEP_FINISHED" => step(decoded, kind, &object),
            "CUSTOM" => {
                self.asked = custom(decoded, object)?;
                Ok(())
            }
            "STATE_SNAPSHOT" => push_custom(
                decoded,
                "ag_ui.state_snapshot",
                take(&mut object, "snapshot"),
                time(&object),
            ),
            "STATE_DELTA" => push_custom(
                decoded,
                "ag_ui.state_delta",
                take(&mut object, "delta"),
                time(&object),
            ),
            "ACTIVITY_SNAPSHOT" => activity(decoded, "ag_ui.activity_snapshot", object),
            "ACTIVITY_DELTA" => activity(decoded, "ag_ui.activity_delta", object),
            "MESSAGES_SNAPSHOT" => {
                self.snapshot_answer = last_answer(&object);
                Ok(())
            }
            "RUN_FINISHED" => self.finished(decoded, object, asked.as_deref()),
            "RUN_ERROR" => self.failed(decoded, object),
            // The beginnings and ends of other objects, and objects of newer versions.
            _ => Ok(()),
        }
    }

    /// Notes whose text follows.
    fn skip_others(&mut self, object: &Map<String, Value>) {
        match word(object, "role") {
            Some("assistant") => self.skipped_message = None,
            Some(_) => self.skipped_message = word(object, "messageId").map(str::to_owned),
            None => {}
        }
    }

    fn text(&mut self, decoded: &mut Decoded, object: &Map<String, Value>) -> Result<(), DecodeError> {
        let delta = word(object, "delta").unwrap_or_default();
        let id = word(object, "messageId");
        let is_skipped =
            self.skipped_message.is_some() && (id.is_none() || id == self.skipped_message.as_deref());
        if delta.is_empty() || is_skipped {
            return Ok(());
        }
        self.has_text = true;
        push(decoded, Frame::Text(delta.to_owned()))
    }

    fn begin_call(
        &mut self,
        decoded: &mut Decoded,
        id: String,
        tool: String,
        object: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        // A call that begins again, or one too many, has all the arguments that it will get.
        self.complete_call(decoded, &id)?;
        if self.begun.len() >= MAX_OPEN_CALLS
            && let Some(oldest) = self.begun.pop_front()
        {
            self.push_call(decoded, oldest)?;
        }
        let time = timestamp(object);
        let mut metadata = metadata(object);
        metadata.extend(time);
        self.begun.push_back(BegunCall {
            id,
            tool,
            arguments: String::new(),
            metadata,
        });
        Ok(())
    }

    fn arguments(&mut self, id: &str, object: &Map<String, Value>) -> Result<(), DecodeError> {
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

    fn complete_call(&mut self, decoded: &mut Decoded, id: &str) -> Result<(), DecodeError> {
        let at = self.begun.iter().position(|call| call.id == id);
        match at.and_then(|at| self.begun.remove(at)) {
            Some(call) => self.push_call(decoded, call),
            None => Ok(()),
        }
    }

    fn push_call(&mut self, decoded: &mut Decoded, call: BegunCall) -> Result<(), DecodeError> {
        if is_mark(&call.metadata) {
            return Ok(());
        }
        let input = match call.arguments.as_str() {
            "" => json!({}),
            // Arguments that are not JSON are still what the model wrote.
            arguments => serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into()),
        };
        let ours = [
            member("tool", &*call.tool),
            member("input", input),
            member("call_id", &*call.id),
        ];
        push_event(decoded, "tool_call", call.metadata.into_iter().chain(ours))?;
        self.calls.open_bounded(Call {
            tool: call.tool,
            id: call.id,
            unnamed: false,
        });
        Ok(())
    }

    /// A call that is sent in chunks without an end.
    fn call_chunk(
        &mut self,
        decoded: &mut Decoded,
        mut object: Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let id = word(&object, "toolCallId").map(str::to_owned);
        let tool = word(&object, "toolCallName").map(str::to_owned);
        let is_next = id.is_some() && id != self.chunked_call;
        if let (Some(id), Some(tool), true) = (&id, tool, is_next) {
            self.complete_chunks(decoded)?;
            self.begin_call(decoded, id.clone(), tool, &mut object)?;
            self.chunked_call = Some(id.clone());
        }
        match id.or_else(|| self.chunked_call.clone()) {
            Some(id) => self.arguments(&id, &object),
            None => Ok(()),
        }
    }

    fn complete_chunks(&mut self, decoded: &mut Decoded) -> Result<(), DecodeError> {
        match self.chunked_call.take() {
            Some(id) => self.complete_call(decoded, &id),
            None => Ok(()),
        }
    }

    fn result(&mut self, decoded: &mut Decoded, mut object: Map<String, Value>) -> Result<(), DecodeError> {
        let id = required(&object, "toolCallId")?.to_owned();
        self.complete_call(decoded, &id)?;
        let (time, metadata) = (timestamp(&object), metadata(&mut object));
        if is_mark(&metadata) {
            return Ok(());
        }
        let call = self.calls.answered_by(Some(&id), "");
        let tool = call.map_or("unknown", |(_, call)| &call.tool).to_owned();
        self.calls.close(&id);
        let result = match take(&mut object, "content") {
            Value::String(content) => read_content(content),
            content => content,
        };
        let ours = [member("result", result), member("call_id", id)];
        let members = [member("tool", tool)].into_iter().chain(metadata).chain(time);
        push_event(decoded, "tool_result", members.chain(ours))
    }

    fn begin_thought(&mut self, object: &mut Map<String, Value>) {
        self.thoughts += 1;
        let mut members = Map::new();
        members.extend([member("id", format!("thought-{}", self.thoughts))]);
        // The ID of a thought of ours replaces the number.
        members.extend(metadata(object));
        self.thought_message = word(object, "messageId").map(str::to_owned);
        self.thought = Some(members);
    }

    fn think(&mut self, decoded: &mut Decoded, object: &mut Map<String, Value>) -> Result<(), DecodeError> {
        let id = word(object, "messageId").map(str::to_owned);
        if self.thought.is_none() || (id.is_some() && id != self.thought_message) {
            self.begin_thought(object);
        }
        let content = member("content", word(object, "delta").unwrap_or_default());
        let members = self.thought.clone().unwrap_or_default().into_iter();
        push_event(
            decoded,
            "thinking",
            members.chain([content]).chain(timestamp(object)),
        )
    }

    fn finished(
        &mut self,
        decoded: &mut Decoded,
        mut object: Map<String, Value>,
        asked: Option<&str>,
    ) -> Result<(), DecodeError> {
        self.complete_calls(decoded)?;
        self.has_ended = true;
        let outcome = take(&mut object, "outcome");
        let status = match outcome.get("type").and_then(Value::as_str) {
            Some("cancelled") => Status::Stopped,
            Some("interrupt") => return interrupts(decoded, &outcome, asked),
            _ => Status::Completed,
        };
        if let Some(answer) = self.snapshot_answer.take().filter(|_| !self.has_text) {
            push(decoded, Frame::Text(answer))?;
        }
        let result = match take(&mut object, "result") {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            result => Map::from_iter([member("result", result)]),
        };
        end(decoded, result, status, &object)
    }

    fn failed(&mut self, decoded: &mut Decoded, mut object: Map<String, Value>) -> Result<(), DecodeError> {
        self.complete_calls(decoded)?;
        self.has_ended = true;
        let mut failure = Failure::default();
        if let Some(code) = word(&object, "code") {
            failure.kind = FailureKind::from(code.to_owned());
        }
        if let Some(message) = word(&object, "message") {
            failure.message = message.to_owned().into();
        }
        let metadata = metadata(&mut object);
        end(decoded, metadata, Status::Failed(failure), &object)
    }

    fn complete_calls(&mut self, decoded: &mut Decoded) -> Result<(), DecodeError> {
        while let Some(call) = self.begun.pop_front() {
            self.push_call(decoded, call)?;
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
fn step(decoded: &mut Decoded, kind: &str, object: &Map<String, Value>) -> Result<(), DecodeError> {
    let event = match kind {
        "STEP_STARTED" => "ag_ui.step_started",
        _ => "ag_ui.step_finished",
    };
    match word(object, "stepName") {
        Some(AgUi::STEP) | None => Ok(()),
        Some(name) => push_custom(decoded, event, json!({ "step": name }), time(object)),
    }
}

fn activity(decoded: &mut Decoded, name: &str, mut object: Map<String, Value>) -> Result<(), DecodeError> {
    let time = time(&object);
    object.shift_remove("timestamp");
    push_custom(decoded, name, object.into(), time)
}

/// Adds an event of ours or of the application. Returns the ID of the question that it asks.
fn custom(decoded: &mut Decoded, mut object: Map<String, Value>) -> Result<Option<String>, DecodeError> {
    let name = required(&object, "name")?.to_owned();
    match take(&mut object, "value") {
        Value::Object(value) if Event::NAMES.contains(&name.as_str()) => {
            push_event(decoded, &name, value.into_iter().chain(timestamp(&object)))?;
        }
        value => push_custom(decoded, &name, value, time(&object))?,
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
fn last_answer(object: &Map<String, Value>) -> Option<String> {
    let messages = object.get("messages")?.as_array()?;
    let role = |message: &&Value, role: &str| message["role"] == role;
    let this_run = messages.iter().rev().take_while(|message| !role(message, "user"));
    let mut answers = this_run.filter(|message| role(message, "assistant"));
    let answer = answers.find_map(|message| message["content"].as_str().filter(|text| !text.is_empty()))?;
    Some(answer.to_owned())
}

/// The questions of another server at which its run ended. Ours was `asked` before: the ID of its
/// interrupt is that of the question, after a prefix.
fn interrupts(decoded: &mut Decoded, outcome: &Value, asked: Option<&str>) -> Result<(), DecodeError> {
    let interrupts = outcome["interrupts"].as_array();
    for interrupt in interrupts.into_iter().flatten() {
        let (Some(id), Some(kind)) = (interrupt["id"].as_str(), interrupt["reason"].as_str()) else {
            return Err(DecodeError::BadEvent);
        };
        if asked.is_some_and(|asked| id.ends_with(asked)) {
            continue;
        }
        let prompt = interrupt["message"].as_str().unwrap_or_default();
        let options = interrupt["responseSchema"]["enum"].as_array();
        let members = [
            member("request_id", id),
            member("kind", kind),
            member("prompt", prompt),
        ];
        let options = options.map(|options| member("options", options.clone()));
        push_event(decoded, "input_requested", members.into_iter().chain(options))?;
    }
    Ok(())
}

/// Adds the end. The numbers of tokens are those of `object` if the metadata has none.
fn end(
    decoded: &mut Decoded,
    metadata: Map<String, Value>,
    status: Status,
    object: &Map<String, Value>,
) -> Result<(), DecodeError> {
    let mut end: End = read_end(metadata, status)?;
    if end.metadata.usage.is_none() {
        end.metadata.usage = usage(object);
    }
    push(decoded, Frame::End(end))
}

fn usage(object: &Map<String, Value>) -> Option<Usage> {
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
