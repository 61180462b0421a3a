//! The server-sent events of Forge: `event: TYPE` and `data: JSON`, with the type again as the
//! first member of the data.
//!
//! The table of events is in `PROTOCOL.md`, section "Forge", the vectors in `tests/vectors/forge`;
//! `docs/protocols.md` introduces Forge. This wire does not send timestamps.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{End, Forge, Frame};
//!
//! let (mut encoder, mut bytes) = (Forge::default().encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! assert_eq!(&bytes[..], b"event: token\ndata: {\"type\":\"token\",\"content\":\"Yes.\"}\n\n");
//! encoder.end(&End::stopped(), &mut bytes).unwrap();
//! assert!(bytes.ends_with(b"\"cached\":false,\"status\":\"stopped\"}\n\n"));
//! ```

use bytes::BytesMut;
use serde_json::{Map, Value, json};

mod decode;

pub use self::decode::ForgeDecoder;
use super::typed::{self, KEEP_ALIVE};
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::Event;
use crate::failure::FailureKind;
use crate::frame::{End, Status};
use crate::json;
use crate::metadata::Citation;
use crate::order::Phase;
use crate::time::Timestamp;

/// The wire of Forge.
///
/// The [module](self) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forge {
    limits: Limits,
}

impl Forge {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Sets the limits of an event's data (line), and of the `sources` made from citations
    /// (trailer).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Wire for Forge {
    fn name(&self) -> &'static str {
        "forge"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(ForgeSpelling {
            limits: self.limits,
            totals: Totals::default(),
        })
    }
}

/// The event types of Forge and the order of their members.
const TYPES: [(&str, &[&str]); 15] = [
    (
        "query_analysis",
        &["query", "complexity", "decomposed", "estimated_mode"],
    ),
    ("cache_hit", &["similarity", "original_query", "cached_at"]),
    ("cache_miss", &[]),
    ("retrieval_start", &["tool", "query", "iteration"]),
    (
        "retrieval_result",
        &["tool", "chunks_found", "top_score", "levels", "duration_ms"],
    ),
    ("tool_call", &["tool", "input", "iteration"]),
    ("tool_result", &["tool", "result", "duration_ms"]),
    (
        "crag_evaluation",
        &[
            "correct",
            "ambiguous",
            "incorrect",
            "action",
            "expanded",
            "details",
        ],
    ),
    (
        "rerank_result",
        &[
            "method",
            "input_count",
            "output_count",
            "top_score",
            "duration_ms",
        ],
    ),
    (
        "generation_start",
        &["context_chunks", "total_context_tokens", "model"],
    ),
    ("token", &["content"]),
    (
        "verification",
        &[
            "claims_checked",
            "claims_supported",
            "claims_partially_supported",
            "claims_unsupported",
            "confidence",
            "details",
        ],
    ),
    ("sources", &["sources"]),
    ("done", &[]),
    ("error", &["message", "code", "recoverable"]),
];

/// The order of the members in the elements of lists.
const ELEMENTS: [(&str, &str, &[&str]); 2] = [
    (
        "crag_evaluation",
        "details",
        &["chunk_id", "score", "classification", "expanded", "new_score"],
    ),
    (
        "sources",
        "sources",
        &[
            "chunk_id",
            "document_id",
            "text",
            "level",
            "score",
            "page_numbers",
            "heading",
        ],
    ),
];

/// The members of `done`; an application's member with such a name is left out.
const DONE: [&str; 15] = [
    "type",
    "total_time_ms",
    "tokens_generated",
    "iterations",
    "tools_used",
    "sources_count",
    "confidence",
    "mode",
    "cached",
    "citations",
    "usage",
    "queue_stats",
    "status",
    "events_dropped",
    "truncated",
];

#[derive(Debug)]
struct ForgeSpelling {
    limits: Limits,
    totals: Totals,
}

/// The totals of the turn that `done` reports.
#[derive(Debug, Default)]
struct Totals {
    tokens: u64,
    iterations: u32,
    sources: Option<usize>,
    confidence: Option<f64>,
    mode: Option<&'static str>,
    cached: bool,
}

