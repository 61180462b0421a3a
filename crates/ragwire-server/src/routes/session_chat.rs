//! `/v1/sessions…`: the routes of the session chat, and `GET /v1/generation/status`.
//!
//! A session is the same one whatever route speaks of it: one that a question of another route began is known here too. Questions of
//! one session wait for each other, in the order in which they came; sessions wait for each other only where the server is full.
//! Who waits is told so live; the session that a chat tells at its end has the answers it waited for.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use ragwire::session::{self, MAX_TITLE_BYTES, Role, SessionError};
use ragwire::{Rejected, SessionChat, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::body;
use super::openapi::{BodyRefusals, TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Asked, Holds, Memory, Reader, invalid};
use crate::app::App;
use crate::orchestrator::Effort;

/// The only profile there is: the pipeline.
const PROFILE: &str = "default";
/// Largest body that begins a session.
const MAX_BEGIN_BYTES: usize = 4096;

/// How a session begins. The body may be empty, or `null`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BeginSession)]
struct Begin {
    /// `default`.
    profile_name: Option<String>,
    /// At most 200 bytes of UTF-8. Without one it is the beginning of the first question.
    title: Option<String>,
}

/// A question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SessionQuestion)]
struct Message {
    /// The question, in words.
    message: String,
    model_size: Option<ModelSize>,
    /// For the log of the contract's own server; this one's never holds what was asked.
    #[serde(default, rename = "verbose")]
    _verbose: Option<bool>,
}

/// How large a model the question is worth, which this server takes for how much thought.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ModelSize {
    Small,
    Medium,
    Large,
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

/// A session as the contract shows it. Times are seconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    id: String,
    profile_name: &'static str,
    messages: Vec<Told>,
    /// `null` until the first question.
    #[schema(required = true)]
    title: Option<String>,
    created_at: f64,
    updated_at: f64,
}

/// One message of a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionMessage)]
struct Told {
    #[schema(value_type = shapes::Role)]
    role: Role,
    content: String,
}

impl From<session::Session> for Session {
    fn from(session: session::Session) -> Self {
        let (created, updated) = (session.created(), session.updated());
        let id = session.id().to_owned();
        let messages = session.messages.into_iter().map(|said| Told {
            role: said.role,
            content: said.text,
        });
        Self {
            id,
            profile_name: PROFILE,
            messages: messages.collect(),
            title: session.title,
            created_at: seconds(created),
            updated_at: seconds(updated),
        }
    }
}

/// Which sessions are being answered. With several at a time the first is the one that has been for longest.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GenerationStatus)]
pub(super) struct Status {
    /// `null` while there is none.
    #[schema(required = true)]
    generating_session_id: Option<String>,
    queued_session_ids: Vec<String>,
}

type SessionId = Result<Path<String>, PathRejection>;

/// Begins a session. The body may be left out.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "session-chat",
    operation_id = "beginSession",
    request_body(content = Option<Begin>, example = json!({ "title": "The last sprint" })),
    responses(
        (status = 201, description = "The session, empty", body = Session),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        BodyRefusals,
    ),
)]
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<(StatusCode, Json<Session>), Refusal> {
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, MAX_BEGIN_BYTES, *app.settings.body_timeout).await?;
    let begin = if bytes.is_empty() {
        Begin::default()
    } else {
        let begin: Option<Begin> = body::json(&head.headers, &bytes)?;
        begin.unwrap_or_default()
    };
    if begin.profile_name.is_some_and(|name| name != PROFILE) {
        return Err(invalid(format!(
            "There is no such profile here. The only one is `{PROFILE}`."
        )));
    }
    if begin
        .title
        .as_ref()
        .is_some_and(|title| title.len() > MAX_TITLE_BYTES)
    {
        return Err(invalid(format!(
            "The title has more than {MAX_TITLE_BYTES} bytes of UTF-8."
        )));
    }
    let begun = app.sessions.begin(owner.as_str(), begin.title).await;
    Ok((StatusCode::CREATED, Json(begun.map_err(refused)?.into())))
}

