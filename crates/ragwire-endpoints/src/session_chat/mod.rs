//! `/v1/sessions…`: the routes of the session chat, and `GET /v1/generation/status`.
//!
//! All routes share sessions: a session that another route started is known here too. Questions of
//! one session are answered in the order of their arrival; sessions wait for each other only if the
//! server is full. A waiting client sees its position live. The session at the end of a chat
//! contains the answers that the question waited for.

pub(crate) mod session;

use std::sync::{Arc, OnceLock};

use axum::Json;
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use ragwire::orchestrator::Effort;
use ragwire::session::MAX_TITLE_CHARS;
use ragwire::{Question, SessionChat, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::session::{PROFILE, Session};
use crate::caller::{self, Caller};
use crate::chats;
use crate::lane::Lane;
use crate::openapi::requests::SessionId;
use crate::openapi::schemas;
use crate::openapi::{self, BodyRefusals, TurnRefusals, example};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, PathParam, invalid};
use crate::shared::Shared;
use crate::start::{self, Conversation, Reader, TurnRequest};

/// Returns the routes of the session chat.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("session-chat", "The round-based session chat."))
        .routes(routes!(create))
        .routes(routes!(get))
        .routes(routes!(stream))
        .routes(routes!(whole))
        .routes(routes!(status))
        .merge(chats::routes())
}

/// Largest body that creates a session, in bytes.
const MAX_CREATE_BYTES: usize = 4096;

/// A new session. The body may be empty or `null`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BeginSession)]
struct NewSession {
    /// `default`.
    #[schema(pattern = "^default$")]
    profile_name: Option<String>,
    /// At most 200 characters. Default: the beginning of the first question.
    #[schema(max_length = 200)]
    title: Option<String>,
}

/// A question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SessionQuestion)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The question.
    #[schema(min_length = 1, pattern = r"[^\s\u0085]")]
    pub message: String,
    /// The size of the model to use.
    pub model_size: Option<ModelSize>,
    /// A logging option of the original server. This server never logs questions.
    #[serde(default, rename = "verbose")]
    _verbose: Option<bool>,
}

/// The size of the model to use, which is mapped to the search effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ModelSize {
    /// [`Effort::Low`].
    Small,
    /// [`Effort::Medium`].
    Medium,
    /// [`Effort::High`].
    Large,
}

impl ChatRequest {
    /// Returns the question.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.message);
        question.effort = self.model_size.map(Effort::from).unwrap_or_default();
        question
    }
}

impl From<ModelSize> for Effort {
    fn from(size: ModelSize) -> Self {
        match size {
            ModelSize::Small => Self::Low,
            ModelSize::Medium => Self::Medium,
            ModelSize::Large => Self::High,
        }
    }
}

/// The sessions with a running or a waiting question. Of several running ones, the oldest comes
/// first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GenerationStatus)]
pub(crate) struct Status {
    /// `null` if no question is running.
    #[schema(required = true)]
    generating_session_id: Option<String>,
    queued_session_ids: Vec<String>,
}

/// Creates a session. The body is optional.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "session-chat",
    operation_id = "beginSession",
    request_body(content = Option<NewSession>, example = json!({ "title": "The last sprint" })),
    responses(
        (status = 201, description = "The empty session", body = Session),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        BodyRefusals,
    ),
)]
pub(crate) async fn create(caller: Caller, request: Request) -> Result<(StatusCode, Json<Session>), Refusal> {
    let body: Option<Option<NewSession>> =
        request::read_optional_json(&caller.shared, MAX_CREATE_BYTES, request).await?;
    let NewSession { profile_name, title } = body.flatten().unwrap_or_default();
    if profile_name.is_some_and(|name| name != PROFILE) {
        return Err(invalid(format!("Unknown profile. The only one is `{PROFILE}`.")));
    }
    if title
        .as_ref()
        .is_some_and(|title| title.chars().count() > MAX_TITLE_CHARS)
    {
        return Err(invalid(format!(
            "The title is longer than {MAX_TITLE_CHARS} characters."
        )));
    }
    let sessions = &caller.shared.sessions;
    let session = sessions.begin(caller.owner.as_str(), title).await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

/// Returns a session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}",
    tag = "session-chat",
    operation_id = "session",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    responses(
        (status = 200, description = "The session", body = Session),
        (status = 400, description = "The id is malformed", body = schemas::Refused),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
    ),
)]
pub(crate) async fn get(caller: Caller, id: PathParam) -> Result<Json<Session>, Refusal> {
    let session = caller.session(&request::session_id(id)?).await?;
    Ok(Json(session.into()))
}

