//! Decodes the answer from its bytes: events of `chat.completion.chunk` objects, or one
//! `chat.completion` object of a server that does not stream. It knows neither a connection nor a
//! clock, so any script of bytes can be played through it.

use serde::Deserialize;
use serde_json::Value;

use super::error::UpstreamError;
use super::error_body::UpstreamErrorBody;
use super::key::ApiKey;
use crate::models::{FinishReason, GenerationEnd};
use ragwire::wire::sse::EventStream;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// The state of a streamed answer.
#[derive(Debug)]
pub(super) struct Answer {
    events: EventStream,
    key: Option<ApiKey>,
    error_messages: bool,
    max_text: usize,
    text_bytes: usize,
    /// Whether a choice has been seen.
    has_choice: bool,
    reason: Option<FinishReason>,
    usage: Option<Value>,
    timings: Option<Value>,
    is_done: bool,
}

/// The content of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More of the answer; never empty.
    Text(String),
    /// Something else, such as a role, reasoning or numbers: the server is alive.
    Alive,
}

impl Answer {
    pub(super) fn new(max_event: usize, max_text: usize, key: Option<ApiKey>) -> Self {
        Self {
            events: EventStream::new(max_event),
            key,
            error_messages: true,
            max_text,
            text_bytes: 0,
            has_choice: false,
            reason: None,
            usage: None,
            timings: None,
            is_done: false,
        }
    }

    /// Sets whether errors contain the server's own message.
    pub(super) fn error_messages(mut self, shown: bool) -> Self {
        self.error_messages = shown;
        self
    }

    /// Adds the next bytes of a stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.events.feed(bytes);
    }

    /// Returns the next event; `None` if more bytes are needed, or after `[DONE]`.
    pub(super) fn next(&mut self) -> Option<Result<Step, UpstreamError>> {
        if self.is_done {
            return None;
        }
        let message = match self.events.next()? {
            Ok(message) => message,
            Err(error) => {
                return Some(Err(UpstreamError::TooLarge {
                    what: "an event of the answer",
                    limit: error.max_bytes,
                }));
            }
        };
        if message.data.trim() == DONE {
            self.is_done = true;
            return Some(Ok(Step::Alive));
        }
        Some(self.take(message.data.as_bytes(), message.event == "error"))
    }

    /// Reads an answer that came in one piece.
    pub(super) fn take_whole(&mut self, body: &[u8]) -> Result<Step, UpstreamError> {
        let step = self.take(body, false)?;
        if !self.has_choice {
            return Err(UpstreamError::Unreadable("it has no choices"));
        }
        // The object is complete, so it is its own end.
        self.is_done = true;
        Ok(step)
    }

    fn take(&mut self, json: &[u8], is_error: bool) -> Result<Step, UpstreamError> {
        let chunk: Chunk =
            serde_json::from_slice(json).map_err(|_| UpstreamError::Unreadable("an event is not a chunk"))?;
        if is_error || chunk.error.as_ref().is_some_and(|error| !error.is_null()) {
            let error = UpstreamErrorBody::read(json, self.key.as_ref());
            return Err(error.with_message(self.error_messages).report());
        }
        let update = |value: Option<Value>, stored: &mut Option<Value>| {
            if let Some(value) = value.filter(Value::is_object) {
                *stored = Some(value);
            }
        };
        update(chunk.usage, &mut self.usage);
        update(chunk.timings, &mut self.timings);
        // One choice was requested.
        let choices = chunk.choices.unwrap_or_default();
        let Some(choice) = choices.into_iter().find(|choice| choice.index == 0) else {
            return Ok(Step::Alive);
        };
        self.has_choice = true;
        let message = choice.delta.or(choice.message).unwrap_or_default();
        if message.refusal.is_some_and(|refusal| !refusal.is_empty()) {
            return Err(UpstreamError::Ended("refusal".into()));
        }
        let text = message.content.unwrap_or_default();
        if !text.is_empty() && self.reason.is_some() {
            return Err(UpstreamError::Unreadable("text comes after the end"));
        }
        // Some servers send an empty reason until they have one.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.reason = Some(reason_of(&reason)?);
        }
        self.text_bytes += text.len();
        if self.text_bytes > self.max_text {
            return Err(UpstreamError::TooLarge {
                what: "the text of the answer",
                limit: self.max_text,
            });
        }
        Ok(if text.is_empty() {
            Step::Alive
        } else {
            Step::Text(text)
        })
    }

    /// Returns `true` if the server reported the end: only numbers can follow.
    pub(super) fn has_ended(&self) -> bool {
        self.is_done || self.reason.is_some()
    }

    /// Returns `true` if nothing can follow.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The figures of the answer, if the server reported the end.
    pub(super) fn finish(&self) -> Option<GenerationEnd> {
        // `[DONE]` alone means that the answer is complete; the reason is then a stop.
        let reason = self
            .reason
            .or_else(|| self.is_done.then_some(FinishReason::Stop))?;
        let mut finished = GenerationEnd::new(reason);
        let number = |value: Option<&Value>, path: &str| {
            let number = value?.pointer(path)?.as_u64()?;
            u32::try_from(number).ok()
        };
        let (usage, timings) = (self.usage.as_ref(), self.timings.as_ref());
        finished.prompt_tokens = number(usage, "/prompt_tokens");
        finished.answer_tokens = number(usage, "/completion_tokens");
        finished.cached_tokens =
            number(usage, "/prompt_tokens_details/cached_tokens").or_else(|| number(timings, "/cache_n"));
        // llama.cpp measures its times. For other servers they are not guessed from when bytes
        // arrived.
        let millis = |name: &str| {
            let millis = timings?.get(name)?.as_f64()?;
            (millis >= 0.0).then_some(millis)
        };
        finished.prompt_ms = millis("prompt_ms");
        finished.generation_ms = millis("predicted_ms");
        Some(finished)
    }
}

/// Parses OpenAI's reasons, and TGI's for a stop.
fn reason_of(reason: &str) -> Result<FinishReason, UpstreamError> {
    match reason {
        "stop" | "eos_token" | "stop_sequence" => Ok(FinishReason::Stop),
        "length" => Ok(FinishReason::Length),
        // The other reasons mean a cut, withheld or missing text. An unknown reason may mean any of
        // these.
        _ => Err(UpstreamError::Ended(
            reason
                .chars()
                .filter(|letter| !letter.is_control())
                .take(64)
                .collect(),
        )),
    }
}

/// A chunk or a completion. Members with numbers are optional and untyped: an invalid one is
/// ignored rather than losing the answer.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    timings: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Message>,
    message: Option<Message>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
}
