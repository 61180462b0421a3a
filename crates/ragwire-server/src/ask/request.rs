//! The request: the question and its route.

use std::io::{self, IsTerminal, Read};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};

use super::AskError;
use super::options::{Target, WireName};

/// The route of ragwire's own wires.
const TURNS: &str = "/v1/turns";
/// The route of answers in one piece.
const SESSIONS: &str = "/v1/rag/sessions";
/// The type of questions, and of answers in one piece.
pub(super) const JSON: &str = "application/json";
/// Longest question from stdin, in bytes.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// Returns the question, from the command line or from stdin.
pub(super) fn prompt(words: &[String]) -> Result<String, AskError> {
    let prompt = if words.is_empty() || words == ["-"] {
        if io::stdin().is_terminal() {
            return Err(AskError::Usage("no question; write it after `ask`".into()));
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
    Ok(prompt.trim().to_owned())
}

/// Builds the request. All wires use the same route, so every flag has the same meaning on each.
pub(super) fn request(prompt: &str, target: &Target) -> Result<Request<Full<Bytes>>, AskError> {
    let server = &target.server;
    let base = base(server)?;
    let mut body = json!({ "prompt": prompt, "review_enabled": target.review });
    if let Some(effort) = &target.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    if let Some(mode) = target.mode {
        body["mode"] = mode.as_str().into();
    }
    let uri = match target.wire {
        Some(_) => {
            body["session_id"] = target.session.as_str().into();
            format!("{base}{TURNS}")
        }
        None => format!("{base}{SESSIONS}/{}/messages", segment(&target.session)),
    };
    post(
        server,
        &uri,
        target.wire.map_or(JSON, WireName::media_type),
        &body,
    )
}

/// Returns the server's address without a trailing slash.
pub(super) fn base(server: &str) -> Result<&str, AskError> {
    let base = server.trim_end_matches('/');
    if base.starts_with("http://") {
        return Ok(base);
    }
    Err(AskError::Usage(format!("{server} does not begin with http://")))
}

/// Builds a request with a JSON body that accepts `accept`.
pub(super) fn post(
    server: &str,
    uri: &str,
    accept: &'static str,
    body: &Value,
) -> Result<Request<Full<Bytes>>, AskError> {
    let uri: Uri = uri
        .parse()
        .map_err(|_| AskError::Usage(format!("not a valid address: {server}")))?;
    Request::post(uri)
        .header(CONTENT_TYPE, HeaderValue::from_static(JSON))
        .header(ACCEPT, HeaderValue::from_static(accept))
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| AskError::Usage(error.to_string()))
}

/// Percent-encodes one segment of a path.
fn segment(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%2E", ".")
        .replace("%5F", "_")
}
