//! The [chat completions](https://platform.openai.com/docs/api-reference/chat/create) stream of
//! OpenAI: server-sent events of `chat.completion.chunk` objects, then `[DONE]`.
//!
//! Steps and thoughts are sent as `reasoning_content`, citations as `annotations`. The protocol has
//! no members for the events themselves, the metadata or a stop: these are sent in one extension
//! member, `ragwire`, which the published clients pass on unchanged. This module has no clock and
//! makes no IDs: the caller provides both. [`Decoder`] reads the streams of any server. The rules
//! are in `PROTOCOL.md`, section "OpenAI chat completions" (`[O-nn]`).
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{End, Metadata, OpenAi};
//!
//! let (mut encoder, mut bytes) = (OpenAi::new("chatcmpl-1", 1_767_323_045, "rag").encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert!(bytes.ends_with(b"data: [DONE]\n\n"));
//! ```

mod decoder;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::decoder::Decoder;
use super::MAX_PIECE_BYTES;
use super::annotations::{self, Markers};
use super::object::{self, Late};
use super::reasoning::Reasoning;
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::Event;
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::json;
use crate::metadata::Usage;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::utf8::pieces;

/// How events are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Each as `ragwire.event` of a chunk. Before the answer its delta has the event as a line of
    /// `reasoning_content` ([`Event::summary`]), which most chats show while they wait.
    #[default]
    Reasoning,
    /// As `ragwire.event` of a chunk with an empty delta.
    Extension,
    /// As a comment with the event's JSON, which clients of the protocol skip.
    Comment,
    /// Not at all; `events_dropped` counts them.
    None,
}

/// How a failure after the first byte is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// As an error object, which the published clients raise as `APIError`.
    #[default]
    ErrorObject,
    /// As the last piece of the answer, for chats that show nothing else: the failure's message.
    Text,
}

/// The chat completions wire, for one turn.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct OpenAi {
    id: String,
    created: u64,
    model: String,
    usage: bool,
    progress: Progress,
    on_failure: OnFailure,
    starting_after: u64,
    limits: Limits,
}

impl OpenAi {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream; charset=utf-8";

    /// Creates the wire from the completion's ID, its creation time in seconds since 1970, and the
    /// name of the model.
    pub fn new(id: impl Into<String>, created: u64, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            created,
            model: model.into(),
            usage: false,
            progress: Progress::default(),
            on_failure: OnFailure::default(),
            starting_after: 0,
            limits: Limits::default(),
        }
    }

    /// Leaves out the first chunks, for a reader that has them from another stream of the same turn.
    /// Both streams need the same ID, time and options.
    #[must_use]
    pub fn starting_after(mut self, chunks: u64) -> Self {
        self.starting_after = chunks;
        self
    }

    /// Sends the usage in a separate chunk (`stream_options.include_usage`), if both token counts
    /// were measured.
    #[must_use]
    pub fn with_usage(mut self) -> Self {
        self.usage = true;
        self
    }

    /// Sets how events are sent. Default: [`Progress::Reasoning`].
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets how failures are sent. Default: [`OnFailure::ErrorObject`].
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets the limits of the JSON of an event, and of the metadata.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the whole turn as one `chat.completion` object, for requests without `stream`. A
    /// failed turn is an error object or an answer that ends with the failure's message, as set by
    /// [`OnFailure`].
    pub fn completion(&self, events: &[(Event, Option<Timestamp>)], text: &str, end: &End) -> Value {
        let content = match &end.status {
            Status::Failed(failure) if self.on_failure == OnFailure::ErrorObject => {
                return Self::error(failure);
            }
            Status::Failed(failure) => format!("{text}{}", fallback(failure, !text.is_empty())),
            Status::Completed | Status::Stopped => text.to_owned(),
        };
        let mut completion = json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": end.metadata.finish_reason(),
            }],
        });
        let message = &mut completion["choices"][0]["message"];
        if self.progress == Progress::Reasoning {
            let reasoning = Reasoning::whole(events.iter().map(|(event, _)| event));
            if !reasoning.is_empty() {
                message["reasoning_content"] = reasoning.into();
            }
        }
        let mut markers = Markers::default();
        markers.push(text);
        if let Some(annotations) = nested_annotations(end, &markers, self.limits) {
            message["annotations"] = annotations;
        }
        if let Some(usage) = tokens(end) {
            completion["usage"] = json!(usage);
        }
        let mut metadata = BytesMut::new();
        object::write_end(
            end,
            &Late::default(),
            self.limits.max_trailer_bytes,
            &mut metadata,
        );
        completion["ragwire"] = serde_json::from_slice(&metadata).unwrap_or_default();
        completion
    }

    /// Returns the body of a response with an error status.
    pub fn error(failure: &Failure) -> Value {
        json!({"error": ErrorObject::new(failure)})
    }

    /// Returns the body of `GET /v1/models`. The clients require a creation time for each model; it
    /// is 0, because it is unknown.
    pub fn models(names: &[&str]) -> Value {
        let model = |name: &&str| json!({"id": name, "object": "model", "created": 0, "owned_by": "ragwire"});
        json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
    }
}

