//! Reads chat completion streams: those of OpenAI, Azure, vLLM, llama.cpp's server and others, and
//! our own without loss.

use serde_json::{Map, Value};

use crate::frame::{End, Frame};
use crate::metadata::{Metadata, Usage};
use crate::wire::annotations::Citations;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::foreign::{self, PartialCalls, Thoughts};
use crate::wire::members::{self, DONE, Members, filled, list, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits};

/// The bytes of a chunk besides its text, event and metadata. Servers that report log probabilities
/// or filter results for each token need some kilobytes.
const HEAD_BYTES: usize = 64 * 1024;

/// Decodes chat completion streams, however their bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`. It reads streams of any server:
///
/// | member of a chunk | frame |
/// |---|---|
/// | `delta.content`, `delta.refusal` | text |
/// | `delta.reasoning_content`, `delta.reasoning` | `thinking`; the pieces of one thought have one ID |
/// | `delta.tool_calls`, `delta.function_call` | one `tool_call` for each, when its arguments are complete |
/// | `delta.annotations` | citations |
/// | `usage`, and llama.cpp's `timings` | the usage |
/// | `error` | a failed end |
/// | `ragwire` | the exact event, or the exact end; the other members of the chunk repeat it |
///
/// The stream ends with `[DONE]`, or after a `finish_reason` or an error where the bytes end. A
/// stream without either is [`Finish::Truncated`](crate::wire::Finish::Truncated). `length` is a completed end with the member
/// `finish_reason`; `content_filter` and reasons that are not known are failed ends.
///
/// It holds one unfinished event of the stream, the tool calls whose arguments are incomplete (64,
/// within `max_line_bytes`), the citations (within `max_trailer_bytes`), and the frames that were not
/// taken yet. The text of a reported error becomes the message of the failure.
///
/// ```
/// use ragwire::Frame;
/// use ragwire::wire::openai::Decoder;
/// use ragwire::wire::{Decode, Finish};
///
/// let mut decoder = Decoder::default();
/// decoder.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes.\"}}]}\n\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// // The connection broke: neither a `finish_reason` nor `[DONE]` arrived.
/// assert!(matches!(decoder.finish(), Finish::Truncated { .. }));
/// ```
#[derive(Debug)]
pub struct Decoder {
    messages: Messages<Chunks>,
}

impl Decoder {
    /// Creates a decoder for one stream.
    pub fn new(limits: Limits) -> Self {
        // The last chunk of our own encoder has the citations twice.
        let max_bytes = limits.larger().saturating_mul(2).saturating_add(HEAD_BYTES);
        let chunks = Chunks {
            decoded: Decoded::default(),
            calls: PartialCalls::new(limits.max_line_bytes),
            citations: Citations::new(limits.max_trailer_bytes),
            thoughts: Thoughts::default(),
            usage: None,
            model: String::new(),
            end: None,
        };
        Self {
            messages: Messages::events(chunks, max_bytes),
        }
    }
}

decoder!(Decoder);

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Why the answer ended.
#[derive(Debug)]
enum Reason {
    /// The `finish_reason`.
    Word(String),
    /// The end itself: of our own stream, or a reported error.
    Exact(Box<End>),
}

impl Default for Reason {
    /// `[DONE]` alone means that the answer is complete.
    fn default() -> Self {
        Self::Word(String::new())
    }
}

/// What was read of a stream.
#[derive(Debug)]
struct Chunks {
    decoded: Decoded,
    calls: PartialCalls,
    citations: Citations,
    thoughts: Thoughts,
    usage: Option<Usage>,
    model: String,
    /// Set by a `finish_reason` or an error.
    end: Option<Reason>,
}

impl ReadMessage for Chunks {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let data = message.data.trim();
        if data == DONE {
            self.complete_calls()?;
            let reason = self.end.take().unwrap_or_default();
            return self.end(reason);
        }
        if data.is_empty() {
            return Ok(());
        }
        self.take(members::parse(data)?, message.event == "error")
    }

    /// Some servers end without `[DONE]`.
    fn finish(&mut self) -> Result<(), DecodeError> {
        match self.end.take() {
            Some(reason) => self.end(reason),
            None => Ok(()),
        }
    }
}

impl Chunks {
    fn end(&mut self, reason: Reason) -> Result<(), DecodeError> {
        let end = match reason {
            Reason::Exact(end) => *end,
            Reason::Word(word) => foreign::end_of(&word, self.metadata()),
        };
        self.decoded.push(Frame::End(end))
    }

    /// Reads our own end, after the events that came too late for the stream.
    fn own_end(&mut self, extension: Members) -> Result<End, DecodeError> {
        let (late, end) = foreign::own_end(extension)?;
        for event in late {
            self.decoded.push(event)?;
        }
        Ok(end)
    }

