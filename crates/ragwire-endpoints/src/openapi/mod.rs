//! The OpenAPI document, and what its parts have in common.
//!
//! The document comes from `#[utoipa::path]` at each handler, through the same call that creates
//! the route, so no route is missing. Routes are added with `routes!`; clippy rejects
//! `OpenApiRouter::route`, which would bypass the document. Streams are described by an example
//! that the wire itself encodes.

pub(crate) mod requests;
#[doc(hidden)]
pub mod samples;
pub(crate) mod schemas;

use std::collections::BTreeMap;

use bytes::BytesMut;
use ragwire::event::Search;
use ragwire::wire::Wire;
use ragwire::{Citation, End, Metadata};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response as Answer, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi as _, ToSchema};

use crate::eve::EveRefusalBody;
#[doc(hidden)]
pub use requests::{schema_of, set_filter};

/// The schema of a [`Refusal`](crate::Refusal), for handlers that describe their own routes.
#[derive(ToSchema)]
#[schema(as = Refusal, description = "A refused request.")]
#[expect(missing_debug_implementations, reason = "it is never created")]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Refused {
    /// The reason why a request was refused.
    error: schemas::RefusalError,
}

/// The parts of the document that all protocols share.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "ragwire-endpoints",
        description = "Questions, answered live, on the wire of each client."
    ),
    components(schemas(Refused))
)]
struct Base;

/// What the protocol of OpenAI adds.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(schemas::OpenAiRefused)))]
struct OpenAi;

/// What the protocol of LangGraph adds.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(schemas::LangGraphRefused)))]
struct LangGraph;

/// What the protocol of Ollama adds.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(schemas::OllamaRefused)))]
struct Ollama;

/// What the protocol of Eve adds.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(EveRefusalBody)))]
struct Eve;

/// Returns the document without routes.
pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// Returns the document of a protocol, without routes.
pub(crate) fn protocol(tag: &str, description: &str) -> OpenApi {
    with_tag(base(), tag, description)
}

/// Returns the document of OpenAI's protocol, without routes.
pub(crate) fn openai(tag: &str, description: &str) -> OpenApi {
    with_tag(OpenAi::openapi(), tag, description)
}

/// Returns the document of LangGraph's protocol, without routes.
pub(crate) fn langgraph(tag: &str, description: &str) -> OpenApi {
    with_tag(LangGraph::openapi(), tag, description)
}

/// Returns the document of Ollama's protocol, without routes.
pub(crate) fn ollama(tag: &str, description: &str) -> OpenApi {
    with_tag(Ollama::openapi(), tag, description)
}

/// Returns the document of Eve's protocol, without routes.
pub(crate) fn eve(tag: &str, description: &str) -> OpenApi {
    with_tag(Eve::openapi(), tag, description)
}

fn with_tag(mut document: OpenApi, name: &str, description: &str) -> OpenApi {
    let tag = TagBuilder::new().name(name).description(Some(description));
    document.tags = Some(vec![tag.build()]);
    document
}

/// Returns the response `default` of a server that refuses requests before the route, in the form
/// of [`Refusal`](crate::Refusal).
pub fn default_refusal(description: &str) -> RefOr<Answer> {
    refusal("default", description, REFUSAL)
}

/// Adds a refusal in the form of [`Refusal`](crate::Refusal) to an operation, beside one that the
/// route itself has with this status.
pub fn add_refusal(operation: &mut Operation, status: &str, why: &str) {
    let responses = &mut operation.responses.responses;
    let RefOr::T(added) = refusal(status, why, REFUSAL) else {
        return;
    };
    let Some(RefOr::T(response)) = responses.get_mut(status) else {
        responses.insert(status.to_owned(), added.into());
        return;
    };
    response.description = format!("{why} Or: {}", response.description);
    response.headers.extend(added.headers);
    for (media_type, content) in added.content {
        match response.content.get_mut(&media_type) {
            Some(RefOr::T(own)) => own.schema = either(own.schema.take(), REFUSAL),
            Some(RefOr::Ref(_)) | None => drop(response.content.insert(media_type, content)),
        }
    }
}

/// Returns a schema that allows both.
fn either(own: Option<RefOr<Schema>>, other: &str) -> Option<RefOr<Schema>> {
    let other = RefOr::Ref(Ref::from_schema_name(other));
    match own {
        Some(own) if own != other => {
            let both = OneOfBuilder::new().item(own).item(other).build();
            Some(RefOr::T(Schema::OneOf(both)))
        }
        Some(_) | None => Some(other),
    }
}

/// The schemas of refusals.
const REFUSAL: &str = "Refusal";
const OPENAI_REFUSAL: &str = "OpenAiRefusal";
const LANGGRAPH_REFUSAL: &str = "LangGraphRefusal";
const OLLAMA_REFUSAL: &str = "OllamaRefusal";
const EVE_REFUSAL: &str = "EveRefusal";

/// The statuses with `retry-after`.
const RETRIED: [&str; 2] = ["429", "503"];

fn refusal(status: &str, why: &str, schema: &str) -> RefOr<Answer> {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .build();
    let mut response = ResponseBuilder::new()
        .description(why)
        .content("application/json", content);
    if RETRIED.contains(&status) {
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
const TURN: [(&str, &str); 6] = [
    ("401", "The request has no valid owner."),
    (
        "404",
        "There is nothing to answer from yet, or what the request names does not exist.",
    ),
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
pub(crate) struct BodyRefusals;

impl IntoResponses for BodyRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &BODY)
    }
}

/// The refusals of every route that answers a question.
pub(crate) struct TurnRefusals;

impl IntoResponses for TurnRefusals {
    fn responses() -> Refusals {
        refusals(REFUSAL, &[&BODY[..], &TURN].concat())
    }
}

/// [`TurnRefusals`] in Forge's form.
pub(crate) struct ForgeRefusals;

impl IntoResponses for ForgeRefusals {
    fn responses() -> Refusals {
        let table = BODY.iter().chain(&TURN);
        let refused = |(status, why): &(&str, &str)| {
            let content = ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::String)));
            let mut response = ResponseBuilder::new()
                .description(*why)
                .content("text/event-stream", content.build())
                .header(
                    "x-request-id",
                    header(Type::String, "The id of this refusal in the server's log"),
                );
            if RETRIED.contains(status) {
                response = response.header("retry-after", header(Type::Integer, "In seconds"));
            }
            ((*status).to_owned(), response.build().into())
        };
        table.map(refused).collect()
    }
}

/// Defines [`TurnRefusals`] in the forms of other protocols.
macro_rules! turn_refusals {
    ($($(#[$doc:meta])* $Name:ident: $schema:ident;)*) => { $(
        $(#[$doc])*
        pub(crate) struct $Name;

        impl IntoResponses for $Name {
            fn responses() -> Refusals {
                refusals($schema, &[&BODY[..], &TURN].concat())
            }
        }
    )* };
}

turn_refusals! {
    /// [`TurnRefusals`] in OpenAI's form.
    OpenAiRefusals: OPENAI_REFUSAL;
    /// [`TurnRefusals`] in LangGraph's form.
    LangGraphRefusals: LANGGRAPH_REFUSAL;
    /// [`TurnRefusals`] in Ollama's form.
    OllamaRefusals: OLLAMA_REFUSAL;
    /// [`TurnRefusals`] in Eve's form.
    EveRefusals: EVE_REFUSAL;
}

/// The refusals of a WebSocket handshake.
pub(crate) struct HandshakeRefusals;

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
pub(crate) fn example(wire: &impl Wire) -> String {
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
