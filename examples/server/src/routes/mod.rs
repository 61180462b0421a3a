//! The routes, and what they have in common.
//!
//! | route | file |
//! |---|---|
//! | `POST /v1/rag/sessions/{session_id}/messages/stream` and its JSON twin | `chat.rs` |
//! | `POST /v1/turns` | `turns.rs` |
//! | `POST /api/query/stream` | `forge.rs` |
//! | `POST /api/chat` and what it resumes | `ai_sdk.rs` |
//! | `POST /ag-ui` | `ag_ui.rs` |
//! | `POST /v1/chat/completions`, `/v1/models…` | `openai.rs` |
//! | `/v1/sessions…`, `GET /v1/generation/status` | `session_chat.rs` |
//! | `GET /api/v1/socket`, `POST /api/v1/flow/{flow}/service/{service}` | `trustgraph.rs` |
//! | `/eve/v1/…` | `eve.rs` |
//! | `/v1/documents…` | `documents.rs` |
//! | `GET /`, `/client/…` | `page.rs` |
//! | `GET /healthz` | here |
//!
//! Every route that answers a question goes through `turn.rs`; those whose clients send all messages along read them with
//! `messages.rs`.

mod ag_ui;
mod ai_sdk;
mod body;
mod chat;
mod documents;
mod eve;
mod forge;
mod messages;
mod openai;
mod page;
pub mod refusal;
mod session_chat;
pub mod trustgraph;
mod turn;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::StatusCode;
use ragwire::Gateway;

use crate::app::App;
use crate::guard::{Guard, guard};
use refusal::Refusal;

/// All routes, behind the guard. `address` is the one listened on; `gateway` serves the sockets.
pub fn router(app: &Arc<App>, gateway: &Gateway, address: SocketAddr) -> Router {
    let guarding = Arc::new(Guard::new(&app.settings, address));
    let routes = Router::new()
        .route(
            "/v1/rag/sessions/{session_id}/messages/stream",
            post(chat::stream),
        )
        .route("/v1/rag/sessions/{session_id}/messages", post(chat::whole))
        .route("/v1/turns", post(turns::stream))
        .route("/api/query/stream", post(forge::stream))
        .route("/api/chat", post(ai_sdk::chat))
        .route("/api/chat/{chat_id}/stream", get(ai_sdk::resume))
        .route("/ag-ui", post(ag_ui::run))
        .route("/v1/chat/completions", post(openai::completions))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{model}", get(openai::model))
        .route("/v1/sessions", post(session_chat::begin))
        .route("/v1/sessions/{session_id}", get(session_chat::show))
        .route(
            "/v1/sessions/{session_id}/chat/stream",
            post(session_chat::stream),
        )
        .route("/v1/sessions/{session_id}/chat", post(session_chat::whole))
        .route("/v1/generation/status", get(session_chat::status))
        .route(
            "/api/v1/socket",
            get(trustgraph::socket).layer(Extension(gateway.clone())),
        )
        .route("/api/v1/flow/{flow}/service/{service}", post(trustgraph::whole))
        .route("/eve/v1/health", get(eve::health))
        .route("/eve/v1/info", get(eve::info))
        .route("/eve/v1/session", post(eve::create))
        .route("/eve/v1/session/{session_id}", post(eve::go_on))
        .route("/eve/v1/session/{session_id}/stream", get(eve::stream))
        .route("/v1/documents", get(documents::list).post(documents::upload))
        .route("/v1/documents/{document_id}", delete(documents::remove))
        .route(
            "/v1/documents/{document_id}/chunks/{chunk_id}",
            get(documents::chunk),
        )
        .route("/healthz", get(health))
        .merge(page::routes())
        .method_not_allowed_fallback(async || {
            Refusal::permanent(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not take that method.",
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

/// 200 while the server takes questions, 503 while it goes down. A full server is healthy.
async fn health(State(app): State<Arc<App>>) -> Response {
    let closed = app
        .turns
        .check()
        .is_err_and(|rejected| rejected.failure.code != ragwire::Failure::BUSY);
    let status = if closed {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let word = if closed { "shutting_down" } else { "ok" };
    (
        status,
        axum::Json(serde_json::json!({
            "status": word,
            "documents": app.library.list().len(),
            "chunks": app.library.chunk_count(),
            "active_turns": app.turns.active(),
        })),
    )
        .into_response()
}
