//! What supervisors ask, and the routes of a server that cannot answer questions yet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use ragwire_endpoints::Refusal;
use serde::Serialize;
use utoipa::ToSchema;

use super::page;
use crate::app::App;
use crate::guard::{Guard, guard};
use crate::metrics;
use crate::readiness::{Readiness, Report};
use crate::settings::Settings;

/// The `retry-after` of a question to a server that is starting: it reads some hundred documents in
/// this time.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a full disk means.
const DISK_FULL: &str = "The disk of --data is full: uploads are refused, and conversations and answers are not \
                         stored. Remove documents or make room; no restart is needed.";

/// The state of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, `degraded`, `starting` or `shutting_down`.
    status: &'static str,
    documents: usize,
    chunks: usize,
    active_turns: usize,
    /// The model that writes the answers; `null` if they quote the documents, or if an orchestrator
    /// outside of this process answers.
    #[schema(required = true)]
    model: Option<String>,
    /// What the server still reads or indexes, or what does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    message: Option<String>,
}

impl Health {
    fn respond(self) -> Response {
        let status = match self.status {
            "ok" | "degraded" => StatusCode::OK,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, Json(self)).into_response()
    }
}

/// Returns 200 while the server accepts questions, and 503 before and while it shuts down.
///
/// A full server is healthy, and so is one that answers from its documents while it reads more. With
/// a full disk the status is `degraded`: questions are answered, nothing is stored.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "server",
    operation_id = "health",
    responses(
        (status = 200, description = "The server accepts questions", body = Health),
        (status = 503, description = "The server is starting or shutting down", body = Health),
    ),
)]
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let is_disk_full = app.is_disk_full().await;
    let reading = (!app.readiness.is_ready()).then(|| app.readiness.stage().to_string());
    Health {
        status: if app.is_shutting_down() {
            "shutting_down"
        } else if is_disk_full {
            "degraded"
        } else {
            "ok"
        },
        documents: app.library.as_ref().map_or(0, |library| library.document_count()),
        chunks: app.library.as_ref().map_or(0, |library| library.chunk_count()),
        active_turns: app.turns.active(),
        model: app.model.clone(),
        message: if is_disk_full {
            Some(DISK_FULL.to_owned())
        } else {
            reading
        },
    }
    .respond()
}

/// Returns 200 once all documents are read and indexed, and 503 before, while the server shuts down,
/// and while Redis, the store or the orchestrator cannot be reached.
///
/// A model server that cannot be reached, or a full disk, does not make the server unready, because
/// questions are answered without it; `checks` reports it.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "server",
    operation_id = "ready",
    responses(
        (status = 200, description = "Everything is read and indexed", body = Report),
        (status = 503, description = "What is being read, and how far", body = Report),
    ),
)]
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut report = app.readiness.report(app.is_shutting_down());
    let mut checks = app.dependencies.check(&app.journal).await;
    if report.status == "ready" && !app.dependencies.suffice(&checks) {
        report.status = "unavailable";
        "A server that this one needs cannot be reached".clone_into(&mut report.message);
    }
    checks.insert("disk", if app.is_disk_full().await { "full" } else { "ok" });
    report.checks = checks;
    respond(report)
}

fn respond(report: Report) -> Response {
    let status = match report.status {
        "ready" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(report)).into_response()
}

/// Returns 200 as long as the process serves requests.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "server",
    operation_id = "live",
    responses((status = 200, description = "The process serves requests", body = Live)),
)]
pub(super) async fn live() -> Json<Live> {
    Json(Live { status: "ok" })
}

/// Returns the figures of the server for Prometheus, as `docs/metrics.md` lists them.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    operation_id = "metrics",
    responses((status = 200, description = "The figures", body = String, content_type = "application/openmetrics-text")),
)]
pub(super) async fn figures(State(app): State<Arc<App>>) -> Response {
    let content_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
    ([(CONTENT_TYPE, content_type)], app.metrics.report(&app).await).into_response()
}

/// The answer of a process that runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Live {
    /// `ok`.
    status: &'static str,
}

/// Returns the routes of a server that cannot answer questions yet: the page, the probes, and a
/// refusal for everything else.
pub fn starting(settings: &Settings, address: SocketAddr, readiness: &Readiness) -> Router {
    let guarding = Arc::new(Guard::new(settings, address));
    let (page, _) = page::routes().split_for_parts();
    let routes = page
        .route("/livez", get(live))
        .route(
            "/readyz",
            get(async |State(readiness): State<Readiness>| respond(readiness.report(false))),
        )
        .route("/healthz", get(starting_health))
        .fallback(refuse)
        .with_state(readiness.clone());
    let routes = match guarding.cors() {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(axum::middleware::from_fn_with_state(guarding, guard))
}

async fn starting_health(State(readiness): State<Readiness>) -> Response {
    Health {
        status: "starting",
        documents: 0,
        chunks: 0,
        active_turns: 0,
        model: None,
        message: Some(readiness.stage().to_string()),
    }
    .respond()
}

async fn refuse(State(readiness): State<Readiness>) -> Refusal {
    let message = format!("The server is starting. {}.", readiness.stage());
    Refusal::temporary(StatusCode::SERVICE_UNAVAILABLE, "starting", message).retry_after(RETRY_AFTER)
}
