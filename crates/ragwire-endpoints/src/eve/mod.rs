//! The routes of Eve, stream version 16 (see docs/protocols.md): a client posts a message and reads
//! the answer from the session's stream.
//!
//! | route | |
//! |---|---|
//! | `GET /eve/v1/health`, `GET /eve/v1/info` | state and description of the server |
//! | `POST /eve/v1/session` | creates a session with its first message |
//! | `POST /eve/v1/session/{id}` | adds a message, or answers to a turn's questions, with the session's token |
//! | `POST /eve/v1/session/{id}/cancel` | stops the running turn |
//! | `GET /eve/v1/session/{id}/stream` | the lines of all its turns, from `startIndex` |
//!
//! With `?vocabulary=documented` in the first request, the session uses the event names of Eve's
//! documentation.

mod message;
mod refusal;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire::http::TURN_HEADER;
use ragwire::wire::Wire;
use ragwire::{Eve, Question, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::sessions::EveSessions;
use self::sessions::{EveError, EveSession, Reader, SessionClaim};
use crate::openapi::requests::{EveFirstMessage, EveNextMessage};
use crate::openapi::{self, EveRefusals, example};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, Params, PathParam};
use crate::shared::Shared;
use crate::start::{self, Conversation, TurnRequest};
pub use message::MessageRequest;
use refusal::EveRefusal;
pub(crate) use refusal::EveRefusalBody;

/// Returns the routes of Eve.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::eve("eve", "Eve, stream version 16."))
        .routes(routes!(health))
        .routes(routes!(info))
        .routes(routes!(create))
        .routes(routes!(continue_session))
        .routes(routes!(stream))
        .routes(routes!(cancel))
}

const SESSION_ID: HeaderName = HeaderName::from_static("x-eve-session-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The name of the only agent, model and workflow.
const NAME: &str = "ragwire";
/// Largest body of a cancel request, in bytes.
const MAX_CANCEL_BYTES: usize = 4096;

/// Whether the server accepts messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EveHealth {
    ok: bool,
    /// `ready` or `shutting_down`.
    status: &'static str,
    workflow_id: &'static str,
}

/// Returns whether the server accepts messages.
#[utoipa::path(
    get,
    path = "/eve/v1/health",
    tag = "eve",
    operation_id = "eveHealth",
    responses(
        (status = 200, description = "The server accepts messages", body = EveHealth),
        (status = 503, description = "The server is shutting down", body = EveHealth),
    ),
)]
pub(crate) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let is_ready = !shared.is_shutting_down();
    let (code, status) = if is_ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting_down")
    };
    let body = EveHealth {
        ok: is_ready,
        status,
        workflow_id: NAME,
    };
    (code, Json(body)).into_response()
}

/// Describes this server as an agent.
///
/// The response has every member that Eve's client requires.
#[utoipa::path(
    get,
    path = "/eve/v1/info",
    tag = "eve",
    operation_id = "eveInfo",
    responses((status = 200, description = "The agent", body = Object)),
)]
pub(crate) async fn info() -> Json<Value> {
    Json(json!({
        "kind": "eve-agent-info",
        "version": 1,
        "mode": "production",
        "agent": {"name": NAME, "agentRoot": "", "appRoot": "", "model": {"id": NAME}},
        "capabilities": {"devRoutes": false},
        "channels": {"authored": [], "available": [], "disabledFramework": [], "framework": []},
        "connections": [],
        "diagnostics": {"discoveryErrors": 0, "discoveryWarnings": 0},
        "hooks": [],
        "instructions": {"dynamic": [], "static": null},
        "sandbox": null,
        "schedules": [],
        "skills": {"dynamic": [], "static": []},
        "subagents": {"local": [], "total": 0},
        "tools": {"authored": [], "available": [], "disabledFramework": [], "dynamic": [], "framework": [], "reserved": []},
        "workflow": {"enabled": false, "toolName": ""},
        "workspace": {"resourceRoot": null, "rootEntries": []},
    }))
}

/// The names of a session's events.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Vocabulary {
    /// The names that Eve's clients display.
    #[default]
    Shipped,
    /// The names in Eve's documentation.
    Documented,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateQuery {
    /// Default: `shipped`.
    #[serde(default)]
    #[param(required = false, inline)]
    vocabulary: Vocabulary,
}

/// A new session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EveCreated<'a> {
    /// `true`.
    ok: bool,
    /// The session. Anyone who knows the id can read the session.
    session_id: &'a str,
    /// Required with the next message.
    continuation_token: &'a str,
}

