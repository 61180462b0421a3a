//! Reads TrustGraph's messages: ours, and those of TrustGraph's own gateway from version 1.6 on.

use serde_json::Value;

use super::explain::{self, is_iri};
use super::{GATEWAY_ERROR, TrustGraph};
use crate::event::{Event, GraphExplanation, Source, Sources, Triple};
use crate::failure::Failure;
use crate::frame::{End, Frame, Status};
use crate::metadata::Usage;
use crate::order::Phase;
use crate::wire::answer::Answer;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::members::{self, Members, filled, take, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits, object};

/// The longest message: a whole answer, every byte of which may be escaped as two.
const MAX_MESSAGE_BYTES: usize = 2 * Answer::MAX_BYTES;

impl TrustGraph {
    /// Creates a decoder for the messages of one request, in either envelope.
    pub fn decoder(&self) -> TrustGraphDecoder {
        TrustGraphDecoder::new(self.limits)
    }
}

/// Decodes the messages of one request, in either envelope and however their bytes were split.
///
/// Each message is one line. Append an LF to each message of a socket, and pass only those with the
/// ID of the request: the decoder does not compare IDs.
///
/// `PROTOCOL.md`, section "TrustGraph", lists what differs from the turn that was encoded.
///
/// ```
/// use ragwire::wire::trustgraph::TrustGraphDecoder;
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::Frame;
///
/// let mut decoder = TrustGraphDecoder::default();
/// decoder.feed(b"{\"id\":\"1\",\"response\":{\"chunk\":\"Yes.\"},\"complete\":false}\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// decoder.feed(b"{\"id\":\"1\",\"response\":{\"end_of_stream\":true},\"complete\":true}\n");
/// assert!(matches!(decoder.next(), Some(Ok(Frame::End(_)))));
/// assert_eq!(decoder.finish(), Finish::Complete);
/// ```
#[derive(Debug)]
pub struct TrustGraphDecoder {
    messages: Messages<Reader>,
}

impl TrustGraphDecoder {
    /// Creates a decoder whose messages have at most 8 MiB, or the larger of the limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            messages: Messages::lines(Reader::default(), limits.larger().max(MAX_MESSAGE_BYTES)),
        }
    }
}

decoder!(TrustGraphDecoder);

impl Default for TrustGraphDecoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// What was read of a stream.
#[derive(Debug, Default)]
struct Reader {
    decoded: Decoded,
    /// Whether a message had `sources` as an event.
    has_sources: bool,
}

impl ReadMessage for Reader {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let mut members = members::parse(message.data)?;
        let mut response = match take(&mut members, "response") {
            Value::Object(response) => response,
            Value::Null => Members::new(),
            _ => return Err(DecodeError::BadEvent),
        };
        response.retain(|_, value| !value.is_null());
        let error = [take(&mut response, "error"), take(&mut members, "error")]
            .into_iter()
            .find(|error| !error.is_null());
        let is_last = members.get("complete").and_then(Value::as_bool) == Some(true);
        if let Some(event) = response.shift_remove("event") {
            self.event(event)?;
        } else if word(&response, "message_type") == Some("explain") {
            self.explanation(&mut response)?;
        } else if error.is_none() {
            self.text(&response)?;
        }
        if is_last || error.is_some() {
            return self.end(response, error.as_ref());
        }
        Ok(())
    }
}

impl Reader {
    fn event(&mut self, event: Value) -> Result<(), DecodeError> {
        let Value::Object(event) = event else {
            return Err(DecodeError::BadEvent);
        };
        self.push_event(object::read_event(event).ok_or(DecodeError::BadEvent)?)
    }

    fn push_event(&mut self, frame: Frame) -> Result<(), DecodeError> {
        self.has_sources |= matches!(
            &frame,
            Frame::Event {
                event: Event::Sources(_),
                ..
            }
        );
        self.decoded.push(frame)
    }

    fn explanation(&mut self, response: &mut Members) -> Result<(), DecodeError> {
        let id = word(response, "explain_id").unwrap_or_default().to_owned();
        let graph = word(response, "explain_graph").unwrap_or_default().to_owned();
        if explain::is_added(&id) {
            // The event that it explains is also in the stream.
            return Ok(());
        }
        let mut triples = match take(response, "explain_triples") {
            Value::Array(triples) => triples.iter().filter_map(read_triple).collect(),
            _ => Vec::new(),
        };
        explain::without_description(&id, &mut triples);
        self.decoded
            .push_event(GraphExplanation::new(id, graph, triples), None)
    }