/// Shows a session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}",
    tag = "session-chat",
    operation_id = "session",
    params(("session_id" = String, Path, description = "The session, as it was begun")),
    responses(
        (status = 200, description = "The session", body = Session),
        (status = 400, description = "No such id is possible", body = shapes::Refused),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 404, description = "There is no such session", body = shapes::Refused),
    ),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: SessionId,
) -> Result<Json<Session>, Refusal> {
    let id = start::session_id(id.map(|Path(id)| id).ok())?;
    Ok(Json(find(&app, &owner, &id).await?))
}

/// Answers a question in a session, live. It waits for those that came before it in the session.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session_id}/chat/stream",
    tag = "session-chat",
    operation_id = "sessionChatStream",
    params(("session_id" = String, Path, description = "The session, as it was begun")),
    request_body(content = Message, example = json!({ "message": "What is the commit rule?", "model_size": "large" })),
    responses(
        (status = 200, description = "The session chat's events", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content((String = "text/event-stream", example = json!(example(&SessionChat::default()))))),
        (status = 404, description = "There is no such session", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: SessionId,
    request: Request,
) -> Result<Response, Refusal> {
    // Its clients reconnect, and do so by the turn's id.
    let (turn, wire) = start(&app, &owner, Reader::Returning, id, request).await?;
    Ok(turn.respond(wire).map(Body::new))
}

/// Answers a question in a session, in one piece. It waits for those that came before it in the session.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session_id}/chat",
    tag = "session-chat",
    operation_id = "sessionChat",
    params(("session_id" = String, Path, description = "The session, as it was begun")),
    request_body(content = Message, example = json!({ "message": "What is the commit rule?", "model_size": "large" })),
    responses(
        (status = 200, description = "The last event of the stream", body = shapes::SessionComplete),
        (status = 404, description = "There is no such session", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn whole(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: SessionId,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    let (turn, wire) = start(&app, &owner, Reader::Whole, id, request).await?;
    let whole = start::collect(turn).await?;
    Ok(Json(wire.complete(&whole.events, &whole.text, &whole.end)))
}

/// Which sessions are being answered, and which wait.
#[utoipa::path(
    get,
    path = "/v1/generation/status",
    tag = "session-chat",
    operation_id = "generationStatus",
    responses(
        (status = 200, description = "As of now", body = Status),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
    ),
)]
pub(super) async fn status(State(app): State<Arc<App>>, owner: Owner) -> Json<Status> {
    let lanes = app.turns.owners();
    // The other lanes are chats, and sessions of others, whose ids are nobody else's business.
    let sessions = |lanes: &[String]| -> Vec<String> {
        let own = lanes.iter().filter_map(|lane| start::session_of(&owner, lane));
        own.map(str::to_owned).collect()
    };
    Json(Status {
        generating_session_id: sessions(&lanes.active).into_iter().next(),
        queued_session_ids: sessions(&lanes.queued),
    })
}

/// Everything up to the moment at which the response begins.
async fn start(
    app: &App,
    owner: &Owner,
    reader: Reader,
    id: SessionId,
    request: Request,
) -> Result<(Turn, SessionChat), Refusal> {
    let message: Message = start::read(app, Holds::Question, request).await?;
    let id = start::session_id(id.map(|Path(id)| id).ok())?;
    // Who asks for a session that is not there does not wait for it.
    find(app, owner, &id).await?;
    let asked = Asked {
        effort: message.model_size.map(Effort::from).unwrap_or_default(),
        ..Asked::new(message.message).memory(Memory::Begun(id))
    };
    let session = Arc::new(OnceLock::new());
    let wire = SessionChat::default().session_at_end(Arc::clone(&session));
    let tell = move |remembered| {
        if let Ok(Value::Object(told)) = serde_json::to_value(Session::from(remembered)) {
            let _ = session.set(told);
        }
    };
    Ok((
        start::start_in_session(app, owner, reader, asked, tell).await?,
        wire,
    ))
}

async fn find(app: &App, owner: &Owner, id: &str) -> Result<Session, Refusal> {
    let found = app.sessions.get(owner.as_str(), id).await;
    found.map(Session::from).map_err(refused)
}

/// Unknown, another's and forgotten are the same.
fn refused(error: SessionError) -> Refusal {
    match error {
        SessionError::Unknown => Rejected::new(start::no_session()).into(),
        other => Refusal::internal(&other),
    }
}

/// Exact to the microsecond up to the year 2255.
fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as f64 / 1e6
}
