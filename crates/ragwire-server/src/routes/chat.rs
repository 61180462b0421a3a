//! Questions: the two routes of ADR 0007.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use ragwire::{Citation, Framed, Turn};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Asked, Holds, Memory, Reader};
use crate::app::App;
use crate::orchestrator::{Effort, MODE, as_in_the_adr};

/// The body of both routes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RagQuestion)]
struct Message {
    /// The question, in words.
    prompt: String,
    #[serde(default)]
    reasoning_effort: Effort,
    #[serde(default)]
    review_enabled: bool,
    /// Sent by old clients, and means nothing any more.
    #[serde(default, rename = "retrieval_mode")]
    #[schema(value_type = Value, required = false, deprecated)]
    _retrieval_mode: Option<IgnoredAny>,
}

/// The whole answer: what the stream would have told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RagAnswer)]
pub(super) struct Whole {
    session_id: String,
    mode: &'static str,
    answer: String,
    tools_used: Vec<String>,
    #[schema(value_type = Vec<shapes::Citation>)]
    citations: Vec<Citation>,
    /// The events of the stream, with `type` in place of `event`.
    #[schema(value_type = Vec<Object>)]
    agent_events: Vec<Map<String, Value>>,
}

type SessionId = Result<Path<String>, PathRejection>;

/// Answers a question in a session, live.
#[utoipa::path(
    post,
    path = "/v1/rag/sessions/{session_id}/messages/stream",
    tag = "questions",
    operation_id = "ragStream",
    params(("session_id" = String, Path, description = "1 to 128 letters, digits, `-`, `_` and `.`, chosen by the client")),
    request_body(content = Message, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The framed wire", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content((String = "text/plain", example = json!(example(&Framed::default()))))),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: SessionId,
    request: Request,
) -> Result<Response, Refusal> {
    // The page comes back by the turn's id, and stops by it.
    let (_, turn) = start(&app, &owner, Reader::Returning, id, request).await?;
    Ok(turn.respond(Framed::default()).map(Body::new))
}

/// Answers a question in a session, in one piece.
#[utoipa::path(
    post,
    path = "/v1/rag/sessions/{session_id}/messages",
    tag = "questions",
    operation_id = "ragWhole",
    params(("session_id" = String, Path, description = "1 to 128 letters, digits, `-`, `_` and `.`, chosen by the client")),
    request_body(content = Message, example = json!({ "prompt": "What is the commit rule?" })),
    responses((status = 200, description = "What the stream would have told", body = Whole), TurnRefusals),
)]
pub(super) async fn whole(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: SessionId,
    request: Request,
) -> Result<Json<Whole>, Refusal> {
    let (session_id, turn) = start(&app, &owner, Reader::Whole, id, request).await?;
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    // Nothing was sent yet, so a failure is an HTTP status here, however late it came.
    let collected = collected.into_result()?;
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
    Ok(Json(Whole {
        session_id,
        mode: MODE,
        answer: collected.text,
        tools_used: metadata.tools_used,
        citations: metadata.citations,
        agent_events: events.collect(),
    }))
}

/// Everything up to the moment at which the response begins.
async fn start(
    app: &App,
    owner: &Owner,
    reader: Reader,
    id: SessionId,
    request: Request,
) -> Result<(String, Turn), Refusal> {
    let message: Message = start::read(app, Holds::Question, request).await?;
    let session_id = start::session_id(id.map(|Path(id)| id).ok())?;
    let asked = Asked {
        effort: message.reasoning_effort,
        review: message.review_enabled,
        // The ADR has no such event, and its trailer no place for one that comes after the text.
        verify: message.review_enabled,
        names_mode: Some(MODE),
        shape: as_in_the_adr,
        ..Asked::new(message.prompt).memory(Memory::Session(session_id.clone()))
    };
    Ok((session_id, start::start(app, owner, reader, asked).await?))
}
