//! The list of an owner's sessions, and what a page does with one: rename, delete, read its turns
//! again, and go back to an earlier turn.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use http::StatusCode;
use ragwire::session::{MAX_TITLE_CHARS, Role, Session, SessionError};
use ragwire::turn::TurnId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::openapi::requests::SessionId;
use crate::openapi::{self, BodyRefusals, schemas};
use crate::records::TurnRecord;
use crate::refusal::{Refusal, unknown_session};
use crate::request::{self, BodyKind, PathParam, invalid};
use crate::session_chat::session::seconds;
use crate::shared::Shared;

/// Most sessions in a list: more than a person looks through.
const MAX_LISTED: usize = 200;

/// Returns the routes.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(list))
        .routes(routes!(rename, delete))
        .routes(routes!(turns))
        .routes(routes!(rewind))
}

/// The sessions of an owner.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The one changed last first.
    sessions: Vec<ListedSession>,
}

/// A session in a list. Times are seconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedSession {
    id: String,
    #[schema(required = true)]
    title: Option<String>,
    created_at: f64,
    updated_at: f64,
    /// How many messages are stored.
    messages: usize,
}

impl ListedSession {
    fn new(session: Session) -> Self {
        Self {
            id: session.id().to_owned(),
            created_at: seconds(session.created()),
            updated_at: seconds(session.updated()),
            messages: session.messages.len(),
            title: session.title,
        }
    }
}

/// The turns of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionTurns {
    /// Oldest first.
    turns: Vec<TurnRecord>,
}

/// A new title.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionTitle {
    /// 1 to 200 characters.
    #[schema(min_length = 1, max_length = 200, pattern = r"[^\s\u0085]")]
    title: String,
}

/// Lists the sessions of the caller that have a message, at most 200.
///
/// An anonymous caller gets 403 unless the server has only one user: the list would show the
/// sessions of all of them.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "session-chat",
    operation_id = "sessions",
    responses(
        (status = 200, description = "The sessions", body = SessionList),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 403, description = "Callers are anonymous", body = schemas::Refused),
    ),
)]
pub(crate) async fn list(caller: Caller) -> Result<Json<SessionList>, Refusal> {
    caller.check_lists()?;
    let sessions = caller
        .shared
        .sessions
        .list(caller.owner.as_str(), MAX_LISTED)
        .await?;
    // Other protocols keep a state beside the messages, and list their sessions themselves.
    let chats = sessions
        .into_iter()
        .filter(|session| session.state.is_null() && !session.messages.is_empty());
    Ok(Json(SessionList {
        sessions: chats.map(ListedSession::new).collect(),
    }))
}

/// Renames a session.
#[utoipa::path(
    patch,
    path = "/v1/sessions/{session_id}",
    tag = "session-chat",
    operation_id = "renameSession",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    request_body(content = SessionTitle, example = json!({ "title": "The last sprint" })),
    responses(
        (status = 200, description = "The session, without its messages", body = ListedSession),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
        BodyRefusals,
    ),
)]
pub(crate) async fn rename(
    caller: Caller,
    id: PathParam,
    request: Request,
) -> Result<Json<ListedSession>, Refusal> {
    let SessionTitle { title } = request::read_json(&caller.shared, BodyKind::Question, request).await?;
    if title.trim().is_empty() || title.chars().count() > MAX_TITLE_CHARS {
        return Err(invalid(format!("A title has 1 to {MAX_TITLE_CHARS} characters.")));
    }
    let id = request::session_id(id)?;
    let change = |session: &mut Session| {
        session.title = Some(title.trim().to_owned());
        Ok::<_, SessionError>(())
    };
    let sessions = &caller.shared.sessions;
    let (session, ()) = sessions.update(caller.owner.as_str(), &id, change).await?;
    Ok(Json(ListedSession::new(session)))
}

/// Deletes a session and the record of its turns.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session_id}",
    tag = "session-chat",
    operation_id = "deleteSession",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    responses(
        (status = 204, description = "The session was deleted"),
        (status = 400, description = "The id is malformed", body = schemas::Refused),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
    ),
)]
pub(crate) async fn delete(caller: Caller, id: PathParam) -> Result<StatusCode, Refusal> {
    let (id, owner) = (request::session_id(id)?, caller.owner.as_str());
    let deleted = caller.shared.sessions.delete(owner, &id).await?;
    caller.shared.records.remove_session(owner, &id).await?;
    match deleted {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refusal::new(StatusCode::NOT_FOUND, unknown_session())),
    }
}

/// Returns the finished turns of a session, with their citations and the reader's feedback.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}/turns",
    tag = "session-chat",
    operation_id = "sessionTurns",
    params(("session_id" = inline(SessionId), Path, description = "The session's id")),
    responses(
        (status = 200, description = "The turns", body = SessionTurns),
        (status = 400, description = "The id is malformed", body = schemas::Refused),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The session does not exist", body = schemas::Refused),
    ),
)]
pub(crate) async fn turns(caller: Caller, id: PathParam) -> Result<Json<SessionTurns>, Refusal> {
    let id = request::session_id(id)?;
    caller.session(&id).await?;
    let turns = caller
        .shared
        .records
        .of_session(caller.owner.as_str(), &id)
        .await?;
    Ok(Json(SessionTurns { turns }))
}

/// Removes a turn of a session and those after it, so that the question can be asked again.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session_id}/turns/{turn_id}",
    tag = "session-chat",
    operation_id = "rewindSession",
    params(
        ("session_id" = inline(SessionId), Path, description = "The session's id"),
        ("turn_id" = String, Path, description = "The first turn to remove"),
    ),
    responses(
        (status = 204, description = "The turns and their messages were removed"),
        (status = 400, description = "The id of the session is malformed", body = schemas::Refused),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The session does not exist, or has no such turn", body = schemas::Refused),
    ),
)]
pub(crate) async fn rewind(
    caller: Caller,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, Refusal> {
    let Path((session, turn)) = ids.map_err(|_| Refusal::new(StatusCode::NOT_FOUND, unknown_session()))?;
    let session = request::check_session_id(session)?;
    let owner = caller.owner.as_str();
    let turn = TurnId::parse(&turn).unwrap_or_else(TurnId::random);
    let removed = caller.shared.records.remove_from(owner, &session, turn).await?;
    let change = |session: &mut Session| {
        // Each turn begins with its question.
        for _ in 0..removed {
            let question = session
                .messages
                .iter()
                .rposition(|message| message.role == Role::User);
            session.messages.truncate(question.unwrap_or(0));
        }
        Ok::<_, SessionError>(())
    };
    caller.shared.sessions.update(owner, &session, change).await?;
    Ok(StatusCode::NO_CONTENT)
}
