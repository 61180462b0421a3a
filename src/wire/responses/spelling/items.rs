//! The items of a response's output.

use serde_json::{Value, json};

use crate::wire::annotations::Markers;
use crate::wire::answer::Answer;

/// The server that the tools of `mcp_call` items belong to.
const SERVER: &str = "ragwire";

/// A `file_search_call` item.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) queries: Vec<String>,
}

impl Search {
    pub(super) fn item(&self, status: &str) -> Value {
        json!({
            "id": self.id,
            "type": "file_search_call",
            "status": status,
            "queries": self.queries,
            "results": null,
        })
    }
}

/// An `mcp_call` item: a tool that the server has run.
#[derive(Debug)]
pub(super) struct McpCall {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl McpCall {
    pub(super) fn item(
        &self,
        status: &str,
        arguments: &str,
        output: Option<&str>,
        error: Option<&str>,
    ) -> Value {
        json!({
            "id": self.id,
            "type": "mcp_call",
            "status": status,
            "approval_request_id": null,
            "arguments": arguments,
            "error": error,
            "name": self.name,
            "output": output,
            "server_label": SERVER,
        })
    }
}

/// The open `reasoning` item.
#[derive(Debug)]
pub(super) struct Thought {
    pub(super) index: usize,
    pub(super) id: String,
    /// The finished parts of the summary.
    pub(super) parts: Vec<Value>,
    /// The last part.
    pub(super) text: String,
}

impl Thought {
    pub(super) fn item(&self, status: &str) -> Value {
        json!({"id": self.id, "type": "reasoning", "summary": self.parts, "status": status})
    }
}

/// The last `message` item. It is finished when another one begins, or at the end, because the
/// citations come with the end.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) text: Answer,
    /// Number of characters of the messages before it.
    pub(super) first_char: u64,
    pub(super) markers: Markers,
    /// Whether another item began after it.
    pub(super) is_passed: bool,
}

impl Message {
    pub(super) fn part(&self, annotations: &[Value]) -> Value {
        json!({"type": "output_text", "annotations": annotations, "logprobs": [], "text": self.text.text()})
    }

    pub(super) fn item(&self, status: &str, content: &[Value]) -> Value {
        json!({"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"})
    }
}

/// How a call returned.
#[derive(Debug)]
pub(super) enum Outcome {
    Output(String),
    Error(String),
    /// Not at all.
    None,
}
