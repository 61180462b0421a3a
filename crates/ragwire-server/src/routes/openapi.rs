//! `GET /openapi.json`: all routes, as OpenAPI 3.1.
//!
//! The document comes from `#[utoipa::path]` at each handler, through the same call that creates
//! the route, so no route is missing. Routes are added with `routes!` in `mod.rs`; clippy rejects
//! `OpenApiRouter::route`, which would bypass the document. Streams are described by an example
//! that the wire itself encodes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::extract::Extension;
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

use super::eve::EveRefusalBody;
use super::schemas;

/// The parts of the document that do not belong to a handler.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "ragwire-server",
        description = "Questions about your own documents, answered live, on the wire of each client. There is no login: the \
                       server only accepts its own host names (421), and pages of another origin must not change \
                       anything (403).",
    ),
    components(schemas(schemas::Refused, schemas::OpenAiRefused, EveRefusalBody)),
    tags(
        (name = "questions", description = "ragwire's own wires and that of ADR 0007. PROTOCOL.md describes the bytes."),
        (name = "documents", description = "The documents that answers are based on."),
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

/// Returns the document without routes.
pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// The finished document, which is the same for all requests and serialized once.
#[derive(Clone)]
pub(super) struct Document(Arc<(OpenApi, OnceLock<Bytes>)>);

impl Document {
    pub(super) fn new(mut document: OpenApi) -> Self {
        for item in document.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.delete];
            operations.into_iter().flatten().for_each(add_guard_refusals);
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
    let refusal = refusal("default", why, REFUSAL);
    operation
        .responses
        .responses
        .entry("default".to_owned())
        .or_insert(refusal);
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
        let id = header(Type::String, "The id of this refusal in the server's log");
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

/// Refusals of a request body.
const BODY: [(&str, &str); 5] = [
    (
        "400",
        "The body is incomplete or not JSON, or an id in the path is malformed.",
    ),
    ("408", "The body did not arrive in time."),
    ("413", "The body is too large."),
    ("415", "The content type is not JSON."),
    ("422", "The JSON does not have the expected shape."),
];
/// Refusals of a turn.
const TURN: [(&str, &str); 5] = [
    ("401", "The header of `--owner-header` is missing or invalid."),
    (
        "429",
        "Too many questions are waiting in this session; `retry-after` says when to retry.",
    ),
    ("500", "The turn failed before its response began."),
    (
        "503",
        "The server is full or shutting down, and `retry-after` says when to retry; or the question waited too long.",
    ),
    ("504", "The turn took too long before its response began."),
];

/// The refusals of every route that reads JSON.
pub(super) struct BodyRefusals;

impl IntoResponses for BodyRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &BODY)
    }
}

/// The refusals of every route that answers a question.
pub(super) struct TurnRefusals;

impl IntoResponses for TurnRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// [`TurnRefusals`] in OpenAI's form.
pub(super) struct OpenAiRefusals;

impl IntoResponses for OpenAiRefusals {
    fn responses() -> Refusals {
        refusals(OPENAI_REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// [`TurnRefusals`] in Eve's form.
pub(super) struct EveRefusals;

impl IntoResponses for EveRefusals {
    fn responses() -> Refusals {
        refusals(EVE_REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// The refusals of a WebSocket handshake.
pub(super) struct HandshakeRefusals;

impl IntoResponses for HandshakeRefusals {
    fn responses() -> Refusals {
        let table = [
            ("400", "The handshake has no valid key."),
            ("426", "The request is not a WebSocket handshake of version 13."),
            (
                "503",
                "The server is full or shutting down; `retry-after` says when to retry.",
            ),
        ];
        refusals(REFUSAL, &table)
    }
}

/// Returns a small turn as `wire` encodes it.
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
