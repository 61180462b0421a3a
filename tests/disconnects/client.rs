//! Clients that disconnect. Each one is a well-behaved client (hyper, tungstenite) behind a relay
//! that manipulates the socket as the test asks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, copy_bidirectional};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::server::Transport;
use crate::until;

/// The kernel's receive buffer of the client.
const RECEIVE_BUFFER_BYTES: u32 = 4 << 10;
/// The buffer of the client's library.
const PIPE_BYTES: usize = 4 << 10;
/// The HTTP/2 window of one stream: how much the server may send to a client that reads nothing.
const WINDOW_BYTES: u32 = 16 << 10;
/// The time that a slow client takes for a byte. Relative to the time-outs here it is like a second
/// for a real server.
const BYTE: Duration = Duration::from_millis(200);

/// The way in which a client disconnects or seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It closes the socket.
    Fin,
    /// It resets the connection.
    Rst,
    /// It half-closes the connection and continues to read.
    HalfClose,
    /// It sends one unexpected byte and then closes the socket.
    FinAfterExtraByte,
    /// Nothing passes in either direction, and neither side gets an error.
    BlackHole,
    /// It reads nothing. On HTTP/2 it abandons one stream and keeps the connection.
    Stalled,
    /// It reads one byte at a time, slowly.
    Slow,
}

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::Fin,
        Self::Rst,
        Self::HalfClose,
        Self::FinAfterExtraByte,
        Self::BlackHole,
        Self::Stalled,
        Self::Slow,
    ];
}

/// A client that has sent its request. Dropping it closes the connection.
pub(crate) struct Client {
    transport: Transport,
    received: Arc<Mutex<Vec<u8>>>,
    ended: Arc<Mutex<bool>>,
    fault: Option<oneshot::Sender<Fault>>,
    /// `false` if the client does not read.
    reads: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Client {
    pub(crate) async fn ask(transport: Transport, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
        let socket = socket.connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (app, wire) = tokio::io::duplex(PIPE_BYTES);
        let (fault, faults) = oneshot::channel();
        let (reads, may_read) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(carry(transport, wire, socket, faults, may_read.clone()));
        let received_bytes = Received {
            received: Arc::default(),
            ended: Arc::default(),
            may_read,
        };
        let (received, ended) = (
            Arc::clone(&received_bytes.received),
            Arc::clone(&received_bytes.ended),
        );
        tasks.spawn(read(transport, app, received_bytes));
        Self {
            transport,
            received,
            ended,
            fault: Some(fault),
            reads,
            _tasks: tasks,
        }
    }

    /// Disconnects.
    pub(crate) fn leave(&mut self, fault: Fault) {
        self.reads.send_replace(fault != Fault::Stalled);
        if self.transport != Transport::Http2 || fault != Fault::Stalled {
            self.fault.take().unwrap().send(fault).unwrap();
        }
    }

    /// Continues to read after a stall.
    pub(crate) fn read_on(&self) {
        self.reads.send_replace(true);
    }

    /// Waits until it has read something.
    pub(crate) async fn has_read(&self) {
        until("the client reads something", || {
            !self.received.lock().unwrap().is_empty()
        })
        .await;
    }

    /// Returns everything that it reads until the end.
    pub(crate) async fn all(&self) -> String {
        until("the client's answer ends", || *self.ended.lock().unwrap()).await;
        String::from_utf8(self.received.lock().unwrap().clone()).unwrap()
    }
}

/// Everything that the client's library reads.
struct Received {
    received: Arc<Mutex<Vec<u8>>>,
    ended: Arc<Mutex<bool>>,
    may_read: watch::Receiver<bool>,
}

impl Received {
    async fn may_read(&mut self) {
        let _ = self.may_read.wait_for(|may| *may).await;
    }

    fn add(&self, bytes: &[u8]) {
        self.received.lock().unwrap().extend_from_slice(bytes);
    }

