//! The routes.
//!
//! | route | file |
//! |---|---|
//! | `POST /v1/rag/sessions/{session_id}/messages/stream` and its JSON twin | `chat.rs` |
//! | `POST /v1/turns` | `native.rs` |
//! | `GET /v1/turns/{turn_id}/stream`, `POST …/stop` | `resume.rs`, with the index from `cursor.rs` |
//! | `POST /v1/turns/{turn_id}/answer` | `answers.rs` |
//! | `POST /api/query/stream` | `forge.rs` |
//! | `POST /api/chat`, with the routes to resume and to stop | `ai_sdk.rs` |
//! | `POST /ag-ui` | `ag_ui.rs` |
//! | `POST /v1/chat/completions`, `/v1/models…` | `openai.rs` |
//! | `/v1/sessions…`, `GET /v1/generation/status` | `session_chat.rs`, with `session.rs` |
//! | `GET /api/v1/socket`, `POST /api/v1/flow/{flow}/service/{service}` | `trustgraph.rs` |
//! | `/eve/v1/…` | `eve/` |
//! | `/v1/documents…` | `documents.rs` |
//! | `GET /`, `/client/…` | `page.rs` |
//! | `GET /openapi.json` | `openapi.rs`, with the schemas of `schemas.rs` |
//! | `GET /healthz` | here |
//!
//! `request.rs` and `body.rs` read requests, `owner.rs` determines their owner, `start.rs` starts
//! every turn, and `refusal.rs` holds all refusals. Routes whose clients send the whole
//! conversation parse it with `messages.rs`.

mod ag_ui;
mod ai_sdk;
mod answers;
mod body;
mod chat;
mod cursor;
mod documents;
mod eve;
mod forge;
mod lane;
mod messages;
mod native;
mod openai;
mod openapi;
mod owner;
mod page;
pub mod refusal;
mod request;
mod resume;
mod sample_schema;
mod schemas;
mod session;
mod session_chat;
mod start;
pub mod trustgraph;
mod wires;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::Gateway;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::guard::{Guard, guard};
use openapi::Document;
use refusal::Refusal;

/// Returns every route of the server. The attributes of its handler are also its entry in the
/// OpenAPI document.
fn table() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(chat::stream))
        .routes(routes!(chat::whole))
        .routes(routes!(native::stream))
        .routes(routes!(resume::stream))
        .routes(routes!(resume::stop))
        .routes(routes!(answers::answer))
        .routes(routes!(forge::stream))
        .routes(routes!(ai_sdk::chat))
        .routes(routes!(ai_sdk::resume))
        .routes(routes!(ai_sdk::stop))
        .routes(routes!(ag_ui::run))
        .routes(routes!(openai::completions))
        .routes(routes!(openai::models))
        .routes(routes!(openai::model))
        .routes(routes!(session_chat::create))
        .routes(routes!(session_chat::get))
        .routes(routes!(session_chat::stream))
        .routes(routes!(session_chat::whole))
        .routes(routes!(session_chat::status))
        .routes(routes!(trustgraph::socket))
        .routes(routes!(trustgraph::whole))
        .routes(routes!(eve::health))
        .routes(routes!(eve::info))
        .routes(routes!(eve::create))
        .routes(routes!(eve::continue_session))
        .routes(routes!(eve::stream))
        .routes(routes!(eve::cancel))
        .routes(routes!(documents::list, documents::upload))
        .routes(routes!(documents::remove))
        .routes(routes!(documents::chunk))
        .routes(routes!(health))
        .routes(routes!(openapi::document))
        .merge(page::routes())
}

/// Returns all routes behind the guard. `address` is the address listened on, and `gateway` serves
/// the WebSockets.
pub fn router(app: &Arc<App>, gateway: &Gateway, address: SocketAddr) -> Router {
    let guarding = Arc::new(Guard::new(&app.settings, address));
    let (routes, document) = table().split_for_parts();
    let routes = routes
        .layer(Extension(gateway.clone()))
        .layer(Extension(Document::new(document)))
        .method_not_allowed_fallback(async || {
            Refusal::permanent(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not support that method.",
            )
        })
        .fallback(async || Refusal::permanent(StatusCode::NOT_FOUND, "not_found", "There is no such route."))
        .with_state(Arc::clone(app));
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
        documents: app.library.list().len(),
        chunks: app.library.chunk_count(),
        active_turns: app.turns.active(),
    };
    (status, axum::Json(health)).into_response()
}
