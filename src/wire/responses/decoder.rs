//! Reads the streams of the Responses API: those of OpenAI and of compatible servers, and our own
//! without loss.

use serde_json::Value;

use crate::event::{Event, Search, Source, Sources, ToolResult};
use crate::frame::{End, Frame, Status};
use crate::metadata::{Metadata, Usage};
use crate::wire::annotations::Citations;
use crate::wire::answer::Answer;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::foreign::{self, Thoughts};
use crate::wire::members::{self, DONE, Members, filled, list, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits};

/// The bytes of an event besides its text, items and metadata: the parameters of the request, which
/// OpenAI repeats with every `response` object.
const HEAD_BYTES: usize = 256 * 1024;
/// How many bytes a byte of text can have in JSON, as `\u0000`.
const ESCAPED_BYTES: usize = 6;

/// Decodes streams of the Responses API, however their bytes were split.
///
/// | event | frame |
/// |---|---|
/// | `response.output_text.delta`, `response.refusal.delta` | text |
/// | `response.reasoning_summary_text.delta`, `response.reasoning_text.delta` | `thinking`; the pieces of one thought have one ID |
/// | a finished `file_search_call` or `web_search_call` | `search` for each query, then `sources` if the item has results |
/// | a finished `function_call` or `custom_tool_call` | `tool_call` |
/// | a finished `mcp_call` | `tool_call` and `tool_result` |
/// | `response.output_text.annotation.added` | citations |
/// | `response.completed`, `response.incomplete`, `response.failed`, `error` | the end, with the usage |
/// | `ragwire` | the exact event, or the exact end; everything else of our own streams repeats it |
///
/// A response that is incomplete because of `max_output_tokens` is a completed end with the member
/// `finish_reason`; one that is `cancelled` is stopped. A stream without its last event is
/// [`Finish::Truncated`](crate::wire::Finish::Truncated).
///
/// The last event contains the whole output, so the decoder holds one event of up to 24 MiB (an
/// answer of 4 MiB, escaped) besides the limits, and the frames that were not taken yet.
///
/// The [module](super) has an example.
#[derive(Debug)]
pub struct Decoder {
    messages: Messages<Events>,
}

impl Decoder {
    /// Creates a decoder for one stream.
    pub fn new(limits: Limits) -> Self {
        let max_bytes = limits
            .larger()
            .saturating_mul(ESCAPED_BYTES)
            .saturating_add(Answer::MAX_BYTES * ESCAPED_BYTES + HEAD_BYTES);
        let events = Events {
            decoded: Decoded::default(),
            citations: Citations::new(limits.max_trailer_bytes),
            thoughts: Thoughts::default(),
            is_ours: false,
        };
        Self {
            messages: Messages::events(events, max_bytes),
        }
    }
}

decoder!(Decoder);

/// What was read of a stream.
#[derive(Debug)]
struct Events {
    decoded: Decoded,
    citations: Citations,
    thoughts: Thoughts,
    /// Whether the stream is ours: its events have `ragwire`, and the others only repeat them.
    is_ours: bool,
}

impl ReadMessage for Events {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let data = message.data.trim();
        if is_empty(data) {
            return Ok(());
        }
        let mut event = members::parse(data)?;
        if let Some(Value::Object(mut extension)) = event.shift_remove("ragwire") {
            self.is_ours = true;
            if let Some(frame) = foreign::own_event(&mut extension)? {
                return self.decoded.push(frame);
            }
        }
        let kind = filled(&event, "type").unwrap_or(message.event).to_owned();
        self.take_event(&kind, event)
    }

    fn read_after_end(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let may_follow = is_empty(message.data.trim());
        may_follow.then_some(()).ok_or(DecodeError::TrailingBytes)
    }
}

/// Whether a message means nothing. Some compatible servers end as chat completions do.
fn is_empty(data: &str) -> bool {
    data.is_empty() || data == DONE
}

