//! `POST /api/query/stream`: the route of Forge.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::Forge;
use ragwire::event::Mode;
use serde::Deserialize;

use super::refusal::Refusal;
use super::turn::{self, Asked, Holds};
use crate::app::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    query: String,
    mode: Option<Mode>,
}

/// `POST /api/query/stream`
pub(super) async fn stream(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let query: Query = turn::read(&app, Holds::Question, request).await?;
    let turn = turn::start(&app, Asked::new(query.query).mode(query.mode)).await?;
    Ok(turn.respond(Forge::default()).map(Body::new))
}