impl Wire for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        let mut head = BytesMut::from("data: ");
        let chunk = Head {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
        };
        write(&mut head, &chunk);
        head.truncate(head.len() - 1);
        Box::new(OpenAiSpelling {
            head: head.freeze(),
            usage: self.usage,
            progress: self.progress,
            on_failure: self.on_failure,
            limits: self.limits,
            is_whole: self.starting_after == 0,
            skipped: self.starting_after,
            role: false,
            reasoning: Reasoning::default(),
            markers: Markers::default(),
            late: Late::default(),
        })
    }
}

#[derive(Debug)]
struct OpenAiSpelling {
    /// The beginning of every chunk, up to but not including the comma before `choices`.
    head: Bytes,
    usage: bool,
    progress: Progress,
    on_failure: OnFailure,
    limits: Limits,
    /// Whether the stream begins with the first chunk.
    is_whole: bool,
    /// Number of chunks that are still left out.
    skipped: u64,
    /// Whether the first chunk, which has the role, was sent.
    role: bool,
    reasoning: Reasoning,
    markers: Markers,
    /// Counts the events that were not sent.
    late: Late,
}

impl Spelling for OpenAiSpelling {
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        match self.progress {
            Progress::None => self.late.dropped += 1,
            Progress::Comment => {
                out.extend_from_slice(b": ");
                let from = out.len();
                object::write_event(event, timestamp, out)?;
                self.check(out.len() - from)?;
                out.extend_from_slice(b"\n\n");
            }
            Progress::Reasoning | Progress::Extension => {
                if !self.role {
                    self.write_role(out);
                }
                let from = out.len();
                out.extend_from_slice(&self.head);
                out.extend_from_slice(CHOICE);
                // Chats that have begun to show the answer would show a later step as a second
                // thought behind it.
                let is_shown = self.progress == Progress::Reasoning && phase == Phase::Events;
                match self.reasoning.text(event).filter(|_| is_shown) {
                    Some(text) => {
                        out.extend_from_slice(br#"{"reasoning_content":"#);
                        write(out, &text);
                        out.extend_from_slice(b"}");
                    }
                    None => out.extend_from_slice(b"{}"),
                }
                out.extend_from_slice(br#","finish_reason":null}],"ragwire":{"event":"#);
                object::write_event(event, timestamp, out)?;
                out.extend_from_slice(b"}}");
                self.check(out.len() - from - DATA.len())?;
                out.extend_from_slice(b"\n\n");
                self.reasoning.advance(event);
                self.role = true;
            }
        }
        self.skip(start, out);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        let start = out.len();
        self.write_text(text, out);
        self.skip(start, out);
    }

    fn end(&mut self, phase: Phase, end: &End, out: &mut BytesMut) {
        let start = out.len();
        self.write_end(phase, end, out);
        self.skip(start, out);
        out.extend_from_slice(DONE);
    }

    fn shows_events(&self, _: Phase) -> bool {
        self.progress != Progress::None
    }

    fn expands_snapshots(&self) -> bool {
        // The chunks of a stream that begins with a snapshot are not those of the whole stream.
        self.is_whole
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}

const DATA: &str = "data: ";
/// What ends a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";
/// The bytes between the head of a chunk and its delta.
const CHOICE: &[u8] = br#","choices":[{"index":0,"delta":"#;

impl OpenAiSpelling {
    /// Removes the chunks that the reader has from what was written after `start`. No chunk contains
    /// a line end, and every record ends with a blank line.
    fn skip(&mut self, start: usize, out: &mut BytesMut) {
        if self.skipped == 0 {
            return;
        }
        let mut written = out.split_off(start);
        while self.skipped > 0
            && let Some(end) = written.windows(2).position(|bytes| bytes == b"\n\n")
        {
            let record = written.split_to(end + 2);
            self.skipped -= u64::from(record.starts_with(DATA.as_bytes()));
        }
        out.unsplit(written);
    }

    fn write_text(&mut self, text: &str, out: &mut BytesMut) {
        self.begin(out);
        self.markers.push(text);
        for piece in pieces(text, MAX_PIECE_BYTES) {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(CHOICE);
            out.extend_from_slice(br#"{"content":"#);
            write(out, &piece);
            out.extend_from_slice(b"},\"finish_reason\":null}]}\n\n");
        }
    }

    /// Writes everything up to `[DONE]`.
    fn write_end(&mut self, phase: Phase, end: &End, out: &mut BytesMut) {
        self.begin(out);
        if let Status::Failed(failure) = &end.status {
            if self.on_failure == OnFailure::ErrorObject {
                out.extend_from_slice(br#"data: {"error":"#);
                write(out, &ErrorObject::new(failure));
                self.write_metadata(end, out);
                return;
            }
            if !failure.message.is_empty() {
                self.write_text(&fallback(failure, phase == Phase::Text), out);
            }
        }
        out.extend_from_slice(&self.head);
        out.extend_from_slice(CHOICE);
        match nested_annotations(end, &self.markers, self.limits) {
            Some(annotations) => {
                out.extend_from_slice(br#"{"annotations":"#);
                write(out, &annotations);
                out.extend_from_slice(b"}");
            }
            None => out.extend_from_slice(b"{}"),
        }
        out.extend_from_slice(br#","finish_reason":""#);
        out.extend_from_slice(end.metadata.finish_reason().as_bytes());
        out.extend_from_slice(br#""}]"#);
        self.write_metadata(end, out);
        if let Some(usage) = tokens(end).filter(|_| self.usage) {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(br#","choices":[],"usage":"#);
            write(out, &usage);
            out.extend_from_slice(b"}\n\n");
        }
    }

    /// Sends the role, once and before any other chunk.
    fn begin(&mut self, out: &mut BytesMut) {
        if !self.role {
            self.write_role(out);
            self.role = true;
        }
    }

    fn write_role(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(CHOICE);
        out.extend_from_slice(b"{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n");
    }

    /// Closes an object with the extension member, which has the metadata.
    fn write_metadata(&self, end: &End, out: &mut BytesMut) {
        out.extend_from_slice(br#","ragwire":"#);
        object::write_end(end, &self.late, self.limits.max_trailer_bytes, out);
        out.extend_from_slice(b"}\n\n");
    }

    fn check(&self, bytes: usize) -> Result<(), EncodeError> {
        let max_bytes = self.limits.max_line_bytes;
        if bytes > max_bytes {
            Err(EncodeError::TooLarge { max_bytes })
        } else {
            Ok(())
        }
    }
}

/// The members that all chunks of a turn share.
#[derive(Serialize)]
struct Head<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
}

/// The error object. This protocol requires `param`, even if it is `null`.
#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    r#type: &'static str,
    param: (),
    code: &'a str,
}

impl<'a> ErrorObject<'a> {
    fn new(failure: &'a Failure) -> Self {
        Self {
            message: &failure.message,
            r#type: "server_error",
            param: (),
            code: failure.code(),
        }
    }
}

#[derive(Serialize)]
struct Tokens {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptTokens>,
}

#[derive(Serialize)]
struct PromptTokens {
    cached_tokens: u64,
}

/// The usage in this protocol's form, which requires both token counts. Nothing is estimated.
fn tokens(end: &End) -> Option<Tokens> {
    let Usage {
        input_tokens: Some(prompt_tokens),
        output_tokens: Some(completion_tokens),
        cached_input_tokens,
        ..
    } = *end.metadata.usage.as_ref()?
    else {
        return None;
    };
    Some(Tokens {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        prompt_tokens_details: cached_input_tokens.map(|cached_tokens| PromptTokens { cached_tokens }),
    })
}

/// The citations of a turn that did not fail as annotations, or `None` if there are none.
fn nested_annotations(end: &End, markers: &Markers, limits: Limits) -> Option<Value> {
    if matches!(end.status, Status::Failed(_)) {
        return None;
    }
    let annotations = annotations::annotations(&end.metadata.citations, markers, limits.max_trailer_bytes);
    let nested: Vec<Value> = annotations.into_iter().map(annotations::nested).collect();
    (!nested.is_empty()).then(|| nested.into())
}

/// The message of a failure as a piece of the answer, after a blank line if some text was sent.
fn fallback(failure: &Failure, after_text: bool) -> String {
    let gap = if after_text && !failure.message.is_empty() {
        "\n\n"
    } else {
        ""
    };
    format!("{gap}{}", failure.message)
}

/// Appends strings and numbers, which always serialise.
fn write(out: &mut BytesMut, value: &impl Serialize) {
    let written = json::write(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Search;

    fn wire() -> OpenAi {
        OpenAi::new("chatcmpl-1", 1_767_323_045, "rag")
    }

    #[test]
    fn an_event_over_the_limit_changes_nothing() {
        let event = Event::from(Search::new("bm25").query("x".repeat(100)));
        for progress in [Progress::Extension, Progress::Comment] {
            // The length of the event alone; a chunk is longer.
            let mut wire = wire()
                .progress(progress)
                .limits(Limits::default().max_line_bytes(150))
                .encoder();
            let mut out = BytesMut::from("before");
            let fits = wire.event(&event, None, &mut out);
            assert_eq!(fits.is_ok(), progress == Progress::Comment);
            if let Err(error) = fits {
                assert_eq!(error.code(), "event_too_large");
                assert_eq!(&out[..], b"before");
                wire.text("a", &mut out).unwrap();
                // The role does not count as sent.
                assert!(out.starts_with(b"beforedata: ") && out.windows(11).any(|at| at == b"\"assistant\""));
            }
        }
    }

    #[test]
    fn keep_alives_open_nothing() {
        let (mut encoder, mut out) = (wire().encoder(), BytesMut::new());
        encoder.keep_alive(&mut out);
        assert_eq!(&out.split()[..], b": keep-alive\n\n");
        encoder.end(&End::stopped(), &mut out).unwrap();
        let ended = out.len();
        encoder.keep_alive(&mut out);
        assert_eq!(out.len(), ended);
    }
}
