//! The routes of Eve, stream version 16: a message is posted, its answer is read from the session's stream.
//!
//! | route | |
//! |---|---|
//! | `GET /eve/v1/health`, `GET /eve/v1/info` | what there is |
//! | `POST /eve/v1/session` | the first message of a session |
//! | `POST /eve/v1/session/{id}` | another one, or answers to what a turn asks, with the session's token |
//! | `POST /eve/v1/session/{id}/cancel` | ends the turn that runs |
//! | `GET /eve/v1/session/{id}/stream` | the lines of all its turns, from `startIndex` on |
//!
//! `?vocabulary=documented` at the first message makes the session speak the names of Eve's page of events.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire::http::TURN_HEADER;
use ragwire::wire::Wire;
use ragwire::{Eve, FailureKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::openapi::{EveRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Asked, Holds, Memory, invalid};
use super::{answers, body};
use crate::app::App;
use crate::eve::{AnswerRefused, EveError, EveSession, Reader, Taken};

const SESSION_ID: HeaderName = HeaderName::from_static("x-eve-session-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// What agents, models and workflows of Eve are called where this server has one only.
const NAME: &str = "ragwire";
/// Largest body that cancels.
const MAX_CANCEL_BYTES: usize = 4096;

/// A refusal in Eve's form.
#[derive(Debug)]
pub(super) struct Refused {
    refusal: Refusal,
    /// Where the stream begins now.
    base: Option<u64>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, base: None }
    }
}

impl From<EveError> for Refused {
    fn from(error: EveError) -> Self {
        let refusal = match error {
            EveError::Unknown => {
                Refusal::permanent(StatusCode::NOT_FOUND, "session_not_found", "Session not found.")
            }
            EveError::Active => {
                Refusal::passing(StatusCode::CONFLICT, "session_active", "Session is still active.")
            }
            EveError::Over => {
                Refusal::permanent(StatusCode::GONE, "session_terminal", "Session is terminal.")
            }
            EveError::Token => Refusal::permanent(
                StatusCode::CONFLICT,
                "continuation_token",
                "Stale or missing continuation token.",
            ),
            EveError::Truncated { base } => {
                let message = match base {
                    Some(base) => format!("The lines before index {base} are no longer kept."),
                    None => "These lines are no longer kept.".to_owned(),
                };
                let refusal = Refusal::permanent(StatusCode::BAD_REQUEST, "start_index_truncated", message);
                return Self { refusal, base };
            }
            EveError::Unavailable => Refusal::passing(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The session cannot be reached now. Please retry.",
            ),
            EveError::Store(_) | EveError::Damaged(_) => Refusal::internal(&error),
        };
        refusal.into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.refusal.log();
        let mut body = json!({"ok": false, "error": self.refusal.failure.message});
        if let Some(base) = self.base {
            body["journalBaseIndex"] = base.into();
        }
        let mut response = (self.refusal.status, Json(body)).into_response();
        if let Some(after) = self.refusal.retry_after {
            let seconds = after.as_secs().max(1);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Says whether messages are taken.
#[utoipa::path(
    get,
    path = "/eve/v1/health",
    tag = "eve",
    operation_id = "eveHealth",
    responses(
        (status = 200, description = "It takes messages", body = shapes::EveHealth),
        (status = 503, description = "The server goes down", body = shapes::EveHealth),
    ),
)]
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let closed = app
        .turns
        .check()
        .is_err_and(|rejected| rejected.failure.kind != FailureKind::Busy);
    let (status, word) = if closed {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting_down")
    } else {
        (StatusCode::OK, "ready")
    };
    let body = json!({"ok": !closed, "status": word, "workflowId": NAME});
    (status, Json(body)).into_response()
}