    fn complete_calls(&mut self) -> Result<(), DecodeError> {
        for call in self.calls.take() {
            self.decoded.push_event(call, None)?;
        }
        Ok(())
    }

    fn take(&mut self, mut chunk: Members, is_error: bool) -> Result<(), DecodeError> {
        let extension = match chunk.shift_remove("ragwire") {
            Some(Value::Object(extension)) => Some(extension),
            _ => None,
        };
        let error = chunk.shift_remove("error").filter(|error| !error.is_null());
        if is_error || error.is_some() {
            let end = match extension {
                Some(extension) => self.own_end(extension)?,
                None => End::failed(foreign::failure(&error.unwrap_or(Value::Object(chunk)))),
            };
            self.end = Some(Reason::Exact(Box::new(end)));
            return Ok(());
        }
        let mut is_end_exact = false;
        if let Some(mut extension) = extension {
            if let Some(event) = foreign::own_event(&mut extension)? {
                // The delta of this chunk repeats the event.
                return self.decoded.push(event);
            }
            self.end = Some(Reason::Exact(Box::new(self.own_end(extension)?)));
            is_end_exact = true;
        }
        self.take_figures(&chunk);
        let Some(Value::Array(choices)) = chunk.shift_remove("choices") else {
            return Ok(());
        };
        // One answer was requested.
        let is_first = |choice: &&Value| choice.get("index").is_none_or(|index| index.as_u64() == Some(0));
        let Some(choice) = choices.iter().find(is_first) else {
            return Ok(());
        };
        if is_end_exact {
            return Ok(());
        }
        let delta = choice.get("delta").or_else(|| choice.get("message"));
        if let Some(Value::Object(delta)) = delta {
            self.take_delta(delta)?;
        }
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        // Some servers send an empty reason until they have one.
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.complete_calls()?;
            self.end.get_or_insert(Reason::Word(reason.to_owned()));
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: &Members) -> Result<(), DecodeError> {
        let thought = filled(delta, "reasoning_content").or_else(|| filled(delta, "reasoning"));
        if let Some(thought) = thought {
            self.refuse_after_end()?;
            self.decoded.push_event(self.thoughts.piece("", thought), None)?;
        }
        for text in ["content", "refusal"]
            .into_iter()
            .filter_map(|name| filled(delta, name))
        {
            self.refuse_after_end()?;
            self.thoughts.close();
            self.decoded.push_text(text)?;
        }
        for call in list(delta, "tool_calls").filter_map(Value::as_object) {
            self.take_call(
                call.get("index").and_then(Value::as_u64),
                call,
                call.get("function"),
            )?;
        }
        if let Some(function) = delta.get("function_call").filter(|call| call.is_object()) {
            self.take_call(Some(0), &Map::new(), Some(function))?;
        }
        self.citations.push_all(delta.get("annotations"));
        Ok(())
    }

    fn take_call(
        &mut self,
        index: Option<u64>,
        call: &Members,
        function: Option<&Value>,
    ) -> Result<(), DecodeError> {
        self.refuse_after_end()?;
        self.thoughts.close();
        let function = function.and_then(Value::as_object);
        let part = |name| {
            function
                .and_then(|function| word(function, name))
                .unwrap_or_default()
        };
        let id = word(call, "id").unwrap_or_default();
        self.calls.push(index, id, part("name"), part("arguments"))
    }

    /// Fails if something of the answer comes after its end, because a reader may have stopped
    /// there.
    fn refuse_after_end(&self) -> Result<(), DecodeError> {
        match self.end {
            Some(_) => Err(DecodeError::BadEvent),
            None => Ok(()),
        }
    }

    /// Reads the numbers, which any chunk may have; the last ones count.
    fn take_figures(&mut self, chunk: &Members) {
        if let Some(model) = filled(chunk, "model") {
            model.clone_into(&mut self.model);
        }
        if let Some(figures) = chunk.get("usage").filter(|figures| figures.is_object()) {
            let usage = self.usage.get_or_insert_default();
            usage.input_tokens = foreign::count(figures, "/prompt_tokens");
            usage.output_tokens = foreign::count(figures, "/completion_tokens");
            usage.cached_input_tokens = foreign::count(figures, "/prompt_tokens_details/cached_tokens");
        }
        if let Some(timings) = chunk.get("timings").filter(|timings| timings.is_object()) {
            let usage = self.usage.get_or_insert_default();
            usage.prompt_ms = foreign::millis(timings, "/prompt_ms", 1.0);
            usage.generation_ms = foreign::millis(timings, "/predicted_ms", 1.0);
        }
    }

    fn metadata(&mut self) -> Metadata {
        let (citations, truncated) = self.citations.take();
        let mut metadata = Metadata::default().citations(citations);
        metadata.truncated = truncated;
        metadata.usage = self.usage.take().map(|usage| match self.model.as_str() {
            "" => usage,
            model => usage.model(model),
        });
        metadata
    }
}
