//! The routes.
//!
//! | route | file |
//! |---|---|
//! | those of the protocols | the package `ragwire-endpoints` |
//! | `/v1/documents…` | `documents.rs` |
//! | `GET /`, `/client/…` | `page.rs` |
//! | `GET /openapi.json` | `openapi.rs`, with the schemas of `schemas.rs` |
//! | `GET /healthz` | here |

mod documents;
mod openapi;
mod page;
mod schemas;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire_endpoints::Refusal;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::guard::{Guard, guard};
use openapi::Document;

/// Returns every route of the server itself. The attributes of its handler are also its entry in
/// the OpenAPI document.
fn table() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(documents::list, documents::upload))
        .routes(routes!(documents::remove))
        .routes(routes!(documents::chunk))
        .routes(routes!(health))
        .routes(routes!(openapi::document))
        .merge(page::routes())
}

/// Returns all routes behind the guard. `address` is the address listened on.
pub fn router(app: &Arc<App>, address: SocketAddr) -> Router {
    let guarding = Arc::new(Guard::new(&app.settings, address));
    let (routes, document) = table().split_for_parts();
    let routes = routes
        .with_state(Arc::clone(app))
        .merge(app.endpoints.router())
        .layer(Extension(Document::new(document, app.endpoints.openapi())))
        .method_not_allowed_fallback(async || {
            Refusal::permanent(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not support that method.",
            )
        })
        .fallback(async || Refusal::permanent(StatusCode::NOT_FOUND, "not_found", "There is no such route."));
    let routes = match guarding.cors() {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(axum::middleware::from_fn_with_state(guarding, guard))
}

/// The state of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok` or `shutting_down`.
    status: &'static str,
    documents: usize,
    chunks: usize,
    active_turns: usize,
}

/// Returns 200 while the server accepts questions and 503 while it shuts down.
///
/// A full server is healthy.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "server",
    operation_id = "health",
    responses(
        (status = 200, description = "The server accepts questions", body = Health),
        (status = 503, description = "The server is shutting down", body = Health),
    ),
)]
async fn health(State(app): State<Arc<App>>) -> Response {
    let is_shutting_down = app.is_shutting_down();
    let status = if is_shutting_down {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let health = Health {
        status: if is_shutting_down { "shutting_down" } else { "ok" },
        documents: app.library.as_ref().map_or(0, |library| library.list().len()),
        chunks: app.library.as_ref().map_or(0, |library| library.chunk_count()),
        active_turns: app.turns.active(),
    };
    (status, axum::Json(health)).into_response()
}