    async fn body(mut self, response: hyper::Result<http::Response<Incoming>>) {
        if let Ok(response) = response {
            let mut body = response.into_body();
            self.may_read().await;
            while let Some(Ok(frame)) = body.frame().await {
                self.add(&frame.into_data().unwrap_or_default());
                self.may_read().await;
            }
        }
        *self.ended.lock().unwrap() = true;
    }
}

fn request() -> Request<Empty<Bytes>> {
    Request::get("http://x/turn")
        .header("host", "x")
        .body(Empty::new())
        .unwrap()
}

/// The client's own library.
async fn read(transport: Transport, app: DuplexStream, received_bytes: Received) {
    match transport {
        Transport::Http1 => {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(app))
                .await
                .unwrap();
            let exchange = async {
                received_bytes.body(sender.send_request(request()).await).await;
                std::future::pending::<()>().await;
            };
            tokio::select! { _ = connection => {} () = exchange => {} }
        }
        Transport::Http2 => {
            let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(WINDOW_BYTES)
                .handshake(TokioIo::new(app))
                .await
                .unwrap();
            let exchange = async {
                received_bytes.body(sender.send_request(request()).await).await;
                std::future::pending::<()>().await;
            };
            tokio::select! { _ = connection => {} () = exchange => {} }
        }
        Transport::WebSocket => {
            let Ok((mut socket, _)) = tokio_tungstenite::client_async("ws://x/", app).await else {
                return;
            };
            let question = json!({
                "id": "1", "service": "graph-rag", "flow": "default",
                "request": { "query": "why?", "streaming": true },
            });
            let _ = socket.send(Message::text(question.to_string())).await;
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Text(text) = message {
                    received_bytes.add(text.as_bytes());
                    received_bytes.add(b"\n");
                }
            }
            *received_bytes.ended.lock().unwrap() = true;
        }
    }
}

/// Relays bytes between the client's library and its socket until the disconnect.
async fn carry(
    transport: Transport,
    mut app: DuplexStream,
    mut socket: TcpStream,
    fault: oneshot::Receiver<Fault>,
    mut may_read: watch::Receiver<bool>,
) {
    let fault = tokio::select! {
        fault = fault => fault,
        _ = copy_bidirectional(&mut app, &mut socket) => return,
    };
    match fault {
        // The client was dropped.
        Err(_) => {}
        Ok(Fault::Fin) => {
            let _ = socket.shutdown().await;
        }
        Ok(Fault::Rst) => socket.set_zero_linger().unwrap(),
        Ok(Fault::HalfClose) => {
            let _ = socket.shutdown().await;
            let _ = copy(&mut socket, &mut app).await;
        }
        Ok(Fault::FinAfterExtraByte) => {
            // The first byte of another request, or of a text frame on a WebSocket.
            let byte = match transport {
                Transport::Http1 => b'G',
                Transport::Http2 => 0,
                Transport::WebSocket => 0x81,
            };
            let _ = socket.write_all(&[byte]).await;
            let _ = socket.shutdown().await;
        }
        Ok(Fault::BlackHole) => std::future::pending().await,
        Ok(Fault::Stalled) => {
            {
                let (_from, mut to) = socket.split();
                tokio::select! {
                    () = async { drop(may_read.wait_for(|may| *may).await) } => {}
                    _ = copy(&mut app, &mut to) => std::future::pending().await,
                }
            }
            let _ = copy_bidirectional(&mut app, &mut socket).await;
        }
        Ok(Fault::Slow) => {
            let ((mut from, mut to), (mut app_reader, mut app_writer)) =
                (socket.split(), tokio::io::split(app));
            let trickle = async {
                let mut byte = [0];
                while from.read_exact(&mut byte).await.is_ok() && app_writer.write_all(&byte).await.is_ok() {
                    tokio::time::sleep(BYTE).await;
                }
            };
            let _ = tokio::join!(trickle, copy(&mut app_reader, &mut to));
            std::future::pending().await
        }
    }
}
