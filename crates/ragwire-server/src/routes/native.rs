//! `POST /v1/turns`: a question on the wires of our own, chosen by the reader's `Accept`.
//!
//! `Prefer: respond-async` (RFC 7240) only begins the turn and says where it is read: an `EventSource` cannot post.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderName, StatusCode};
use ragwire::event::Mode;
use ragwire::http::{AnyWire, TURN_HEADER, negotiate};
use ragwire::{Framed, Ndjson, Sse, Turn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Asked, Holds, Memory, Reader};
use crate::app::App;
use crate::orchestrator::Effort;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The one preference that is known.
const RESPOND_ASYNC: &str = "respond-async";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Question)]
struct Message {
    /// The question, in words.
    prompt: String,
    /// Only where the question belongs to a conversation.
    session_id: Option<String>,
    #[schema(value_type = Option<shapes::Mode>)]
    mode: Option<Mode>,
    /// As on the routes of ADR 0007.
    #[serde(default)]
    reasoning_effort: Effort,
    /// The same; `mode` can only add to it.
    #[serde(default)]
    review_enabled: bool,
}

/// A turn that was begun.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TurnBegun)]
pub(super) struct Begun {
    turn: String,
}

/// Answers a question on the wire of our own that `Accept` chooses.
///
/// With `Prefer: respond-async` the turn is begun, and read from `location`: within `--disconnect-grace`, without which the preference is not
/// applied.
#[utoipa::path(
    post,
    path = "/v1/turns",
    tag = "questions",
    operation_id = "turn",
    params(("prefer" = Option<String>, Header, description = "`respond-async`: the answer is read from `location`")),
    request_body(content = Message, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The turn, live", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content(
                (String = "text/plain", example = json!(example(&Framed::default()))),
                (String = "text/event-stream", example = json!(example(&Sse::default()))),
                (String = "application/x-ndjson", example = json!(example(&Ndjson::default()))),
            )),
        (status = 202, description = "The turn is begun, as `prefer` asked", body = Begun,
            headers(
                ("location" = String, description = "Where the turn is read"),
                ("preference-applied" = String, description = "`respond-async`"),
                ("x-ragwire-turn" = String, description = "The turn"),
            )),
        (status = 406, description = "`Accept` takes none of the three", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    // A turn that nobody reads yet has to outlive that.
    let responds_async = prefers_async(request.headers()) && !app.settings.disconnect_grace.is_zero();
    let wire = if responds_async {
        None
    } else {
        Some(negotiate(request.headers(), wires())?)
    };
    let message: Message = start::read(&app, Holds::Question, request).await?;
    let memory = match message.session_id {
        Some(id) => Memory::Session(start::session_id(Some(id))?),
        None => Memory::Nothing,
    };
    let asked = Asked {
        effort: message.reasoning_effort,
        review: message.review_enabled,
        ..Asked::new(message.prompt).memory(memory)
    }
    .mode(message.mode);
    // Its readers come back by the turn's id.
    let turn = start::start(&app, &owner, Reader::Returning, asked).await?;
    Ok(match wire {
        Some(wire) => turn.respond(wire).map(Body::new),
        None => begun(&turn),
    })
}

fn begun(turn: &Turn) -> Response {
    let turn = turn.id().to_string();
    let headers = [
        (LOCATION, format!("/v1/turns/{turn}/stream")),
        (PREFERENCE_APPLIED, RESPOND_ASYNC.to_owned()),
        (TURN_HEADER, turn.clone()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    (StatusCode::ACCEPTED, headers, Json(Begun { turn })).into_response()
}

/// Whether one of the preferences is `respond-async`. Others, and what stands beside it, are passed over, as RFC 7240 asks.
fn prefers_async(headers: &HeaderMap) -> bool {
    let mut values = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.any(|value| {
        unquoted(value).split(',').any(|preference| {
            let token = preference.split([';', '=']).next().unwrap_or_default();
            token.trim().eq_ignore_ascii_case(RESPOND_ASYNC)
        })
    })
}

/// Without what stands in quotes, which may hold separators.
fn unquoted(value: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    value
        .chars()
        .filter(|&letter| {
            let was_quoted = quoted;
            if !std::mem::take(&mut escaped) {
                escaped = quoted && letter == '\\';
                quoted ^= letter == '"';
            }
            !(was_quoted || quoted)
        })
        .collect()
}

/// The server's own order of preference: what `curl` without a header gets comes first.
pub(super) fn wires() -> [AnyWire; 3] {
    [
        Box::new(Framed::default()),
        Box::new(Sse::default()),
        Box::new(Ndjson::default()),
    ]
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn preferences_are_read_as_the_rfc_says() {
        let prefers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PREFER, HeaderValue::from_static(value));
            }
            prefers_async(&headers)
        };
        for values in [
            &["respond-async"][..],
            &["Respond-Async"],
            &["respond-async, wait=10"],
            &["wait=10 , respond-async;x=y"],
            &["return=minimal", "respond-async"],
            &["x=\"a,b\", respond-async"],
        ] {
            assert!(prefers(values), "{values:?}");
        }
        for values in [
            &[][..],
            &[""],
            &["wait=10"],
            &["respond-asynchronously"],
            &["x=respond-async"],
            &["x=\"a, respond-async\""],
            &["x=\"a\\\", respond-async\""],
        ] {
            assert!(!prefers(values), "{values:?}");
        }
    }
}
