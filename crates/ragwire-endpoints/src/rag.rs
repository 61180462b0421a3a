//! The two routes of ADR 0007 (see docs/protocols.md).

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::Response;
use ragwire::orchestrator::Effort;
use ragwire::{Citation, Framed, Question, Turn};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{self, Caller};
use crate::openapi::requests::SessionId;
use crate::openapi::{self, TurnRefusals, example};
use crate::openapi::{requests, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, PathParam};
use crate::shared::Shared;
use crate::start::{Conversation, Reader, TurnRequest};
use crate::turns;

/// Returns the routes of ADR 0007.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("questions", turns::TAG))
        .routes(routes!(stream))
        .routes(routes!(whole))
}

/// The body of both routes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RagQuestion)]
#[non_exhaustive]
pub struct QuestionRequest {
    /// The question.
    #[schema(min_length = 1, pattern = r"[^\s\u0085]")]
    pub prompt: String,
    /// The search effort.
    #[serde(default)]
    #[schema(value_type = schemas::Effort, required = false)]
    pub reasoning_effort: Effort,
    /// Whether the review of the evidence and the verification of the answer are reported.
    #[serde(default)]
    pub review_enabled: bool,
    /// Which documents to search, as the orchestrator defines it.
    #[schema(value_type = Option<requests::Filter>)]
    pub filter: Option<Value>,
    /// Sent by old clients; ignored.
    #[serde(default, rename = "retrieval_mode")]
    #[schema(value_type = Value, required = false, deprecated)]
    _retrieval_mode: Option<IgnoredAny>,
}

impl QuestionRequest {
    /// Returns the question.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.prompt);
        question.effort = self.reasoning_effort;
        question.options.review = self.review_enabled;
        // The ADR has no event for a verification, and no events after the text.
        question.options.verify = self.review_enabled;
        request::set_filter(&mut question, self.filter);
        question
    }
}

/// The whole answer, with everything that the stream would have contained.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RagAnswer {
    session_id: String,
    mode: String,
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
    params(("session_id" = inline(SessionId), Path, description = "1 to 128 letters, digits, `-`, `_` and `.`, chosen by the client")),
    request_body(content = QuestionRequest, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The framed wire", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/plain", example = json!(example(&Framed::default()))))),
        TurnRefusals,
    ),
)]
pub(crate) async fn stream(caller: Caller, id: PathParam, request: Request) -> Result<Response, Refusal> {
    // The page reconnects and stops by the turn's id.
    let (_, turn) = start(&caller, Reader::Returning, id, request).await?;
    Ok(caller::stream(turn, Framed::default()))
}

/// Answers a question in a session, in one piece.
#[utoipa::path(
    post,
    path = "/v1/rag/sessions/{session_id}/messages",
    tag = "questions",
    operation_id = "ragWhole",
    params(("session_id" = inline(SessionId), Path, description = "1 to 128 letters, digits, `-`, `_` and `.`, chosen by the client")),
    request_body(content = QuestionRequest, example = json!({ "prompt": "What is the commit rule?" })),
    responses((status = 200, description = "The whole answer", body = RagAnswer), TurnRefusals),
)]
pub(crate) async fn whole(
    caller: Caller,
    id: PathParam,
    request: Request,
) -> Result<Json<RagAnswer>, Refusal> {
    let (session_id, turn) = start(&caller, Reader::Whole, id, request).await?;
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
        mode: caller.shared.mode.clone(),
        answer: collected.text,
        tools_used: metadata.tools_used,
        citations: metadata.citations,
        agent_events: events.collect(),
    }))
}

/// Starts the turn, up to the moment at which the response begins.
async fn start(
    caller: &Caller,
    reader: Reader,
    id: PathParam,
    request: Request,
) -> Result<(String, Turn), Refusal> {
    let body: QuestionRequest = caller.read_question(BodyKind::Question, request).await?;
    let session_id = request::session_id(id)?;
    let turn_request = TurnRequest {
        adr: true,
        ..TurnRequest::new(body.question()).conversation(Conversation::Session(session_id.clone()))
    };
    Ok((session_id, caller.start(reader, turn_request).await?))
}
