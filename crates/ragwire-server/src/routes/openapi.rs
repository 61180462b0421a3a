//! `GET /openapi.json`: all routes, as OpenAPI 3.1.
//!
//! The document is put together from what stands at each handler in `#[utoipa::path]`, by the same call that makes the route: what the
//! server answers and what the document says cannot part. A route is added with `routes!` in `mod.rs`; clippy refuses
//! `OpenApiRouter::route`, which would leave it out. Streams are told by an example that the wire itself has written.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use ragwire::event::Search;
use ragwire::wire::Wire;
use ragwire::{Citation, End, Metadata};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response as Answer, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi as _};

use super::shapes;

/// What does not stand at a handler.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "ragwire-server",
        description = "Questions about your own documents, answered live, on the wire of each client. There is no login: the \
                       server answers to its own host names only (421), and changes must not come from pages of another \
                       origin (403).",
    ),
    components(schemas(shapes::Refused, shapes::OpenAiRefused, shapes::EveRefused)),
    tags(
        (name = "questions", description = "The wires of our own, and of ADR 0007. The bytes are described in PROTOCOL.md."),
        (name = "documents", description = "What is asked about."),
        (name = "ai-sdk", description = "npm `ai`."),
        (name = "ag-ui", description = "AG-UI."),
        (name = "openai", description = "The SDKs of OpenAI."),
        (name = "forge", description = "Forge."),
        (name = "session-chat", description = "The round-based session chat."),
        (name = "eve", description = "Eve, stream version 16."),
        (name = "trustgraph", description = "TrustGraph."),
        (name = "server", description = "The server itself, and its page."),
    ),
)]
struct Base;

/// Where the routes begin.
pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// It depends on nothing that differs between two servers, so it is written once.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut document = super::table().into_openapi();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        operations.into_iter().flatten().for_each(refused_by_the_guard);
    }
    // Strings and numbers always serialise.
    document.to_json().unwrap_or_default().into()
});

/// Adds what the guard and the router may say to every request, before a route sees it.
fn refused_by_the_guard(operation: &mut Operation) {
    let why = "Refused before the route was reached: a foreign host or origin.";
    let refusal = refusal("default", why, REFUSAL);
    operation
        .responses
        .responses
        .entry("default".to_owned())
        .or_insert(refusal);
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
pub(super) async fn document() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], DOCUMENT.clone()).into_response()
}

/// The schemas of refusals.
const REFUSAL: &str = "Refusal";
const OPENAI_REFUSAL: &str = "OpenAiRefusal";
const EVE_REFUSAL: &str = "EveRefusal";

fn refusal(status: &str, why: &str, schema: &str) -> RefOr<Answer> {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .build();
    let mut response = ResponseBuilder::new()
        .description(why)
        .content("application/json", content);
    if ["429", "503"].contains(&status) {
        response = response.header("retry-after", header(Type::Integer, "In seconds"));
    }
    if schema == OPENAI_REFUSAL {
        let id = header(Type::String, "To be quoted to whoever reads the logs");
        response = response.header("x-request-id", id);
    }
    response.build().into()
}

fn header(kind: Type, why: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(kind);
    HeaderBuilder::new()
        .schema(Some(schema))
        .description(Some(why))
        .build()
}

type Refusals = BTreeMap<String, RefOr<Answer>>;

fn refusals(schema: &str, table: &[(&str, &str)]) -> Refusals {
    table
        .iter()
        .map(|(status, why)| ((*status).to_owned(), refusal(status, why, schema)))
        .collect()
}

/// Of a body that cannot be taken.
const BODY: [(&str, &str); 5] = [
    (
        "400",
        "The body broke off or is no JSON; or an id in the path is none.",
    ),
    ("408", "The body did not arrive in time."),
    ("413", "The body is too large."),
    ("415", "The body is not said to be JSON."),
    ("422", "The JSON is not what this route takes."),
];
/// Of a turn that does not begin.
const TURN: [(&str, &str); 5] = [
    ("401", "The request does not say whose it is."),
    (
        "429",
        "Too many questions wait in this session; `retry-after` says when to ask again.",
    ),
    ("500", "The turn failed before its response began."),
    (
        "503",
        "The server is full or going down, and `retry-after` says when to ask again; or the question waited too long.",
    ),
    ("504", "The turn took too long before its response began."),
];

/// What every route that reads JSON may say instead of its answer.
pub(super) struct BodyRefusals;

impl IntoResponses for BodyRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &BODY)
    }
}

/// What every route that answers a question may say instead.
pub(super) struct TurnRefusals;

impl IntoResponses for TurnRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// The same in OpenAI's form.
pub(super) struct OpenAiRefusals;

impl IntoResponses for OpenAiRefusals {
    fn responses() -> Refusals {
        refusals(OPENAI_REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// The same in Eve's form.
pub(super) struct EveRefusals;

impl IntoResponses for EveRefusals {
    fn responses() -> Refusals {
        refusals(EVE_REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// What a handshake gets that opens no WebSocket.
pub(super) struct HandshakeRefusals;

impl IntoResponses for HandshakeRefusals {
    fn responses() -> Refusals {
        let table = [
            ("400", "The handshake has no usable key."),
            ("426", "The request is no WebSocket handshake of version 13."),
            (
                "503",
                "The server is full or going down; `retry-after` says when to come again.",
            ),
        ];
        refusals(REFUSAL, &table)
    }
}

/// A small turn as `wire` spells it.
pub(super) fn example(wire: &impl Wire) -> String {
    let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
    let quote = "Headers wait for the first event.";
    let citation = Citation::new("doc-1", "doc-1-7", quote, "bm25");
    let metadata = Metadata::default()
        .citations(vec![citation])
        .mode("lexical")
        .tools_used(["bm25"]);
    let written = encoder
        .event(&Search::new("bm25").query("commit rule").into(), None, &mut bytes)
        .and_then(|()| encoder.text("Headers wait for the first event [1].", &mut bytes))
        .and_then(|()| encoder.end(&End::completed(metadata), &mut bytes));
    debug_assert!(written.is_ok(), "{written:?}");
    String::from_utf8_lossy(&bytes).into_owned()
}
