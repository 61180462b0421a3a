//! TrustGraph's two ways to ask: its WebSocket, and one JSON answer over HTTP.
//!
//! Both services are the one pipeline of this server. Of a request it reads `query`, and on the socket `streaming`. What else TrustGraph's
//! clients send (`collection`, `workspace`, `entity-limit`, `triple-limit`, `max-subgraph-size`, `max-path-length`, `edge-score-limit`,
//! `edge-limit`, `max-reranker-input`, `doc-limit`, `fetch-limit`) has no counterpart here and is passed over, as is the flow's name.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::http::gateway::{Call, Gateway, GatewayLimits, GatewayTimeouts, ServiceKind};
use ragwire::{End, Failure, Rejected, TrustGraph, Turn};
use serde::Deserialize;
use utoipa::ToSchema;

use super::openapi::{BodyRefusals, HandshakeRefusals};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::turn::{self, Asked, Holds, Reader};
use crate::app::App;
use crate::serve::Upgrade;

/// The names of the services, in the route as on the socket.
const GRAPH_RAG: &str = "graph-rag";
const DOCUMENT_RAG: &str = "document-rag";

/// What is read of a request. Everything else that TrustGraph's clients send is passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TrustGraphQuery)]
struct Query {
    /// The question, in words.
    query: String,
}

/// The gateway behind the socket.
pub fn gateway(app: &Arc<App>) -> Gateway {
    let service = || {
        let app = Arc::clone(app);
        move |call: Call| {
            let app = Arc::clone(&app);
            async move { answer(&app, call.query()).await }
        }
    };
    let max_message = turn::max_bytes(app, Holds::Question);
    Gateway::builder()
        .service(GRAPH_RAG, ServiceKind::GraphRag, service())
        .service(DOCUMENT_RAG, ServiceKind::DocumentRag, service())
        // The guard has looked, with what the settings allow.
        .allow_any_origin()
        .limits(
            GatewayLimits::default()
                .max_sockets(app.settings.max_connections.0)
                .max_message_bytes(max_message)
                .max_frame_bytes(max_message),
        )
        .timeouts(GatewayTimeouts::default().write(app.settings.write_timeout.0))
        .build()
}

async fn answer(app: &App, query: &str) -> Result<Turn, Rejected> {
    // The envelope has no place for a turn's id, so nobody could come back; a socket that closes cancels all that it asked.
    let started = turn::start(app, &Owner::nobody(), Reader::Whole, Asked::new(query)).await;
    started.map_err(|refusal| {
        refusal.log();
        let mut rejected = Rejected::new(refusal.failure);
        if refusal.status.is_client_error() {
            // The request's own fault, which is not the service's.
            rejected.failure.code = Gateway::ERROR.into();
        }
        rejected.id = refusal.request_id;
        rejected
    })
}

/// Opens TrustGraph's WebSocket: many questions at once.
#[utoipa::path(
    get,
    path = "/api/v1/socket",
    tag = "trustgraph",
    operation_id = "trustGraphSocket",
    responses(
        (status = 101, description = "A WebSocket that speaks TrustGraph's envelope, as PROTOCOL.md describes it"),
        HandshakeRefusals,
    ),
)]
pub(super) async fn socket(
    Extension(gateway): Extension<Gateway>,
    Extension(upgrade): Extension<Upgrade>,
    owner: Result<Owner, Refusal>,
    mut request: Request,
) -> Response {
    if let Err(refusal) = owner {
        return refusal.into_response();
    }
    let response = match gateway.accept(&mut request) {
        Ok((response, socket)) => {
            upgrade.hand_over(socket);
            response
        }
        Err(refused) => refused,
    };
    response.map(Body::new)
}

/// Answers a question of TrustGraph's in one piece.
///
/// A turn that fails is told with status 200, since TrustGraph's clients read no other. What is refused before it is tried has its
/// status.
#[utoipa::path(
    post,
    path = "/api/v1/flow/{flow}/service/{service}",
    tag = "trustgraph",
    operation_id = "trustGraph",
    params(
        ("flow" = String, Path, description = "Passed over: there is one flow"),
        ("service" = String, Path, description = "`graph-rag` or `document-rag`"),
    ),
    request_body(content = Query, example = json!({ "query": "What is the commit rule?", "streaming": false })),
    responses(
        (status = 200, description = "The answer, or in `error` why there is none", body = shapes::TrustGraphResponse),
        (status = 404, description = "There is no such service", body = shapes::Refused),
        (status = 503, description = "The server is full or going down; `retry-after` says when to ask again.", body = shapes::Refused,
            headers(("retry-after" = i64, description = "In seconds"))),
        BodyRefusals,
    ),
)]
pub(super) async fn whole(
    State(app): State<Arc<App>>,
    owner: Owner,
    Path((_flow, service)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    // Nobody sees the id: only the `response` is sent.
    let wire = match service.as_str() {
        GRAPH_RAG => TrustGraph::graph_rag(""),
        DOCUMENT_RAG => TrustGraph::document_rag(""),
        _ => {
            return Err(Refusal::permanent(
                StatusCode::NOT_FOUND,
                "unknown_service",
                "There is no such service. There are graph-rag and document-rag.",
            ));
        }
    };
    let query: Query = turn::read(&app, Holds::Question, request).await?;
    let response = match turn::start(&app, &owner, Reader::Whole, Asked::new(query.query)).await {
        Ok(turn) => match turn.collect().await {
            Ok(collected) => wire.response(&collected.events, &collected.text, &collected.end),
            Err(error) => return Err(Refusal::internal(&error)),
        },
        Err(refusal) if has_failed(&refusal) => {
            refusal.log();
            wire.response([], "", &End::failed(refusal.failure))
        }
        Err(refusal) => return Err(refusal),
    };
    Ok(Json(response).into_response())
}

/// Whether there was a turn.
fn has_failed(refusal: &Refusal) -> bool {
    let not_taken =
        [Failure::BUSY, Failure::SHUTTING_DOWN, Failure::QUEUE_TIMEOUT].contains(&&*refusal.failure.code);
    refusal.status.is_server_error() && !not_taken
}
