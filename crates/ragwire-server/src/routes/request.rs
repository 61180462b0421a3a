//! Reads requests: bodies with a limit per kind, and ids in paths.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use ragwire::session::Sessions;
use ragwire::turn::{Ask, TurnId};
use serde::de::DeserializeOwned;

use super::body;
use super::refusal::Refusal;
use crate::app::App;

/// Room in a body for everything around the texts: braces and further members.
const ENVELOPE_BYTES: usize = 4096;
/// The same for a body with a whole conversation, whose messages have ids and metadata.
const CONVERSATION_ENVELOPE_BYTES: usize = 1 << 20;
/// One byte of text may be written as an escape of six bytes.
const ESCAPE_BYTES: usize = 6;

/// The content of a body, which determines its size limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyKind {
    /// One question.
    Question,
    /// One question and all messages before it.
    Conversation,
    /// A human's answer to a question of the turn.
    Answer,
}

/// Returns the largest body of this kind, in bytes.
pub(super) fn max_bytes(app: &App, kind: BodyKind) -> usize {
    let max_question = *app.settings.max_question;
    match kind {
        BodyKind::Question => max_question * ESCAPE_BYTES + ENVELOPE_BYTES,
        BodyKind::Conversation => {
            (max_question + *app.settings.session_size) * ESCAPE_BYTES + CONVERSATION_ENVELOPE_BYTES
        }
        BodyKind::Answer => Ask::MAX_ANSWER_BYTES * ESCAPE_BYTES + ENVELOPE_BYTES,
    }
}

/// Reads a body of at most `max_bytes`.
pub(super) async fn read_bytes(
    app: &App,
    max_bytes: usize,
    request: Request,
) -> Result<(HeaderMap, Bytes), Refusal> {
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, max_bytes, *app.settings.body_timeout).await?;
    Ok((head.headers, bytes))
}

/// Reads a JSON body. A full server reads it too, because human answers are what makes room; a
/// question is refused later, when its turn starts.
pub(super) async fn read_json<T: DeserializeOwned>(
    app: &App,
    kind: BodyKind,
    request: Request,
) -> Result<T, Refusal> {
    let (headers, bytes) = read_bytes(app, max_bytes(app, kind), request).await?;
    body::json(&headers, &bytes)
}

/// Reads an optional JSON body: an empty one is `None`.
pub(super) async fn read_optional_json<T: DeserializeOwned>(
    app: &App,
    max_bytes: usize,
    request: Request,
) -> Result<Option<T>, Refusal> {
    let (headers, bytes) = read_bytes(app, max_bytes, request).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    body::json(&headers, &bytes)
}

/// Reads a JSON body with a question, unless the server is full or shuts down.
pub(super) async fn read_question<T: DeserializeOwned>(
    app: &App,
    kind: BodyKind,
    request: Request,
) -> Result<T, Refusal> {
    if let Err(rejected) = app.turns.check() {
        let (head, body) = request.into_parts();
        body::linger(&head.headers, body).await;
        return Err(rejected.into());
    }
    read_json(app, kind, request).await
}

/// One parameter of a path.
pub(super) type PathParam = Result<Path<String>, PathRejection>;

/// Returns the session id in a path.
pub(super) fn session_id(param: PathParam) -> Result<String, Refusal> {
    check_session_id(param.map(|Path(id)| id).unwrap_or_default())
}

/// Returns a session id that a client chose, or 400.
pub(super) fn check_session_id(id: String) -> Result<String, Refusal> {
    if Sessions::is_id(&id) {
        return Ok(id);
    }
    Err(Refusal::permanent(
        StatusCode::BAD_REQUEST,
        "bad_session_id",
        "A session id has 1 to 128 letters, digits, `-`, `_` and `.`.",
    ))
}

/// Returns the turn id in a path. A malformed id becomes a random one, which no turn has.
pub(super) fn turn_id(param: PathParam) -> TurnId {
    let id = param.ok().and_then(|Path(id)| TurnId::parse(&id));
    id.unwrap_or_else(TurnId::random)
}

/// The refusal of JSON that the route does not accept.
pub(super) fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::permanent(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}
