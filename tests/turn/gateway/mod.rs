//! The WebSocket gateway with tungstenite's client, over real sockets on hyper and axum, and over
//! pipes on a paused clock. Expected messages are literals. Handshakes between test and
//! orchestrator make the order certain.
#![allow(clippy::disallowed_methods, reason = "servers and clients here are tasks")]

mod any;
mod auth;
mod calls;
mod ends;
mod handshake;
mod refusals;
mod triples;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire::http::gateway::{Call, Gateway, GatewayBuilder, ServiceKind};
use ragwire::turn::BoxError;
use ragwire::{Failure, Metadata, Rejected, Sink, Turn};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A time-out that is longer than any step takes on a busy machine. No test that passes waits for
/// it.
const PATIENCE: Duration = Duration::from_secs(30);

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

// ---- orchestrators ----

/// A step that the test requests from an orchestrator.
#[derive(Debug)]
enum Step {
    Text(&'static str),
    Fail,
    Panic,
}

/// Reports when it is dropped.
struct DropSignal(Option<oneshot::Sender<()>>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.take().map(|gone| gone.send(()));
    }
}

/// The test's side of one orchestrator; dropping it completes the turn.
struct Part {
    steps: mpsc::Sender<Step>,
    gone: oneshot::Receiver<()>,
}

impl Part {
    async fn send_text(&self, text: &'static str) {
        self.steps.send(Step::Text(text)).await.unwrap();
    }
}

/// Orchestrators by the query that starts them.
#[derive(Clone, Default)]
struct Stage {
    scripts: Arc<Mutex<Scripts>>,
    /// What its turns are padded to, in bytes.
    pad_to: usize,
}

type Scripts = HashMap<&'static str, (mpsc::Receiver<Step>, DropSignal)>;

impl Stage {
    /// Lets the test play the answer to the query `name`.
    fn part(&self, name: &'static str) -> Part {
        let (steps, script) = mpsc::channel(64);
        let (sender, gone) = oneshot::channel();
        let previous = self
            .scripts
            .lock()
            .unwrap()
            .insert(name, (script, DropSignal(Some(sender))));
        assert!(previous.is_none());
        Part { steps, gone }
    }

    fn handler(
        &self,
    ) -> impl Fn(Call) -> futures_util::future::BoxFuture<'static, Result<Turn, Rejected>> + use<> {
        let stage = self.clone();
        move |call: Call| {
            let pad_to = stage.pad_to;
            let part = stage.scripts.lock().unwrap().remove(call.query());
            Box::pin(async move {
                let Some((mut script, gone)) = part else {
                    return Err(Rejected::new(Failure::new(
                        "bad_request",
                        "Nobody plays that part.",
                    )));
                };
                Turn::start(async move |sink: Sink| {
                    let _gone = gone;
                    while let Some(step) = script.recv().await {
                        match step {
                            Step::Text(text) => sink.send(text).await?,
                            Step::Fail => return Err("/etc/secret: no such key".into()),
                            Step::Panic => panic!("the test requests a panic"),
                        }
                    }
                    Ok::<_, BoxError>(Metadata::default())
                })
                .commit()
                .await
                .map(|turn| turn.pad_to(pad_to))
            })
        }
    }

    /// Returns a gateway whose services `graph-rag` and `document-rag` are this stage.
    fn gateway(&self) -> GatewayBuilder {
        Gateway::builder()
            .service("graph-rag", ServiceKind::GraphRag, self.handler())
            .service("document-rag", ServiceKind::DocumentRag, self.handler())
    }
}

// ---- servers ----

#[derive(Clone, Copy, Debug)]
enum Server {
    Hyper,
    Axum,
}

impl Server {
    async fn serve(self, gateway: &Gateway) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = gateway.clone();
        match self {
            Self::Axum => {
                let socket =
                    move |mut request: Request| async move { gateway.upgrade(&mut request).map(Body::new) };
                let router = axum::Router::new().route("/api/v1/socket", axum::routing::any(socket));
                tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
            }
            Self::Hyper => {
                tokio::spawn(async move {
                    loop {
                        let (socket, _) = listener.accept().await.unwrap();
                        let gateway = gateway.clone();
                        let service = service_fn(move |mut request: http::Request<Incoming>| {
                            let response = gateway.upgrade(&mut request);
                            async move { Ok::<_, Infallible>(response) }
                        });
                        tokio::spawn(
                            hyper::server::conn::http1::Builder::new()
                                .serve_connection(TokioIo::new(socket), service)
                                .with_upgrades(),
                        );
                    }
                });
            }
        }
        address
    }

    async fn connect(self, gateway: &Gateway) -> Client<TcpStream> {
        let address = self.serve(gateway).await;
        let socket = TcpStream::connect(address).await.unwrap();
        Client::shake(socket).await
    }
}

