//! Questions: the two routes of ADR 0007.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::turn::{BoxError, Ending};
use ragwire::{Citation, Framed, Turn};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::body;
use super::refusal::Refusal;
use crate::app::App;
use crate::orchestrator::{Effort, MODE, Question, as_in_the_adr};
use crate::sessions::{Role, Sessions};

/// What stands around the question in the body: braces, the other members, escapes of six bytes for one.
const ENVELOPE_BYTES: usize = 4096;
const ESCAPE_BYTES: usize = 6;

/// The body of both routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    prompt: String,
    #[serde(default)]
    reasoning_effort: Effort,
    #[serde(default)]
    review_enabled: bool,
    /// Sent by old clients, and means nothing any more.
    #[serde(default, rename = "retrieval_mode")]
    _retrieval_mode: Option<IgnoredAny>,
}

/// The whole answer: what the stream would have told.
#[derive(Debug, Serialize)]
struct Whole {
    session_id: String,
    mode: &'static str,
    answer: String,
    tools_used: Vec<String>,
    citations: Vec<Citation>,
    agent_events: Vec<Map<String, Value>>,
}

type SessionId = Result<Path<String>, PathRejection>;

/// `POST /v1/rag/sessions/{session_id}/messages/stream`
pub(super) async fn stream(State(app): State<Arc<App>>, id: SessionId, request: Request) -> Response {
    match start(&app, id, request).await {
        Ok((_, turn)) => turn.respond(Framed::default()).map(axum::body::Body::new),
        Err(refused) => refused,
    }
}

/// `POST /v1/rag/sessions/{session_id}/messages`
pub(super) async fn whole(State(app): State<Arc<App>>, id: SessionId, request: Request) -> Response {
    let (session_id, turn) = match start(&app, id, request).await {
        Ok(started) => started,
        Err(refused) => return refused,
    };
    let collected = match turn.collect().await {
        Ok(collected) => collected,
        Err(error) => return Refusal::internal(&error).into_response(),
    };
    // Nothing was sent yet, so a failure is an HTTP status here, however late it came.
    let collected = match collected.into_result() {
        Ok(collected) => collected,
        Err(rejected) => return rejected.into_response(),
    };
    let metadata = collected.end.metadata;
    let events = collected.events.into_iter().map(|(event, timestamp)| {
        let mut record = Map::new();
        record.insert("type".into(), event.name().into());
        if let Some(timestamp) = timestamp {
            record.insert("timestamp".into(), timestamp.to_string().into());
        }
        if let Ok(Value::Object(members)) = serde_json::to_value(&event) {
            record.extend(members.into_iter().filter(|(name, _)| name != "event"));
        }
        record
    });
    Json(Whole {
        session_id,
        mode: MODE,
        answer: collected.text,
        tools_used: metadata.tools_used,
        citations: metadata.citations,
        agent_events: events.collect(),
    })
    .into_response()
}

/// Everything up to the moment at which the response begins.
async fn start(app: &Arc<App>, id: SessionId, request: Request) -> Result<(String, Turn), Response> {
    // First what costs nothing: a server that is full does not read the question.
    if let Err(rejected) = app.turns.check() {
        let (head, body) = request.into_parts();
        body::linger(&head.headers, body).await;
        return Err(rejected.into_response());
    }
    let session_id = id
        .map(|Path(id)| id)
        .ok()
        .filter(|id| Sessions::is_id(id))
        .ok_or_else(|| {
            Refusal::permanent(
                StatusCode::BAD_REQUEST,
                "bad_session_id",
                "A session id has 1 to 128 letters, digits, `-`, `_` and `.`.",
            )
            .into_response()
        })?;
    let question = question(app, &session_id, request)
        .await
        .map_err(IntoResponse::into_response)?;
    let sessions = Arc::clone(&app.sessions);
    let remember = {
        let (sessions, id) = (Arc::clone(&sessions), session_id.clone());
        move |ending: Ending| async move {
            let answer = ending.answer();
            // A turn that was stopped before its first word has nothing to remember.
            if !answer.is_empty() {
                sessions.append(&id, Role::Assistant, &answer);
            }
        }
    };
    let turn = Turn::builder()
        .mode(MODE)
        .group(&app.turns)
        .timeouts(app.timeouts())
        .before_end(remember)
        .start(|sink| {
            // Called only if the turn is admitted, so a refused question is not remembered.
            sessions.append(&session_id, Role::User, &question.prompt);
            let answering = app.orchestrator.answer(question, sink);
            async move { Ok::<_, BoxError>(as_in_the_adr(answering.await?)) }
        })
        .commit()
        .await
        .map_err(IntoResponse::into_response)?;
    Ok((session_id, turn))
}

async fn question(app: &App, session_id: &str, request: Request) -> Result<Question, Refusal> {
    let (head, body) = request.into_parts();
    let max_question = app.settings.max_question.0;
    let max_bytes = max_question * ESCAPE_BYTES + ENVELOPE_BYTES;
    let bytes = body::read(&head.headers, body, max_bytes, app.settings.body_timeout.0).await?;
    let message: Message = body::json(&head.headers, &bytes)?;
    let invalid =
        |message: String| Refusal::permanent(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message);
    if message.prompt.trim().is_empty() {
        return Err(invalid("The prompt is empty.".into()));
    }
    if message.prompt.len() > max_question {
        return Err(invalid(format!(
            "The prompt has more than {max_question} bytes of UTF-8."
        )));
    }
    Ok(Question {
        prompt: message.prompt,
        effort: message.reasoning_effort,
        review: message.review_enabled,
        earlier: app.sessions.said(session_id),
    })
}