/// Describes this server in the terms of an agent.
///
/// It has every member that Eve's client asks for.
#[utoipa::path(
    get,
    path = "/eve/v1/info",
    tag = "eve",
    operation_id = "eveInfo",
    responses((status = 200, description = "The agent", body = Object)),
)]
pub(super) async fn info() -> Json<Value> {
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

/// What a client posts. What only later versions know is passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EveMessage)]
struct Posted {
    /// The question.
    #[schema(value_type = Option<shapes::EveContent>)]
    message: Option<Message>,
    /// The session's, in every message but the first.
    continuation_token: Option<String>,
    /// Answers to what the session's turn asks, instead of a message.
    #[serde(default)]
    input_responses: Vec<InputResponse>,
    /// Refused: this agent has no structured results.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<IgnoredAny>,
}

/// An answer to one request of `input.requested`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EveInputResponse)]
struct InputResponse {
    request_id: String,
    /// One of the request's options.
    option_id: Option<String>,
    /// Words of their own, where the request takes some.
    text: Option<String>,
}

/// What the user says.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Part {
    Text {
        text: String,
    },
    /// A file, an image: nothing here can read them.
    #[serde(other)]
    Other,
}

impl Posted {
    fn prompt(self) -> Result<String, Refusal> {
        if self.output_schema.is_some() {
            return Err(invalid(
                "This agent has no structured results; send no outputSchema.",
            ));
        }
        if !self.input_responses.is_empty() {
            return Err(invalid(
                "A session that begins has asked nothing; send a message.",
            ));
        }
        match self.message {
            Some(Message::Text(text)) => Ok(text),
            Some(Message::Parts(parts)) => {
                let texts: Option<Vec<String>> = parts
                    .into_iter()
                    .map(|part| match part {
                        Part::Text { text } => Some(text),
                        Part::Other => None,
                    })
                    .collect();
                texts
                    .map(|texts| texts.join("\n"))
                    .ok_or_else(|| invalid("This agent reads text only."))
            }
            None => Err(invalid("message is required.")),
        }
    }

    /// The answers, by the names of their questions.
    fn answers(self) -> Result<Vec<(String, Value)>, Refusal> {
        if self.message.is_some() {
            return Err(invalid(
                "A message and inputResponses are sent one after the other.",
            ));
        }
        let answers = self.input_responses.into_iter().map(|response| {
            let answer = response.option_id.or(response.text);
            let answer = answer.ok_or_else(|| invalid("An input response has an optionId or a text."))?;
            Ok((response.request_id, answer.into()))
        });
        answers.collect()
    }
}

/// The names of a session's events.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Vocabulary {
    /// What Eve's clients show.
    #[default]
    Shipped,
    /// Those of Eve's page of events.
    Documented,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Creation {
    /// `shipped` unless it says otherwise.
    #[serde(default)]
    #[param(required = false, inline)]
    vocabulary: Vocabulary,
}

/// Begins a session with its first message.
#[utoipa::path(
    post,
    path = "/eve/v1/session",
    tag = "eve",
    operation_id = "eveBegin",
    params(Creation),
    request_body(content = Posted, example = json!({ "message": "What is the commit rule?" })),
    responses(
        (status = 202, description = "The answer is under way in the session's stream", body = shapes::EveCreated,
            headers(("x-eve-session-id" = String, description = "The session"), ("x-ragwire-turn" = String, description = "The turn"))),
        EveRefusals,
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    owner: Result<Owner, Refusal>,
    creation: Result<Query<Creation>, QueryRejection>,
    request: Request,
) -> Result<Response, Refused> {
    let owner = owner?;
    let Ok(Query(creation)) = creation else {
        return Err(bad_request("vocabulary", "The vocabulary is `shipped` or `documented`.").into());
    };
    let posted: Posted = start::read(&app, Holds::Question, request).await?;
    let prompt = posted.prompt()?;
    let documented = matches!(creation.vocabulary, Vocabulary::Documented);
    let created = app.eve.create(owner.as_str(), documented).await?;
    let taken = app
        .eve
        .take(owner.as_str(), created.id(), created.token())
        .await?;
    let session = match start(&app, &owner, taken, prompt).await {
        Ok(session) => session,
        Err(refused) => {
            // A turn that is refused, or fails before its first event, leaves no session behind.
            app.eve.forget(owner.as_str(), created.id()).await;
            return Err(refused);
        }
    };
    let body = json!({"ok": true, "sessionId": session.id(), "continuationToken": session.token()});
    Ok((StatusCode::ACCEPTED, headers(&session), Json(body)).into_response())
}

