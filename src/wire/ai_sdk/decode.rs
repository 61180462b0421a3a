//! Reads UI message streams: ours, and those of npm `ai` and of any other server.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::event::{Event, Retract, Source, Sources};
use crate::failure::Failure;
use crate::frame::{Frame, Status};
use crate::metadata::Citation;
use crate::time::Timestamp;
use crate::wire::activity::is_shown;
use crate::wire::calls::{Call, Calls, MAX_OPEN_CALLS};
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::foreign::{self, ClientCalls};
use crate::wire::members::{self, DONE, Members, member, required, take, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits};

/// Decodes a UI message stream, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. The end is returned at `[DONE]`, or at
/// [`finish`](crate::wire::Decode::finish) if the stream ended after `finish`, `error` or `abort`. It holds one
/// unfinished part within the larger of the two limits, the metadata within its limit, and the
/// frames that were not taken yet.
///
/// `PROTOCOL.md`, `[A-10]` to `[A-12]`, lists the frame of each part, and what a turn loses on this
/// wire.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{AiSdk, Frame};
///
/// let mut decoder = AiSdk::default().decoder();
/// decoder.feed(b"data: {\"type\":\"text-delta\",\"id\":\"0\",\"delta\":\"Yes.\"}\n\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// decoder.feed(b"data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n");
/// assert!(matches!(decoder.next(), Some(Ok(Frame::End(_)))));
/// assert_eq!(decoder.finish(), Finish::Complete);
/// ```
#[derive(Debug)]
pub struct AiSdkDecoder {
    messages: Messages<Parts>,
    limits: Limits,
}

impl AiSdkDecoder {
    /// Creates a decoder for one stream: each part has at most the larger of the two limits, and
    /// the metadata the limit for trailers.
    pub fn new(limits: Limits) -> Self {
        Self::reading(Parts::default(), limits)
    }

    fn reading(parts: Parts, limits: Limits) -> Self {
        let parts = Parts {
            max_metadata_bytes: limits.max_trailer_bytes,
            ..parts
        };
        Self {
            messages: Messages::events(parts, limits.larger()),
            limits,
        }
    }

    /// Returns the calls for which another server waits when its stream ends, for an approval or for
    /// the result of a tool of the client, as far as they are decoded; at most 64. Each is also an
    /// `input_requested`. The next request contains their answers in the assistant's message.
    pub fn waiting_calls(&self) -> &[WaitingCall] {
        &self.messages.reader().waiting
    }

    /// Returns the decoder for the stream that continues the message, which knows the calls that have
    /// no result yet.
    #[must_use]
    pub fn next_stream(&self) -> Self {
        let ended = self.messages.reader();
        let parts = Parts {
            is_ours: ended.is_ours,
            calls: ended.calls.clone(),
            thoughts_begun: ended.thoughts_begun,
            ..Parts::default()
        };
        Self::reading(parts, self.limits)
    }
}

decoder!(AiSdkDecoder);

/// A call for which a server waits when its stream has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingCall {
    /// The ID of the question in `input_requested`: that of the approval, or of the call.
    pub id: String,
    /// The ID of the call.
    pub call_id: String,
    /// What the server waits for.
    pub wait: CallWait,
}

/// What a server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallWait {
    /// A human's approval of the call: the answer is `Approve` or `Deny`.
    Approval,
    /// The result of the call, which the client finds.
    Result,
}

impl WaitingCall {
    /// Returns `true` if this answer approves the call.
    pub fn is_approved_by(answer: &Value) -> bool {
        answer == APPROVE || *answer == true
    }
}

/// The answer that approves a call.
const APPROVE: &str = "Approve";

impl Default for AiSdkDecoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// The maximum number of citations that are collected from source parts, as many as our encoder
/// writes.
const MAX_CITATIONS: usize = super::sources::MAX_DOCUMENTS;

