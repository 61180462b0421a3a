//! The result of a tool of the [Model Context Protocol](https://modelcontextprotocol.io), as the
//! event stream of its streamable HTTP transport: progress notifications, then the response to
//! `tools/call`. Encoder only.
//!
//! The answer, or the passages of a search, is one result, so the text is collected; only the steps before it are live. The rules
//! are in `PROTOCOL.md`, section "MCP" (`[M-nn]`).
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::event::Search;
//! use ragwire::wire::Wire;
//! use ragwire::{End, Mcp, Metadata};
//!
//! let wire = Mcp::new(7.into()).progress("t".into());
//! let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
//! encoder.event(&Search::new("bm25").into(), None, &mut bytes).unwrap();
//! assert_eq!(
//!     bytes.split(),
//!     "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\
//!      {\"progressToken\":\"t\",\"progress\":1,\"message\":\"Searching with bm25\"}}\n\n"
//! );
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert!(bytes.starts_with(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":"));
//! ```

use bytes::BytesMut;
use serde_json::{Value, json};

use super::answer::Answer;
use super::object::{self, Late};
use super::reasoning::Reasoning;
use super::typed::KEEP_ALIVE;
use super::{EncodeError, Limits, Spelling, Wire, padding};
use crate::event::{Event, Source};
use crate::frame::{End, Status};
use crate::json;
use crate::metadata::Citation;
use crate::order::Phase;
use crate::time::Timestamp;

/// The wire of one call of a tool that answers a question.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct Mcp {
    id: Value,
    form: Form,
    progress: Option<Value>,
    limits: Limits,
}

/// What the result contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The answer with its citations.
    Answer,
    /// The passages of the last `sources`.
    Passages,
}

impl Mcp {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Creates the wire from the ID of the request.
    pub fn new(id: Value) -> Self {
        Self {
            id,
            form: Form::Answer,
            progress: None,
            limits: Limits::default(),
        }
    }

    /// Sends the passages of the turn's last `sources` event as the result, for a tool that
    /// searches. Default: the answer with its citations.
    #[must_use]
    pub fn passages(mut self) -> Self {
        self.form = Form::Passages;
        self
    }

    /// Sends a notification for each step that means something to a person, under the token of the
    /// request (`_meta.progressToken`). Default: none.
    #[must_use]
    pub fn progress(mut self, token: Value) -> Self {
        self.progress = Some(token);
        self
    }

    /// Sets the limit of the metadata in the result.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the JSON schema of `structuredContent` for passages.
    pub fn passages_schema() -> Value {
        let text = json!({"type": "string"});
        json!({
            "type": "object",
            "properties": {
                "passages": {
                    "type": "array",
                    "description": "The passages, best first",
                    "items": {
                        "type": "object",
                        "properties": {
                            "chunk_id": text,
                            "document_id": text,
                            "text": text,
                            "page_numbers": {"type": "array", "items": {"type": "integer"}},
                            "title": text,
                            "level": text,
                            "score": {"type": "number"},
                            "heading": text,
                        },
                        "required": ["chunk_id", "document_id", "text", "page_numbers"],
                    },
                },
                "tools_used": {"type": "array", "items": text},
                "truncated": {"type": "boolean", "description": "Whether the worst passages were left out"},
            },
            "required": ["passages", "tools_used"],
        })
    }

    /// Returns the JSON schema of `structuredContent` for an answer.
    pub fn output_schema() -> Value {
        let text = json!({"type": "string"});
        json!({
            "type": "object",
            "properties": {
                "answer": {"type": "string", "description": "The answer, with citation numbers such as [1]"},
                "citations": {
                    "type": "array",
                    "description": "The evidence, in the order of the numbers",
                    "items": {
                        "type": "object",
                        "properties": {
                            "document_id": text,
                            "chunk_id": text,
                            "supporting_quote": text,
                            "source_tool": text,
                            "page_number": {"type": "integer"},
                            "score": {"type": "number"},
                            "heading": text,
                        },
                        "required": ["document_id", "chunk_id", "supporting_quote", "source_tool"],
                    },
                },
                "tools_used": {"type": "array", "items": text},
            },
            "required": ["answer", "citations", "tools_used"],
        })
    }

    /// Returns the result of a call for this answer.
    pub fn result(&self, text: &str, end: &End) -> Value {
        let trailer = self.trailer(end);
        if let Status::Failed(failure) = &end.status {
            return failed(&failure.message, &trailer);
        }
        let mut structured = json!({"answer": text});
        if let (Some(members), Value::Object(trailer)) = (structured.as_object_mut(), trailer) {
            members.extend(trailer);
        }
        let mut content = vec![json!({"type": "text", "text": text})];
        content.extend(sources(&end.metadata.citations).map(|text| json!({"type": "text", "text": text})));
        json!({"content": content, "structuredContent": structured, "isError": false})
    }

