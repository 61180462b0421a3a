//! `POST /mcp`: the [Model Context Protocol](https://modelcontextprotocol.io) over streamable HTTP,
//! with the tool `ask`, so that an agent can ask the orchestrator, and `search`, if the orchestrator
//! [can search](ragwire::Orchestrator::searcher).
//!
//! The session of a client is only an ID: it separates the requests of one client from those of
//! others, so that `notifications/cancelled` finds the turn of a request on any host. The server
//! sends no requests itself, so there is no stream to `GET`.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire::event::Mode;
use ragwire::orchestrator::{FILTER, SearchRequest};
use ragwire::session::Sessions;
use ragwire::{Mcp, Question};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{Caller, stream};
use crate::lane::Lane;
use crate::openapi::{self, TurnRefusals, example, schemas};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::search::SearchTurn;
use crate::shared::Shared;
use crate::start::{Reader, TurnRequest};

/// Returns the route of MCP.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("mcp", "The Model Context Protocol.")).routes(routes!(call))
}

/// The versions of the protocol, newest first. What is used here is the same in all of them.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The names of the tools.
const ASK: &str = "ask";
const SEARCH: &str = "search";

// The codes of JSON-RPC.
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// The ID of a request.
#[derive(Deserialize, ToSchema)]
#[schema(as = McpRequestId)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum RequestId {
    Number(f64),
    Text(String),
}

/// A message of JSON-RPC.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = McpMessage)]
struct Message {
    /// Absent in a notification.
    #[serde(default)]
    #[schema(value_type = Option<RequestId>)]
    id: Value,
    /// Absent in the response to a request of the server, which sends none.
    #[serde(default)]
    method: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Value,
}

impl Message {
    /// Reads a message; `None` if the body is not one.
    fn read(body: Value) -> Option<Self> {
        let message = Self::deserialize(body).ok()?;
        let is_id = |id: &Value| id.is_null() || id.is_string() || id.is_number();
        let is_params = |params: &Value| params.is_null() || params.is_object();
        (is_id(&message.id) && is_params(&message.params)).then_some(message)
    }
}

/// A refused request.
#[derive(ToSchema)]
#[schema(as = McpRefusal)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum McpRefused {
    /// In the form of the other routes.
    Refusal(schemas::Refused),
    /// In the form of JSON-RPC.
    Error(McpFailed),
}

/// A message of JSON-RPC with an error.
#[derive(ToSchema)]
#[schema(as = McpFailure)]
#[expect(dead_code, reason = "only its schema is used")]
struct McpFailed {
    jsonrpc: String,
    #[schema(required = true)]
    id: Option<RequestId>,
    error: McpErrorObject,
}

/// An error of JSON-RPC.
#[derive(ToSchema)]
#[schema(as = McpErrorObject)]
#[expect(dead_code, reason = "only its schema is used")]
struct McpErrorObject {
    code: i32,
    message: String,
}

/// The arguments of the tool `ask`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AskArguments {
    /// The question.
    pub question: String,
    /// How to answer.
    pub mode: Option<Mode>,
    /// Which documents to search.
    pub filter: Option<Map<String, Value>>,
}

impl AskArguments {
    /// Returns the question, with the filter in `options.extra`.
    pub fn question(self) -> Question {
        let mut question = Question::new(self.question);
        question.mode = self.mode;
        request::set_filter(&mut question, self.filter.map(Value::Object));
        question
    }
}

/// The arguments of `search`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
    filter: Option<Map<String, Value>>,
}

