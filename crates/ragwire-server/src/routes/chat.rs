//! The two routes of ADR 0007 (see docs/protocols.md).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::{Citation, Framed, Turn};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::request::{self, BodyKind, PathParam};
use super::schemas;
use super::start::{self, Conversation, Reader, TurnRequest};
use crate::app::App;
use crate::orchestrator::{Effort, MODE, Question, adr_metadata};

/// The body of both routes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RagQuestion {
    /// The question.
    prompt: String,
    #[serde(default)]
    reasoning_effort: Effort,
    #[serde(default)]
    review_enabled: bool,
    /// Sent by old clients; ignored.
    #[serde(default, rename = "retrieval_mode")]
    #[schema(value_type = Value, required = false, deprecated)]
    _retrieval_mode: Option<IgnoredAny>,
}

/// The whole answer, with everything that the stream would have contained.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RagAnswer {
    session_id: String,
    mode: &'static str,
    answer: String,
    tools_used: Vec<String>,
    #[schema(value_type = Vec<schemas::Citation>)]
    citations: Vec<Citation>,
    /// The events of the stream, with `type` in place of `event`.
    #[schema(value_type = Vec<Object>)]
    agent_events: Vec<Map<String, Value>>,
}

/// Answers a question in a session, live.
#[utoipa::path(
    post,
    path = "/v1/rag/sessions/{session_id}/messages/stream",
    tag = "questions",
    operation_id = "ragStream",
    params(("session_id" = String, Path, description = "1 to 128 letters, digits, `-`, `_` and `.`, chosen by the client")),
    request_body(content = RagQuestion, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The framed wire", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/plain", example = json!(example(&Framed::default()))))),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: PathParam,
    request: Request,
) -> Result<Response, Refusal> {
    // The page reconnects and stops by the turn's id.
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
    request_body(content = RagQuestion, example = json!({ "prompt": "What is the commit rule?" })),
    responses((status = 200, description = "The whole answer", body = RagAnswer), TurnRefusals),
)]
pub(super) async fn whole(
    State(app): State<Arc<App>>,
    owner: Owner,
    id: PathParam,
    request: Request,
) -> Result<Json<RagAnswer>, Refusal> {
    let (session_id, turn) = start(&app, &owner, Reader::Whole, id, request).await?;
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    // No byte has been sent yet, so a failure becomes an HTTP status, however late it happens.
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
    Ok(Json(RagAnswer {
        session_id,
        mode: MODE,
        answer: collected.text,
        tools_used: metadata.tools_used,
        citations: metadata.citations,
        agent_events: events.collect(),
    }))
}

/// Starts the turn, up to the moment at which the response begins.
async fn start(
    app: &App,
    owner: &Owner,
    reader: Reader,
    id: PathParam,
    request: Request,
) -> Result<(String, Turn), Refusal> {
    let body: RagQuestion = request::read_question(app, BodyKind::Question, request).await?;
    let session_id = request::session_id(id)?;
    let question = Question {
        effort: body.reasoning_effort,
        review: body.review_enabled,
        // The ADR has no event for a verification, and no events after the text.
        verify: body.review_enabled,
        ..Question::new(body.prompt)
    };
    let turn_request = TurnRequest {
        fallback_mode: Some(MODE),
        metadata: adr_metadata,
        ..TurnRequest::new(question).conversation(Conversation::Session(session_id.clone()))
    };
    Ok((session_id, start::start(app, owner, reader, turn_request).await?))
}
