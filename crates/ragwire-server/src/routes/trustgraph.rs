//! TrustGraph's two ways to ask: its WebSocket, and one JSON answer over HTTP.
//!
//! Each service has a pipeline of its own. Of a request they read `query`, `streaming` and their limits: `entity-limit`, `triple-limit`,
//! `max-subgraph-size`, `max-path-length`, `edge-score-limit`, `edge-limit` and `max-reranker-input`, or `doc-limit` and `fetch-limit`. What
//! else TrustGraph's clients send (`collection`, `user`, `workspace`) has no counterpart here and is passed over, as is the flow's name.
//! Over HTTP the answer is one piece, with `streaming` as without it, as with TrustGraph.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::http::gateway::{Call, Gateway, GatewayLimits, GatewayTimeouts, ServiceKind};
use ragwire::{End, Failure, FailureKind, Rejected, TrustGraph, Turn};
use ragwire_rag::graph::{DocumentLimits, GraphLimits, LimitError};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::openapi::{BodyRefusals, HandshakeRefusals};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Asked, Holds, Reader};
use crate::app::App;
use crate::orchestrator::Service;
use crate::upgrade::Upgrade;

/// The names of the services, in the route as on the socket.
const GRAPH_RAG: &str = "graph-rag";
const DOCUMENT_RAG: &str = "document-rag";

/// The type of the error that a request of its own fault gets over HTTP.
const REQUEST_ERROR: &str = "request-error";

/// What is read of a request.
#[derive(Debug, Deserialize)]
struct Query {
    query: String,
    /// `streaming`, the limits, and what is passed over.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The service that a request is for, with its limits, or what is wrong with them in words.
fn service(kind: ServiceKind, request: &Map<String, Value>) -> Result<Service, String> {
    let (mut graph, mut documents) = (GraphLimits::default(), DocumentLimits::default());
    match kind {
        ServiceKind::DocumentRag => {
            let set = |name: &str, value| documents.set(name, value).map(|_| ());
            read_limits(request, DocumentLimits::NAMES, DocumentLimits::out_of_bounds, set)?;
            Ok(Service::DocumentRag(documents))
        }
        _ => {
            let set = |name: &str, value| graph.set(name, value).map(|_| ());
            read_limits(request, GraphLimits::NAMES, GraphLimits::out_of_bounds, set)?;
            Ok(Service::GraphRag(graph))
        }
    }
}

fn read_limits(
    request: &Map<String, Value>,
    names: &[&str],
    otherwise: impl Fn(&str) -> Option<LimitError>,
    mut set: impl FnMut(&str, u64) -> Result<(), LimitError>,
) -> Result<(), String> {
    for name in names {
        let read = match (request.get(*name), otherwise(name)) {
            (None | Some(Value::Null), _) => Ok(()),
            (Some(value), bad) => match (value.as_u64(), bad) {
                (Some(number), _) => set(name, number),
                (None, Some(bad)) => Err(bad),
                (None, None) => Ok(()),
            },
        };
        read.map_err(
            |LimitError {
                 name, least, most, ..
             }| { format!("`{name}` must be a whole number from {least} to {most}.") },
        )?;
    }
    Ok(())
}

/// The gateway behind the socket.
pub fn gateway(app: &Arc<App>) -> Gateway {
    let service = |kind| {
        let app = Arc::clone(app);
        move |call: Call| {
            let app = Arc::clone(&app);
            async move { answer(&app, kind, &call).await }
        }
    };
    let max_message = start::max_bytes(app, Holds::Question);
    Gateway::builder()
        .service(GRAPH_RAG, ServiceKind::GraphRag, service(ServiceKind::GraphRag))
        .service(
            DOCUMENT_RAG,
            ServiceKind::DocumentRag,
            service(ServiceKind::DocumentRag),
        )
        // The guard has looked, with what the settings allow.
        .allow_any_origin()
        .limits(
            GatewayLimits::default()
                .max_sockets(*app.settings.max_connections)
                .max_message_bytes(max_message)
                .max_frame_bytes(max_message),
        )
        .timeouts(GatewayTimeouts::default().write(*app.settings.write_timeout))
        .build()
}

async fn answer(app: &App, kind: ServiceKind, call: &Call) -> Result<Turn, Rejected> {
    let started = match service(kind, &call.request) {
        // The envelope has no place for a turn's id, so nobody could come back; a socket that closes cancels all that it asked.
        Ok(service) => {
            let asked = Asked::new(call.query()).service(service);
            start::start(app, &Owner::nobody(), Reader::Whole, asked).await
        }
        Err(message) => Err(start::invalid(message)),
    };
    started.map_err(|refusal| {
        refusal.log();
        let mut rejected = Rejected::new(refusal.failure);
        if refusal.status.is_client_error() {
            // The request's own fault, which is not the service's.
            rejected.failure.kind = Gateway::ERROR.into();
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
/// A turn that fails is told with status 200, since TrustGraph's clients read no other, as is a limit out of its bounds. What else is
/// refused before it is tried has its status.
#[utoipa::path(
    post,
    path = "/api/v1/flow/{flow}/service/{service}",
    tag = "trustgraph",
    operation_id = "trustGraph",
    params(
        ("flow" = String, Path, description = "Passed over: there is one flow"),
        ("service" = String, Path, description = "`graph-rag` or `document-rag`"),
    ),
    request_body(content = shapes::TrustGraphQuery, example = json!({ "query": "What is the commit rule?", "streaming": false })),
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
    Path((_flow, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    // Nobody sees the id: only the `response` is sent.
    let (wire, kind) = match name.as_str() {
        GRAPH_RAG => (TrustGraph::graph_rag(""), ServiceKind::GraphRag),
        DOCUMENT_RAG => (TrustGraph::document_rag(""), ServiceKind::DocumentRag),
        _ => {
            return Err(Refusal::permanent(
                StatusCode::NOT_FOUND,
                "unknown_service",
                "There is no such service. There are graph-rag and document-rag.",
            ));
        }
    };
    let query: Query = start::read(&app, Holds::Question, request).await?;
    let refused = |message: String| {
        let failure = Failure::new(REQUEST_ERROR, message).permanent();
        Json(wire.response([], "", &End::failed(failure))).into_response()
    };
    if !matches!(
        query.others.get("streaming"),
        None | Some(Value::Null | Value::Bool(_))
    ) {
        return Ok(refused("`streaming` is not a boolean.".into()));
    }
    let asked = match service(kind, &query.others) {
        Ok(service) => Asked::new(query.query).service(service),
        Err(message) => return Ok(refused(message)),
    };
    let response = match start::start(&app, &owner, Reader::Whole, asked).await {
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
    let not_taken = matches!(
        refusal.failure.kind,
        FailureKind::Busy | FailureKind::ShuttingDown | FailureKind::QueueTimeout
    );
    refusal.status.is_server_error() && !not_taken
}