/// The state between two parts.
#[derive(Debug, Default)]
struct Parts {
    decoded: Decoded,
    max_metadata_bytes: usize,
    /// Whether a part carried our mark. In our streams a call or an output without the mark only
    /// keeps clients from showing a tool as busy.
    is_ours: bool,
    /// Tool calls without a result.
    calls: Calls,
    /// The calls of another server whose results the client may have to find.
    client_calls: ClientCalls,
    /// The calls for which another server waits. At most [`MAX_OPEN_CALLS`].
    waiting: Vec<WaitingCall>,
    /// Our open questions, with the answer that `tool-output-denied` means.
    questions: VecDeque<(String, Option<Value>)>,
    /// Thoughts that have begun and not ended, oldest first. At most [`MAX_OPEN_CALLS`].
    thoughts: VecDeque<Thought>,
    /// The number of thoughts so far, for their IDs.
    thoughts_begun: u64,
    metadata: Members,
    /// An upper bound of the size of `metadata`.
    metadata_bytes: usize,
    /// The sources of another server, which names them nowhere else.
    citations: Vec<Citation>,
    citation_bytes: usize,
    /// The number of characters of text so far, and at the beginning of the step.
    characters: u64,
    step_characters: u64,
    outcome: Option<Outcome>,
    failure: Option<Failure>,
    has_ended: bool,
}

#[derive(Debug)]
enum Outcome {
    Finished { reason: Option<String> },
    Stopped,
}

/// A reasoning part.
#[derive(Debug)]
struct Thought {
    part: String,
    /// The event that each piece becomes.
    event: &'static str,
    /// Its members besides the content.
    members: Members,
}

/// The members of the event in our mark, with the event's name.
fn mark(part: &Members) -> Option<(&str, &Members)> {
    let ours = part.get("providerMetadata")?.get("ragwire")?.as_object()?;
    Some((word(ours, "event")?, ours))
}

/// The members of a mark as members of an event.
fn members_of(mark: Option<&Members>) -> Members {
    mark.cloned().unwrap_or_default()
}

impl ReadMessage for Parts {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        if self.has_ended {
            return Err(DecodeError::TrailingBytes);
        }
        let data = message.data;
        if data.trim() == DONE {
            return self.end();
        }
        let mut part = members::parse_filled(data)?;
        let kind = take(&mut part, "type");
        let kind = kind.as_str().ok_or(DecodeError::BadEvent)?;
        match kind {
            "text-delta" => self.text(&part),
            "reasoning-start" => self.begin_thought(&part),
            "reasoning-delta" => self.think(&part),
            "reasoning-end" => {
                self.thoughts
                    .retain(|thought| Some(&*thought.part) != word(&part, "id"));
                Ok(())
            }
            "tool-input-available" | "tool-input-error" => self.call(part),
            "tool-output-available" | "tool-output-error" | "tool-output-denied" => self.result(kind, part),
            "tool-approval-request" => self.approval(&part),
            "source-url" | "source-document" => self.source(&part),
            "start" | "message-metadata" => self.merge(&mut part, data.len()),
            "start-step" => {
                self.step_characters = self.characters;
                Ok(())
            }
            "reset-step" => {
                self.characters = self.step_characters;
                let event = Retract::new(self.characters);
                self.decoded.push_event(event, None)
            }
            "finish" => {
                let reason = word(&part, "finishReason").map(str::to_owned);
                self.ask_for_results(reason.as_deref())?;
                self.outcome = Some(Outcome::Finished { reason });
                self.merge(&mut part, data.len())
            }
            "abort" => {
                self.outcome = Some(Outcome::Stopped);
                Ok(())
            }
            "error" => {
                let mut failure = Failure::default();
                if let Some(text) = word(&part, "errorText") {
                    failure.message = text.to_owned().into();
                }
                self.failure.get_or_insert(failure);
                Ok(())
            }
            kind => match kind.strip_prefix("data-") {
                Some(name) => self.data(name, take(&mut part, "data")),
                // The beginnings and ends of other parts, and parts of newer versions.
                None => Ok(()),
            },
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        let is_over = self.outcome.is_some() || self.failure.is_some();
        if is_over && !self.has_ended {
            return self.end();
        }
        Ok(())
    }
}