impl Events {
    fn take_event(&mut self, kind: &str, mut event: Members) -> Result<(), DecodeError> {
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                if let Some(text) = filled(&event, "delta") {
                    self.thoughts.close();
                    self.decoded.push_text(text)?;
                }
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                let response = event.get("response");
                self.is_ours |= response.is_some_and(|response| response.get("ragwire").is_some());
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let Some(Value::Object(response)) = event.shift_remove("response") else {
                    return Err(DecodeError::BadTrailer);
                };
                return self.end(kind, response);
            }
            "error" => {
                let error = event.shift_remove("error").filter(Value::is_object);
                let failure = foreign::failure(&error.unwrap_or_else(|| {
                    // `type` is the type of the event here.
                    event.shift_remove("type");
                    event.into()
                }));
                return self.decoded.push(Frame::End(End::failed(failure)));
            }
            _ if self.is_ours => {}
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(thought) = filled(&event, "delta") {
                    let part = event.get("summary_index").or_else(|| event.get("content_index"));
                    let item = word(&event, "item_id").unwrap_or_default();
                    let source = format!("{item} {}", part.unwrap_or(&Value::Null));
                    let piece = self.thoughts.piece(&source, thought);
                    self.decoded.push_event(piece, None)?;
                }
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = event.get("annotation") {
                    self.citations.push(annotation);
                }
            }
            "response.output_item.done" => {
                if let Some(Value::Object(item)) = event.get("item") {
                    self.take_item(item)?;
                }
            }
            // Events about items that are read when they are done, and those of newer versions.
            _ => {}
        }
        Ok(())
    }

    /// Reads a finished item. Messages and thoughts were read piece by piece.
    fn take_item(&mut self, item: &Members) -> Result<(), DecodeError> {
        let part = |name| word(item, name).unwrap_or_default();
        let kind = part("type");
        match kind {
            "file_search_call" => {
                for query in list(item, "queries").filter_map(Value::as_str) {
                    self.push_event(Search::new("file_search").query(query))?;
                }
                let sources: Vec<Source> = list(item, "results").map(source).collect();
                if !sources.is_empty() {
                    self.push_event(Sources::new(sources))?;
                }
            }
            "web_search_call" => {
                let query = item.get("action").and_then(|action| action.get("query"));
                if let Some(query) = query.and_then(Value::as_str) {
                    self.push_event(Search::new("web_search").query(query))?;
                }
            }
            "function_call" | "custom_tool_call" => {
                let arguments = match kind {
                    "function_call" => part("arguments"),
                    _ => part("input"),
                };
                self.push_event(foreign::tool_call(part("call_id"), part("name"), arguments))?;
            }
            "mcp_call" => {
                let (id, name) = (part("id"), part("name"));
                self.push_event(foreign::tool_call(id, name, part("arguments")))?;
                let error = item.get("error").filter(|error| !error.is_null());
                let output = item.get("output").filter(|output| !output.is_null());
                let result = match (error, output) {
                    (Some(error), _) => Some(ToolResult::new(name, error.clone()).is_error(true)),
                    (None, Some(output)) => Some(ToolResult::new(name, output.clone())),
                    (None, None) => None,
                };
                if let Some(result) = result {
                    self.push_event(result.call_id(id))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, kind: &str, mut response: Members) -> Result<(), DecodeError> {
        if let Some(Value::Object(extension)) = response.shift_remove("ragwire") {
            let (late, end) = foreign::own_end(extension)?;
            for event in late {
                self.decoded.push(event)?;
            }
            return self.decoded.push(Frame::End(end));
        }
        if self.citations.is_empty() {
            self.take_annotations(response.get("output"));
        }
        let (citations, truncated) = self.citations.take();
        let mut metadata = Metadata::default().citations(citations);
        metadata.truncated = truncated;
        metadata.usage = usage(&response);
        let end = if kind == "response.failed" {
            End::failed(foreign::failure(response.get("error").unwrap_or(&Value::Null)))
        } else if word(&response, "status") == Some("cancelled") {
            End {
                status: Status::Stopped,
                metadata,
                timing: None,
            }
        } else if kind == "response.incomplete" {
            let reason = response
                .get("incomplete_details")
                .and_then(|details| details.get("reason"));
            // Without a reason the answer may be cut, withheld or missing.
            foreign::end_of(reason.and_then(Value::as_str).unwrap_or("unknown"), metadata)
        } else {
            End::completed(metadata)
        };
        self.decoded.push(Frame::End(end))
    }

    /// Reads the annotations of the whole output, for servers that do not stream them.
    fn take_annotations(&mut self, output: Option<&Value>) {
        let items = output.and_then(Value::as_array).into_iter().flatten();
        let contents = items.filter_map(|item| item.get("content")?.as_array()).flatten();
        for content in contents {
            self.citations.push_all(content.get("annotations"));
        }
    }

    fn push_event(&mut self, event: impl Into<Event>) -> Result<(), DecodeError> {
        self.thoughts.close();
        self.decoded.push_event(event, None)
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// A result of `file_search_call`.
fn source(result: &Value) -> Source {
    let word = |name| result.get(name).and_then(Value::as_str).unwrap_or_default();
    let source = Source::new(word("file_id"), word("file_id"), word("text"), Vec::new());
    let source = match word("filename") {
        "" => source,
        name => source.title(name),
    };
    match result.get("score").and_then(Value::as_f64) {
        Some(score) => source.score(score),
        None => source,
    }
}

fn usage(response: &Members) -> Option<Usage> {
    let figures = response.get("usage").filter(|figures| figures.is_object())?;
    let mut usage = Usage::new();
    usage.input_tokens = foreign::count(figures, "/input_tokens");
    usage.output_tokens = foreign::count(figures, "/output_tokens");
    usage.cached_input_tokens = foreign::count(figures, "/input_tokens_details/cached_tokens");
    Some(match filled(response, "model") {
        Some(model) => usage.model(model),
        None => usage,
    })
}
