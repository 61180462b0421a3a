//! The messages of one request.

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::explain::{Explained, Explanations};
use super::{Envelope, GATEWAY_ERROR, Kind, TrustGraph};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Status};
use crate::json;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::wire::answer::Answer;
use crate::wire::object::{self, Late, Line};
use crate::wire::{EncodeError, Limits, Spelling, padding};

/// The error types that TrustGraph's clients know. A failure with one of them as its code keeps it.
const ERROR_TYPES: [&str; 13] = [
    "agent-error",
    "config-error",
    "document-rag-error",
    "flow-error",
    GATEWAY_ERROR,
    "graph-rag-error",
    "llm-error",
    "load-error",
    "lookup-error",
    "nlp-query-error",
    "request-error",
    "rows-query-error",
    "structured-query-error",
];

/// The state of one request.
#[derive(Debug)]
pub(super) struct Request {
    wire: TrustGraph,
    /// The answer so far, if a message will contain the whole of it.
    answer: Answer,
    /// The events of a request that does not stream; at most `max_trailer_bytes`.
    late: Late,
    /// The model of the last `generation_start`.
    model: Option<String>,
    /// The documents of the `sources` events.
    documents: Documents,
    explanations: Explanations,
    /// The number of characters of the streamed answer so far.
    written_chars: u64,
}

/// A list of documents without duplicates.
#[derive(Debug, Default)]
struct Documents {
    /// Titles by URI, in the order in which they arrived; together at most `max_trailer_bytes` by
    /// `bytes`.
    titles: Map<String, Value>,
    bytes: usize,
    /// Whether some were left out.
    is_cut: bool,
}

impl Documents {
    fn add(&mut self, uri: &str, title: &str, limits: Limits) {
        if self.titles.contains_key(uri) {
            return;
        }
        self.bytes += r#"{"uri":"","title":""},"#.len() + uri.len() + title.len();
        if self.bytes > limits.max_trailer_bytes {
            self.is_cut = true;
        } else {
            self.titles.insert(uri.to_owned(), title.into());
        }
    }
}

/// A message.
#[derive(Serialize)]
struct Message<'a, R> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Value>,
    response: R,
    complete: bool,
}

/// A shipped `response` other than the last.
#[derive(Serialize)]
struct Shipped<'a> {
    message_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a str>,
    /// The piece again, for the clients up to version 1.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<&'a str>,
    #[serde(flatten)]
    body: Option<Body<'a>>,
    end_of_stream: bool,
    end_of_session: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Explain {
        explain_id: &'a str,
        explain_graph: &'a str,
        explain_triples: &'a [Value],
    },
    Event {
        event: Line<'a>,
    },
}

/// A specified `response` other than the last.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Specified<'a> {
    Chunk(&'a str),
    Event(Line<'a>),
}

impl Spelling for Request {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        if !self.wire.streaming {
            return self.keep_event(event, timestamp);
        }
        if let Event::Retract(retract) = event
            && self.wire.envelope == Envelope::Shipped
            && retract.kept < self.written_chars
        {
            // The clients cannot take a piece back: they show what follows as a paragraph. Before
            // the event, so that a reader that applies it also removes this.
            self.write_all(None, &chunk("\n\n", false), false, out);
        }
        self.write_event(event, timestamp, out)?;
        if let Some(explained) = self.explained(event, timestamp) {
            let from = out.len();
            if self.write_explained(&explained, out).is_err() {
                out.truncate(from);
            }
        }
        self.note(event);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        if !self.wire.streaming {
            return self.answer.push(text);
        }
        self.written_chars += text.chars().count() as u64;
        match self.wire.envelope {
            Envelope::Shipped => self.write_all(None, &chunk(text, false), false, out),
            Envelope::Specified => {
                self.answer.push(text);
                self.write_all(None, &Specified::Chunk(text), false, out);
            }
        }
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let streamed = self.wire.streaming && self.wire.envelope == Envelope::Shipped;
        if streamed && !matches!(end.status, Status::Failed(_)) {
            if end.status == Status::Completed
                && let Some(explained) = self.explanations.synthesis()
            {
                let from = out.len();
                if self.write_explained(&explained, out).is_err() {
                    out.truncate(from);
                }
            }
            // Whether a piece of text is the last is unknown when it is sent; waiting would delay
            // every piece.
            self.write_all(None, &chunk("", true), false, out);
        }
        let last = self.last(end);
        // Some clients look for the error only beside the response, and would take a failed answer
        // for complete.
        self.write_all(last.get("error"), &last, true, out);
    }

    fn shows_events(&self, _: Phase) -> bool {
        self.wire.streaming
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, _: Phase, _: &mut BytesMut) {
        // The wire has no filler message; a socket has its pings.
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::spaces(bytes, out);
    }
}

