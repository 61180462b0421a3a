//! `POST /mcp`: the [Model Context Protocol](https://modelcontextprotocol.io) over streamable HTTP,
//! with the tool `ask`, so that an agent can ask the orchestrator.
//!
//! The session of a client is only an ID: it separates the requests of one client from those of
//! others, so that `notifications/cancelled` finds the turn of a request on any host. The server
//! sends no requests of its own, so there is no stream to `GET`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire::event::Mode;
use ragwire::session::Sessions;
use ragwire::{Mcp, Question};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::lane::Lane;
use crate::openapi::{self, TurnRefusals, example};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{self, Reader, TurnRequest};

/// Returns the route of MCP.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("mcp", "The Model Context Protocol.")).routes(routes!(call))
}

/// The versions of the protocol, newest first. What is used here is the same in all of them.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The only tool.
const ASK: &str = "ask";

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
    Number(i64),
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
    #[schema(value_type = Object)]
    params: Value,
}

/// The arguments of `ask`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    question: String,
    mode: Option<Mode>,
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
        (status = 403, description = "The page has another origin than the server"),
        TurnRefusals,
    ),
)]
pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    check_origin(request.headers())?;
    let session = session(request.headers());
    let message: Value = request::read_json(&shared, BodyKind::Question, request).await?;
    let Ok(Message { id, method, params }) = Message::deserialize(&message) else {
        let refused = error(
            &Value::Null,
            INVALID_REQUEST,
            "the body is not one JSON-RPC message",
        );
        return Ok((StatusCode::BAD_REQUEST, refused).into_response());
    };
    let is_request = id.is_string() || id.is_number();
    match method.as_str() {
        "notifications/cancelled" => {
            let lane = lane(&owner, &session, &params["requestId"]);
            start::stop_newest(&shared, &owner, &lane).await?;
        }
        "initialize" if is_request => return initialize(&shared, &id, &params),
        "ping" if is_request => return Ok(result(&id, &json!({}))),
        "tools/list" if is_request => return Ok(result(&id, &json!({"tools": [ask_tool()]}))),
        "tools/call" if is_request => return call_tool(&shared, &owner, &session, id, &params).await,
        _ if is_request => return Ok(error(&id, METHOD_NOT_FOUND, "unknown method").into_response()),
        // Other notifications, and responses.
        _ => {}
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Refuses a page of another origin: by rebinding a name, it could reach a server on its reader's
/// machine.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let of_page = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (of_page, host) {
        (Some((_, page)), Some(host)) if page.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "The page has another origin than the server.",
        )),
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
            },
            "required": ["question"],
            "additionalProperties": false,
        },
        "outputSchema": Mcp::output_schema(),
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

async fn call_tool(
    shared: &Shared,
    owner: &Owner,
    session: &str,
    id: Value,
    params: &Value,
) -> Result<Response, Refusal> {
    if params["name"] != ASK {
        return Ok(error(&id, INVALID_PARAMS, "unknown tool").into_response());
    }
    let Ok(ask) = Ask::deserialize(&params["arguments"]) else {
        let message = "arguments: `question` must be a string, `mode` is `agentic` or `direct`";
        return Ok(error(&id, INVALID_PARAMS, message).into_response());
    };
    let mut question = Question::new(ask.question);
    question.mode = ask.mode;
    let mut turn_request = TurnRequest::new(question);
    if !session.is_empty() {
        turn_request.chat = Some(chat(session, &id));
    }
    let mut wire = Mcp::new(id.clone());
    match &params["_meta"]["progressToken"] {
        Value::Null => {}
        token => wire = wire.progress(token.clone()),
    }
    match start::start(shared, owner, Reader::Leaving, turn_request).await {
        Ok(turn) => Ok(turn.respond(wire).map(Body::new)),
        // A model that called the tool reads a result, and nothing else.
        Err(refusal) => {
            refusal.log();
            let content = json!([{"type": "text", "text": refusal.failure.message}]);
            Ok(result(&id, &json!({"content": content, "isError": true})))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_origin_is_refused() {
        for (origin, host, allowed) in [
            (None, "server", true),
            (Some("http://server"), "server", true),
            (Some("http://SERVER:8080"), "server:8080", true),
            (Some("http://evil"), "server", false),
            (Some("null"), "server", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(check_origin(&headers).is_ok(), allowed, "{origin:?}");
        }
    }
}