/// The bytes that fit into the pipe of a client on a paused clock.
const PIPE_BYTES: usize = 1024;

/// Connects a client over a pipe, for the paused clock. Also returns the socket's task, which must
/// not panic.
async fn piped(gateway: &Gateway) -> (Client<DuplexStream>, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (sender, socket) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let gateway = gateway.clone();
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        let (response, socket) = gateway.accept(&mut request).unwrap();
        let sender = sender.lock().unwrap().take().unwrap();
        sender.send(tokio::spawn(socket)).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    tokio::spawn(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), service)
            .with_upgrades(),
    );
    let client = Client::shake(ours).await;
    (client, socket.await.unwrap())
}

/// Waits for the socket's task, which must not panic, for longer than its own time-outs.
async fn finished(socket: JoinHandle<()>) {
    let result = tokio::time::timeout(10 * PATIENCE, socket).await;
    result.unwrap().unwrap();
}

// ---- the client ----

struct Client<S>(WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn shake(socket: S) -> Self {
        let (client, response) = tokio_tungstenite::client_async("ws://x/api/v1/socket", socket)
            .await
            .unwrap();
        assert_eq!(response.status(), 101);
        // The client does not offer compression, so the server does not use any.
        assert!(!response.headers().contains_key("sec-websocket-extensions"));
        Self(client)
    }

    async fn send(&mut self, message: impl fmt::Display) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Asks `graph-rag` for a stream, with the ID as the query.
    async fn ask(&mut self, id: &str) {
        self.send(request(id, id)).await;
    }

    /// Receives the next message, which is text.
    async fn text(&mut self) -> String {
        match soon(self.0.next()).await.unwrap().unwrap() {
            Message::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    async fn texts(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(self.text().await);
        }
        texts
    }

    /// Asserts that these are the next messages.
    async fn expect<const N: usize>(&mut self, expected: [String; N]) {
        assert_eq!(self.texts(N).await, expected);
    }

    /// Asserts that only the server's close frame and the end of the connection follow.
    async fn expect_close(&mut self, code: u16, reason: &str) {
        match soon(self.0.next()).await.unwrap().unwrap() {
            Message::Close(Some(CloseFrame {
                code: sent,
                reason: why,
            })) => {
                assert_eq!((u16::from(sent), why.as_str()), (code, reason));
            }
            other => panic!("{other:?}"),
        }
        assert!(soon(self.0.next()).await.is_none_or(|end| end.is_err()));
    }
}

fn request(id: &str, query: &str) -> Value {
    json!({
        "id": id, "service": "graph-rag", "flow": "default",
        "request": { "query": query, "streaming": true },
    })
}

// ---- messages of the server ----

fn chunk(id: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{id}","response":{{"message_type":"chunk","response":"{text}","chunk":"{text}","end_of_stream":false,"end_of_session":false}},"complete":false}}"#
    )
}

/// Returns the message after the last text, which is empty.
fn marker(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","response":{{"message_type":"chunk","response":"","chunk":"","end_of_stream":true,"end_of_session":false}},"complete":false}}"#
    )
}

fn last(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","response":{{"message_type":"chunk","response":"","chunk":"","end_of_stream":false,"end_of_session":true}},"complete":true}}"#
    )
}

fn error(id: &str, kind: &str, message: &str) -> String {
    format!(r#"{{"id":"{id}","error":{{"message":"{message}","type":"{kind}"}},"complete":true}}"#)
}

/// Returns an error without an ID.
fn no_id(kind: &str, message: &str) -> String {
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}"}},"complete":true}}"#)
}

const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";

/// Returns the last message of a failed turn.
fn failed(id: &str, kind: &str, code: &str, message: &str) -> String {
    format!(
        r#"{{"id":"{id}","error":{{"message":"{message}","type":"{kind}"}},"response":{{"error":{{"message":"{message}","type":"{kind}"}},"end_of_stream":true,"end_of_session":true,"metadata":{{"citations":[],"tools_used":["chat_failed"],"status":"failed","error":{{"code":"{code}","message":"{message}","recoverable":true}}}}}},"complete":true}}"#
    )
}