impl Request {
    pub(super) fn new(wire: TrustGraph) -> Self {
        Self {
            answer: Answer::default(),
            late: Late::default(),
            model: None,
            documents: Documents::default(),
            explanations: Explanations::new(wire.kind == Kind::GraphRag, wire.triples.clone()),
            written_chars: 0,
            wire,
        }
    }

    /// The `response` of a request that is answered with one message.
    pub(super) fn whole(&mut self, text: &str, end: &End) -> Map<String, Value> {
        self.answer.push(text);
        self.last(end)
    }

    /// Keeps an event for the only message.
    pub(super) fn keep_event(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
    ) -> Result<(), EncodeError> {
        // A retraction is applied to the answer; in a list it would have no position.
        if !matches!(event, Event::Retract(_)) {
            self.late.push(event, timestamp, self.wire.limits)?;
        }
        self.note(event);
        Ok(())
    }

    /// Keeps the parts of an event that the last message contains.
    fn note(&mut self, event: &Event) {
        if let Event::GenerationStart(start) = event {
            self.model = Some(start.model.clone());
        } else if let Event::Retract(retract) = event {
            self.answer.retract(retract.kept);
            self.written_chars = self.written_chars.min(retract.kept);
        } else if let Event::Sources(sources) = event
            && self.has_sources()
        {
            for source in &sources.sources {
                let title = source.title.as_deref().unwrap_or_default();
                self.documents.add(&source.document_id, title, self.wire.limits);
            }
        }
    }

    fn has_sources(&self) -> bool {
        self.wire.kind == Kind::GraphRag && self.wire.envelope == Envelope::Shipped
    }

    fn write_event(
        &self,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        let line = Line { event, timestamp };
        if self.wire.envelope == Envelope::Specified {
            return self.write(None, &Specified::Event(line), false, max_bytes, out);
        }
        if let Event::GraphExplanation(explanation) = event {
            return self.write_explained(&self.explanations.graph(explanation), out);
        }
        let response = Shipped {
            message_type: "event",
            ..self.progress(Body::Event { event: line })
        };
        self.write(None, &response, false, max_bytes, out)
    }

    /// What TrustGraph's clients show for an event, in addition to the event itself.
    fn explained(&mut self, event: &Event, timestamp: Option<Timestamp>) -> Option<Explained> {
        match self.wire.envelope {
            Envelope::Shipped => self.explanations.of(event, timestamp),
            Envelope::Specified => None,
        }
    }

    fn write_explained(&self, explained: &Explained, out: &mut BytesMut) -> Result<(), EncodeError> {
        let response = Shipped {
            message_type: "explain",
            ..self.progress(Body::Explain {
                explain_id: &explained.id,
                explain_graph: &explained.graph,
                explain_triples: &explained.triples,
            })
        };
        self.write(None, &response, false, self.wire.limits.max_line_bytes, out)
    }

