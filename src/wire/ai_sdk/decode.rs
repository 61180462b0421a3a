//! Reads UI message streams: ours, and those of npm `ai` and of any other server.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::event::{Event, Retract, Source, Sources};
use crate::failure::Failure;
use crate::frame::{End, Frame, Status};
use crate::metadata::Citation;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::activity::is_shown;
use crate::wire::calls::{Call, Calls, MAX_OPEN_CALLS};
use crate::wire::decoded::Decoded;
use crate::wire::upstream::{
    DONE, Objects, is_trailer, member, push, push_custom, push_event, read_end, read_object, required, take,
    word,
};
use crate::wire::{Decode, DecodeError, Finish, Limits};

/// Decodes a UI message stream, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. The end is returned at `[DONE]`, or at
/// [`finish`](Decode::finish) if the stream ended after `finish`, `error` or `abort`. It holds one
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
    objects: Objects,
    parts: Parts,
}

impl AiSdkDecoder {
    /// Creates a decoder for one stream: each part has at most the larger of the two limits, and
    /// the metadata the limit for trailers.
    pub fn new(limits: Limits) -> Self {
        Self {
            objects: Objects::new(limits),
            parts: Parts {
                max_metadata_bytes: limits.max_trailer_bytes,
                ..Parts::default()
            },
        }
    }

    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.objects.decoded.phase()
    }
}

impl Default for AiSdkDecoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Decode for AiSdkDecoder {
    fn feed(&mut self, bytes: &[u8]) {
        self.objects
            .feed(bytes, |decoded, data| self.parts.take(decoded, data));
    }

    fn finish(&mut self) -> Finish {
        let decoded = &mut self.objects.decoded;
        let is_over = self.parts.outcome.is_some() || self.parts.failure.is_some();
        if is_over
            && !self.parts.has_ended
            && !decoded.has_failed()
            && let Err(error) = self.parts.end(decoded)
        {
            decoded.fail(error);
        }
        decoded.finish()
    }
}

impl Iterator for AiSdkDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.objects.decoded.next()
    }
}

/// The maximum number of citations that are collected from source parts, as many as our encoder
/// writes.
const MAX_CITATIONS: usize = super::sources::MAX_DOCUMENTS;

/// The state between two parts.
#[derive(Debug, Default)]
struct Parts {
    max_metadata_bytes: usize,
    /// Whether a part carried our mark. In our streams a call or an output without the mark only
    /// keeps clients from showing a tool as busy.
    is_ours: bool,
    /// Tool calls without a result.
    calls: Calls,
    /// Our open questions, with the answer that `tool-output-denied` means.
    questions: VecDeque<(String, Option<Value>)>,
    /// Thoughts that have begun and not ended, oldest first. At most [`MAX_OPEN_CALLS`].
    thoughts: VecDeque<Thought>,
    /// The number of thoughts so far, for their IDs.
    thoughts_begun: u64,
    metadata: Map<String, Value>,
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
    members: Map<String, Value>,
}

/// The members of the event in our mark, with the event's name.
fn mark(part: &Map<String, Value>) -> Option<(&str, &Map<String, Value>)> {
    let ours = part.get("providerMetadata")?.get("ragwire")?.as_object()?;
    Some((word(ours, "event")?, ours))
}

/// The members of a mark as members of an event.
fn members_of(mark: Option<&Map<String, Value>>) -> Map<String, Value> {
    mark.cloned().unwrap_or_default()
}

impl Parts {
    fn take(&mut self, decoded: &mut Decoded, data: &str) -> Result<(), DecodeError> {
        if self.has_ended {
            return Err(DecodeError::TrailingBytes);
        }
        if data.trim() == DONE {
            return self.end(decoded);
        }
        let mut part = read_object(data)?;
        let kind = take(&mut part, "type");
        let kind = kind.as_str().ok_or(DecodeError::BadEvent)?;
        match kind {
            "text-delta" => self.text(decoded, &part),
            "reasoning-start" => self.begin_thought(&part),
            "reasoning-delta" => self.think(decoded, &part),
            "reasoning-end" => {
                self.thoughts
                    .retain(|thought| Some(&*thought.part) != word(&part, "id"));
                Ok(())
            }
            "tool-input-available" | "tool-input-error" => self.call(decoded, part),
            "tool-output-available" | "tool-output-error" | "tool-output-denied" => {
                self.result(decoded, kind, part)
            }
            "tool-approval-request" => self.approval(decoded, &part),
            "source-url" | "source-document" => self.source(decoded, &part),
            "start" | "message-metadata" => self.merge(&mut part, data.len()),
            "start-step" => {
                self.step_characters = self.characters;
                Ok(())
            }
            "reset-step" => {
                self.characters = self.step_characters;
                let event = Retract::new(self.characters).into();
                push(
                    decoded,
                    Frame::Event {
                        event,
                        timestamp: None,
                    },
                )
            }
            "finish" => {
                let reason = word(&part, "finishReason").map(str::to_owned);
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
                Some(name) => self.data(decoded, name, take(&mut part, "data")),
                // The beginnings and ends of other parts, and parts of newer versions.
                None => Ok(()),
            },
        }
    }

    fn text(&mut self, decoded: &mut Decoded, part: &Map<String, Value>) -> Result<(), DecodeError> {
        let delta = required(part, "delta")?;
        if delta.is_empty() {
            return Ok(());
        }
        self.characters += delta.chars().count() as u64;
        push(decoded, Frame::Text(delta.to_owned()))
    }

