//! `POST /v1/turns`: a question on the wires of our own, chosen by the reader's `Accept`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::event::Mode;
use ragwire::http::{AnyWire, negotiate};
use ragwire::{Framed, Ndjson, Sse};
use serde::Deserialize;
use utoipa::ToSchema;

use super::openapi::{TurnRefusals, example};
use super::refusal::Refusal;
use super::shapes;
use super::turn::{self, Asked, Holds, Memory};
use crate::app::App;
use crate::orchestrator::Effort;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Question)]
struct Message {
    /// The question, in words.
    prompt: String,
    /// Only where the question belongs to a conversation.
    session_id: Option<String>,
    #[schema(value_type = Option<shapes::Mode>)]
    mode: Option<Mode>,
    /// As on the routes of ADR 0007.
    #[serde(default)]
    reasoning_effort: Effort,
    /// The same; `mode` can only add to it.
    #[serde(default)]
    review_enabled: bool,
}

/// Answers a question on the wire of our own that `Accept` chooses.
#[utoipa::path(
    post,
    path = "/v1/turns",
    tag = "questions",
    operation_id = "turn",
    request_body(content = Message, example = json!({ "prompt": "What is the commit rule?" })),
    responses(
        (status = 200, description = "The turn, live", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content(
                (String = "text/plain", example = json!(example(&Framed::default()))),
                (String = "text/event-stream", example = json!(example(&Sse::default()))),
                (String = "application/x-ndjson", example = json!(example(&Ndjson::default()))),
            )),
        (status = 406, description = "`Accept` takes none of the three", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let wire = negotiate(request.headers(), wires())?;
    let message: Message = turn::read(&app, Holds::Question, request).await?;
    let memory = match message.session_id {
        Some(id) => Memory::Session(turn::session_id(Some(id))?),
        None => Memory::Nothing,
    };
    let asked = Asked {
        effort: message.reasoning_effort,
        review: message.review_enabled,
        ..Asked::new(message.prompt).memory(memory)
    }
    .mode(message.mode);
    let turn = turn::start(&app, asked).await?;
    Ok(turn.respond(wire).map(Body::new))
}

/// The server's own order of preference: what `curl` without a header gets comes first.
fn wires() -> [AnyWire; 3] {
    [
        Box::new(Framed::default()),
        Box::new(Sse::default()),
        Box::new(Ndjson::default()),
    ]
}
