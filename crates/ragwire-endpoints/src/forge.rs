//! `POST /api/query/stream`: the route of Forge (see docs/protocols.md).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::Forge;
use ragwire::event::Mode;
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
use ragwire::Question;

/// Returns the route of Forge.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("forge", "Forge.")).routes(routes!(stream))
}

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
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let body: ForgeQuery = request::read_question(&shared, BodyKind::Question, request).await?;
    let mut question = Question::new(body.query);
    question.mode = body.mode;
    // Forge's page expects the sources after the answer.
    question.options.sources_last = true;
    // Forge's page reconnects by the turn's id.
    let turn = start::start(&shared, &owner, Reader::Returning, question).await?;
    Ok(turn.respond(Forge::default()).map(Body::new))
}