/// Creates a session with its first message.
#[utoipa::path(
    post,
    path = "/eve/v1/session",
    tag = "eve",
    operation_id = "eveBegin",
    params(CreateQuery),
    request_body(content = EveFirstMessage, example = json!({ "message": "What is the commit rule?" })),
    responses(
        (status = 202, description = "The answer comes in the session's stream", body = EveCreated<'static>,
            headers(("x-eve-session-id" = String, description = "The session"), ("x-ragwire-turn" = String, description = "The turn"))),
        EveRefusals,
    ),
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    query: Result<Query<CreateQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, EveRefusal> {
    let owner = owner?;
    let Ok(Query(query)) = query else {
        return Err(bad_request("vocabulary", "`vocabulary` must be `shipped` or `documented`.").into());
    };
    let message: MessageRequest = request::read_question(&shared, BodyKind::Question, request).await?;
    let question = message.read(shared.has_structured_results)?;
    let documented = matches!(query.vocabulary, Vocabulary::Documented);
    let created = shared.eve.create(owner.as_str(), documented).await?;
    let claim = shared
        .eve
        .claim(owner.as_str(), created.id(), created.token())
        .await?;
    let session = match start(&shared, &owner, claim, question).await {
        Ok(session) => session,
        Err(refusal) => {
            // A turn that is refused or fails before its first event leaves no session.
            shared.eve.delete(owner.as_str(), created.id()).await;
            return Err(refusal);
        }
    };
    let body = EveCreated {
        ok: true,
        session_id: session.id(),
        continuation_token: session.token(),
    };
    Ok((StatusCode::ACCEPTED, headers(&session), Json(body)).into_response())
}

/// A session that accepted a message or answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EveContinued<'a> {
    /// `true`.
    ok: bool,
    session_id: &'a str,
}

/// Continues a session with a message, or with answers to the questions of its turn.
#[utoipa::path(
    post,
    path = "/eve/v1/session/{session_id}",
    tag = "eve",
    operation_id = "eveGoOn",
    params(("session_id" = String, Path, description = "The session, from the response to the first message")),
    request_body(content = EveNextMessage),
    responses(
        EveRefusals,
        (status = 200, description = "The answer comes in the session's stream", body = EveContinued<'static>,
            headers(("x-eve-session-id" = String, description = "The session"), ("x-ragwire-turn" = String, description = "The turn"))),
        (status = 404, description = "The session is unknown or has expired, or its turn has no such question", body = EveRefusalBody),
        (status = 409, description = "The session is still active, the token is wrong, or the question already has another answer", body = EveRefusalBody),
        (status = 410, description = "The session has failed, or the question is no longer open", body = EveRefusalBody),
    ),
)]
pub(crate) async fn continue_session(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    id: PathParam,
    request: Request,
) -> Result<Response, EveRefusal> {
    let owner = owner?;
    let session = find(&shared, &owner, id).await?;
    let message: MessageRequest = request::read_json(&shared, BodyKind::Question, request).await?;
    let token = message.continuation_token.clone().unwrap_or_default();
    if message.has_answers() {
        let answers = message.answers()?;
        let session = shared
            .eve
            .answer(owner.as_str(), session.id(), &token, answers)
            .await?;
        return Ok(continued(&session));
    }
    let claim = shared.eve.claim(owner.as_str(), session.id(), &token).await?;
    let session = match message.read(shared.has_structured_results) {
        Ok(question) => start(&shared, &owner, claim, question).await?,
        Err(refusal) => {
            claim.release().await;
            return Err(refusal.into());
        }
    };
    Ok(continued(&session))
}

fn continued(session: &EveSession) -> Response {
    let body = EveContinued {
        ok: true,
        session_id: session.id(),
    };
    (StatusCode::OK, headers(session), Json(body)).into_response()
}

fn headers(session: &EveSession) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    add_ids(&mut headers, session);
    headers
}

/// Adds the ids of the session and of its newest turn.
fn add_ids(headers: &mut HeaderMap, session: &EveSession) {
    if let Ok(id) = HeaderValue::try_from(session.id()) {
        headers.insert(SESSION_ID, id);
    }
    let turn = session.turn().map(HeaderValue::try_from);
    if let Some(Ok(turn)) = turn {
        headers.insert(TURN_HEADER, turn);
    }
}

async fn find(shared: &Shared, owner: &Owner, id: PathParam) -> Result<EveSession, EveRefusal> {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    Ok(shared.eve.find(owner.as_str(), &id).await?)
}

fn bad_request(code: &'static str, message: &str) -> Refusal {
    Refusal::permanent(StatusCode::BAD_REQUEST, code, message)
}

/// Starts the turn, whose lines are part of the session from then on.
async fn start(
    shared: &Shared,
    owner: &Owner,
    claim: SessionClaim,
    question: Question,
) -> Result<EveSession, EveRefusal> {
    let (space, id) = claim.key();
    let conversation = Conversation::Space { owner: space, id };
    let prompt = question.prompt.clone();
    let turn_request = TurnRequest::new(question).conversation(conversation);
    // The turn runs to its end even without a reader, because the session's stream contains it.
    let starting = start::start(shared, owner, start::Reader::Absent, turn_request);
    match claim.renew_during(starting).await {
        Ok(turn) => Ok(claim.turn_started(turn, prompt).await?),
        Err(refusal) => {
            claim.release().await;
            Err(refusal.into())
        }
    }
}

