//! Clients that send slowly or take all they can get do not lock the others out.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, CountOrZero, Header, Size, Span};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{JSON, Running, WHOLE, start};

/// How long a healthy client may wait. Without the limits it would be locked out for minutes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time-outs that do not help a healthy client in time.
fn patient(settings: &mut Settings) {
    settings.header_timeout = Span(Duration::from_secs(600));
    settings.body_timeout = Span(Duration::from_secs(600));
}

/// Opens a socket, sends the head of a request, and `sent` bytes of a body of `length`.
async fn unfinished(server: &Running, path: &str, length: usize, sent: usize) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let media_type = if path.starts_with("/v1/documents") {
        "text/markdown"
    } else {
        "application/json"
    };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n",
        server.address()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&vec![b' '; sent]).await.unwrap();
    socket
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, holds).await.unwrap();
}

/// Waits until the server reads this many bodies.
async fn until_reading(server: &Running, bodies: usize) {
    until(|| server.app.endpoints.bodies().open() == bodies).await;
}

#[tokio::test]
async fn slow_uploads_do_not_block_a_healthy_one() {
    let server = start(|settings| {
        patient(settings);
        settings.max_uploads = Count(1);
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(unfinished(&server, "/v1/documents?name=slow.md", 1000, 3).await);
    }
    until_reading(&server, 4).await;
    let reply = timeout(PATIENCE, server.upload("a.md", "The owl sees at night.")).await;
    assert_eq!(reply.unwrap().status, 201);
}

#[tokio::test]
async fn an_upload_whose_body_has_arrived_waits_for_its_turn() {
    const REST: &[u8] = b"The owl sees at night.";
    let server = start(|settings| settings.max_uploads = Count(2)).await;
    let bodies = server.app.endpoints.bodies();
    let mut slow = unfinished(&server, "/v1/documents?name=owl.md", 3 + REST.len(), 3).await;
    until_reading(&server, 1).await;
    let running = server.app.uploads.acquire_many(2).await.unwrap();
    // A new one is refused at once, before its body is read.
    let refused = server.upload("a.md", "The owl sees at night.").await;
    assert_eq!((refused.status.as_u16(), &*refused.code()), (503, "busy"));
    slow.write_all(REST).await.unwrap();
    until_reading(&server, 0).await;
    assert_eq!(bodies.memory(), 3 + REST.len(), "it counts while it waits");
    drop(running);
    let mut answer = [0; 12];
    timeout(PATIENCE, slow.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
}

#[tokio::test]
async fn slow_connections_do_not_block_a_healthy_question() {
    const CONNECTIONS: usize = 8;
    let mut server = start(|settings| {
        patient(settings);
        settings.max_connections = Count(CONNECTIONS);
    })
    .await;
    for opening in [&b""[..], b"POST /api/chat HTTP/1.1\r\nhost:"] {
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut socket = TcpStream::connect(server.address()).await.unwrap();
            socket.write_all(opening).await.unwrap();
            silent.push(socket);
        }
        server.client = Client::builder(TokioExecutor::new()).build_http();
        let reply = timeout(PATIENCE, server.ask(WHOLE, "commit?")).await;
        assert_eq!(reply.unwrap().status, 200, "{opening:?}");
    }
    server.client = Client::builder(TokioExecutor::new()).build_http();
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS {
        slow.push(unfinished(&server, "/api/chat", 1000, 3).await);
    }
    until_reading(&server, CONNECTIONS).await;
    server.client = Client::builder(TokioExecutor::new()).build_http();
    let reply = timeout(PATIENCE, server.ask(WHOLE, "commit?")).await;
    assert_eq!(reply.unwrap().status, 200);
}

#[tokio::test]
async fn all_bodies_together_have_a_budget() {
    const BUDGET: usize = 256 << 10;
    const LENGTH: usize = 64 << 10;
    let server = start(|settings| {
        patient(settings);
        settings.max_upload_size = Size(LENGTH);
        settings.max_upload_files = Count(1);
        settings.max_body_memory = Size(BUDGET);
    })
    .await;
    assert_eq!(server.app.settings.check(), Ok(()));
    let bodies = server.app.endpoints.bodies();
    let mut slow = Vec::new();
    let mut most = 0;
    for _ in 0..16 {
        slow.push(unfinished(&server, "/v1/documents?name=slow.md", LENGTH, LENGTH - 1).await);
        most = most.max(bodies.memory());
    }
    // The first ones were the slowest.
    let mut answer = [0; 12];
    timeout(PATIENCE, slow[0].read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    for _ in 0..8 {
        let text = "The owl sees at night. ".repeat(LENGTH / 23);
        let reply = timeout(PATIENCE, server.upload("owl.md", text)).await.unwrap();
        assert_eq!(reply.status, 201, "{:?}", reply.body);
        most = most.max(bodies.memory());
    }
    assert!(most <= BUDGET, "{most}");
    drop(slow);
    until(|| bodies.memory() == 0 && bodies.open() == 0).await;
}

#[tokio::test]
async fn slow_bodies_do_not_delay_shutdown() {
    let server = start(patient).await;
    let mut slow = unfinished(&server, "/v1/documents?name=slow.md", 1000, 3).await;
    until_reading(&server, 1).await;
    assert_eq!(server.stop().await, ragwire_server::serve::Shutdown::Drained);
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("shutting_down"),
        "{answer}"
    );
}

/// Few questions at a time.
fn small(settings: &mut Settings) {
    (settings.max_turns, settings.max_queued) = (Count(4), CountOrZero(4));
}

/// One client asks 16 questions that nobody answers, and another one asks one.
#[tokio::test]
async fn one_connection_leaves_room_for_others() {
    let server = start(small).await;
    let greedy: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .http2_initial_stream_window_size(1)
        .build_http();
    let ask = async || {
        let request = Request::post(format!("{}/v1/turns", server.base))
            .header(JSON.0, JSON.1)
            .body(Full::from(r#"{"prompt":"fault:silent"}"#))
            .unwrap();
        greedy.request(request).await.unwrap()
    };
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(ask().await);
    }
    assert!(open.iter().all(|response| response.status() == 200));
    for _ in 0..12 {
        assert_eq!(ask().await.status(), 429);
    }
    assert_eq!((server.app.turns.active(), server.app.turns.queued()), (2, 2));
    let reply = timeout(PATIENCE, server.ask(WHOLE, "commit?")).await;
    assert_eq!(reply.unwrap().status, 200);
}

#[tokio::test]
async fn one_user_leaves_room_for_others() {
    let server = start(|settings| {
        small(settings);
        settings.owner_header = Header(Some("x-user".parse().unwrap()));
    })
    .await;
    let ask = async |user, prompt: &str| {
        let headers = [JSON, ("x-user", user)];
        let body = json!({ "prompt": prompt }).to_string();
        server.send(Method::POST, "/v1/turns", &headers, body).await
    };
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(ask("alice", "fault:silent").await);
    }
    assert!(open.iter().all(|response| response.status() == 200));
    for _ in 0..12 {
        assert_eq!(ask("alice", "fault:silent").await.status(), 429);
    }
    let response = timeout(PATIENCE, ask("bob", "commit?")).await;
    assert_eq!(response.unwrap().status(), 200);
}