impl Parts {
    fn text(&mut self, part: &Members) -> Result<(), DecodeError> {
        let delta = required(part, "delta")?;
        if delta.is_empty() {
            return Ok(());
        }
        self.characters += delta.chars().count() as u64;
        self.decoded.push_text(delta)
    }

    fn begin_thought(&mut self, part: &Members) -> Result<(), DecodeError> {
        self.thoughts_begun += 1;
        let thought = match mark(part) {
            Some((name, members)) => {
                self.is_ours = true;
                Thought {
                    part: required(part, "id")?.to_owned(),
                    event: if name == "reasoning" {
                        "reasoning"
                    } else {
                        "thinking"
                    },
                    members: members.clone(),
                }
            }
            None => Thought {
                part: required(part, "id")?.to_owned(),
                event: "thinking",
                members: [member("id", format!("thought-{}", self.thoughts_begun))]
                    .into_iter()
                    .collect(),
            },
        };
        self.thoughts.push_back(thought);
        if self.thoughts.len() > MAX_OPEN_CALLS {
            self.thoughts.pop_front();
        }
        Ok(())
    }

    fn think(&mut self, part: &Members) -> Result<(), DecodeError> {
        let (id, delta) = (required(part, "id")?, required(part, "delta")?);
        let thought = self.thoughts.iter().rfind(|thought| thought.part == id);
        let content = member("content", delta);
        match thought {
            Some(thought) => {
                // Each piece of another server adds to its thought; an empty one adds nothing.
                if delta.is_empty() && !self.is_ours {
                    return Ok(());
                }
                self.decoded.push_named(
                    thought.event,
                    thought.members.clone().into_iter().chain([content]),
                )
            }
            // Its beginning is too long ago.
            None => self.decoded.push_named("thinking", [content, member("id", id)]),
        }
    }

    fn call(&mut self, mut part: Members) -> Result<(), DecodeError> {
        let id = required(&part, "toolCallId")?.to_owned();
        let tool = required(&part, "toolName")?.to_owned();
        let input = take(&mut part, "input");
        let mark = mark(&part);
        self.is_ours |= mark.is_some();
        match mark {
            Some((name, _)) if is_shown(name) => return Ok(()),
            Some(("input_requested", members)) => return self.question(id, input, members.clone()),
            None if self.is_ours => {}
            Some(_) | None => {
                let members = members_of(mark.map(|(_, members)| members)).into_iter();
                let is_elsewhere = part.get("providerExecuted") == Some(&Value::Bool(true));
                if !is_elsewhere {
                    self.client_calls.open(&id, &tool, &input);
                }
                let ours = [
                    member("tool", &*tool),
                    member("input", input),
                    member("call_id", &*id),
                ];
                self.decoded.push_named("tool_call", members.chain(ours))?;
            }
        }
        if let Some(error) = word(&part, "errorText") {
            let error = error.to_owned();
            self.client_calls.close(&id);
            return failed_call(&mut self.decoded, &tool, &id, &error, Members::new());
        }
        self.calls.open_bounded(Call {
            tool,
            id,
            unnamed: false,
        });
        Ok(())
    }

    fn result(&mut self, kind: &str, mut part: Members) -> Result<(), DecodeError> {
        let id = required(&part, "toolCallId")?.to_owned();
        let (error, output) = (
            word(&part, "errorText").map(str::to_owned),
            take(&mut part, "output"),
        );
        let mark = mark(&part);
        self.is_ours |= mark.is_some();
        let question = self.questions.iter().position(|(question, _)| *question == id);
        if let Some(question) = question.and_then(|at| self.questions.remove(at)) {
            let response = match (kind, error) {
                ("tool-output-denied", _) => question.1.unwrap_or_default(),
                (_, Some(_)) => Value::Null,
                (_, None) => output,
            };
            let members = members_of(mark.map(|(_, members)| members)).into_iter();
            let ours = [member("request_id", id), member("response", response)];
            return self.decoded.push_named("input_resolved", members.chain(ours));
        }
        match mark {
            Some((name, _)) if is_shown(name) => return Ok(()),
            // Closes a call that has no result.
            None if self.is_ours => return Ok(()),
            // The final output follows.
            None if part.get("preliminary") == Some(&Value::Bool(true)) => return Ok(()),
            Some(_) | None => {}
        }
        let call = self.calls.answered_by(Some(&id), "");
        let tool = call.map_or_else(|| UNKNOWN_TOOL.to_owned(), |(_, call)| call.tool.clone());
        self.calls.close(&id);
        self.client_calls.close(&id);
        let members = members_of(mark.map(|(_, members)| members));
        match (kind, error) {
            ("tool-output-denied", _) => failed_call(&mut self.decoded, &tool, &id, DENIED, members),
            (_, Some(error)) => failed_call(&mut self.decoded, &tool, &id, &error, members),
            (_, None) => {
                let ours = [
                    member("tool", tool),
                    member("result", output),
                    member("call_id", id),
                ];
                self.decoded
                    .push_named("tool_result", members.into_iter().chain(ours))
            }
        }
    }

