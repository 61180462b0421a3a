//! `POST /api/query/stream`: the route of Forge.

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
use super::shapes;
use super::start::{self, Asked, Holds, Reader};
use crate::app::App;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForgeQuery)]
struct Query {
    /// The question, in words.
    query: String,
    #[schema(value_type = Option<shapes::Mode>)]
    mode: Option<Mode>,
}

/// Answers a question on Forge's wire.
#[utoipa::path(
    post,
    path = "/api/query/stream",
    tag = "forge",
    operation_id = "forge",
    request_body(content = Query, example = json!({ "query": "What is the commit rule?", "mode": "agentic" })),
    responses(
        (status = 200, description = "Forge's events", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content((String = "text/event-stream", example = json!(example(&Forge::default()))))),
        TurnRefusals,
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let query: Query = start::read(&app, Holds::Question, request).await?;
    let asked = Asked {
        // As its page expects them.
        sources_last: true,
        ..Asked::new(query.query).mode(query.mode)
    };
    // Its page reconnects, and does so by the turn's id.
    let turn = start::start(&app, &owner, Reader::Returning, asked).await?;
    Ok(turn.respond(Forge::default()).map(Body::new))
}