    /// Takes a piece of the answer, or the whole of it.
    fn text(&mut self, response: &Members) -> Result<(), DecodeError> {
        let is_piece = word(response, "message_type").is_some() || response.contains_key("chunk");
        let text = if is_piece {
            filled(response, "response").or_else(|| filled(response, "chunk"))
        } else {
            // The whole answer, which is new only if it was not streamed.
            filled(response, "response").filter(|_| self.decoded.phase() == Phase::Events)
        };
        self.decoded.push_text(text.unwrap_or_default())
    }

    fn end(&mut self, mut response: Members, error: Option<&Value>) -> Result<(), DecodeError> {
        let (late, mut end) = match take(&mut response, "metadata") {
            Value::Object(metadata) => object::read_end(metadata).ok_or(DecodeError::BadTrailer)?,
            Value::Null => (Vec::new(), End::default()),
            _ => return Err(DecodeError::BadTrailer),
        };
        if let (Some(error), Status::Completed | Status::Stopped) = (error, &end.status) {
            end.status = Status::Failed(read_failure(error));
        }
        let usage = Usage {
            input_tokens: object::take(&mut response, "in_token"),
            output_tokens: object::take(&mut response, "out_token"),
            model: object::take(&mut response, "model"),
            ..Usage::default()
        };
        // A model alone is that of an event.
        if end.metadata.usage.is_none() && (usage.input_tokens.is_some() || usage.output_tokens.is_some()) {
            end.metadata.usage = Some(usage);
        }
        for frame in late {
            self.push_event(frame)?;
        }
        if !self.has_sources && end.metadata.citations.is_empty() {
            self.sources(&take(&mut response, "sources"))?;
        }
        self.decoded.push(Frame::End(end))
    }

    /// Documents, which only TrustGraph's own service lists alone.
    fn sources(&mut self, documents: &Value) -> Result<(), DecodeError> {
        let documents = documents.as_array().map(Vec::as_slice).unwrap_or_default();
        let sources: Vec<Source> = documents
            .iter()
            .filter_map(|document| {
                let uri = document.get("uri")?.as_str()?;
                let title = document.get("title").and_then(Value::as_str);
                let source = Source::new("", uri, "", Vec::new());
                Some(
                    title
                        .filter(|title| !title.is_empty())
                        .into_iter()
                        .fold(source, Source::title),
                )
            })
            .collect();
        if sources.is_empty() {
            return Ok(());
        }
        self.decoded.push_event(Sources::new(sources), None)
    }
}

/// Reads an error of a service, of the gateway, or of one of the older versions, which is a string.
fn read_failure(error: &Value) -> Failure {
    let word = |name: &str| error.get(name).and_then(Value::as_str);
    let message = word("message").or_else(|| error.as_str()).unwrap_or_default();
    let failure = Failure::default();
    let message = if message.is_empty() {
        failure.message
    } else {
        message.to_owned().into()
    };
    match word("type") {
        // Both are the service's general failure.
        None | Some("graph-rag-error" | "document-rag-error") => Failure::new(failure.kind, message),
        Some("") => Failure::new(GATEWAY_ERROR, message),
        Some(kind) => Failure::new(kind.to_owned(), message),
    }
}

/// Reads a triple of terms: in the form of the gateway since version 2, or as {v, e} before it. An
/// object keeps its spelling if that gives the same type of term again.
fn read_triple(triple: &Value) -> Option<Triple> {
    let value = |term: &Value| -> Option<(String, bool)> {
        let text = |name: &str| term.get(name).and_then(Value::as_str).map(str::to_owned);
        match text("i") {
            Some(iri) => Some((iri, true)),
            None => Some((text("v")?, term.get("e").and_then(Value::as_bool) == Some(true))),
        }
    };
    let (s, p) = (value(triple.get("s")?)?.0, value(triple.get("p")?)?.0);
    let o = match value(triple.get("o")?)? {
        (iri, true) if !is_iri(&iri) => format!("<{iri}>"),
        (text, _) => text,
    };
    Some(Triple::new(s, p, o))
}
