//! `POST /api/query/stream`: the route of Forge (see docs/protocols.md).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::Forge;
use ragwire::event::Mode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::request::{self, BodyKind};
use super::schemas;
use super::start::{self, Reader};
use crate::app::App;
use crate::orchestrator::Question;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ForgeQuery {
    /// The question.
    query: String,
    #[schema(value_type = Option<schemas::Mode>)]
    mode: Option<Mode>,
}

/// Answers a question on Forge's wire.
#[utoipa::path(
    post,
    path = "/api/query/stream",
    tag = "forge",
    operation_id = "forge",
    request_body(content = ForgeQuery, example = json!({ "query": "What is the commit rule?", "mode": "agentic" })),
    responses(
        (status = 200, description = "Forge's events", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/event-stream", example = json!(example(&Forge::default()))))),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let body: ForgeQuery = request::read_question(&app, BodyKind::Question, request).await?;
    let question = Question {
        mode: body.mode,
        // Forge's page expects the sources after the answer.
        sources_last: true,
        ..Question::new(body.query)
    };
    // Forge's page reconnects by the turn's id.
    let turn = start::start(&app, &owner, Reader::Returning, question).await?;
    Ok(turn.respond(Forge::default()).map(Body::new))
}
