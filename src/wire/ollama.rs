//! The stream of [Ollama](https://github.com/ollama/ollama/blob/main/docs/api.md)'s `POST /api/chat`:
//! one JSON object per line, and `done: true` in the last one. Also that of `POST /api/generate`,
//! which has the members of the message in the object itself; it is only written.
//!
//! Steps and thoughts are sent as `message.thinking`. The protocol has no members for events,
//! citations or a stop: these are sent in one extension member, `ragwire`, which clients skip. This
//! module has no clock: the caller provides the time. The rules are in `PROTOCOL.md`, section
//! "Ollama" (`[OL-nn]`).
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::ollama::Decoder;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, Metadata, Ollama, Timestamp};
//!
//! let created_at = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
//! let (mut encoder, mut bytes) = (Ollama::new("rag", created_at).encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert_eq!(
//!     &bytes[..],
//!     br#"{"model":"rag","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":"Yes."},"done":false}
//! {"model":"rag","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","ragwire":{"citations":[],"tools_used":[]}}
//! "#
//! );
//!
//! let mut decoder = Decoder::default();
//! decoder.feed(&bytes);
//! assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json};

use super::MAX_PIECE_BYTES;
use super::decoded::Decoded;
use super::event_stream::MessageRef;
use super::foreign::{self, Thoughts};
use super::members::{self, Members, filled, list, word};
use super::messages::{Messages, ReadMessage, decoded, decoder};
use super::object::{self, Late};
use super::reasoning::Reasoning;
use super::{DecodeError, EncodeError, Limits, Spelling, Wire, padding};
use crate::event::{Event, ToolCall};
use crate::failure::Failure;
use crate::frame::{End, Frame, Status};
use crate::json;
use crate::metadata::{Metadata, Usage};
use crate::order::Phase;
use crate::time::Timestamp;
use crate::utf8::pieces;

/// Nanoseconds in a millisecond: Ollama's unit and ours.
const NANOS_PER_MS: f64 = 1e6;
/// The bytes of a line besides its event, text or metadata: the model's name and the figures.
const HEAD_BYTES: usize = 16 * 1024;

/// The wire of Ollama's chat, for one turn.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct Ollama {
    model: String,
    created_at: Timestamp,
    form: Form,
    thinking: bool,
    limits: Limits,
}

/// The route whose response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `message: {role, content, thinking}`.
    Chat,
    /// `response` and `thinking`.
    Generate,
}

impl Ollama {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "application/x-ndjson";

    /// Creates the wire from the name of the model and the time of the request.
    pub fn new(model: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            model: model.into(),
            created_at,
            form: Form::Chat,
            thinking: true,
            limits: Limits::default(),
        }
    }

    /// Writes the response of `POST /api/generate` instead of `POST /api/chat`.
    #[must_use]
    pub fn generate(mut self) -> Self {
        self.form = Form::Generate;
        self
    }

    /// Sends steps and thoughts as `message.thinking` (default), or only in `ragwire`. Set it to the
    /// request's `think`.
    #[must_use]
    pub fn thinking(mut self, thinking: bool) -> Self {
        self.thinking = thinking;
        self
    }

    /// Sets the limits of the JSON of an event, and of the metadata.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the whole turn as one object, for requests with `stream: false`. A failed turn is an
    /// [`error`](Self::error).
    pub fn chat(&self, events: &[(Event, Option<Timestamp>)], text: &str, end: &End) -> Value {
        if let Status::Failed(failure) = &end.status {
            return Self::error(failure);
        }
        let mut chat = json!({"model": self.model, "created_at": self.created_at});
        let thinking = Some(Reasoning::whole(events.iter().map(|(event, _)| event)));
        let thinking = thinking.filter(|text| self.thinking && !text.is_empty());
        let message = match self.form {
            Form::Chat => {
                chat["message"] = json!({"role": "assistant", "content": text});
                &mut chat["message"]
            }
            Form::Generate => {
                chat["response"] = text.into();
                &mut chat
            }
        };
        if let Some(thinking) = thinking {
            message["thinking"] = thinking.into();
        }
        chat["done"] = true.into();
        chat["done_reason"] = end.metadata.finish_reason().into();
        for (name, figure) in figures(end) {
            chat[name] = figure.into();
        }
        let mut metadata = BytesMut::new();
        self.write_metadata(end, &mut metadata);
        chat["ragwire"] = serde_json::from_slice(&metadata).unwrap_or_default();
        chat
    }

    /// Returns the body of a response with an error status.
    pub fn error(failure: &Failure) -> Value {
        json!({"error": failure.message})
    }

    /// Returns the body of `GET /api/tags`. What is unknown of a model is empty or 0, because some
    /// clients require the members.
    pub fn tags(names: &[&str], modified_at: Timestamp) -> Value {
        let model = |name: &&str| {
            json!({
                "name": name,
                "model": name,
                "modified_at": modified_at,
                "size": 0,
                "digest": "",
                "details": {
                    "parent_model": "",
                    "format": "ragwire",
                    "family": "ragwire",
                    "families": ["ragwire"],
                    "parameter_size": "",
                    "quantization_level": "",
                },
            })
        };
        json!({"models": names.iter().map(model).collect::<Vec<_>>()})
    }

    fn write_metadata(&self, end: &End, out: &mut BytesMut) {
        object::write_end(end, &Late::default(), self.limits.max_trailer_bytes, out);
    }
}