    /// Returns the result of a call for these passages. The worst are left out if all together are
    /// longer than the limit of the metadata.
    fn found(&self, passages: &[Source], end: &End) -> Value {
        if let Status::Failed(failure) = &end.status {
            return failed(&failure.message, &self.trailer(end));
        }
        let mut left = self.limits.max_trailer_bytes;
        let fits = |passage: &&Source| {
            let bytes = passage.text.len() + passage.title.as_ref().map_or(0, String::len);
            left = left.saturating_sub(bytes);
            left > 0
        };
        let fitting: Vec<&Source> = passages.iter().take_while(fits).collect();
        let lines = fitting.iter().enumerate().map(|(number, passage)| {
            let name = passage.title.as_ref().unwrap_or(&passage.document_id);
            let page = passage.page_numbers.first().map(|page| format!(", page {page}"));
            let page = page.unwrap_or_default();
            json!({"type": "text", "text": format!("[{}] {name}{page}: {}", number + 1, passage.text)})
        });
        let mut structured = json!({"passages": fitting, "tools_used": end.metadata.tools_used});
        if fitting.len() < passages.len() {
            structured["truncated"] = true.into();
        }
        json!({"content": lines.collect::<Vec<_>>(), "structuredContent": structured, "isError": false})
    }

    fn trailer(&self, end: &End) -> Value {
        let mut trailer = BytesMut::new();
        object::write_end(end, &Late::default(), self.limits.max_trailer_bytes, &mut trailer);
        serde_json::from_slice(&trailer).unwrap_or_default()
    }
}

/// The result of a failed call, without structured content, which would have to match the schema.
fn failed(message: &str, trailer: &Value) -> Value {
    let content = json!([{"type": "text", "text": message}]);
    json!({"content": content, "isError": true, "_meta": {"ragwire": trailer}})
}

/// The citations as text, for a model that gets no structured content.
fn sources(citations: &[Citation]) -> Option<String> {
    let line = |(number, citation): (usize, &Citation)| {
        let page = citation.page_number.map(|page| format!(", page {page}"));
        format!(
            "[{}] {}{}: {}",
            number + 1,
            citation.document_id,
            page.unwrap_or_default(),
            citation.supporting_quote
        )
    };
    let lines: Vec<String> = citations.iter().enumerate().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl Wire for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(McpSpelling {
            wire: self.clone(),
            steps: 0,
            reasoning: Reasoning::default(),
            answer: Answer::default(),
            passages: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct McpSpelling {
    wire: Mcp,
    /// Number of notifications so far: progress has to increase.
    steps: u64,
    reasoning: Reasoning,
    answer: Answer,
    /// Those of the last `sources`, if the result has them.
    passages: Vec<Source>,
}

/// Appends one message as an event of the transport.
fn write(message: &Value, out: &mut BytesMut) -> serde_json::Result<()> {
    out.extend_from_slice(b"event: message\ndata: ");
    json::write(out, message)?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

impl Spelling for McpSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        _: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        if let Event::Retract(retract) = event {
            self.answer.retract(retract.kept);
        }
        if let (Event::Sources(sources), Form::Passages) = (event, self.wire.form) {
            self.passages.clone_from(&sources.sources);
        }
        let (Some(token), Some(message)) = (&self.wire.progress, self.reasoning.line(event)) else {
            return Ok(());
        };
        let progress = self.steps + 1;
        let params = json!({"progressToken": token, "progress": progress, "message": message});
        let from = out.len();
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        write(&notification, out)?;
        object::check_line(out.len() - from, self.wire.limits)?;
        self.steps = progress;
        self.reasoning.advance(event);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, _: &mut BytesMut) {
        self.answer.push(text);
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let mut end = end.clone();
        end.metadata.truncated |= self.answer.is_cut();
        let result = match self.wire.form {
            Form::Answer => self.wire.result(self.answer.text(), &end),
            Form::Passages => self.wire.found(&self.passages, &end),
        };
        let response = json!({"jsonrpc": "2.0", "id": self.wire.id, "result": result});
        let written = write(&response, out);
        debug_assert!(written.is_ok(), "{written:?}");
    }

    fn shows_events(&self, _: Phase) -> bool {
        self.wire.progress.is_some() || self.wire.form == Form::Passages
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(KEEP_ALIVE);
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}