/// A cancel request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EveCancel {
    /// The turn, as its lines name it. Default: the running turn.
    turn_id: Option<String>,
}

/// The outcome of a cancel request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EveCancelled<'a> {
    /// `true`.
    ok: bool,
    session_id: &'a str,
    /// `accepted` or `no_active_turn`.
    status: &'static str,
}

/// Stops the running turn of a session.
///
/// What was sent of it stays, and the session continues. The body is optional.
#[utoipa::path(
    post,
    path = "/eve/v1/session/{session_id}/cancel",
    tag = "eve",
    operation_id = "eveCancel",
    params(("session_id" = String, Path, description = "The session, from the response to the first message")),
    request_body(content = Option<EveCancel>),
    responses(
        EveRefusals,
        (status = 200, description = "The turn is not running", body = EveCancelled<'static>),
        (status = 202, description = "The turn is stopping", body = EveCancelled<'static>),
        (status = 404, description = "The session is unknown or has expired", body = EveRefusalBody),
    ),
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    id: PathParam,
    request: Request,
) -> Result<Response, EveRefusal> {
    let owner = owner?;
    let cancel: Option<Option<EveCancel>> =
        request::read_optional_json(&shared, MAX_CANCEL_BYTES, request).await?;
    let session = find(&shared, &owner, id).await?;
    let turn_id = cancel.flatten().and_then(|cancel| cancel.turn_id);
    let stopped = match turn_id.as_deref().map(sequence) {
        // Not the id of a turn.
        Some(None) => false,
        Some(sequence) => shared.eve.stop(owner.as_str(), session.id(), sequence).await?,
        None => shared.eve.stop(owner.as_str(), session.id(), None).await?,
    };
    let (code, status) = if stopped {
        (StatusCode::ACCEPTED, "accepted")
    } else {
        (StatusCode::OK, "no_active_turn")
    };
    let body = EveCancelled {
        ok: true,
        session_id: session.id(),
        status,
    };
    Ok((code, headers(&session), Json(body)).into_response())
}

/// Returns the sequence number in a turn id such as `turn_0`.
fn sequence(turn_id: &str) -> Option<u64> {
    turn_id.strip_prefix("turn_")?.parse().ok()
}

/// Streams the lines of all turns of a session, until no turn is running.
#[utoipa::path(
    get,
    path = "/eve/v1/session/{session_id}/stream",
    tag = "eve",
    operation_id = "eveStream",
    params(
        ("session_id" = String, Path, description = "The session, from the response to the first message"),
        ("startIndex" = Option<u64>, Query, description = "The number of lines that the client has read. Default: 0", maximum = 9_223_372_036_854_775_807_i64),
    ),
    responses(
        (status = 200, description = "Eve's lines",
            headers(
                ("x-eve-session-id" = String, description = "The session"),
                ("x-ragwire-turn" = String, description = "Its newest turn"),
                ("x-eve-stream-format" = String, description = "`ndjson`"),
                ("x-eve-stream-version" = String, description = "`16`"),
            ),
            content((String = "application/x-ndjson", example = json!(example(&Eve::new("ses_1").message("What is the commit rule?")))))),
        (status = 400, description = "`startIndex` is malformed, or the lines after it are no longer available", body = EveRefusalBody),
        (status = 401, description = "The request has no valid owner", body = EveRefusalBody),
        (status = 404, description = "The session is unknown or has expired", body = EveRefusalBody),
        (status = 503, description = "The session's host is not reachable", body = EveRefusalBody),
    ),
)]
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    id: PathParam,
    params: Params,
) -> Result<Response, EveRefusal> {
    let owner = owner?;
    let session = find(&shared, &owner, id).await?;
    let why = "startIndex must be the number of lines that were read.";
    let index = params
        .number("startIndex")
        .map_err(|_| bad_request("start_index", why))?;
    // Missing lines are refused here. If the journal drops lines of a slow reader later, the stream
    // is cut.
    let keep_alive = shared.timeouts.keep_alive.unwrap_or(Duration::MAX);
    let reader = Reader::open(&shared.eve, &session, index.unwrap_or_default(), keep_alive).await?;
    let block = shared.limits.pad_to.min(Turn::MAX_PAD_TO);
    let lines = futures_util::stream::try_unfold(reader, move |mut reader| async move {
        let lines = reader.next().await?;
        Ok::<_, EveError>(lines.map(|lines| (sessions::padded(lines, block), reader)))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    let wire = Eve::new(session.id());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
    for (name, value) in wire.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    add_ids(headers, &session);
    Ok(response)
}