    /// A question of ours, as `question.rs` writes it.
    fn question(&mut self, id: String, input: Value, mark: Members) -> Result<(), DecodeError> {
        let Value::Object(input) = input else {
            return Err(DecodeError::BadEvent);
        };
        let options = input.get("options").and_then(Value::as_array);
        let refusal = options.and_then(|options| options.last()).cloned();
        let members = mark.into_iter().chain(input).chain([member("request_id", &*id)]);
        self.decoded.push_named("input_requested", members)?;
        self.questions.push_back((id, refusal));
        if self.questions.len() > MAX_OPEN_CALLS {
            self.questions.pop_front();
        }
        Ok(())
    }

    /// Another server asks for approval of a call. In our streams the question was the call.
    fn approval(&mut self, part: &Members) -> Result<(), DecodeError> {
        if self.is_ours {
            return Ok(());
        }
        let (id, call_id) = (required(part, "approvalId")?, required(part, "toolCallId")?);
        self.client_calls.close(call_id);
        self.wait_for(id, call_id, CallWait::Approval);
        let call = self.calls.answered_by(Some(call_id), "");
        let tool = call.map_or(UNKNOWN_TOOL, |(_, call)| &call.tool);
        let members = [
            member("request_id", id),
            member("kind", "approval"),
            member("prompt", format!("Run {tool}?")),
            member("options", json!([APPROVE, "Deny"])),
        ];
        self.decoded.push_named("input_requested", members)
    }

    fn wait_for(&mut self, id: &str, call_id: &str, wait: CallWait) {
        if self.waiting.len() < MAX_OPEN_CALLS {
            self.waiting.push(WaitingCall {
                id: id.to_owned(),
                call_id: call_id.to_owned(),
                wait,
            });
        }
    }

    /// Asks for the results of the calls that another server has left to its client: those without a
    /// result at the end of a stream that ends because of its calls. Older servers give no reason.
    fn ask_for_results(&mut self, reason: Option<&str>) -> Result<(), DecodeError> {
        if self.is_ours || self.failure.is_some() || !matches!(reason, None | Some("tool-calls")) {
            return Ok(());
        }
        for (id, prompt) in self.client_calls.take_all() {
            let members = [
                member("request_id", &*id),
                member("kind", foreign::RESULT),
                member("prompt", prompt),
            ];
            self.decoded.push_named("input_requested", members)?;
            self.wait_for(&id, &id, CallWait::Result);
        }
        Ok(())
    }

    fn source(&mut self, part: &Members) -> Result<(), DecodeError> {
        let mark = part
            .get("providerMetadata")
            .and_then(|metadata| metadata.get("ragwire"));
        if mark.is_some() {
            // The metadata has the citations.
            return Ok(());
        }
        let id = required(part, "sourceId")?;
        let document = word(part, "url").or_else(|| word(part, "filename")).unwrap_or(id);
        let mut source = Source::new(id, document, "", Vec::new());
        if let Some(title) = word(part, "title") {
            source = source.title(title);
        }
        let citation = Citation::new(document, id, "", "");
        let bytes = id.len() + document.len();
        if self.citations.len() < MAX_CITATIONS && self.citation_bytes + bytes <= self.max_metadata_bytes {
            self.citation_bytes += bytes;
            self.citations.push(citation);
        }
        let event = Sources::new(vec![source]);
        self.decoded.push_event(event, None)
    }