/// Answers a question in a session, live, after the earlier questions of the session.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session_id}/chat/stream",
    tag = "session-chat",
    operation_id = "sessionChatStream",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    request_body(content = ChatRequest, example = json!({ "message": "What is the commit rule?", "model_size": "large" })),
    responses(
        TurnRefusals,
        (status = 200, description = "The session chat's events", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/event-stream", example = json!(example(&SessionChat::default()))))),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
    ),
)]
pub(crate) async fn stream(caller: Caller, id: PathParam, request: Request) -> Result<Response, Refusal> {
    // Its clients reconnect by the turn's id.
    let (turn, wire) = start(&caller, Reader::Returning, id, request).await?;
    Ok(caller::stream(turn, wire))
}

/// Answers a question in a session, in one piece, after the earlier questions of the session.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session_id}/chat",
    tag = "session-chat",
    operation_id = "sessionChat",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    request_body(content = ChatRequest, example = json!({ "message": "What is the commit rule?", "model_size": "large" })),
    responses(
        TurnRefusals,
        (status = 200, description = "The last event of the stream", body = schemas::SessionComplete),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
    ),
)]
pub(crate) async fn whole(caller: Caller, id: PathParam, request: Request) -> Result<Json<Value>, Refusal> {
    let (turn, wire) = start(&caller, Reader::Whole, id, request).await?;
    let whole = start::collect(turn).await?;
    Ok(Json(wire.complete(&whole.events, &whole.text, &whole.end)))
}

/// Lists the sessions with a running or a waiting question.
#[utoipa::path(
    get,
    path = "/v1/generation/status",
    tag = "session-chat",
    operation_id = "generationStatus",
    responses(
        (status = 200, description = "The current state", body = Status),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
    ),
)]
pub(crate) async fn status(caller: Caller) -> Json<Status> {
    let lanes = caller.shared.turns.owners();
    // Other lanes are chats, or sessions of other owners, whose ids are private.
    let sessions = |lanes: &[String]| -> Vec<String> {
        let ids = lanes
            .iter()
            .filter_map(|lane| Lane::session_id(lane, &caller.owner));
        ids.map(str::to_owned).collect()
    };
    Json(Status {
        generating_session_id: sessions(&lanes.active).into_iter().next(),
        queued_session_ids: sessions(&lanes.queued),
    })
}

/// Starts the turn, up to the moment at which the response begins.
async fn start(
    caller: &Caller,
    reader: Reader,
    id: PathParam,
    request: Request,
) -> Result<(Turn, SessionChat), Refusal> {
    let message: ChatRequest = caller.read_question(BodyKind::Question, request).await?;
    let id = request::session_id(id)?;
    // An unknown session is refused now rather than after the wait.
    caller.session(&id).await?;
    let turn_request = TurnRequest::new(message.question()).conversation(Conversation::ExistingSession(id));
    let session = Arc::new(OnceLock::new());
    let wire = SessionChat::default().session_at_end(Arc::clone(&session));
    let on_question = move |stored| {
        if let Ok(Value::Object(json)) = serde_json::to_value(Session::from(stored)) {
            let _ = session.set(json);
        }
    };
    let turn = caller.start_in_session(reader, turn_request, on_question).await?;
    Ok((turn, wire))
}
