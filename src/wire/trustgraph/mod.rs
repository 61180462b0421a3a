//! The WebSocket messages of [TrustGraph](https://github.com/trustgraph-ai/trustgraph): one JSON
//! object each, with the request's ID.
//!
//! The table of messages is in `PROTOCOL.md`, section "TrustGraph" (`[T-nn]`), the vectors in
//! `tests/vectors/trustgraph`; `docs/protocols.md` introduces TrustGraph. This module writes each
//! message as one line. To send them on a socket, cut at LF, which no message contains, and send
//! each line without it as one text message. The spaces of padding, after the last LF of a chunk,
//! belong to the message before them: JSON allows them at its end.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{End, TrustGraph};
//!
//! let wire = TrustGraph::graph_rag("req-1").streaming(true);
//! let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! assert_eq!(
//!     &bytes[..],
//!     br#"{"id":"req-1","response":{"message_type":"chunk","response":"Yes.","chunk":"Yes.","end_of_stream":false,"end_of_session":false},"complete":false}
//! "#
//! );
//! encoder.end(&End::default(), &mut bytes).unwrap();
//! assert!(bytes.ends_with(b"\"end_of_session\":true},\"complete\":true}\n"));
//! ```

use std::sync::Arc;

use serde_json::{Value, json};

mod decode;
mod explain;
mod request;
#[cfg_attr(not(feature = "ws"), allow(dead_code, reason = "only sockets are asked"))]
mod triples;

pub use self::decode::TrustGraphDecoder;
use self::request::Request;
#[cfg(not(feature = "ws"))]
use self::triples::Triples;
#[cfg(feature = "ws")]
pub(crate) use self::triples::Triples;
use super::{Limits, Spelling, Wire};
use crate::event::Event;
use crate::frame::End;
use crate::time::Timestamp;

/// The wire of TrustGraph's graph and document RAG services, for one request.
///
/// A message that contains the whole answer has at most 4 MiB of it, as much as a collected turn,
/// because the encoder keeps it until the end. A longer answer is cut at a character boundary, and
/// `metadata.truncated` is set. The pieces of a streamed answer have no such limit.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct TrustGraph {
    id: Arc<str>,
    kind: Kind,
    streaming: bool,
    envelope: Envelope,
    triples: Option<Triples>,
    limits: Limits,
}

/// The service that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    GraphRag,
    DocumentRag,
}

/// The form of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Envelope {
    /// The form of TrustGraph's own server and clients.
    Shipped,
    /// The form of its specification.
    Specified,
}

impl TrustGraph {
    /// The media type of the lines, if they are not sent on a socket.
    pub const CONTENT_TYPE: &'static str = "application/x-ndjson";

    /// Answers the `graph-rag` request `id` in one message, in the envelope that TrustGraph ships.
    pub fn graph_rag(id: impl Into<String>) -> Self {
        Self::new(id.into(), Kind::GraphRag)
    }

    /// Answers the `document-rag` request `id` in one message, in the envelope that TrustGraph
    /// ships.
    pub fn document_rag(id: impl Into<String>) -> Self {
        Self::new(id.into(), Kind::DocumentRag)
    }

    fn new(id: String, kind: Kind) -> Self {
        Self {
            id: id.into(),
            kind,
            streaming: false,
            envelope: Envelope::Shipped,
            triples: None,
            limits: Limits::default(),
        }
    }

    /// Sets whether events and text are sent as they arrive: the request's `streaming`. Default:
    /// `false`, which sends exactly one message, because clients take the first one for the answer.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Uses the envelope of TrustGraph's specification instead of that of its server.
    #[must_use]
    pub fn specified(mut self) -> Self {
        self.envelope = Envelope::Specified;
        self
    }

    /// Stores what is explained, for a service `triples` that clients ask on the same socket.
    #[cfg(feature = "ws")]
    pub(crate) fn explain_into(mut self, triples: Triples) -> Self {
        self.triples = Some(triples);
        self
    }

    /// Sets the limits of an event's message (line), and of the metadata and the `sources` of the
    /// last message (trailer).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the only message of a request that is refused before its turn begins.
    pub fn error(&self, error_type: &str, message: &str) -> Value {
        json!({
            "id": &*self.id,
            "error": { "message": message, "type": error_type },
            "complete": true,
        })
    }

    /// Returns the `response` of the only message of a collected turn, which is the body of `POST
    /// /api/v1/flow/{flow}/service/{kind}` without streaming. For a failed turn it contains
    /// `error`; clients expect the status 200 even then.
    pub fn response<'a>(
        &self,
        events: impl IntoIterator<Item = &'a (Event, Option<Timestamp>)>,
        text: &str,
        end: &End,
    ) -> Value {
        let mut request = Request::new(self.clone().streaming(false));
        for (event, timestamp) in events {
            // An event over the limit would not have been in the message either.
            let _ = request.keep_event(event, *timestamp);
        }
        request.whole(text, end).into()
    }
}

impl Wire for TrustGraph {
    fn name(&self) -> &'static str {
        "trustgraph"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(Request::new(self.clone()))
    }
}

/// The type of the errors of the gateway itself, for any service.
const GATEWAY_ERROR: &str = "gateway-error";
