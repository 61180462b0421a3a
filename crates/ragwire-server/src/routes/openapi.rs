//! `GET /openapi.json`: all routes, as OpenAPI 3.1. Those of the protocols come from
//! `ragwire-endpoints`.

use std::sync::{Arc, OnceLock};

use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use ragwire_endpoints::openapi::{default_refusal, set_filter};
use ragwire_rag::DocumentFilter;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;

use super::security;

/// The parts of the document that do not belong to a handler.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "ragwire-server",
        description = "Questions about your own documents, answered live, on the wire of each client. Without `--api-keys` there is no login: the \
                       server only accepts its own host names (421), and pages of another origin must not change \
                       anything (403).",
    ),
    tags(
        (name = "documents", description = "The documents that answers are based on."),
        (name = "server", description = "The server itself, and its page."),
    ),
)]
struct Base;

/// Returns the document without routes.
pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// The finished document, which is the same for all requests and serialized once.
#[derive(Clone)]
pub(super) struct Document(Arc<(OpenApi, OnceLock<Bytes>)>);

impl Document {
    /// Combines the document of the server's own routes with that of the endpoints.
    /// With `has_keys` requests need an API key.
    pub(super) fn new(own: OpenApi, endpoints: OpenApi, has_keys: bool) -> Self {
        let mut document = own.merge_from(endpoints);
        set_filter(&mut document, &DocumentFilter::json_schema());
        if has_keys {
            security::add_schemes(&mut document);
        }
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in [
                (Method::GET, &mut item.get),
                (Method::POST, &mut item.post),
                (Method::PATCH, &mut item.patch),
                (Method::DELETE, &mut item.delete),
            ] {
                let Some(operation) = operation else { continue };
                add_guard_refusals(operation);
                if has_keys {
                    security::add_refusals(&method, path, operation);
                }
            }
        }
        Self(Arc::new((document, OnceLock::new())))
    }

    fn json(&self) -> Bytes {
        let (document, json) = &*self.0;
        // Strings and numbers always serialize.
        json.get_or_init(|| document.to_json().unwrap_or_default().into())
            .clone()
    }
}

/// Adds the refusals of the guard and the router, which come before the route.
fn add_guard_refusals(operation: &mut Operation) {
    let why = "Refused before the route: unknown host, or a page of another origin.";
    operation
        .responses
        .responses
        .entry("default".to_owned())
        .or_insert_with(|| default_refusal(why));
}

/// Returns this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
pub(super) async fn document(Extension(document): Extension<Document>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], document.json()).into_response()
}
