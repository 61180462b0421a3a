//! The answer out of its bytes: events of `chat.completion.chunk` objects, or one `chat.completion` of a server that does not stream. It knows no
//! connection and no clock, so every script of bytes can be played through it.

use serde::Deserialize;
use serde_json::Value;

use super::error::{Said, UpstreamError};
use super::key::ApiKey;
use crate::models::{FinishReason, Finished};
use ragwire::wire::sse::EventStream;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// What a stream has said so far.
#[derive(Debug)]
pub(super) struct Answer {
    events: EventStream,
    key: Option<ApiKey>,
    max_text: usize,
    text_bytes: usize,
    /// Whether the choice that was asked for has shown.
    chosen: bool,
    reason: Option<FinishReason>,
    usage: Option<Value>,
    timings: Option<Value>,
    done: bool,
}

/// What an event came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More of the answer; never empty.
    Text(String),
    /// Something else: a role, a thought, numbers. The server is alive.
    Alive,
}

impl Answer {
    pub(super) fn new(max_event: usize, max_text: usize, key: Option<ApiKey>) -> Self {
        Self {
            events: EventStream::new(max_event),
            key,
            max_text,
            text_bytes: 0,
            chosen: false,
            reason: None,
            usage: None,
            timings: None,
            done: false,
        }
    }

    /// Takes the next bytes of a stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.events.feed(bytes);
    }

    /// The next event; nothing where more bytes are needed, or after `[DONE]`.
    pub(super) fn next(&mut self) -> Option<Result<Step, UpstreamError>> {
        if self.done {
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
            self.done = true;
            return Some(Ok(Step::Alive));
        }
        Some(self.take(message.data.as_bytes(), message.event == "error"))
    }

    /// Takes an answer that came in one piece.
    pub(super) fn take_whole(&mut self, body: &[u8]) -> Result<Step, UpstreamError> {
        let step = self.take(body, false)?;
        if !self.chosen {
            return Err(UpstreamError::Unreadable("it has no choice"));
        }
        // The object is whole, so it is its own end.
        self.done = true;
        Ok(step)
    }

    fn take(&mut self, json: &[u8], is_error: bool) -> Result<Step, UpstreamError> {
        let chunk: Chunk =
            serde_json::from_slice(json).map_err(|_| UpstreamError::Unreadable("an event is no chunk"))?;
        if is_error || chunk.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(Said::read(json, self.key.as_ref()).report());
        }
        let told = |value: Option<Value>, before: &mut Option<Value>| {
            if let Some(value) = value.filter(Value::is_object) {
                *before = Some(value);
            }
        };
        told(chunk.usage, &mut self.usage);
        told(chunk.timings, &mut self.timings);
        // One choice is asked for.
        let choices = chunk.choices.unwrap_or_default();
        let Some(choice) = choices.into_iter().find(|choice| choice.index == 0) else {
            return Ok(Step::Alive);
        };
        self.chosen = true;
        let message = choice.delta.or(choice.message).unwrap_or_default();
        if message.refusal.is_some_and(|refusal| !refusal.is_empty()) {
            return Err(UpstreamError::Ended("refusal".into()));
        }
        let text = message.content.unwrap_or_default();
        if !text.is_empty() && self.reason.is_some() {
            return Err(UpstreamError::Unreadable("text comes after the end"));
        }
        // Some servers say an empty reason until they have one.
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

    /// Whether the end was told: nothing but numbers can follow.
    pub(super) fn has_ended(&self) -> bool {
        self.done || self.reason.is_some()
    }

    /// Whether nothing at all can follow.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// What it came to, where the end was told.
    pub(super) fn finish(&self) -> Option<Finished> {
        // `[DONE]` alone says that it is whole, but not why; that it stopped is the rest.
        let reason = self.reason.or_else(|| self.done.then_some(FinishReason::Stop))?;
        let mut finished = Finished::new(reason);
        let number = |value: Option<&Value>, path: &str| {
            let number = value?.pointer(path)?.as_u64()?;
            u32::try_from(number).ok()
        };
        let (usage, timings) = (self.usage.as_ref(), self.timings.as_ref());
        finished.prompt_tokens = number(usage, "/prompt_tokens");
        finished.answer_tokens = number(usage, "/completion_tokens");
        finished.cached_tokens =
            number(usage, "/prompt_tokens_details/cached_tokens").or_else(|| number(timings, "/cache_n"));
        // llama.cpp measures; what others leave out is not made up from when bytes came.
        let millis = |name: &str| {
            let millis = timings?.get(name)?.as_f64()?;
            (millis >= 0.0).then_some(millis)
        };
        finished.prompt_ms = millis("prompt_ms");
        finished.generation_ms = millis("predicted_ms");
        Some(finished)
    }
}

/// OpenAI's words, and those that TGI has for a stop.
fn reason_of(reason: &str) -> Result<FinishReason, UpstreamError> {
    match reason {
        "stop" | "eos_token" | "stop_sequence" => Ok(FinishReason::Stop),
        "length" => Ok(FinishReason::Length),
        // What is left is cut, held back, or no text at all. Unknown words may mean any of these.
        _ => Err(UpstreamError::Ended(
            reason
                .chars()
                .filter(|letter| !letter.is_control())
                .take(64)
                .collect(),
        )),
    }
}

/// A chunk or a completion. Numbers are taken as they come: those that are none are left out, and no reason to lose an answer.
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