impl Totals {
    fn event(&mut self, event: &Event) {
        match event {
            Event::QueryAnalysis(analysis) => self.mode = Some(analysis.estimated_mode.as_str()),
            Event::CacheHit(_) => self.cached = true,
            Event::RetrievalStart(start) => self.iterations = self.iterations.max(start.iteration),
            Event::ToolCall(call) => self.iterations = self.iterations.max(call.iteration.unwrap_or(0)),
            Event::Verification(verification) => {
                self.confidence = verification
                    .confidence
                    .filter(|confidence| confidence.is_finite());
            }
            Event::Sources(sources) => self.sources = Some(sources.sources.len()),
            Event::Search(_)
            | Event::Reasoning(_)
            | Event::Review(_)
            | Event::CacheMiss(_)
            | Event::RetrievalResult(_)
            | Event::ToolResult(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Thinking(_)
            | Event::Retract(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => {}
        }
    }
}

impl Spelling for ForgeSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        _: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let name = typed::unreserved_name(event, &TYPES.map(|(name, _)| name));
        let order = TYPES
            .iter()
            .find_map(|(kind, order)| (*kind == name).then_some(*order));
        let mut members = typed::members(event)?;
        for (_, list, order) in ELEMENTS.iter().filter(|(kind, ..)| *kind == name) {
            sort_elements(members.get_mut(*list), order);
        }
        write_frame(
            &name,
            &typed::object(&name, order.unwrap_or_default(), members),
            self.limits.max_line_bytes,
            out,
        )?;
        self.totals.event(event);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        let from = out.len();
        out.extend_from_slice(b"event: token\ndata: {\"type\":\"token\",\"content\":");
        if json::write(out, &text).is_err() {
            // A string always serialises, but a partial frame must not remain in any case.
            return out.truncate(from);
        }
        out.extend_from_slice(b"}\n\n");
        self.totals.tokens += 1;
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let citations: &[Citation] = match &end.status {
            Status::Failed(failure) => {
                let error = json!({
                    "type": "error",
                    "message": failure.message,
                    "code": code(&failure.kind),
                    "recoverable": failure.recoverable,
                });
                write_unlimited(&error, "error", out);
                &[]
            }
            Status::Completed | Status::Stopped => &end.metadata.citations,
        };
        let mut truncated = end.metadata.truncated;
        if self.totals.sources.is_none() && !citations.is_empty() {
            let written = self.write_citations(citations, out);
            truncated |= written < citations.len();
            self.totals.sources = Some(written);
        }
        let cited = &citations[..self.fitting(citations)];
        truncated |= cited.len() < citations.len();
        let done = Value::Object(self.done(end, cited, truncated));
        write_unlimited(&done, "done", out);
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(KEEP_ALIVE);
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}

impl ForgeSpelling {
    /// Writes the citations, halving their number until they fit. Returns how many were written.
    fn write_citations(&self, citations: &[Citation], out: &mut BytesMut) -> usize {
        let from = out.len();
        let mut count = citations.len();
        while count > 0 {
            let sources: Vec<Value> = citations[..count].iter().map(source).collect();
            let mut object = Map::new();
            object.insert("type".into(), "sources".into());
            object.insert("sources".into(), sources.into());
            if write_frame("sources", &object, self.limits.max_trailer_bytes, out).is_ok() {
                break;
            }
            out.truncate(from);
            count /= 2;
        }
        count
    }

    /// Halves the number of citations until they fit, and returns it.
    fn fitting(&self, citations: &[Citation]) -> usize {
        let (mut count, mut scratch) = (citations.len(), BytesMut::new());
        while count > 0 {
            scratch.clear();
            let written = json::write(&mut scratch, &&citations[..count]);
            if written.is_ok() && scratch.len() <= self.limits.max_trailer_bytes {
                break;
            }
            count /= 2;
        }
        count
    }