type SessionId = Result<Path<String>, PathRejection>;

/// Goes on with a session: with a message, or with answers to what its turn asks.
#[utoipa::path(
    post,
    path = "/eve/v1/session/{session_id}",
    tag = "eve",
    operation_id = "eveGoOn",
    params(("session_id" = String, Path, description = "As the first message was answered")),
    request_body(content = Posted),
    responses(
        (status = 200, description = "The answer is under way in the session's stream", body = shapes::EveContinued,
            headers(("x-eve-session-id" = String, description = "The session"), ("x-ragwire-turn" = String, description = "The turn"))),
        (status = 404, description = "The session is unknown or forgotten, or its turn has not asked this", body = shapes::EveRefused),
        (status = 409, description = "The session is still active, the token is not its own, or the question has another answer", body = shapes::EveRefused),
        (status = 410, description = "The session failed for good, or nobody waits for the answer any more", body = shapes::EveRefused),
        EveRefusals,
    ),
)]
pub(super) async fn go_on(
    State(app): State<Arc<App>>,
    owner: Result<Owner, Refusal>,
    id: SessionId,
    request: Request,
) -> Result<Response, Refused> {
    let owner = owner?;
    let session = find(&app, &owner, id).await?;
    let posted: Posted = start::read_answers(&app, Holds::Question, request).await?;
    let token = posted.continuation_token.clone().unwrap_or_default();
    if !posted.input_responses.is_empty() {
        let answers = posted.answers()?;
        let answered = app
            .eve
            .answer(owner.as_str(), session.id(), &token, answers)
            .await;
        let session = answered.map_err(|refused| match refused {
            AnswerRefused::Session(error) => Refused::from(error),
            AnswerRefused::Answer(turn, error) => answers::refused(turn, error).into(),
        })?;
        let body = json!({"ok": true, "sessionId": session.id()});
        return Ok((StatusCode::OK, headers(&session), Json(body)).into_response());
    }
    let token = token.as_str();
    let taken = app.eve.take(owner.as_str(), session.id(), token).await?;
    let session = match posted.prompt() {
        Ok(prompt) => start(&app, &owner, taken, prompt).await?,
        Err(refusal) => {
            taken.release().await;
            return Err(refusal.into());
        }
    };
    let body = json!({"ok": true, "sessionId": session.id()});
    Ok((StatusCode::OK, headers(&session), Json(body)).into_response())
}

fn headers(session: &EveSession) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    name(&mut headers, session);
    headers
}

/// Says which session it is, and which turn of it is the newest.
fn name(headers: &mut HeaderMap, session: &EveSession) {
    if let Ok(id) = HeaderValue::try_from(session.id()) {
        headers.insert(SESSION_ID, id);
    }
    let turn = session.turn().map(HeaderValue::try_from);
    if let Some(Ok(turn)) = turn {
        headers.insert(TURN_HEADER, turn);
    }
}

async fn find(app: &App, owner: &Owner, id: SessionId) -> Result<EveSession, Refused> {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    Ok(app.eve.find(owner.as_str(), &id).await?)
}

fn bad_request(code: &'static str, message: &str) -> Refusal {
    Refusal::permanent(StatusCode::BAD_REQUEST, code, message)
}

/// Starts the turn, whose lines are the session's from then on.
async fn start(app: &App, owner: &Owner, taken: Taken, prompt: String) -> Result<EveSession, Refused> {
    let (space, id) = taken.key();
    let asked = Asked::new(prompt.as_str()).memory(Memory::Apart { space, id });
    // An agent answers whether somebody looks or not; its stream is the session's.
    match taken
        .hold(start::start(app, owner, start::Reader::Absent, asked))
        .await
    {
        Ok(turn) => Ok(taken.began(turn, prompt).await?),
        Err(refusal) => {
            taken.release().await;
            Err(refusal.into())
        }
    }
}

/// What a client posts to cancel.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EveCancel)]
struct Cancel {
    /// The turn, as its lines name it; the one that runs unless it says otherwise.
    turn_id: Option<String>,
}

