//! What clients send to the routes: bodies and cursors. Every answer is a response of the documented
//! kind, and never a failure of the server.

use std::convert::Infallible;
use std::sync::OnceLock;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderValue, Method, Request, StatusCode};
use ragwire::{Metadata, Question, SendError, Sink};
use ragwire_endpoints::Endpoints;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// Every route that reads a body of JSON, one per protocol.
const ROUTES: [&str; 14] = [
    "/v1/turns",
    "/v1/rag/sessions/s/messages",
    "/v1/rag/sessions/s/messages/stream",
    "/api/chat",
    "/ag-ui",
    "/v1/chat/completions",
    "/v1/responses",
    "/api/generate",
    "/api/v1/flow/default/service/graph-rag",
    "/v1/sessions",
    "/eve/v1/session",
    "/api/query/stream",
    "/runs/stream",
    "/mcp",
];
/// A turn of which clients resume parts: two events and an end.
const FRAMES: u64 = 3;

struct Server {
    runtime: Runtime,
    router: Router,
    /// A finished turn.
    turn: String,
}

impl Server {
    /// Starts a server for all inputs of a process: the journal and the sessions have limits.
    fn start() -> Self {
        // On a paused clock, nothing waits for a time-out.
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime needs no system resources that can be missing here");
        let orchestrator = |_: Question, sink: Sink| async move {
            sink.send("Forty-").await?;
            sink.send(ragwire::event::Search::new("bm25")).await?;
            Ok::<_, SendError>(Metadata::default())
        };
        let router = Endpoints::new(orchestrator).router();
        let question = request(Method::POST, "/v1/turns", r#"{"prompt":"Why?"}"#.into());
        let response = runtime.block_on(respond(&router, question));
        let turn = response.headers()["x-ragwire-turn"].to_str();
        let turn = turn.expect("an ID is text").to_owned();
        runtime.block_on(body(response));
        Self {
            runtime,
            router,
            turn,
        }
    }
}

fn request(method: Method, uri: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(uri);
    let request = request.header("content-type", "application/json").body(body);
    request.expect("the method, the URI and the header are valid")
}

async fn respond(router: &Router, request: Request<Body>) -> http::Response<Body> {
    let response: Result<_, Infallible> = router.clone().oneshot(request).await;
    response.unwrap_or_else(|never| match never {})
}

async fn body(response: http::Response<Body>) -> Vec<u8> {
    let bytes = to_bytes(response.into_body(), usize::MAX).await;
    bytes.expect("the body of a response cannot fail").to_vec()
}

/// Checks one body on one route. The first byte is the route, the rest is the body.
///
/// # Panics
///
/// If the server fails, or refuses in another form than JSON.
pub fn request_json(data: &[u8]) {
    let Some((route, sent)) = data.split_first() else {
        return;
    };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(Server::start);
    let request = request(Method::POST, route, sent.to_vec().into());
    let (status, kind, body) = server.runtime.block_on(async {
        let response = respond(&server.router, request).await;
        let kind = response.headers().get("content-type").cloned();
        (response.status(), kind, body(response).await)
    });
    assert!(!status.is_server_error(), "{route}: {status} {body:?}");
    if status.is_client_error() {
        // A path without a route has an empty body.
        assert_ne!(
            status,
            StatusCode::METHOD_NOT_ALLOWED,
            "{route} does not take POST"
        );
        // Forge refuses in a stream.
        let is_stream = kind == Some(HeaderValue::from_static("text/event-stream"));
        if is_stream {
            assert!(body.starts_with(b"event: error\n"), "{route}: {body:?}");
        } else {
            assert_eq!(
                kind,
                Some(HeaderValue::from_static("application/json")),
                "{route}"
            );
            let refusal: Value = serde_json::from_slice(&body).unwrap_or_default();
            assert!(refusal.is_object(), "{route}: {body:?}");
        }
    }
    // By its grammar: a number that no type holds is JSON too, in a member that is not read.
    let is_json =
        std::str::from_utf8(sent).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert!(
        is_json || !status.is_success() || sent.is_empty(),
        "{route} took what is not JSON"
    );
}

/// Checks a cursor. The first byte divides the rest into the value of `from` and that of
/// `Last-Event-ID`; a value of 255 leaves that one out.
///
/// # Panics
///
/// If the server fails, or accepts a cursor and begins elsewhere.
pub fn cursor(data: &[u8]) {
    let Some((at, values)) = data.split_first() else {
        return;
    };
    let (from, last) = values.split_at(usize::from(*at).min(values.len()));
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(Server::start);
    let mut uri = format!("/v1/turns/{}/stream", server.turn);
    if !from.is_empty() {
        let encoded: String = from.iter().map(|byte| format!("%{byte:02x}")).collect();
        uri += &format!("?from={encoded}");
    }
    let mut request = request(Method::GET, &uri, Body::empty());
    let headers = request.headers_mut();
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    let last = (!last.is_empty()).then_some(last);
    if let Some(last) = last {
        let Ok(last) = HeaderValue::from_bytes(last) else {
            return;
        };
        headers.insert("last-event-id", last);
    }
    let (status, body) = server.runtime.block_on(async {
        let response = respond(&server.router, request).await;
        (response.status(), body(response).await)
    });
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?;
        let number = text.parse::<u64>().ok()?;
        (number.to_string() == text).then_some(number)
    };
    let (wanted_from, wanted_last) = (
        (!from.is_empty()).then(|| number(from)),
        last.map(|last| number(last).and_then(|last| last.checked_add(1))),
    );
    let next = match (wanted_from, wanted_last) {
        (None, None) => Some(0),
        (Some(from), None) => from,
        (None, Some(next)) => next,
        (Some(Some(from)), Some(Some(next))) => (next >= from).then_some(next),
        (Some(_), Some(_)) => None,
    };
    let expected = match next {
        None => StatusCode::BAD_REQUEST,
        Some(next) if next < FRAMES => StatusCode::OK,
        // Nothing is left.
        Some(FRAMES) => StatusCode::NO_CONTENT,
        Some(_) => StatusCode::RANGE_NOT_SATISFIABLE,
    };
    assert_eq!(status, expected, "{uri} {last:?}");
    if let (StatusCode::OK, Some(next)) = (status, next) {
        let first = format!("id: {next}\n");
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains(&first), "{uri} {last:?}: {text}");
    }
}
