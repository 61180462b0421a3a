//! TrustGraph's WebSocket, and its JSON route (see docs/protocols.md).
//!
//! Each service has its own pipeline. A request contains `query`, `streaming` and limits:
//! `entity-limit`, `triple-limit`, `max-subgraph-size`, `max-path-length`, `edge-score-limit`,
//! `edge-limit` and `max-reranker-input`, or `doc-limit` and `fetch-limit`. Other members that
//! TrustGraph's clients send (`collection`, `user`, `workspace`) have no counterpart here and are
//! ignored, like the name of the flow. Over HTTP the answer comes in one piece even with
//! `streaming`, as in TrustGraph.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::http::gateway::{Call, Gateway, GatewayBuilder, GatewayLimits, GatewayTimeouts, ServiceKind};
use ragwire::orchestrator::{DocumentLimits, FILTER, GraphLimits, LimitError, Service};
use ragwire::{End, Failure, FailureKind, Question, Rejected, TrustGraph, Turn};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::openapi::schemas;
use crate::openapi::{self, BodyRefusals, HandshakeRefusals};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{self, Reader};
use crate::upgrade::SocketSlot;

/// Returns the routes of TrustGraph.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("trustgraph", "TrustGraph."))
        .routes(routes!(socket))
        .routes(routes!(whole))
}

/// The names of the services, in the route and on the socket.
const GRAPH_RAG: &str = "graph-rag";
const DOCUMENT_RAG: &str = "document-rag";

/// The error type for a mistake in the request, over HTTP.
const REQUEST_ERROR: &str = "request-error";

/// The request of a service.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct QueryRequest {
    /// The question.
    pub query: String,
    /// `streaming`, the limits, and ignored members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl QueryRequest {
    /// Returns the question to a service, with the limits of the request.
    ///
    /// # Errors
    ///
    /// 422 if a limit is out of bounds; the message names it.
    pub fn question(self, kind: ServiceKind) -> Result<Question, Refusal> {
        let service = service(kind, &self.others).map_err(request::invalid)?;
        let mut question = Question::new(self.query);
        question.options.service = service;
        request::set_filter(&mut question, self.others.get(FILTER).cloned());
        Ok(question)
    }
}

/// Returns the service with the limits of the request, or a message that names the invalid limit.
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

/// Creates the gateway behind the socket.
pub(crate) fn gateway(shared: &Arc<Shared>) -> Gateway {
    let service = |kind| {
        let shared = Arc::clone(shared);
        move |call: Call| {
            let shared = Arc::clone(&shared);
            async move { answer(&shared, kind, &call).await }
        }
    };
    let max_message = request::max_bytes(shared, BodyKind::Question);
    let mut timeouts = GatewayTimeouts::default();
    if let Some(write) = shared.timeouts.write_stall {
        timeouts = timeouts.write(write);
    }
    let builder = Gateway::builder()
        .service(GRAPH_RAG, ServiceKind::GraphRag, service(ServiceKind::GraphRag))
        .service(
            DOCUMENT_RAG,
            ServiceKind::DocumentRag,
            service(ServiceKind::DocumentRag),
        )
        .limits(
            GatewayLimits::default()
                .max_sockets(shared.limits.max_sockets)
                .max_message_bytes(max_message)
                .max_frame_bytes(max_message),
        )
        .timeouts(timeouts);
    let builder = match shared.origins.allowed() {
        Some(origins) => origins.iter().fold(builder, GatewayBuilder::allow_origin),
        None => builder.allow_any_origin(),
    };
    builder.build()
}

async fn answer(shared: &Shared, kind: ServiceKind, call: &Call) -> Result<Turn, Rejected> {
    let started = match service(kind, &call.request) {
        // The envelope has no member for a turn's id, so the turn cannot be resumed; closing the
        // socket cancels all its questions.
        Ok(service) => {
            let mut question = Question::new(call.query());
            question.options.service = service;
            request::set_filter(&mut question, call.request.get(FILTER).cloned());
            // The owner of the socket.
            let owner = call.extensions.get::<Owner>().cloned();
            let owner = owner.unwrap_or_else(Owner::anonymous);
            start::start(shared, &owner, Reader::Whole, question).await
        }
        Err(message) => Err(request::invalid(message)),
    };
    started.map_err(|refusal| {
        refusal.log();
        let mut rejected = Rejected::new(refusal.failure);
        if refusal.status.is_client_error() && !has_nothing(&rejected.failure.kind) {
            // A mistake in the request is the gateway's error, not the service's.
            rejected.failure.kind = Gateway::ERROR.into();
        }
        rejected.id = refusal.request_id;
        rejected
    })
}

