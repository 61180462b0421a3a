//! `POST /api/query/stream`: the route of Forge (see docs/protocols.md).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::event::Mode;
use ragwire::{Forge, Question};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::openapi::schemas;
use crate::openapi::{self, TurnRefusals, example};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{self, Reader};

/// Returns the route of Forge.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("forge", "Forge.")).routes(routes!(stream))
}

/// The body of `POST /api/query/stream`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForgeQuery)]
#[non_exhaustive]
pub struct QueryRequest {
    /// The question.
    pub query: String,
    /// How to answer.
    #[schema(value_type = Option<schemas::Mode>)]
    pub mode: Option<Mode>,
}

impl QueryRequest {
    /// Returns the question.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.query);
        question.mode = self.mode;
        // Forge's page expects the sources after the answer.
        question.options.sources_last = true;
        question
    }
}

/// Answers a question on Forge's wire.
#[utoipa::path(
    post,
    path = "/api/query/stream",
    tag = "forge",
    operation_id = "forge",
    request_body(content = QueryRequest, example = json!({ "query": "What is the commit rule?", "mode": "agentic" })),
    responses(
        (status = 200, description = "Forge's events", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/event-stream", example = json!(example(&Forge::default()))))),
        TurnRefusals,
    ),
)]
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let body: QueryRequest = request::read_question(&shared, BodyKind::Question, request).await?;
    // Forge's page reconnects by the turn's id.
    let turn = start::start(&shared, &owner, Reader::Returning, body.question()).await?;
    Ok(turn.respond(Forge::default()).map(Body::new))
}
