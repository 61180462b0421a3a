//! Both orchestrators against a double of an OpenAI-compatible server, on a real socket.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "a test's own task")]

use std::net::SocketAddr;
use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use futures_util::StreamExt;
use ragwire::turn::{Collected, Pending};
use ragwire::{Ndjson, Question, Rejected, Status, Turn};
use ragwire_upstream_example::{with_async_openai, with_rig};
use rig_core::prelude::*;
use rig_core::providers::openai;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A test fails here rather than waiting for ever.
const DEADLINE: Duration = Duration::from_secs(20);

const YES: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Yes"},"finish_reason":null}]}"#;
const INDEED: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":", indeed."},"finish_reason":null}]}"#;
const STOP: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The server of one request.
struct Upstream {
    address: SocketAddr,
    /// The body of the request.
    request: oneshot::Receiver<String>,
    /// Fires when the client has closed its connection.
    closed: oneshot::Receiver<()>,
}

/// What follows the bytes of the response.
#[derive(Clone, Copy)]
enum Then {
    Close,
    WaitForClient,
}

/// Starts a server that answers the next request with `status` and these bytes.
async fn upstream(status: &'static str, content_type: &'static str, body: String, then: Then) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (request, request_receiver) = oneshot::channel();
    let (closed, closed_receiver) = oneshot::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        request.send(read_request(&mut socket).await).unwrap();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        if let Then::WaitForClient = then {
            // The client may close or reset its connection.
            let _ = socket.read(&mut [0; 64]).await;
            let _ = closed.send(());
        }
    });
    Upstream {
        address,
        request: request_receiver,
        closed: closed_receiver,
    }
}

/// Reads a request and returns its body.
async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        assert_ne!(
            socket.read_buf(&mut bytes).await.unwrap(),
            0,
            "the request is incomplete"
        );
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap().parse().unwrap() {
            return body.to_owned();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Library {
    AsyncOpenAi,
    Rig,
}

const LIBRARIES: [Library; 2] = [Library::AsyncOpenAi, Library::Rig];

fn ask(library: Library, address: SocketAddr) -> Pending {
    let base = format!("http://{address}/v1");
    let question = Question::new("Is it?");
    match library {
        Library::AsyncOpenAi => {
            let config = OpenAIConfig::new().with_api_base(base).with_api_key("key");
            let client = Client::with_config(config);
            Turn::start(|sink| with_async_openai::answer(client, question, sink))
        }
        Library::Rig => {
            let client = openai::CompletionsClient::builder()
                .api_key("key")
                .base_url(base)
                .build();
            let model = client.unwrap().completion_model("gpt-5-mini");
            Turn::start(|sink| with_rig::answer(model, question, sink))
        }
    }
}

async fn collect(library: Library, address: SocketAddr) -> Result<Collected, Rejected> {
    let collected = async { Ok(ask(library, address).commit().await?.collect().await.unwrap()) };
    tokio::time::timeout(DEADLINE, collected).await.unwrap()
}

/// The code of the failure, which a turn reports with a status before its commit and in its end after.
fn code(collected: Result<Collected, Rejected>) -> (String, String) {
    let collected = collected.unwrap();
    match collected.end.status {
        Status::Failed(failure) => (collected.text, failure.code().to_owned()),
        status => panic!("the turn ended as {status:?}"),
    }
}

#[tokio::test]
async fn the_text_of_the_model_is_the_answer() {
    for library in LIBRARIES {
        let body = [YES, INDEED, STOP, "[DONE]"].map(event).concat();
        let upstream = upstream("200 OK", "text/event-stream", body, Then::Close).await;
        let collected = collect(library, upstream.address).await.unwrap();
        assert_eq!(
            (&*collected.text, &collected.end.status),
            ("Yes, indeed.", &Status::Completed)
        );
        let request = upstream.request.await.unwrap();
        assert!(
            request.contains("Is it?") && request.contains("\"stream\":true"),
            "{library:?}: {request}"
        );
    }
}

#[tokio::test]
async fn an_error_of_the_server_is_a_failure_without_its_words() {
    for library in LIBRARIES {
        let body = r#"{"error":{"message":"secret detail","type":"invalid_request_error","param":null,"code":"bad"}}"#;
        let upstream = upstream(
            "400 Bad Request",
            "application/json",
            body.to_owned(),
            Then::Close,
        )
        .await;
        let rejected = collect(library, upstream.address).await.unwrap_err();
        assert_eq!(rejected.failure.code(), "chat_failed", "{library:?}");
        assert!(!rejected.failure.message.contains("secret"), "{library:?}");
    }
}

#[tokio::test]
async fn a_stream_without_its_end_is_truncated() {
    for library in LIBRARIES {
        let upstream = upstream("200 OK", "text/event-stream", event(YES), Then::Close).await;
        let failed = code(collect(library, upstream.address).await);
        assert_eq!(
            failed,
            ("Yes".to_owned(), "upstream_truncated".to_owned()),
            "{library:?}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_leaves_ends_the_request() {
    for library in LIBRARIES {
        let upstream = upstream("200 OK", "text/event-stream", event(YES), Then::WaitForClient).await;
        let turn = tokio::time::timeout(DEADLINE, ask(library, upstream.address).commit()).await;
        let mut stream = turn.unwrap().unwrap().stream(&Ndjson::default());
        assert_eq!(
            stream.next().await.unwrap(),
            "{\"index\":0,\"text\":\"Yes\"}\n",
            "{library:?}"
        );
        drop(stream);
        tokio::time::timeout(DEADLINE, upstream.closed)
            .await
            .unwrap()
            .unwrap();
    }
}