/// Answers one message of a client. The response to `tools/call` streams, with a notification for
/// each step if the request has a progress token.
#[utoipa::path(
    post,
    path = "/mcp",
    tag = "mcp",
    operation_id = "mcp",
    params(("mcp-session-id" = Option<String>, Header, description = "The id from the response to `initialize`")),
    request_body(content = Message, example = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "ask", "arguments": { "question": "What is the commit rule?" } },
    })),
    responses(
        (status = 200, description = "The response", headers(("mcp-session-id" = Option<String>, description = "In the response to `initialize`")),
            content(
                (Object = "application/json"),
                (String = "text/event-stream", example = json!(example(&Mcp::new(1.into()).progress("token".into())))),
            )),
        (status = 202, description = "The notification was accepted"),
        TurnRefusals,
        (status = 400, description = "The body is not one JSON-RPC message, or the version in `mcp-protocol-version` is unknown", body = McpRefused),
        (status = 403, description = "Pages of this origin may not use the route", body = schemas::Refused),
    ),
)]
pub(crate) async fn call(caller: Caller, request: Request) -> Result<Response, Refusal> {
    let shared = &caller.shared;
    shared.origins.check(&request)?;
    check_version(request.headers())?;
    let session = session(request.headers());
    let message: Value = request::read_json(shared, BodyKind::Question, request).await?;
    let Some(Message { id, method, params }) = Message::read(message) else {
        let refused = error(
            &Value::Null,
            INVALID_REQUEST,
            "the body is not one JSON-RPC message",
        );
        return Ok((StatusCode::BAD_REQUEST, refused).into_response());
    };
    let is_request = !id.is_null();
    match method.as_str() {
        "notifications/cancelled" => {
            let lane = lane(&caller.owner, &session, &params["requestId"]);
            caller.stop_newest(&lane).await?;
        }
        "initialize" if is_request => return initialize(shared, &id, &params),
        "ping" if is_request => return Ok(result(&id, &json!({}))),
        "tools/list" if is_request => return Ok(result(&id, &json!({"tools": tools(shared)}))),
        "tools/call" if is_request => return call_tool(&caller, &session, id, &params).await,
        _ if is_request => return Ok(error(&id, METHOD_NOT_FOUND, "unknown method").into_response()),
        // Other notifications, and responses.
        _ => {}
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Requires a version that is known, if the client names one.
fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(VERSION) {
        Some(version) if !VERSIONS.iter().any(|known| version == known) => Err(Refusal::permanent(
            StatusCode::BAD_REQUEST,
            "unsupported_version",
            format!("Unknown MCP version. The server knows {}.", VERSIONS.join(", ")),
        )),
        _ => Ok(()),
    }
}

fn session(headers: &HeaderMap) -> String {
    let id = headers.get(SESSION).and_then(|id| id.to_str().ok());
    id.filter(|id| Sessions::is_id(id)).unwrap_or_default().to_owned()
}

/// The lane of one request, by which it is cancelled.
fn lane(owner: &Owner, session: &str, id: &Value) -> Lane {
    Lane::chat(owner, &chat(session, id))
}

fn chat(session: &str, id: &Value) -> String {
    format!("mcp/{session}/{id}")
}

fn result(id: &Value, result: &Value) -> Response {
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn error(id: &Value, code: i32, message: &str) -> Json<Value> {
    Json(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn initialize(shared: &Shared, id: &Value, params: &Value) -> Result<Response, Refusal> {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS
        .iter()
        .find(|version| **version == asked)
        .unwrap_or(&VERSIONS[0]);
    let mut response = result(
        id,
        &json!({
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": shared.name, "version": env!("CARGO_PKG_VERSION")},
            "instructions": "Ask questions about the documents of this server. Answers cite their sources.",
        }),
    );
    let session = Sessions::random_id().map_err(Refusal::from)?;
    if let Ok(session) = HeaderValue::try_from(session) {
        response.headers_mut().insert(SESSION, session);
    }
    Ok(response)
}

fn tools(shared: &Shared) -> Vec<Value> {
    let search = shared.searcher.is_some().then(search_tool);
    let mut tools: Vec<Value> = std::iter::once(ask_tool()).chain(search).collect();
    if shared.orchestrator.check_filter(&json!({})).is_none() {
        for tool in &mut tools {
            if let Some(properties) = tool["inputSchema"]["properties"].as_object_mut() {
                properties.remove(FILTER);
            }
        }
    }
    tools
}

/// The argument of both tools that says which documents to search.
fn filter_argument() -> Value {
    let texts = |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
    json!({
        "type": "object",
        "description": "Which documents to search; left out, all of them. All members have to agree",
        "properties": {
            "folders": texts("Documents in one of these folders or below"),
            "kinds": texts("Documents of one of these kinds, such as `markdown` or `pdf`"),
            "languages": texts("Documents in one of these languages, codes of ISO 639-1"),
            "tags": texts("Documents with one of these tags"),
            "since": {"type": "string", "description": "Documents of this day and later: 2026-01-31, 2026-01 or 2026"},
            "until": {"type": "string", "description": "Documents of this day and earlier"},
        },
    })
}

fn search_tool() -> Value {
    json!({
        "name": SEARCH,
        "title": "Search",
        "description": "Finds passages in the documents of this server, without an answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A question or words"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": SearchRequest::MAX_LIMIT,
                    "default": SearchRequest::LIMIT,
                    "description": "The most passages to return",
                },
                FILTER: filter_argument(),
            },
            "required": ["query"],
            "additionalProperties": false,
        },
        "outputSchema": Mcp::passages_schema(),
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

fn ask_tool() -> Value {
    json!({
        "name": ASK,
        "title": "Ask",
        "description": "Answers a question from the documents of this server, with citations.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The whole question; earlier ones are not known"},
                "mode": {
                    "type": "string",
                    "enum": ["agentic", "direct"],
                    "description": "`agentic` chooses its searches, `direct` makes one. Left out, the server decides",
                },
                FILTER: filter_argument(),
            },
            "required": ["question"],
            "additionalProperties": false,
        },
        "outputSchema": Mcp::output_schema(),
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

async fn call_tool(caller: &Caller, session: &str, id: Value, params: &Value) -> Result<Response, Refusal> {
    let mut wire = Mcp::new(id.clone());
    let arguments = &params["arguments"];
    let called = match (params["name"].as_str(), &caller.shared.searcher) {
        (Some(ASK), _) => ask(arguments),
        (Some(SEARCH), Some(searcher)) => {
            wire = wire.passages();
            search(arguments, |limit| SearchTurn::new(Arc::clone(searcher), limit))
        }
        _ => Err("unknown tool".to_owned()),
    };
    let mut turn_request = match called {
        Ok(turn_request) => turn_request,
        Err(message) => return Ok(error(&id, INVALID_PARAMS, &message).into_response()),
    };
    if !session.is_empty() {
        turn_request.chat = Some(chat(session, &id));
    }
    match &params["_meta"]["progressToken"] {
        Value::Null => {}
        token => wire = wire.progress(token.clone()),
    }
    match caller.start(Reader::Leaving, turn_request).await {
        Ok(turn) => Ok(stream(turn, wire)),
        // A model that called the tool reads a result, and nothing else.
        Err(refusal) => {
            refusal.log();
            let content = json!([{"type": "text", "text": refusal.failure.message}]);
            Ok(result(&id, &json!({"content": content, "isError": true})))
        }
    }
}

/// Returns the turn of a call of `ask`, or the error in its arguments.
fn ask(arguments: &Value) -> Result<TurnRequest, String> {
    let Ok(ask) = AskArguments::deserialize(arguments) else {
        return Err(
            "arguments: `question` must be a string, `mode` is `agentic` or `direct`, `filter` an object"
                .to_owned(),
        );
    };
    Ok(TurnRequest::new(ask.question()))
}

/// Returns the turn of a call of `search`, or the error in its arguments.
fn search(arguments: &Value, turn: impl Fn(usize) -> SearchTurn) -> Result<TurnRequest, String> {
    let max = SearchRequest::MAX_LIMIT;
    let call = Search::deserialize(arguments).ok().and_then(|call| {
        let limit = call.limit.unwrap_or(SearchRequest::LIMIT);
        (1..=max)
            .contains(&limit)
            .then_some((call.query, limit, call.filter))
    });
    let Some((query, limit, filter)) = call else {
        return Err(format!(
            "arguments: `query` must be a string, `limit` a whole number from 1 to {max}, `filter` an object"
        ));
    };
    let mut question = Question::new(query);
    request::set_filter(&mut question, filter.map(Value::Object));
    Ok(TurnRequest {
        orchestrator: Some(Arc::new(turn(limit))),
        ..TurnRequest::new(question)
    })
}
