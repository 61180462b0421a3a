//! What is sent: the question, and where to.

use std::io::{self, IsTerminal, Read};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};

use super::AskError;
use super::options::{Wanted, WireName};

/// Where a question is answered on the wires of our own.
const TURNS: &str = "/v1/turns";
/// Where a question of a session is answered in one piece.
const SESSIONS: &str = "/v1/rag/sessions";
/// What a question is sent as, and an answer in one piece comes as.
pub(super) const JSON: &str = "application/json";
/// Longest question read from stdin.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// The question, from the command line or from stdin.
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

/// The request that asks it: of one route for all wires, so that every flag means the same on each.
pub(super) fn request(prompt: &str, wanted: &Wanted) -> Result<Request<Full<Bytes>>, AskError> {
    let server = &wanted.server;
    let base = base(server)?;
    let mut body = json!({ "prompt": prompt, "review_enabled": wanted.review });
    if let Some(effort) = &wanted.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    if let Some(mode) = wanted.mode {
        body["mode"] = mode.as_str().into();
    }
    let uri = match wanted.wire {
        Some(_) => {
            body["session_id"] = wanted.session.as_str().into();
            format!("{base}{TURNS}")
        }
        None => format!("{base}{SESSIONS}/{}/messages", segment(&wanted.session)),
    };
    post(
        server,
        &uri,
        wanted.wire.map_or(JSON, WireName::media_type),
        &body,
    )
}

/// The server's address without the slash at its end.
pub(super) fn base(server: &str) -> Result<&str, AskError> {
    let base = server.trim_end_matches('/');
    if base.starts_with("http://") {
        return Ok(base);
    }
    Err(AskError::Usage(format!("{server} does not begin with http://")))
}

/// A request with a JSON body that wants `accept` in return.
pub(super) fn post(
    server: &str,
    uri: &str,
    accept: &'static str,
    body: &Value,
) -> Result<Request<Full<Bytes>>, AskError> {
    let uri: Uri = uri
        .parse()
        .map_err(|_| AskError::Usage(format!("{server} is no address")))?;
    Request::post(uri)
        .header(CONTENT_TYPE, HeaderValue::from_static(JSON))
        .header(ACCEPT, HeaderValue::from_static(accept))
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| AskError::Usage(error.to_string()))
}

/// One segment of a path.
fn segment(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%2E", ".")
        .replace("%5F", "_")
}
