//! A test double of a server, which answers with prepared bytes: a real hyper server on a real
//! socket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) const EVENTS: &str = "text/event-stream";

/// What follows the bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Then {
    /// The end of the body.
    End,
    /// The connection is closed early.
    Cut,
    /// Nothing, ever.
    Hang,
}

/// One response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    then: Then,
    /// The request gets no response at all.
    silent: bool,
}

impl Reply {
    pub(crate) fn new(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Self {
        Self {
            status,
            headers: vec![("content-type", kind.to_owned())],
            chunks: vec![body.as_ref().to_vec()],
            then: Then::End,
            silent: false,
        }
    }

    pub(crate) fn events(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, EVENTS, body)
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Accepts the request and never answers.
    pub(crate) fn silent() -> Self {
        Self {
            silent: true,
            ..Self::events("")
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn no_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    /// Sends each of these chunks separately.
    pub(crate) fn chunks<'a>(mut self, chunks: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.chunks = chunks.into_iter().map(<[u8]>::to_vec).collect();
        self
    }

    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

#[derive(Debug)]
struct Inner {
    replies: Mutex<VecDeque<Reply>>,
    recorded: Mutex<Vec<RecordedRequest>>,
    /// The number of opened and of closed connections.
    connections: watch::Sender<(usize, usize)>,
    requests: watch::Sender<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Double {
    inner: Arc<Inner>,
    /// `http://…/v1`
    pub(crate) base: String,
}

impl Double {
    /// Sends these replies, one per request; then 599.
    pub(crate) async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            replies: Mutex::new(replies.into_iter().collect()),
            recorded: Mutex::default(),
            connections: watch::Sender::new((0, 0)),
            requests: watch::Sender::new(0),
        });
        let double = Self {
            base: format!("http://{}/v1", listener.local_addr().unwrap()),
            inner: Arc::clone(&inner),
        };
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                inner.connections.send_modify(|(opened, _)| *opened += 1);
                let inner = Arc::clone(&inner);
                tokio::spawn(async move {
                    let service = service_fn(|request| answer(Arc::clone(&inner), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                    inner.connections.send_modify(|(_, closed)| *closed += 1);
                });
            }
        });
        double
    }

    pub(crate) fn recorded(&self) -> Vec<RecordedRequest> {
        self.inner.recorded.lock().unwrap().clone()
    }

    pub(crate) fn opened(&self) -> usize {
        self.inner.connections.borrow().0
    }

    pub(crate) fn left(&self) -> usize {
        self.inner.replies.lock().unwrap().len()
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn requests(&self, count: usize) {
        let mut requests = self.inner.requests.subscribe();
        requests.wait_for(|recorded| *recorded >= count).await.unwrap();
    }

    /// Waits until this many connections are closed.
    pub(crate) async fn closed(&self, count: usize) {
        let mut connections = self.inner.connections.subscribe();
        connections
            .wait_for(|(_, closed)| *closed >= count)
            .await
            .unwrap();
    }
}

async fn answer(
    inner: Arc<Inner>,
    request: Request<Incoming>,
) -> Result<Response<impl Body<Data = Bytes, Error = io::Error>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    inner.recorded.lock().unwrap().push(RecordedRequest {
        line: format!("{} {}", head.method, head.uri),
        headers: head.headers,
        // A request without a body is recorded as null.
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    inner.requests.send_modify(|recorded| *recorded += 1);
    let reply = inner.replies.lock().unwrap().pop_front();
    let reply = reply.unwrap_or_else(|| Reply::new(599, "text/plain", "no more replies"));
    if reply.silent {
        std::future::pending::<()>().await;
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let chunks = VecDeque::from(reply.chunks);
    let frames = stream::unfold((chunks, reply.then), |(mut chunks, then)| async move {
        // Yields, so that the bytes of each chunk are written separately.
        tokio::task::yield_now().await;
        if let Some(chunk) = chunks.pop_front() {
            return Some((Ok(Frame::data(Bytes::from(chunk))), (chunks, then)));
        }
        match then {
            Then::End => None,
            Then::Cut => Some((Err(io::Error::other("cut")), (chunks, then))),
            Then::Hang => std::future::pending().await,
        }
    });
    Ok(response.body(StreamBody::new(frames)).unwrap())
}

/// A server that does not speak HTTP: after each request it writes these bytes and closes the
/// connection.
pub(crate) async fn raw(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(&bytes).await;
                let _ = socket.shutdown().await;
                // Unread bytes would turn the close into a reset.
                let rest = async { while socket.read(&mut request).await.is_ok_and(|read| read > 0) {} };
                let _ = tokio::time::timeout(Duration::from_secs(5), rest).await;
            });
        }
    });
    base
}
