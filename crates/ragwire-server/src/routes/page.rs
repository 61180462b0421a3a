//! The web page and the stream parser that it imports, compiled into the program and sent compressed.

use std::io::Write;

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    VARY,
};
use http::{HeaderMap, HeaderValue};

use utoipa::openapi::path::{HttpMethod, OperationBuilder, Paths};
use utoipa::openapi::{ContentBuilder, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

/// Allows only files of this server and no embedding, so that markup in a document cannot do
/// anything.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// A file of the page: its path, its media type and its text.
type PageFile = (&'static str, &'static str, &'static str);

/// A module of the page.
macro_rules! module {
    ($name:literal) => {
        (
            concat!("/page/", $name),
            SCRIPT,
            include_str!(concat!("../../page/modules/", $name)),
        )
    };
}

/// A module of the JavaScript client, which the page imports.
macro_rules! client {
    ($name:literal) => {
        (
            concat!("/client/", $name),
            SCRIPT,
            include_str!(concat!("../../../../clients/js/src/", $name)),
        )
    };
}

const FILES: [PageFile; 31] = [
    ("/", HTML, include_str!("../../page/index.html")),
    ("/page.js", SCRIPT, include_str!("../../page/page.js")),
    ("/page.css", STYLE, include_str!("../../page/page.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
    module!("chats.js"),
    module!("cite.js"),
    module!("dom.js"),
    module!("feedback.js"),
    module!("human.js"),
    module!("icons.js"),
    module!("inline.js"),
    module!("library.js"),
    module!("markdown.js"),
    module!("originals.js"),
    module!("ready.js"),
    module!("remote.js"),
    module!("render.js"),
    module!("scroll.js"),
    module!("settings.js"),
    module!("side.js"),
    module!("steps.js"),
    module!("theme.js"),
    module!("turn.js"),
    module!("upload.js"),
    module!("view.js"),
    module!("welcome.js"),
    client!("errors.js"),
    client!("framed.js"),
    client!("indexed.js"),
    client!("ndjson.js"),
    client!("stream.js"),
];

/// Returns one route per file.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    FILES
        .into_iter()
        .fold(OpenApiRouter::default(), |router, (path, media_type, text)| {
            let mut paths = Paths::new();
            paths.add_path_operation(path, vec![HttpMethod::Get], operation(path, media_type));
            let packed = pack(text);
            let method = get(async move |headers: HeaderMap| file(media_type, text, packed, &headers));
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

/// Compresses a file once: the page with its comments is smaller than 80 kB on the network.
fn pack(text: &str) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Returns whether the request accepts gzip. Browsers send no weights; a weight of 0 means no.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|coding| coding == "gzip")
}

fn file(
    media_type: &'static str,
    text: &'static str,
    packed: Option<Bytes>,
    headers: &HeaderMap,
) -> Response {
    let headers_of_all = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // A new build must appear at the next reload.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    match packed.filter(|_| accepts_gzip(headers)) {
        Some(packed) => {
            let coding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (headers_of_all, coding, packed).into_response()
        }
        None => (headers_of_all, text).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn the_page_uploads_the_files_of_a_folder_that_the_server_reads() {
        let script = include_str!("../../page/modules/upload.js");
        let list = script.split("const EXTENSIONS = ").nth(1).unwrap_or_default();
        let list = list.split(';').next().unwrap_or_default();
        let shown: BTreeSet<_> = list
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let known = ragwire_rag::EXTENSIONS.iter().map(|(extension, _)| *extension);
        assert_eq!(shown, known.collect());
    }
}
