//! The request: the question and its route.

use std::io::{self, IsTerminal, Read};

use http::Response;
use hyper::body::Incoming;
use serde_json::json;

use super::AskError;
use super::options::{Target, WireName};
use crate::client::{ClientError, JSON, segment};

/// The route of ragwire's own wires.
pub(super) const TURNS: &str = "/v1/turns";
/// The route of answers in one piece.
const SESSIONS: &str = "/v1/rag/sessions";
/// Longest question from stdin, in bytes.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// Returns the question, from the command line or from stdin.
pub(super) fn prompt(words: &[String]) -> Result<String, AskError> {
    let prompt = if words.is_empty() || words == ["-"] {
        if io::stdin().is_terminal() {
            return Err(no_question());
        }
        let mut text = String::new();
        io::stdin()
            .lock()
            .take(MAX_PROMPT_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| AskError::Usage(format!("the question cannot be read: {error}")))?;
        text
    } else {
        words.join(" ")
    };
    match prompt.trim() {
        "" => Err(no_question()),
        prompt => Ok(prompt.to_owned()),
    }
}

fn no_question() -> AskError {
    AskError::Usage("no question; write it after `ask`, or pipe it to stdin".into())
}

/// Sends the question. All wires use the same route, so every flag has the same meaning on each.
pub(super) async fn send(prompt: &str, target: &Target) -> Result<Response<Incoming>, ClientError> {
    let mut body = json!({ "prompt": prompt, "review_enabled": target.review });
    if let Some(effort) = &target.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    if !target.filter.is_null() {
        body["filter"] = target.filter.clone();
    }
    if let Some(mode) = target.mode {
        body["mode"] = mode.as_str().into();
    }
    let path = match target.wire {
        Some(_) => {
            body["session_id"] = target.session.as_str().into();
            TURNS.to_owned()
        }
        None => format!("{SESSIONS}/{}/messages", segment(&target.session)),
    };
    let accept = target.wire.map_or(JSON, WireName::media_type);
    target.server.post(&path, accept, &body).await
}