    fn data(&mut self, name: &str, data: Value) -> Result<(), DecodeError> {
        match data {
            // An event of ours, whole.
            Value::Object(members) if word(&members, "event") == Some(name) => {
                self.is_ours = true;
                self.decoded.push_named(name, members)?;
                let retracted = match self.decoded.last_mut() {
                    Some(Frame::Event {
                        event: Event::Retract(retract),
                        ..
                    }) => Some(retract.kept),
                    _ => None,
                };
                self.characters = retracted.map_or(self.characters, |kept| kept.min(self.characters));
                Ok(())
            }
            mut data => {
                // The encoder adds the time to an object.
                let time = data.get("timestamp").and_then(Value::as_str);
                let time = time.and_then(Timestamp::parse);
                if let (Some(members), Some(_)) = (data.as_object_mut(), time) {
                    members.shift_remove("timestamp");
                }
                self.decoded.push_custom(name, data, time)
            }
        }
    }

    /// Adds the part's metadata. A later value of a member replaces an earlier one.
    fn merge(&mut self, part: &mut Members, bytes: usize) -> Result<(), DecodeError> {
        let Value::Object(metadata) = take(part, "messageMetadata") else {
            return Ok(());
        };
        for (name, value) in metadata {
            self.metadata.insert(name, value);
        }
        self.metadata_bytes += bytes;
        if self.metadata_bytes > self.max_metadata_bytes {
            // Members that were replaced count twice until here.
            self.metadata_bytes = serde_json::to_vec(&self.metadata).map_or(usize::MAX, |json| json.len());
        }
        if self.metadata_bytes > self.max_metadata_bytes {
            return Err(DecodeError::TrailerTooLong);
        }
        Ok(())
    }

    /// Adds the end, unless the stream only ended at a question.
    fn end(&mut self) -> Result<(), DecodeError> {
        self.has_ended = true;
        self.is_ours |= foreign::is_trailer(&self.metadata);
        let reason = match &self.outcome {
            Some(Outcome::Finished { reason }) => reason.as_deref(),
            Some(Outcome::Stopped) | None => None,
        };
        if reason == Some("tool-calls") && self.is_ours && self.failure.is_none() {
            // The turn waits for an answer and continues in another stream.
            return Ok(());
        }
        let status = match (self.failure.take(), &self.outcome) {
            (Some(failure), _) => Status::Failed(failure),
            (None, Some(Outcome::Stopped)) => Status::Stopped,
            (None, Some(Outcome::Finished { .. })) if reason == Some("error") => {
                Status::Failed(Failure::default())
            }
            (None, Some(Outcome::Finished { .. }) | None) => Status::Completed,
        };
        let mut end = foreign::end(std::mem::take(&mut self.metadata), status)?;
        if let Some(reason) = reason.filter(|reason| !self.is_ours && !["stop", "error"].contains(reason)) {
            // An answer that was cut at a limit, for example.
            let name = "finish_reason".to_owned();
            end.metadata.extra.entry(name).or_insert_with(|| reason.into());
        }
        if end.metadata.citations.is_empty() && end.status == Status::Completed {
            end.metadata.citations = std::mem::take(&mut self.citations);
        }
        self.decoded.push(Frame::End(end))
    }
}

/// The name of a tool whose call was not seen.
const UNKNOWN_TOOL: &str = "unknown";
/// The result of a call that a human denied.
const DENIED: &str = "The call was denied.";

fn failed_call(
    decoded: &mut Decoded,
    tool: &str,
    id: &str,
    error: &str,
    members: Members,
) -> Result<(), DecodeError> {
    let ours = [
        member("tool", tool),
        member("result", error),
        member("call_id", id),
        member("is_error", true),
    ];
    decoded.push_named("tool_result", members.into_iter().chain(ours))
}
