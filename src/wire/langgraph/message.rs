//! The messages of LangChain as JSON, as this wire writes them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::MARK;
use crate::metadata::{Citation, Metadata, Usage};

/// The node of the messages of the model.
pub(super) const MODEL: &str = "model";
/// The node of the messages of tools.
pub(super) const TOOLS: &str = "tools";

/// A piece of an AI message.
#[derive(Serialize)]
pub(super) struct Chunk<'a> {
    r#type: &'static str,
    id: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    additional_kwargs: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_call_chunks: Vec<Value>,
}

impl<'a> Chunk<'a> {
    pub(super) fn text(id: &'a str, content: &'a str) -> Self {
        Self {
            r#type: "AIMessageChunk",
            id,
            content,
            additional_kwargs: Map::new(),
            response_metadata: None,
            usage_metadata: None,
            tool_call_chunks: Vec::new(),
        }
    }

    pub(super) fn reasoning(id: &'a str, content: &str) -> Self {
        let mut chunk = Self::text(id, "");
        chunk.additional_kwargs.insert(REASONING.into(), content.into());
        chunk
    }

    /// `index` is the number of the call within its message: clients merge pieces with the same
    /// one.
    pub(super) fn call(id: &'a str, index: usize, call: &ToolCall) -> Self {
        let mut chunk = Self::text(id, "");
        chunk.tool_call_chunks.push(json!({
            "type": "tool_call_chunk",
            "index": index,
            "id": call.id,
            "name": call.name,
            "args": call.args.to_string(),
        }));
        chunk
    }

    pub(super) fn last(id: &'a str, last: &Last) -> Self {
        let mut chunk = Self::text(id, "");
        last.cite(&mut chunk.additional_kwargs);
        chunk.response_metadata = last
            .is_complete
            .then(|| json!({"finish_reason": last.finish_reason}));
        chunk.usage_metadata.clone_from(&last.usage);
        chunk
    }
}

/// The member of `additional_kwargs` in which the integrations of LangChain report thoughts.
pub(super) const REASONING: &str = "reasoning_content";
/// The member of `additional_kwargs` with the citations; the name is ours.
pub(super) const CITATIONS: &str = "citations";

/// A call of a tool in an AI message.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ToolCall {
    r#type: &'static str,
    pub(super) id: String,
    pub(super) name: String,
    /// Always an object.
    pub(super) args: Value,
}

impl ToolCall {
    pub(super) fn new(id: String, name: &str, input: &Value) -> Self {
        let args = match input {
            Value::Object(_) => input.clone(),
            Value::Null => json!({}),
            other => json!({"input": other}),
        };
        Self {
            r#type: "tool_call",
            id,
            name: name.to_owned(),
            args,
        }
    }
}

/// What the last piece of the answer adds to its message.
#[derive(Debug)]
pub(super) struct Last {
    citations: Vec<Citation>,
    usage: Option<Value>,
    pub(super) is_complete: bool,
    finish_reason: &'static str,
}

impl Last {
    pub(super) fn new(metadata: &Metadata, is_complete: bool) -> Self {
        Self {
            citations: metadata.citations.clone(),
            usage: metadata.usage.as_ref().and_then(usage),
            is_complete,
            finish_reason: metadata.finish_reason(),
        }
    }

    fn cite(&self, kwargs: &mut Map<String, Value>) {
        if !self.citations.is_empty() {
            kwargs.insert(CITATIONS.into(), json!(self.citations));
        }
    }

    /// Adds it to a whole message.
    pub(super) fn complete(&self, message: &mut Value) {
        if let Some(kwargs) = message
            .get_mut("additional_kwargs")
            .and_then(Value::as_object_mut)
        {
            self.cite(kwargs);
        }
        if self.is_complete {
            message["response_metadata"]["finish_reason"] = self.finish_reason.into();
        }
        if let Some(usage) = &self.usage {
            message["usage_metadata"] = usage.clone();
        }
    }
}

/// The usage in LangChain's form, which requires both counts. Nothing is estimated.
fn usage(usage: &Usage) -> Option<Value> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    let mut tokens = json!({
        "input_tokens": input,
        "output_tokens": output,
        "total_tokens": input.saturating_add(output),
    });
    if let Some(cached) = usage.cached_input_tokens {
        tokens["input_token_details"] = json!({"cache_read": cached});
    }
    Some(tokens)
}

/// A whole AI message.
pub(super) fn ai(id: &str, text: &str, reasoning: &str, calls: &[ToolCall], mark: &str) -> Value {
    let mut kwargs = Map::new();
    if !reasoning.is_empty() {
        kwargs.insert(REASONING.into(), reasoning.into());
    }
    json!({
        "type": "ai",
        "id": id,
        "content": text,
        "additional_kwargs": kwargs,
        "response_metadata": {MARK: mark},
        "tool_calls": calls,
    })
}

/// The message of a tool.
pub(super) fn tool(id: &str, call_id: &str, name: &str, result: &Value, is_error: bool, mark: &str) -> Value {
    let content = match result {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    json!({
        "type": "tool",
        "id": id,
        "tool_call_id": call_id,
        "name": name,
        "content": content,
        "artifact": result,
        "status": if is_error { "error" } else { "success" },
        "response_metadata": {MARK: mark},
    })
}
