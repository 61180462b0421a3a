//! `POST /api/query/stream`: the route of Forge (see docs/protocols.md).
//!
//! Forge's page reads the body whatever the status is. So its response begins at once, and a failure
//! is an `error` event and `done`, also one that happens before the first event. A refused request
//! has the same body, with its own status.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use ragwire::event::Mode;
use ragwire::wire::Wire;
use ragwire::{Commit, End, Forge, Question};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{self, CallerOr};
use crate::openapi::{self, ForgeRefusals, example, requests, schemas};
use crate::refusal::{REQUEST_ID, Refusal};
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{Reader, TurnRequest};

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
    #[schema(min_length = 1, pattern = r"[^\s\u0085]")]
    pub query: String,
    /// How to answer.
    #[schema(value_type = Option<schemas::Mode>)]
    pub mode: Option<Mode>,
    /// Which documents to search, as the orchestrator defines it.
    #[schema(value_type = Option<requests::Filter>)]
    pub filter: Option<Value>,
}

impl QueryRequest {
    /// Returns the question.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.query);
        question.mode = self.mode;
        request::set_filter(&mut question, self.filter);
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
        ForgeRefusals,
    ),
)]
pub(crate) async fn stream(
    caller: CallerOr<ForgeRefusal>,
    request: Request,
) -> Result<Response, ForgeRefusal> {
    let body: QueryRequest = caller.read_question(BodyKind::Question, request).await?;
    let turn_request = TurnRequest {
        commit: Commit::deadline(Duration::ZERO),
        ..TurnRequest::new(body.question())
    };
    // Forge's page reconnects by the turn's id.
    let turn = caller.start(Reader::Returning, turn_request).await?;
    Ok(caller::stream(turn, Forge::default()))
}

/// A refusal as Forge writes failures: `error`, then `done`.
#[derive(Debug)]
pub(crate) struct ForgeRefusal(Refusal);

impl From<Refusal> for ForgeRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for ForgeRefusal {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        let id = refusal.log();
        let wire = Forge::default();
        let (mut encoder, mut body) = (wire.encoder(), BytesMut::new());
        let end = End::failed(refusal.failure.clone());
        if let Err(error) = encoder.end(&end, &mut body) {
            // A failure of this crate always fits; the status still says what happened.
            tracing::error!(%error, "cannot write a refusal in Forge's form");
        }
        let mut response = (refusal.status, body.freeze()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        refusal.add_retry_after(headers);
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}