impl Wire for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        let mut head = BytesMut::from(&br#"{"model":"#[..]);
        write(&mut head, &self.model);
        head.extend_from_slice(br#","created_at":"#);
        write(&mut head, &self.created_at);
        let (text, close) = match self.form {
            Form::Chat => (r#","message":{"role":"assistant","content":"#, "}"),
            Form::Generate => (r#","response":"#, ""),
        };
        head.extend_from_slice(text.as_bytes());
        Box::new(OllamaSpelling {
            head: head.freeze(),
            close,
            wire: self.clone(),
            reasoning: Reasoning::default(),
        })
    }
}

#[derive(Debug)]
struct OllamaSpelling {
    /// The beginning of every line, up to the content.
    head: Bytes,
    /// What closes the message after the content.
    close: &'static str,
    wire: Ollama,
    reasoning: Reasoning,
}

impl Spelling for OllamaSpelling {
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let from = out.len();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#""""#);
        // Clients show what a model thinks before its answer.
        let is_shown = self.wire.thinking && phase == Phase::Events;
        if let Some(text) = self.reasoning.text(event).filter(|_| is_shown) {
            out.extend_from_slice(br#","thinking":"#);
            write(out, &text);
        }
        out.extend_from_slice(self.close.as_bytes());
        out.extend_from_slice(br#","done":false,"ragwire":{"event":"#);
        object::write_event(event, timestamp, out)?;
        out.extend_from_slice(b"}}");
        object::check_line(out.len() - from, self.wire.limits)?;
        out.extend_from_slice(b"\n");
        self.reasoning.advance(event);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        for piece in pieces(text, MAX_PIECE_BYTES) {
            out.extend_from_slice(&self.head);
            write(out, &piece);
            out.extend_from_slice(self.close.as_bytes());
            out.extend_from_slice(b",\"done\":false}\n");
        }
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        if let Status::Failed(failure) = &end.status {
            out.extend_from_slice(br#"{"error":"#);
            write(out, &failure.message);
        } else {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(br#""""#);
            out.extend_from_slice(self.close.as_bytes());
            out.extend_from_slice(br#","done":true,"done_reason":""#);
            out.extend_from_slice(end.metadata.finish_reason().as_bytes());
            out.extend_from_slice(b"\"");
            for (name, figure) in figures(end) {
                out.extend_from_slice(format!(",\"{name}\":{figure}").as_bytes());
            }
        }
        out.extend_from_slice(br#","ragwire":"#);
        self.wire.write_metadata(end, out);
        out.extend_from_slice(b"}\n");
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    /// Readers parse every line, so an empty one would fail some of them.
    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#""""#);
        out.extend_from_slice(self.close.as_bytes());
        out.extend_from_slice(b",\"done\":false}\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::spaces(bytes, out);
    }
}

/// The measured figures of the turn, in Ollama's order and units.
fn figures(end: &End) -> impl Iterator<Item = (&'static str, u64)> {
    let usage = end.metadata.usage.clone().unwrap_or_default();
    let total = end
        .timing
        .map(|timing| timing.elapsed_ms.saturating_mul(1_000_000));
    [
        ("total_duration", total),
        ("prompt_eval_count", usage.input_tokens),
        ("prompt_eval_duration", usage.prompt_ms.and_then(nanos)),
        ("eval_count", usage.output_tokens),
        ("eval_duration", usage.generation_ms.and_then(nanos)),
    ]
    .into_iter()
    .filter_map(|(name, figure)| Some((name, figure?)))
}

fn nanos(millis: f64) -> Option<u64> {
    let time = std::time::Duration::try_from_secs_f64(millis / 1e3).ok()?;
    u64::try_from(time.as_nanos()).ok()
}

/// Appends strings, which always serialise.
fn write(out: &mut BytesMut, value: &impl Serialize) {
    let written = json::write(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Decodes chat streams of Ollama and of servers that imitate it, however their bytes were split.
///
/// | member of a line | frame |
/// |---|---|
/// | `message.content` | text |
/// | `message.thinking` | `thinking`; the pieces of one thought have one ID |
/// | `message.tool_calls` | a `tool_call` for each |
/// | `done: true` | the end, with the counts and durations as usage |
/// | `error` | a failed end |
/// | `ragwire` | the exact event, or the exact end; the other members of the line repeat it |
///
/// A stream that ends without `done` or `error` is [`Finish::Truncated`](crate::wire::Finish::Truncated). A `done_reason` of
/// `length` is a completed end with the member `finish_reason`. It holds one unfinished line, within
/// twice the larger of the two limits, and the frames that were not taken yet.
///
/// The [module](self) has an example.
#[derive(Debug)]
pub struct Decoder {
    messages: Messages<Chat>,
}

impl Decoder {
    /// Creates a decoder for one stream.
    pub fn new(limits: Limits) -> Self {
        let max_bytes = limits.larger().saturating_mul(2).saturating_add(HEAD_BYTES);
        Self {
            messages: Messages::lines(Chat::default(), max_bytes),
        }
    }
}

decoder!(Decoder);

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// What was read of a stream.
#[derive(Debug, Default)]
struct Chat {
    decoded: Decoded,
    thoughts: Thoughts,
}

impl ReadMessage for Chat {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let mut line = members::parse(message.data)?;
        if let Some(Value::Object(mut extension)) = line.shift_remove("ragwire") {
            if let Some(event) = foreign::own_event(&mut extension)? {
                return self.decoded.push(event);
            }
            let (late, end) = foreign::own_end(extension)?;
            for event in late {
                self.decoded.push(event)?;
            }
            return self.decoded.push(Frame::End(end));
        }
        if let Some(error) = line.get("error").filter(|error| !error.is_null()) {
            return self
                .decoded
                .push(Frame::End(End::failed(foreign::failure(error))));
        }
        if let Some(Value::Object(message)) = line.get("message") {
            self.take_message(message)?;
        }
        if line.get("done") == Some(&Value::Bool(true)) {
            let metadata = Metadata {
                usage: usage(&line),
                ..Metadata::default()
            };
            let end = foreign::end_of(word(&line, "done_reason").unwrap_or_default(), metadata);
            return self.decoded.push(Frame::End(end));
        }
        Ok(())
    }
}

impl Chat {
    fn take_message(&mut self, message: &Members) -> Result<(), DecodeError> {
        if let Some(thought) = filled(message, "thinking") {
            self.decoded.push_event(self.thoughts.piece("", thought), None)?;
        }
        if let Some(text) = filled(message, "content") {
            self.thoughts.close();
            self.decoded.push_text(text)?;
        }
        for call in list(message, "tool_calls") {
            self.thoughts.close();
            self.decoded.push_event(tool_call(call), None)?;
        }
        Ok(())
    }
}

fn tool_call(call: &Value) -> Event {
    let name = call.pointer("/function/name").and_then(Value::as_str);
    let arguments = call.pointer("/function/arguments").cloned();
    let tool_call = ToolCall::new(name.unwrap_or_default(), arguments.unwrap_or_else(|| json!({})));
    match call.get("id").and_then(Value::as_str) {
        Some(id) => tool_call.call_id(id).into(),
        None => tool_call.into(),
    }
}

fn usage(members: &Members) -> Option<Usage> {
    let figure = |name| members.get(name).and_then(Value::as_u64);
    let millis = |name| foreign::millis(members.get(name)?, "", NANOS_PER_MS);
    let mut usage = Usage::new();
    usage.input_tokens = figure("prompt_eval_count");
    usage.output_tokens = figure("eval_count");
    usage.prompt_ms = millis("prompt_eval_duration");
    usage.generation_ms = millis("eval_duration");
    if usage == Usage::new() {
        return None;
    }
    Some(match filled(members, "model") {
        Some(model) => usage.model(model),
        None => usage,
    })
}