    fn begin_thought(&mut self, part: &Map<String, Value>) -> Result<(), DecodeError> {
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

    fn think(&mut self, decoded: &mut Decoded, part: &Map<String, Value>) -> Result<(), DecodeError> {
        let (id, delta) = (required(part, "id")?, required(part, "delta")?);
        let thought = self.thoughts.iter().rfind(|thought| thought.part == id);
        let content = member("content", delta);
        match thought {
            Some(thought) => {
                // Each piece of another server adds to its thought; an empty one adds nothing.
                if delta.is_empty() && !self.is_ours {
                    return Ok(());
                }
                push_event(
                    decoded,
                    thought.event,
                    thought.members.clone().into_iter().chain([content]),
                )
            }
            // Its beginning is too long ago.
            None => push_event(decoded, "thinking", [content, member("id", id)]),
        }
    }

    fn call(&mut self, decoded: &mut Decoded, mut part: Map<String, Value>) -> Result<(), DecodeError> {
        let id = required(&part, "toolCallId")?.to_owned();
        let tool = required(&part, "toolName")?.to_owned();
        let input = take(&mut part, "input");
        let mark = mark(&part);
        self.is_ours |= mark.is_some();
        match mark {
            Some((name, _)) if is_shown(name) => return Ok(()),
            Some(("input_requested", members)) => return self.question(decoded, id, input, members.clone()),
            None if self.is_ours => {}
            Some(_) | None => {
                let members = members_of(mark.map(|(_, members)| members)).into_iter();
                let ours = [
                    member("tool", &*tool),
                    member("input", input),
                    member("call_id", &*id),
                ];
                push_event(decoded, "tool_call", members.chain(ours))?;
            }
        }
        if let Some(error) = word(&part, "errorText") {
            let error = error.to_owned();
            return failed_call(decoded, &tool, &id, &error, Map::new());
        }
        self.calls.open_bounded(Call {
            tool,
            id,
            unnamed: false,
        });
        Ok(())
    }

    fn result(
        &mut self,
        decoded: &mut Decoded,
        kind: &str,
        mut part: Map<String, Value>,
    ) -> Result<(), DecodeError> {
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
            return push_event(decoded, "input_resolved", members.chain(ours));
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
        let members = members_of(mark.map(|(_, members)| members));
        match (kind, error) {
            ("tool-output-denied", _) => failed_call(decoded, &tool, &id, DENIED, members),
            (_, Some(error)) => failed_call(decoded, &tool, &id, &error, members),
            (_, None) => {
                let ours = [
                    member("tool", tool),
                    member("result", output),
                    member("call_id", id),
                ];
                push_event(decoded, "tool_result", members.into_iter().chain(ours))
            }
        }
    }

    /// A question of ours, as `question.rs` writes it.
    fn question(
        &mut self,
        decoded: &mut Decoded,
        id: String,
        input: Value,
        mark: Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let Value::Object(input) = input else {
            return Err(DecodeError::BadEvent);
        };
        let options = input.get("options").and_then(Value::as_array);
        let refusal = options.and_then(|options| options.last()).cloned();
        let members = mark.into_iter().chain(input).chain([member("request_id", &*id)]);
        push_event(decoded, "input_requested", members)?;
        self.questions.push_back((id, refusal));
        if self.questions.len() > MAX_OPEN_CALLS {
            self.questions.pop_front();
        }
        Ok(())
    }

    /// Another server asks for approval of a call. In our streams the question was the call.
    fn approval(&mut self, decoded: &mut Decoded, part: &Map<String, Value>) -> Result<(), DecodeError> {
        if self.is_ours {
            return Ok(());
        }
        let (id, call) = (required(part, "approvalId")?, required(part, "toolCallId")?);
        let call = self.calls.answered_by(Some(call), "");
        let tool = call.map_or(UNKNOWN_TOOL, |(_, call)| &call.tool);
        let members = [
            member("request_id", id),
            member("kind", "approval"),
            member("prompt", format!("Run {tool}?")),
            member("options", json!(["Approve", "Deny"])),
        ];
        push_event(decoded, "input_requested", members)
    }

    fn source(&mut self, decoded: &mut Decoded, part: &Map<String, Value>) -> Result<(), DecodeError> {
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
        let event = Sources::new(vec![source]).into();
        push(
            decoded,
            Frame::Event {
                event,
                timestamp: None,
            },
        )
    }

    fn data(&mut self, decoded: &mut Decoded, name: &str, data: Value) -> Result<(), DecodeError> {
        match data {
            // An event of ours, whole.
            Value::Object(members) if word(&members, "event") == Some(name) => {
                self.is_ours = true;
                push_event(decoded, name, members)?;
                let retracted = match decoded.last_mut() {
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
                push_custom(decoded, name, data, time)
            }
        }
    }

    /// Adds the part's metadata. A later value of a member replaces an earlier one.
    fn merge(&mut self, part: &mut Map<String, Value>, bytes: usize) -> Result<(), DecodeError> {
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
    fn end(&mut self, decoded: &mut Decoded) -> Result<(), DecodeError> {
        self.has_ended = true;
        self.is_ours |= is_trailer(&self.metadata);
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
        let mut end: End = read_end(std::mem::take(&mut self.metadata), status)?;
        if let Some(reason) = reason.filter(|reason| !self.is_ours && !["stop", "error"].contains(reason)) {
            // An answer that was cut at a limit, for example.
            let name = "finish_reason".to_owned();
            end.metadata.extra.entry(name).or_insert_with(|| reason.into());
        }
        if end.metadata.citations.is_empty() && end.status == Status::Completed {
            end.metadata.citations = std::mem::take(&mut self.citations);
        }
        push(decoded, Frame::End(end))
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
    members: Map<String, Value>,
) -> Result<(), DecodeError> {
    let ours = [
        member("tool", tool),
        member("result", error),
        member("call_id", id),
        member("is_error", true),
    ];
    push_event(decoded, "tool_result", members.into_iter().chain(ours))
}