    fn done(&self, end: &End, citations: &[Citation], truncated: bool) -> Map<String, Value> {
        let (metadata, failed) = (&end.metadata, matches!(end.status, Status::Failed(_)));
        // Judges generate tokens too, which are not tokens of the answer.
        let tokens = metadata
            .usage
            .as_ref()
            .and_then(|usage| usage.answer_tokens.or(usage.output_tokens))
            .unwrap_or(self.totals.tokens);
        let mode = metadata.mode.as_deref().or(self.totals.mode);
        let tools: &[String] = if failed { &[] } else { &metadata.tools_used };
        let extra = metadata
            .extra
            .iter()
            .filter(|(name, _)| !DONE.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()));
        let last = [
            (
                "status",
                (end.status == Status::Stopped).then(|| end.status.as_str().into()),
            ),
            (
                "events_dropped",
                (metadata.events_dropped > 0).then(|| metadata.events_dropped.into()),
            ),
            ("truncated", truncated.then_some(true.into())),
        ];
        let first = [
            ("type", Some("done".into())),
            ("total_time_ms", end.timing.map(|timing| timing.elapsed_ms.into())),
            ("tokens_generated", Some(tokens.into())),
            ("iterations", Some(self.totals.iterations.into())),
            ("tools_used", Some(tools.into())),
            ("sources_count", Some(self.totals.sources.unwrap_or(0).into())),
            ("confidence", self.totals.confidence.map(Value::from)),
            ("mode", mode.map(Value::from)),
            ("cached", Some(self.totals.cached.into())),
            // A `sources` event of the application may differ, and never names the tool of a
            // citation.
            (
                "citations",
                (!citations.is_empty())
                    .then(|| serde_json::to_value(citations).ok())
                    .flatten(),
            ),
            ("usage", serde_json::to_value(&metadata.usage).ok()),
            ("queue_stats", serde_json::to_value(&metadata.queue_stats).ok()),
        ];
        let named = |(name, value): (&str, Option<Value>)| value.map(|value: Value| (name.to_owned(), value));
        first
            .into_iter()
            .filter_map(named)
            .chain(extra)
            .chain(last.into_iter().filter_map(named))
            .filter(|(_, value)| !value.is_null())
            .collect()
    }
}

/// Forge's code for the default failure.
const LLM_ERROR: &str = "LLM_ERROR";

/// Forge's code for a failure if it has one, else the code in upper case.
fn code(kind: &FailureKind) -> String {
    if *kind == FailureKind::ChatFailed {
        LLM_ERROR.to_owned()
    } else {
        kind.as_str().to_ascii_uppercase()
    }
}

/// A citation as a source, with the quote as its text.
fn source(citation: &Citation) -> Value {
    let members = [
        ("chunk_id", Some(citation.chunk_id.as_str().into())),
        ("document_id", Some(citation.document_id.as_str().into())),
        ("text", Some(citation.supporting_quote.as_str().into())),
        ("score", citation.score.map(Value::from)),
        (
            "page_numbers",
            Some(citation.page_number.into_iter().collect::<Vec<u32>>().into()),
        ),
        ("heading", citation.heading.as_deref().map(Value::from)),
    ];
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .filter(|(_, value)| !value.is_null())
        .collect::<Map<_, _>>()
        .into()
}

fn sort_elements(list: Option<&mut Value>, order: &[&str]) {
    let elements = list.and_then(Value::as_array_mut).into_iter().flatten();
    for members in elements.filter_map(Value::as_object_mut) {
        let unsorted = std::mem::take(members);
        typed::sort_into(members, order, unsorted);
    }
}

/// Appends one server-sent event. On an error `out` may contain a part of it.
fn write_frame(
    name: &str,
    object: &Map<String, Value>,
    max_bytes: usize,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    out.extend_from_slice(b"event: ");
    // Nothing can be escaped in the field `event`. An unchecked name may contain a line end, or be
    // empty, and readers ignore an event without a name. The data has the name unchanged.
    for char in if name.is_empty() { "message" } else { name }.chars() {
        let ends_line = char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
        let char = if ends_line {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        };
        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.extend_from_slice(b"\ndata: ");
    typed::write_line(object, max_bytes, out)?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// [`write_frame`] without a limit; JSON values always serialise.
fn write_unlimited(value: &Value, name: &str, out: &mut BytesMut) {
    let from = out.len();
    let written = value
        .as_object()
        .is_some_and(|object| write_frame(name, object, usize::MAX, out).is_ok());
    if !written {
        out.truncate(from);
    }
}
