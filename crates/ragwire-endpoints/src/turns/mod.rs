//! `POST /v1/turns`: a question on ragwire's own wires, negotiated by `Accept`.
//!
//! With `Prefer: respond-async` (RFC 7240) the response only says where the turn is read, because
//! an `EventSource` cannot post.

pub(crate) mod answers;
mod cursor;
mod feedback;
pub(crate) mod resume;
mod wires;

pub use crate::human::{HumanAnswer, Verdict};

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderName, StatusCode};
use ragwire::event::Mode;
use ragwire::http::{TURN_HEADER, negotiate};
use ragwire::orchestrator::{Effort, QuestionOptions};
use ragwire::session::Message;
use ragwire::{Framed, Ndjson, Question, Sse, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::wires::wires;
use crate::caller::{self, Caller};
use crate::openapi::requests::{SessionId, TurnQuestion};
use crate::openapi::{self, TurnRefusals, example};
use crate::openapi::{requests, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{Conversation, Reader, TurnRequest};

/// The tag of these routes and of those of ADR 0007.
pub(crate) const TAG: &str = "ragwire's own wires and that of ADR 0007. PROTOCOL.md describes the bytes.";

/// Returns the route of ragwire's own wires.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("questions", TAG)).routes(routes!(stream))
}

/// Returns the routes to resume, stop, answer and rate a turn by its id.
pub(crate) fn routes_by_id() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("questions", TAG))
        .routes(routes!(resume::stream))
        .routes(routes!(resume::stop))
        .routes(routes!(answers::answer))
        .routes(routes!(feedback::get))
        .routes(routes!(feedback::set))
        .routes(routes!(feedback::export))
}

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The only preference that is supported.
const RESPOND_ASYNC: &str = "respond-async";

/// The body of `POST /v1/turns`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Question)]
#[non_exhaustive]
pub struct QuestionRequest {
    /// The question.
    #[schema(min_length = 1, pattern = r"[^\s\u0085]")]
    pub prompt: String,
    /// The session that the question belongs to, if any.
    #[schema(value_type = Option<SessionId>)]
    pub session_id: Option<String>,
    /// How to answer.
    #[schema(value_type = Option<schemas::Mode>)]
    pub mode: Option<Mode>,
    /// The search effort.
    #[serde(default, alias = "effort")]
    #[schema(value_type = schemas::Effort, required = false)]
    pub reasoning_effort: Effort,
    /// Whether the review of the evidence is reported as `review` events.
    #[serde(default)]
    pub review_enabled: bool,
    /// Which documents to search, as the orchestrator defines it.
    #[schema(value_type = Option<requests::Filter>)]
    pub filter: Option<Value>,
    /// The earlier messages, oldest first, of a client that keeps its conversation itself. Not
    /// together with `session_id`.
    #[serde(default)]
    #[schema(value_type = Vec<schemas::EarlierMessage>, required = false)]
    pub history: Vec<Message>,
    /// `review`, `verify`, `sources_last`, `service`, `instructions`, `extra` and `output_schema`, as
    /// in the JSON of a question. A schema is refused if the endpoint has no structured results.
    #[serde(default, deserialize_with = "request::from_object")]
    #[schema(value_type = schemas::Options, required = false)]
    pub options: QuestionOptions,
    /// Accepted and ignored, as it is part of the JSON of a question: the server determines the
    /// owner itself.
    #[serde(default)]
    #[schema(required = false)]
    pub owner: String,
}

impl QuestionRequest {
    /// Returns the question.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.prompt);
        question.effort = self.reasoning_effort;
        question.mode = self.mode;
        question.history = self.history;
        question.options = self.options;
        request::set_filter(&mut question, self.filter);
        question.options.review |= self.review_enabled;
        question
    }
}

/// A turn that has started.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TurnBegun)]
pub(crate) struct StartedTurn {
    turn: String,
}

/// Answers a question on the wire that `Accept` selects.
///
/// With `Prefer: respond-async` the turn only starts, and the client reads it from `location`
/// within the disconnect grace. If that is 0, the preference is not applied.
#[utoipa::path(
    post,
    path = "/v1/turns",
    tag = "questions",
    operation_id = "turn",
    params(("prefer" = Option<String>, Header, description = "`respond-async`: read the answer from `location`")),
    request_body(content = TurnQuestion, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The turn, live", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content(
                (String = "text/plain", example = json!(example(&Framed::default()))),
                (String = "text/event-stream", example = json!(example(&Sse::default()))),
                (String = "application/x-ndjson", example = json!(example(&Ndjson::default()))),
            )),
        (status = 202, description = "The turn has started, as `prefer` asked", body = StartedTurn,
            headers(
                ("location" = String, description = "Where to read the turn"),
                ("preference-applied" = String, description = "`respond-async`"),
                ("x-ragwire-turn" = String, description = "The turn"),
            )),
        (status = 406, description = "`Accept` matches none of the three types", body = schemas::Refused),
        TurnRefusals,
    ),
)]
pub(crate) async fn stream(caller: Caller, request: Request) -> Result<Response, Refusal> {
    let shared = &caller.shared;
    // Without a grace the turn would end before its first reader.
    let responds_async = prefers_async(request.headers()) && !shared.disconnect_grace.is_zero();
    let wire = if responds_async {
        None
    } else {
        Some(negotiate(request.headers(), wires())?)
    };
    let body: QuestionRequest = caller.read_question(BodyKind::Question, request).await?;
    let conversation = match &body.session_id {
        Some(id) => Conversation::Session(request::check_session_id(id.clone())?),
        None => Conversation::None,
    };
    if body.session_id.is_some() && !body.history.is_empty() {
        return Err(request::invalid(
            "A question has a session_id or a history, not both.",
        ));
    }
    if body.options.output_schema.is_some() && !shared.has_structured_results {
        return Err(request::invalid(
            "This server has no structured results; do not send output_schema.",
        ));
    }
    let turn_request = TurnRequest::new(body.question()).conversation(conversation);
    // Clients reconnect by the turn's id.
    let turn = caller.start(Reader::Returning, turn_request).await?;
    Ok(match wire {
        Some(wire) => caller::stream(turn, wire),
        None => accepted(shared, &turn),
    })
}

fn accepted(shared: &Shared, turn: &Turn) -> Response {
    let turn = turn.id().to_string();
    let headers = [
        (LOCATION, format!("{}/v1/turns/{turn}/stream", shared.prefix)),
        (PREFERENCE_APPLIED, RESPOND_ASYNC.to_owned()),
        (TURN_HEADER, turn.clone()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    (StatusCode::ACCEPTED, headers, Json(StartedTurn { turn })).into_response()
}

/// Returns whether one of the preferences is `respond-async`. Other preferences and parameters are
/// ignored, as RFC 7240 requires.
fn prefers_async(headers: &HeaderMap) -> bool {
    let mut values = headers
        .get_all(PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.any(|value| {
        strip_quoted(value).split(',').any(|preference| {
            let token = preference.split([';', '=']).next().unwrap_or_default();
            token.trim().eq_ignore_ascii_case(RESPOND_ASYNC)
        })
    })
}

/// Removes quoted strings, which may contain separators.
fn strip_quoted(value: &str) -> String {
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn preferences_are_parsed_as_rfc_7240_says() {
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