/// Opens TrustGraph's WebSocket, which carries many questions at once.
#[utoipa::path(
    get,
    path = "/api/v1/socket",
    tag = "trustgraph",
    operation_id = "trustGraphSocket",
    responses(
        (status = 101, description = "A WebSocket with TrustGraph's envelope, as PROTOCOL.md describes it"),
        HandshakeRefusals,
    ),
)]
pub(crate) async fn socket(
    Extension(gateway): Extension<Gateway>,
    owner: Result<Owner, Refusal>,
    mut request: Request,
) -> Response {
    match owner {
        Ok(owner) => request.extensions_mut().insert(owner),
        Err(refusal) => return refusal.into_response(),
    };
    // Removed, because the socket keeps the extensions, and the slot would keep the socket.
    let Some(slot) = request.extensions_mut().remove::<SocketSlot>() else {
        return gateway.upgrade(&mut request).map(Body::new);
    };
    let response = match gateway.accept(&mut request) {
        Ok((response, socket)) => {
            slot.hand_over(socket);
            response
        }
        Err(refused) => refused,
    };
    response.map(Body::new)
}

/// Answers a TrustGraph question in one piece.
///
/// A failed turn and a limit that is out of bounds are reported with status 200, because
/// TrustGraph's clients read no other. Other refusals have their own status.
#[utoipa::path(
    post,
    path = "/api/v1/flow/{flow}/service/{service}",
    tag = "trustgraph",
    operation_id = "trustGraph",
    params(
        ("flow" = String, Path, description = "Ignored: there is only one flow"),
        ("service" = String, Path, description = "`graph-rag` or `document-rag`"),
    ),
    request_body(content = schemas::TrustGraphQuery, example = json!({ "query": "What is the commit rule?", "streaming": false })),
    responses(
        (status = 200, description = "The answer, or in `error` the reason why there is none", body = schemas::TrustGraphResponse),
        (status = 404, description = "The service does not exist", body = schemas::Refused),
        (status = 503, description = "The server is full or shutting down; `retry-after` says when to retry.", body = schemas::Refused,
            headers(("retry-after" = i64, description = "In seconds"))),
        BodyRefusals,
    ),
)]
pub(crate) async fn whole(
    State(shared): State<Arc<Shared>>,
    owner: Owner,
    Path((_flow, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    // The id is not sent: the body is only the `response`.
    let (wire, kind) = match name.as_str() {
        GRAPH_RAG => (TrustGraph::graph_rag(""), ServiceKind::GraphRag),
        DOCUMENT_RAG => (TrustGraph::document_rag(""), ServiceKind::DocumentRag),
        _ => {
            return Err(Refusal::permanent(
                StatusCode::NOT_FOUND,
                "unknown_service",
                "Unknown service. The services are graph-rag and document-rag.",
            ));
        }
    };
    let query: QueryRequest = request::read_question(&shared, BodyKind::Question, request).await?;
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
    let mut question = Question::new(query.query);
    request::set_filter(&mut question, query.others.get(FILTER).cloned());
    match service(kind, &query.others) {
        Ok(service) => question.options.service = service,
        Err(message) => return Ok(refused(message)),
    }
    let response = match start::start(&shared, &owner, Reader::Whole, question).await {
        Ok(turn) => match turn.collect().await {
            Ok(collected) => wire.response(&collected.events, &collected.text, &collected.end),
            Err(error) => return Err(Refusal::internal(&error)),
        },
        Err(refusal) if is_failed_turn(&refusal) => {
            refusal.log();
            wire.response([], "", &End::failed(refusal.failure))
        }
        Err(refusal) => return Err(refusal),
    };
    Ok(Json(response).into_response())
}

/// Returns `true` if a turn started and failed, rather than being refused.
fn is_failed_turn(refusal: &Refusal) -> bool {
    let is_refused = matches!(
        refusal.failure.kind,
        FailureKind::Busy | FailureKind::ShuttingDown | FailureKind::QueueTimeout
    );
    has_nothing(&refusal.failure.kind) || refusal.status.is_server_error() && !is_refused
}

/// Returns `true` if a service has nothing to answer from, which is its failure, although the status is
/// 404 elsewhere.
fn has_nothing(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::NoDocuments | FailureKind::NoGraph)
}
