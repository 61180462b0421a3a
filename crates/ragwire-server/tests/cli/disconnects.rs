//! Clients that disconnect from the program by FIN or RST, or that stop reading, on each transport.
//! Afterwards no turn is left.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::Served;

/// Longer than any step of this test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Fin,
    Rst,
    /// The client keeps the connection and reads nothing.
    Stalled,
}

impl Fault {
    fn question(self) -> &'static str {
        match self {
            Self::Fin | Self::Rst => "fault:silent",
            Self::Stalled => "fault:flood",
        }
    }
}

/// Asks over HTTP/1 or HTTP/2 and reads the first bytes. The returned value keeps the connection
/// open.
async fn ask(socket: TcpStream, version: u8, fault: Fault) -> JoinSet<()> {
    let body = json!({ "prompt": fault.question() }).to_string();
    let request = Request::post("http://localhost/v1/turns")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::<Bytes>::from(body))
        .unwrap();
    let socket = TokioIo::new(socket);
    let mut kept = JoinSet::new();
    let response = if version == 1 {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(socket).await.unwrap();
        kept.spawn(async { drop(connection.await) });
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), socket)
            .await
            .unwrap();
        kept.spawn(async { drop(connection.await) });
        let response = sender.send_request(request).await.unwrap();
        kept.spawn(async move {
            let _sender = sender;
            std::future::pending().await
        });
        response
    };
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    kept.spawn(async move {
        let _body = body;
        std::future::pending().await
    });
    kept
}

/// Asks on TrustGraph's socket.
async fn ask_gateway(socket: TcpStream, address: &str, fault: Fault) -> JoinSet<()> {
    let url = format!("ws://{address}/api/v1/socket");
    let (mut socket, _) = tokio_tungstenite::client_async(url, socket).await.unwrap();
    let question = json!({
        "id": "1", "service": "graph-rag", "flow": "default",
        "request": { "query": fault.question(), "streaming": true },
    });
    socket.send(Message::text(question.to_string())).await.unwrap();
    socket.next().await.unwrap().unwrap();
    let mut kept = JoinSet::new();
    kept.spawn(async move {
        let _socket = socket;
        std::future::pending().await
    });
    kept
}

async fn active_turns(address: &str) -> u64 {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let health: Value = serde_json::from_str(body).unwrap();
    health["active_turns"].as_u64().unwrap()
}

#[tokio::test]
async fn disconnected_clients_leave_no_turn() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(
        folder.path(),
        &["--disconnect-grace", "300ms", "--write-timeout", "1s"],
    );
    let address = served.address.strip_prefix("http://").unwrap();
    for transport in ["HTTP/1", "HTTP/2", "WebSocket"] {
        for fault in [Fault::Fin, Fault::Rst, Fault::Stalled] {
            let all = async {
                let socket = TcpStream::connect(address).await.unwrap();
                if fault == Fault::Rst {
                    // Closing it then resets it.
                    socket.set_zero_linger().unwrap();
                }
                let client = match transport {
                    "HTTP/1" => ask(socket, 1, fault).await,
                    "HTTP/2" => ask(socket, 2, fault).await,
                    _ => ask_gateway(socket, address, fault).await,
                };
                if fault != Fault::Stalled {
                    assert_eq!(active_turns(address).await, 1);
                    drop(client);
                    while active_turns(address).await > 0 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    return;
                }
                while active_turns(address).await > 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                // It was connected to the end.
                drop(client);
            };
            let ended = tokio::time::timeout(PATIENCE, all).await;
            assert!(ended.is_ok(), "a turn is left: {transport} {fault:?}");
        }
    }
}
