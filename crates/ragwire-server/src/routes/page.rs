//! The web page and the stream parser that it imports, compiled into the program.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};

use utoipa::openapi::path::{HttpMethod, OperationBuilder, Paths};
use utoipa::openapi::{ContentBuilder, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// Allows only files of this server and no embedding, so that markup in a document cannot do
/// anything.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

const FILES: [(&str, &str, &str); 8] = [
    ("/", HTML, include_str!("../../page/index.html")),
    ("/page.js", SCRIPT, include_str!("../../page/page.js")),
    ("/page.css", STYLE, include_str!("../../page/page.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
    (
        "/client/framed.js",
        SCRIPT,
        include_str!("../../../../clients/js/src/framed.js"),
    ),
    (
        "/client/indexed.js",
        SCRIPT,
        include_str!("../../../../clients/js/src/indexed.js"),
    ),
    (
        "/client/ndjson.js",
        SCRIPT,
        include_str!("../../../../clients/js/src/ndjson.js"),
    ),
    (
        "/client/stream.js",
        SCRIPT,
        include_str!("../../../../clients/js/src/stream.js"),
    ),
];

/// Returns one route per file.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    FILES
        .into_iter()
        .fold(OpenApiRouter::default(), |router, (path, media_type, text)| {
            let mut paths = Paths::new();
            paths.add_path_operation(path, vec![HttpMethod::Get], operation(path, media_type));
            let method = get(async move || file(media_type, text));
            router.routes((Vec::new(), paths, method))
        })
}

fn operation(path: &str, media_type: &str) -> OperationBuilder {
    let essence = media_type.split(';').next().unwrap_or_default();
    let file = ResponseBuilder::new()
        .description("The file")
        .content(essence, ContentBuilder::new().build());
    OperationBuilder::new()
        .tag("server")
        .operation_id(Some(format!("page{}", path.replace('/', "_"))))
        .summary(Some("A file of the page."))
        .response("200", file)
}

fn file(media_type: &'static str, text: &'static str) -> Response {
    (
        [
            (CONTENT_TYPE, HeaderValue::from_static(media_type)),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            // A new build must appear at the next reload.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ],
        text,
    )
        .into_response()
}
