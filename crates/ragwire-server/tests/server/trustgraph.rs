//! TrustGraph's socket and its JSON route.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use http::{Method, StatusCode};
use ragwire_server::serve::Shutdown;
use ragwire_server::settings::values::{Count, CountOrZero};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{JSON, Reply, Running, start};

/// Longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn open(server: &Running) -> Self {
        let connection = TcpStream::connect(server.address()).await.unwrap();
        let url = format!("ws://{}/api/v1/socket", server.address());
        Self(client_async(url, connection).await.unwrap().0)
    }

    /// The same as a user whom a proxy names.
    pub(crate) async fn open_as(server: &Running, user: &'static str) -> Self {
        let connection = TcpStream::connect(server.address()).await.unwrap();
        let url = format!("ws://{}/api/v1/socket", server.address());
        let mut request = url.into_client_request().unwrap();
        request
            .headers_mut()
            .insert("x-user", http::HeaderValue::from_static(user));
        Self(client_async(request, connection).await.unwrap().0)
    }

    async fn ask(&mut self, id: &str, service: &str, query: &str) {
        let request = json!({
            "id": id, "service": service, "flow": "default", "workspace": "default",
            "request": {"query": query, "collection": "default", "entity-limit": 50, "doc-limit": 10, "streaming": true},
        });
        self.send(request).await;
    }

    pub(crate) async fn send(&mut self, request: Value) {
        self.0.send(Message::text(request.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
        next.unwrap().unwrap().unwrap()
    }

    async fn text(&mut self) -> String {
        match self.next().await {
            Message::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// The whole answer for one ID: its messages, with adjacent pieces of text joined, because
    /// their boundaries depend on the reader's speed.
    pub(crate) async fn answer(&mut self) -> Vec<Value> {
        let mut messages: Vec<Value> = Vec::new();
        loop {
            let message: Value = serde_json::from_str(&self.text().await).unwrap();
            match messages.last_mut() {
                Some(last) if is_text(last) && is_text(&message) => {
                    let text = format!("{}{}", piece(last), piece(&message));
                    last["response"]["chunk"] = text.as_str().into();
                    last["response"]["response"] = text.into();
                }
                _ => messages.push(message),
            }
            if messages.last().unwrap()["complete"] == true {
                return messages;
            }
        }
    }
}

fn is_text(message: &Value) -> bool {
    message["response"]["message_type"] == "chunk" && !piece(message).is_empty()
}

fn piece(message: &Value) -> &str {
    message["response"]["response"].as_str().unwrap()
}

fn chunk(id: &str, text: &str, end_of_stream: bool) -> Value {
    json!({
        "id": id,
        "response": {"message_type": "chunk", "response": text, "chunk": text, "end_of_stream": end_of_stream, "end_of_session": false},
        "complete": false,
    })
}

const NO_EVENTS: &str = r#"{"citations":[],"tools_used":["fault"],"queue_stats":{"was_queued":false,"queue_position":0,"queue_wait_ms":0.0}}"#;
const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";

fn metadata() -> Value {
    serde_json::from_str(NO_EVENTS).unwrap()
}

#[tokio::test]
async fn both_services_answer_on_the_socket() {
    let server = start(|_| {}).await;
    let mut socket = Socket::open(&server).await;
    socket
        .0
        .send(Message::text(r#"{"type":"auth","token":""}"#))
        .await
        .unwrap();
    assert_eq!(socket.text().await, r#"{"type":"auth-ok"}"#);
    for (service, last) in [
        (
            "graph-rag",
            json!({"message_type": "chunk", "response": "", "chunk": "", "end_of_stream": false, "end_of_session": true, "metadata": metadata()}),
        ),
        (
            "document-rag",
            json!({"message_type": "end", "end_of_stream": false, "end_of_session": true, "metadata": metadata()}),
        ),
    ] {
        socket.ask("1", service, "fault:no-events").await;
        assert_eq!(
            socket.answer().await,
            [
                chunk("1", "Yes, it is.", false),
                chunk("1", "", true),
                json!({"id": "1", "response": last, "complete": true}),
            ]
        );
    }
    socket.ask("2", "odd-rag", "fault:no-events").await;
    let unknown =
        r#"{"id":"2","error":{"message":"unknown service","type":"unknown-service"},"complete":true}"#;
    assert_eq!(socket.text().await, unknown);
    socket.ask("3", "graph-rag", " ").await;
    let empty = r#"{"id":"3","error":{"message":"The prompt is empty.","type":"error"},"complete":true}"#;
    assert_eq!(socket.text().await, empty);
    socket.ask("4", "document-rag", "fault:reject").await;
    let failed = socket.answer().await;
    let error = json!({"message": SORRY, "type": "document-rag-error"});
    assert_eq!((failed.len(), &failed[0]["error"]), (1, &error));
}

/// With many IDs at once, each gets exactly the answer that it gets alone.
#[tokio::test]
async fn many_questions_at_once_on_one_socket() {
    let server = start(|_| {}).await;
    let mut socket = Socket::open(&server).await;
    let question = |n: usize| ["commit rule?", "back-pressure?", "citations?", "time-outs?"][n % 4];
    let mut alone = Vec::new();
    for n in 0..4 {
        socket.ask("alone", "graph-rag", question(n)).await;
        let text: String = socket
            .answer()
            .await
            .iter()
            .filter(|it| is_text(it))
            .map(piece)
            .collect();
        assert!(!text.is_empty());
        alone.push(text);
    }
    for n in 0..30 {
        socket.ask(&n.to_string(), "graph-rag", question(n)).await;
    }
    let (mut texts, mut ended) = (HashMap::<usize, String>::new(), Vec::new());
    while ended.len() < 30 {
        let message: Value = serde_json::from_str(&socket.text().await).unwrap();
        let id: usize = message["id"].as_str().unwrap().parse().unwrap();
        assert!(!ended.contains(&id), "{message}");
        if is_text(&message) {
            texts.entry(id).or_default().push_str(piece(&message));
        }
        if message["complete"] == true {
            ended.push(id);
        }
    }
    for (id, text) in texts {
        assert_eq!(text, alone[id % 4]);
    }
    drop(socket);
    server.until_idle().await;
    assert_eq!(server.stop().await, Shutdown::Drained);
}

async fn post(server: &Running, service: &str, body: &str) -> Reply {
    let path = format!("/api/v1/flow/default/service/{service}");
    server.call(Method::POST, &path, &[JSON], body.to_owned()).await
}

#[tokio::test]
async fn one_json_answer_over_http() {
    let server = start(|_| {}).await;
    let question =
        r#"{"workspace":"w","query":"fault:no-events","collection":"c","doc-limit":10,"fetch-limit":0}"#;
    for (service, expected) in [
        (
            "graph-rag",
            format!(
                r#"{{"message_type":"chunk","response":"Yes, it is.","end_of_stream":true,"end_of_session":true,"metadata":{NO_EVENTS}}}"#
            ),
        ),
        (
            "document-rag",
            format!(
                r#"{{"response":"Yes, it is.","end_of_stream":true,"end_of_session":true,"metadata":{NO_EVENTS}}}"#
            ),
        ),
    ] {
        let reply = post(&server, service, question).await;
        assert_eq!((reply.status, reply.body), (StatusCode::OK, expected.into()));
    }
    // Before the first event and after it: a turn that fails has status 200.
    for fault in ["fault:reject", "fault:text", "fault:panic"] {
        let reply = post(&server, "graph-rag", &json!({ "query": fault }).to_string()).await;
        assert_eq!(reply.status, 200, "{fault}");
        let error = json!({"message": SORRY, "type": "graph-rag-error"});
        assert_eq!(reply.json()["error"], error, "{fault}");
    }
    for (service, body, status, code) in [
        ("odd-rag", r#"{"query":"?"}"#, 404, "unknown_service"),
        ("graph-rag", "{", 400, "bad_json"),
        ("graph-rag", "{}", 422, "invalid_request"),
        ("graph-rag", r#"{"query":7}"#, 422, "invalid_request"),
        ("graph-rag", r#"{"query":""}"#, 422, "invalid_request"),
    ] {
        let reply = post(&server, service, body).await;
        assert_eq!(
            (reply.status.as_u16(), reply.code().as_str()),
            (status, code),
            "{body}"
        );
    }
    let full = start(|settings| (settings.max_turns, settings.max_queued) = (Count(0), CountOrZero(0))).await;
    let reply = post(&full, "graph-rag", question).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (503, "busy"));
}

#[tokio::test]
async fn pages_of_other_origins_cannot_open_a_socket() {
    let server = start(|settings| settings.allow_origin = vec!["https://app.example.org".into()]).await;
    let own = format!("http://{}", server.address());
    for (name, value, status) in [
        ("origin", own.as_str(), 101),
        ("origin", "https://app.example.org", 101),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("host", "evil.example", 421),
    ] {
        let mut request =
            IntoClientRequest::into_client_request(format!("ws://{}/api/v1/socket", server.address()))
                .unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        let connection = TcpStream::connect(server.address()).await.unwrap();
        let answered = match client_async(request, connection).await {
            Ok((_, response)) => response.status(),
            Err(Error::Http(response)) => response.status(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(answered.as_u16(), status, "{value}");
    }
    assert_eq!(server.get("/api/v1/socket").await.status, 426);
}

/// A socket is one of the connections, from its handshake to its end.
#[tokio::test]
async fn a_socket_counts_as_a_connection_until_it_closes() {
    let server = start(|settings| settings.max_connections = Count(1)).await;
    let mut socket = Socket::open(&server).await;
    let mut second = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    second.write_all(request.as_bytes()).await.unwrap();
    for _ in 0..3 {
        socket.ask("1", "graph-rag", "fault:no-events").await;
        socket.answer().await;
    }
    let mut first = [0; 12];
    assert!(second.read_exact(&mut first).now_or_never().is_none());
    socket.0.close(None).await.unwrap();
    let answered = tokio::time::timeout(PATIENCE, second.read_exact(&mut first));
    answered.await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_socket_is_closed_when_the_server_shuts_down() {
    let mut server = start(|_| {}).await;
    let mut socket = Socket::open(&server).await;
    let idle = Socket::open(&server).await;
    socket.ask("1", "document-rag", "fault:silent").await;
    let event: Value = serde_json::from_str(&socket.text().await).unwrap();
    assert_eq!(event["response"]["message_type"], "event");
    server.stop.take().unwrap().send(()).unwrap();
    let explanation: Value = serde_json::from_str(&socket.text().await).unwrap();
    assert_eq!(explanation["response"]["message_type"], "explain");
    let last: Value = serde_json::from_str(&socket.text().await).unwrap();
    let error =
        json!({"message": "The server is restarting. Please retry in a moment.", "type": "gateway-error"});
    assert_eq!((&last["error"], &last["complete"]), (&error, &json!(true)));
    let Message::Close(Some(CloseFrame { code, reason })) = socket.next().await else {
        panic!("no close frame")
    };
    assert_eq!((u16::from(code), reason.as_str()), (1001, "shutting down"));
    // The first client answers the close frame when it continues to read, the idle one when it is
    // dropped at the latest.
    while socket.0.next().await.is_some() {}
    drop(idle);
    assert_eq!(
        server.tasks.join_next().await.unwrap().unwrap(),
        Shutdown::Drained
    );
}