    /// A message without text.
    fn progress<'a>(&self, body: Body<'a>) -> Shipped<'a> {
        Shipped {
            message_type: "",
            response: (self.wire.kind == Kind::GraphRag).then_some(""),
            chunk: None,
            body: Some(body),
            end_of_stream: false,
            end_of_session: false,
        }
    }

    /// The `response` of the last message.
    fn last(&self, end: &End) -> Map<String, Value> {
        let shipped = self.wire.envelope == Envelope::Shipped;
        let mut response = match &end.status {
            Status::Failed(failure) => self.failed(failure),
            Status::Completed | Status::Stopped if shipped => self.closed(end),
            Status::Completed | Status::Stopped => members([
                ("response", Some(self.answer.text().into())),
                ("end_of_stream", Some(true.into())),
            ]),
        };
        if let Some(metadata) = self.metadata(end) {
            response.insert("metadata".into(), metadata);
        }
        response
    }

    fn failed(&self, failure: &Failure) -> Map<String, Value> {
        let error = json!({ "message": failure.message, "type": self.error_type(&failure.kind) });
        let shipped = self.wire.envelope == Envelope::Shipped;
        members([
            ("error", Some(error)),
            ("end_of_stream", Some(true.into())),
            ("end_of_session", shipped.then_some(true.into())),
        ])
    }

    /// The last shipped `response`.
    fn closed(&self, end: &End) -> Map<String, Value> {
        let (streaming, graph) = (self.wire.streaming, self.wire.kind == Kind::GraphRag);
        let message_type = match (graph, streaming) {
            (true, _) => Some("chunk"),
            (false, true) => Some("end"),
            (false, false) => None,
        };
        let usage = end.metadata.usage.as_ref();
        let model = usage.and_then(|usage| usage.model.as_deref());
        members([
            ("message_type", message_type.map(Value::from)),
            (
                "response",
                (graph || !streaming).then(|| self.answer.text().into()),
            ),
            ("chunk", (graph && streaming).then(|| "".into())),
            ("sources", self.sources(end)),
            // A streamed answer already had its marker.
            ("end_of_stream", Some((!streaming).into())),
            ("end_of_session", Some(true.into())),
            (
                "in_token",
                usage.and_then(|usage| usage.input_tokens).map(Value::from),
            ),
            (
                "out_token",
                usage.and_then(|usage| usage.output_tokens).map(Value::from),
            ),
            ("model", model.or(self.model.as_deref()).map(Value::from)),
        ])
    }

    /// The documents of the answer: those of `sources` events, else those of the citations.
    fn sources(&self, end: &End) -> Option<Value> {
        let mut cited = Documents::default();
        let documents = if self.documents.titles.is_empty() && self.has_sources() {
            for citation in &end.metadata.citations {
                cited.add(&citation.document_id, "", self.wire.limits);
            }
            &cited
        } else {
            &self.documents
        };
        let sources = documents
            .titles
            .iter()
            .map(|(uri, title)| json!({ "uri": uri, "title": title }));
        (!documents.titles.is_empty()).then(|| sources.collect())
    }

    /// The members that TrustGraph does not have, as the trailer of the framed wire. `None` if it
    /// is empty.
    fn metadata(&self, end: &End) -> Option<Value> {
        let mut end = End {
            timing: None,
            ..end.clone()
        };
        let failed = matches!(end.status, Status::Failed(_));
        if self.wire.envelope == Envelope::Shipped && !failed {
            // The usage has its own members.
            end.metadata.usage = None;
        }
        end.metadata.truncated |= self.answer.is_cut() || self.documents.is_cut;
        if end == End::default() && self.late.is_empty() {
            return None;
        }
        let mut out = BytesMut::new();
        object::write_end(&end, &self.late, self.wire.limits.max_trailer_bytes, &mut out);
        serde_json::from_slice(&out).ok()
    }

    /// TrustGraph's error type for a failure.
    fn error_type<'a>(&self, kind: &'a FailureKind) -> &'a str {
        match kind {
            FailureKind::Timeout
            | FailureKind::WriteStalled
            | FailureKind::ShuttingDown
            | FailureKind::Busy
            | FailureKind::TooMany
            | FailureKind::QueueTimeout => GATEWAY_ERROR,
            FailureKind::Other(code) if ERROR_TYPES.contains(&&**code) => code,
            FailureKind::ChatFailed
            | FailureKind::Stopped
            | FailureKind::NotAcceptable
            | FailureKind::NotFound
            | FailureKind::NoDocuments
            | FailureKind::NoGraph
            | FailureKind::UnknownTurn
            | FailureKind::Gone
            | FailureKind::Ahead
            | FailureKind::Lost
            | FailureKind::Interrupted
            | FailureKind::Unavailable
            | FailureKind::UpstreamUnreachable
            | FailureKind::UpstreamRefused
            | FailureKind::UpstreamTimeout
            | FailureKind::UpstreamTruncated
            | FailureKind::UpstreamUnreadable
            | FailureKind::UpstreamTooLarge
            | FailureKind::UpstreamFailed
            | FailureKind::FileNotAccepted
            | FailureKind::Other(_) => match self.wire.kind {
                Kind::GraphRag => "graph-rag-error",
                Kind::DocumentRag => "document-rag-error",
            },
        }
    }

    /// Appends one message. On an error `out` may contain a part of it.
    fn write(
        &self,
        error: Option<&Value>,
        response: &impl Serialize,
        complete: bool,
        max_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let from = out.len();
        let message = Message {
            id: &self.wire.id,
            error,
            response,
            complete,
        };
        json::write(out, &message)?;
        if out.len() - from > max_bytes {
            return Err(EncodeError::TooLarge { max_bytes });
        }
        out.extend_from_slice(b"\n");
        Ok(())
    }

    /// [`Self::write`] without a limit.
    fn write_all(
        &self,
        error: Option<&Value>,
        response: &impl Serialize,
        complete: bool,
        out: &mut BytesMut,
    ) {
        let from = out.len();
        if self.write(error, response, complete, usize::MAX, out).is_err() {
            // Strings and JSON values always serialise, but a partial message must not remain in
            // any case.
            out.truncate(from);
        }
    }
}

/// A shipped piece of the answer.
fn chunk(text: &str, end_of_stream: bool) -> Shipped<'_> {
    Shipped {
        message_type: "chunk",
        response: Some(text),
        chunk: Some(text),
        body: None,
        end_of_stream,
        end_of_session: false,
    }
}

/// Builds an object of the members that have a value.
fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}