/// Stops the turn that runs in a session.
///
/// What was sent of it stays, and the session goes on. The body may be left out.
#[utoipa::path(
    post,
    path = "/eve/v1/session/{session_id}/cancel",
    tag = "eve",
    operation_id = "eveCancel",
    params(("session_id" = String, Path, description = "As the first message was answered")),
    request_body(content = Option<Cancel>),
    responses(
        (status = 200, description = "No such turn runs", body = shapes::EveCancelled),
        (status = 202, description = "The turn ends", body = shapes::EveCancelled),
        (status = 404, description = "The session is unknown or forgotten", body = shapes::EveRefused),
        EveRefusals,
    ),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    owner: Result<Owner, Refusal>,
    id: SessionId,
    request: Request,
) -> Result<Response, Refused> {
    let owner = owner?;
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, MAX_CANCEL_BYTES, *app.settings.body_timeout).await?;
    let cancel: Option<Cancel> = if bytes.is_empty() {
        None
    } else {
        body::json(&head.headers, &bytes)?
    };
    let session = find(&app, &owner, id).await?;
    let asked = cancel.and_then(|cancel| cancel.turn_id);
    let stopped = match asked.as_deref().map(sequence) {
        // The name of no turn.
        Some(None) => false,
        Some(sequence) => app.eve.stop(owner.as_str(), session.id(), sequence).await?,
        None => app.eve.stop(owner.as_str(), session.id(), None).await?,
    };
    let (status, word) = if stopped {
        (StatusCode::ACCEPTED, "accepted")
    } else {
        (StatusCode::OK, "no_active_turn")
    };
    let body = json!({"ok": true, "sessionId": session.id(), "status": word});
    Ok((status, headers(&session), Json(body)).into_response())
}

/// Which turn of its session it is, by the name that its lines give it.
fn sequence(turn_id: &str) -> Option<u64> {
    turn_id.strip_prefix("turn_")?.parse().ok()
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct Place {
    /// How many lines were read already; 0 unless it says otherwise.
    #[serde(default)]
    #[param(required = false)]
    start_index: u64,
}

/// Streams the lines of all turns of a session.
///
/// It ends where no turn runs any more.
#[utoipa::path(
    get,
    path = "/eve/v1/session/{session_id}/stream",
    tag = "eve",
    operation_id = "eveStream",
    params(("session_id" = String, Path, description = "As the first message was answered"), Place),
    responses(
        (status = 200, description = "Eve's lines",
            headers(
                ("x-eve-session-id" = String, description = "The session"),
                ("x-ragwire-turn" = String, description = "Its newest turn"),
                ("x-eve-stream-format" = String, description = "`ndjson`"),
                ("x-eve-stream-version" = String, description = "`16`"),
            ),
            content((String = "application/x-ndjson", example = json!(example(&Eve::new("ses_1").message("What is the commit rule?")))))),
        (status = 400, description = "`startIndex` is none, or the lines after it are no longer kept", body = shapes::EveRefused),
        (status = 401, description = "The request does not say whose it is", body = shapes::EveRefused),
        (status = 404, description = "The session is unknown or forgotten", body = shapes::EveRefused),
        (status = 503, description = "The session cannot be reached now", body = shapes::EveRefused),
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Result<Owner, Refusal>,
    id: SessionId,
    from: Result<Query<Place>, QueryRejection>,
) -> Result<Response, Refused> {
    let owner = owner?;
    let session = find(&app, &owner, id).await?;
    let Ok(Query(from)) = from else {
        return Err(bad_request("start_index", "startIndex is the number of lines that were read.").into());
    };
    // Refused here or, where the journal drops lines under a slow reader, cut below.
    let keep_alive = *app.settings.keep_alive;
    let reader = Reader::open(&app.eve, &session, from.start_index, keep_alive).await?;
    let lines = futures_util::stream::try_unfold(reader, |mut reader| async move {
        let lines = reader.next().await?;
        Ok::<_, EveError>(lines.map(|lines| (lines, reader)))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    let wire = Eve::new(session.id());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
    for (name, value) in wire.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    name(headers, &session);
    Ok(response)
}
