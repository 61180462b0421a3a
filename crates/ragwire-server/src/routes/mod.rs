//! The routes.
//!
//! | route | file |
//! |---|---|
//! | those of the protocols | the package `ragwire-endpoints` |
//! | `/v1/documents…` | `documents.rs`, `list.rs`, `original.rs` |
//! | `GET /`, `/client/…` | `page.rs` |
//! | `GET /openapi.json` | `openapi.rs`, with the schemas of `schemas.rs` and the API keys of `security.rs` |
//! | `GET /healthz`, `/readyz`, `/livez`, `/metrics` | `probes.rs`, with the routes of a server that is starting |

mod documents;
mod list;
mod openapi;
mod original;
mod page;
mod probes;
mod schemas;
mod security;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use http::StatusCode;
use ragwire_endpoints::Refusal;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::guard::{Guard, guard};
use crate::keys;
use openapi::Document;
pub use probes::starting;

/// Returns every route of the server itself. The attributes of its handler are also its entry in
/// the OpenAPI document.
fn table() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(list::list, documents::upload))
        .routes(routes!(documents::remove))
        .routes(routes!(documents::chunk))
        .routes(routes!(original::get))
        .routes(routes!(probes::health))
        .routes(routes!(probes::ready))
        .routes(routes!(probes::live))
        .routes(routes!(probes::figures))
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
        .layer(Extension(Document::new(
            document,
            app.endpoints.openapi(),
            app.keys.is_some(),
        )))
        .method_not_allowed_fallback(async || {
            Refusal::permanent(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not support that method.",
            )
        })
        .fallback(async || Refusal::permanent(StatusCode::NOT_FOUND, "not_found", "There is no such route."));
    let routes = match &app.keys {
        Some(keys) => routes.layer(axum::middleware::from_fn_with_state(
            Arc::clone(keys),
            keys::check,
        )),
        None => routes,
    };
    let routes = match guarding.cors() {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(axum::middleware::from_fn_with_state(guarding, guard))
}
