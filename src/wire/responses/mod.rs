//! The stream of OpenAI's [Responses API](https://platform.openai.com/docs/api-reference/responses):
//! server-sent events that build one `response` object, which the last of them contains.
//!
//! Searches are `file_search_call` items, other tools are `mcp_call` items (tools that the server
//! ran), steps and thoughts are the summary of `reasoning` items, and citations are annotations of
//! the `message`. Everything else is sent in one extension member, `ragwire`, which the published
//! clients pass on unchanged. This module has no clock and makes no IDs: the caller provides both.
//! The rules are in `PROTOCOL.md`, section "OpenAI Responses" (`[R-nn]`).
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::responses::Decoder;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, Metadata, Responses};
//!
//! let (mut encoder, mut bytes) = (Responses::new("resp_1", 1_767_323_045, "rag").encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert!(bytes.starts_with(b"event: response.created\ndata: {\"type\":\"response.created\","));
//!
//! let mut decoder = Decoder::default();
//! decoder.feed(&bytes);
//! assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

mod decoder;
mod output;
mod spelling;

use bytes::BytesMut;
use serde_json::{Map, Value, json};

pub use self::decoder::Decoder;
use self::spelling::ResponsesSpelling;
use super::{Limits, Spelling, Wire};
use crate::event::Event;
use crate::frame::End;
use crate::order::Phase;
use crate::time::Timestamp;

/// The Responses wire, for one turn.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct Responses {
    id: String,
    created_at: u64,
    model: String,
    previous_response_id: Option<String>,
    is_background: bool,
    extension: bool,
    starting_after: Option<u64>,
    limits: Limits,
}

impl Responses {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream; charset=utf-8";

    /// Creates the wire from the response's ID, its creation time in seconds since 1970, and the
    /// name of the model.
    pub fn new(id: impl Into<String>, created_at: u64, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            created_at,
            model: model.into(),
            previous_response_id: None,
            is_background: false,
            extension: true,
            starting_after: None,
            limits: Limits::default(),
        }
    }

    /// Sets the response that this one follows in its conversation.
    #[must_use]
    pub fn previous_response_id(mut self, id: impl Into<String>) -> Self {
        self.previous_response_id = Some(id.into());
        self
    }

    /// Marks the response as one that continues without its reader.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.is_background = true;
        self
    }

    /// Leaves out the member `ragwire`, and the events that only carry it, for clients that accept
    /// nothing but the documented members. Events without a shape of their own are then not sent.
    #[must_use]
    pub fn without_extension(mut self) -> Self {
        self.extension = false;
        self
    }

    /// Leaves out the events up to and including this sequence number, for a reader that has them.
    /// Encode the turn from its first frame: a frame always gets the same numbers.
    #[must_use]
    pub fn starting_after(mut self, sequence_number: u64) -> Self {
        self.starting_after = Some(sequence_number);
        self
    }

    /// Sets the limits of the JSON of an event, and of the metadata. The items of the output besides
    /// the answer are together within the limit of the metadata; steps and calls beyond it are only
    /// in `ragwire`.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the whole turn as one `response` object, for requests without `stream` and for a
    /// response that is retrieved after its end.
    pub fn response(&self, events: &[(Event, Option<Timestamp>)], text: &str, end: &End) -> Value {
        let (mut spelling, mut scratch) = (ResponsesSpelling::new(self.clone()), BytesMut::new());
        for (event, timestamp) in events {
            // An event over the limit is not part of a stream either.
            let _ = spelling.event(Phase::Events, event, *timestamp, &mut scratch);
            scratch.clear();
        }
        if !text.is_empty() {
            spelling.text(Phase::Text, text, &mut scratch);
        }
        let response = spelling.finish(end, &mut scratch);
        serde_json::from_slice(&response).unwrap_or_default()
    }

    /// Returns the object of a response that has not ended.
    pub fn in_progress(&self) -> Value {
        let mut response = self.head("in_progress");
        response.insert("output".to_owned(), json!([]));
        response.into()
    }

    /// The members of the response that do not depend on the turn. The parameters of a request that
    /// this server does not have are those of a request without them.
    fn head(&self, status: &str) -> Map<String, Value> {
        let members = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "background": self.is_background,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "metadata": {},
            "model": self.model,
            "parallel_tool_calls": true,
            "previous_response_id": self.previous_response_id,
            "reasoning": {"effort": null, "summary": null},
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": null,
        });
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

impl Wire for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(ResponsesSpelling::new(self.clone()))
    }
}
