//! Wires by their names.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use ragwire::http::AnyWire;
use ragwire::{
    AgUi, AiSdk, Forge, Framed, LangGraph, Mcp, Ndjson, Ollama, OpenAi, Responses, SessionChat, Sse,
    Timestamp, TrustGraph, TurnId,
};

use crate::errors;

/// The names of the wires.
pub(crate) const NAMES: [&str; 13] = [
    "framed",
    "sse",
    "ndjson",
    "ai_sdk",
    "ag_ui",
    "openai",
    "responses",
    "ollama",
    "langgraph",
    "forge",
    "session_chat",
    "mcp",
    "trustgraph",
];

/// What some wires write in each stream.
pub(crate) struct WireOptions {
    /// The name of the model.
    pub(crate) model: String,
    /// The thread of AG-UI and LangGraph.
    pub(crate) thread_id: String,
}

/// Creates the wire with this name, in which `-` and `_` are the same. Its stream has the ID of the
/// turn where it needs one.
pub(crate) fn by_name(py: Python<'_>, name: &str, turn: TurnId, options: WireOptions) -> PyResult<AnyWire> {
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let id = turn.to_string();
    let WireOptions { model, thread_id } = options;
    Ok(match name.replace('-', "_").as_str() {
        "framed" => Box::new(Framed::default()),
        "sse" => Box::new(Sse::default()),
        "ndjson" => Box::new(Ndjson::default()),
        "ai_sdk" => Box::new(AiSdk::default().message_id(id)),
        "ag_ui" => Box::new(AgUi::new(thread_id, id)),
        "openai" => Box::new(OpenAi::new(format!("chatcmpl-{id}"), seconds, model)),
        "responses" => Box::new(Responses::new(format!("resp_{id}"), seconds, model)),
        "ollama" => Box::new(Ollama::new(model, Timestamp::from(now))),
        "langgraph" => Box::new(LangGraph::new(id).thread(thread_id)),
        "forge" => Box::new(Forge::default()),
        "session_chat" => Box::new(SessionChat::default()),
        "mcp" => Box::new(Mcp::new(id.into())),
        "trustgraph" => Box::new(TrustGraph::graph_rag(id)),
        other => {
            let names = NAMES.join(", ");
            return Err(errors::option(
                py,
                format!("unknown wire {other:?}; known: {names}"),
            ));
        }
    })
}
