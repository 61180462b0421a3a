//! WebSockets through ASGI.
//!
//! The ASGI server has done the handshake and hands over messages, but the gateway of the endpoints
//! upgrades a connection of hyper. So the router serves a connection in memory, on whose other end a
//! WebSocket client passes the messages on. All checks and limits of the gateway apply as they are.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{HeaderMap, Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use ragwire_endpoints::{Peer, SocketSlot};
use tokio::io::DuplexStream;
use tokio::sync::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tower::ServiceExt;

use crate::event_loop::EventLoop;
use crate::promise::{Outcome, Promise};
use crate::service::RequestOwner;
use crate::sink::outcome;

/// What may wait between the two ends, in bytes: some tokens. Beyond it the gateway waits.
const PIPE_BYTES: usize = 16 << 10;

type Stream = WebSocketStream<DuplexStream>;

/// An open WebSocket, from the client's side.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct WebSocket {
    sender: Arc<Mutex<SplitSink<Stream, Message>>>,
    receiver: Arc<Mutex<SplitStream<Stream>>>,
}

/// Headers of the handshake between the ASGI server and its client, which the connection in memory
/// has for itself.
fn is_of_handshake(name: &HeaderName) -> bool {
    *name == CONNECTION || *name == UPGRADE || name.as_str().starts_with("sec-websocket-")
}

/// Opens the WebSocket at `target` for an owner and a peer. The result is a `WebSocket`, or the status, the headers and the
/// body of the refusal.
pub(crate) async fn open(
    event_loop: Arc<EventLoop>,
    router: axum::Router,
    (owner, peer): (RequestOwner, Option<Peer>),
    target: String,
    headers: HeaderMap,
) -> Outcome {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let slot = SocketSlot::new();
    let theirs = slot.clone();
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(owner.clone());
        request.extensions_mut().insert(theirs.clone());
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .serve_connection(TokioIo::new(far), service)
        .with_upgrades();
    event_loop.spawn(Box::pin(async move {
        // A connection in memory breaks only when its other end is dropped.
        let _ = connection.await;
        if let Some(socket) = slot.take() {
            socket.await;
        }
    }));
    let request = match client_request(&target, headers) {
        Ok(request) => request,
        Err(error) => return failed(&error),
    };
    match tokio_tungstenite::client_async(request, near).await {
        Ok((stream, _)) => {
            let (sender, receiver) = stream.split();
            outcome(move |py| {
                let socket = WebSocket {
                    sender: Arc::new(Mutex::new(sender)),
                    receiver: Arc::new(Mutex::new(receiver)),
                };
                Ok(Py::new(py, socket)?.into_any())
            })
        }
        Err(Error::Http(refusal)) => outcome(move |py| refused(py, &refusal)),
        Err(error) => failed(&error),
    }
}

fn client_request(target: &str, headers: HeaderMap) -> Result<Request<()>, Error> {
    let mut request = format!("ws://ragwire{target}").into_client_request()?;
    let mut last = None;
    for (name, value) in headers {
        last = name.or(last);
        let Some(name) = &last else { continue };
        if is_of_handshake(name) {
            continue;
        }
        if *name == http::header::HOST {
            request.headers_mut().insert(name, value);
        } else {
            request.headers_mut().append(name, value);
        }
    }
    Ok(request)
}

fn refused(py: Python<'_>, refusal: &Response<Option<Vec<u8>>>) -> PyResult<Py<PyAny>> {
    let headers = PyList::empty(py);
    for (name, value) in refusal.headers() {
        headers.append((
            PyBytes::new(py, name.as_str().as_bytes()),
            PyBytes::new(py, value.as_bytes()),
        ))?;
    }
    let body = refusal.body().as_deref().unwrap_or_default();
    let refused = (refusal.status().as_u16(), headers, PyBytes::new(py, body));
    Ok(refused.into_pyobject(py)?.into_any().unbind())
}

fn failed(error: &Error) -> Outcome {
    let message = error.to_string();
    outcome(move |_| Err(pyo3::exceptions::PyOSError::new_err(message)))
}

#[pymethods]
impl WebSocket {
    /// Passes a message of the client on. Raises `OSError` if the socket is closed.
    fn send(&self, message: &Bound<'_, PyAny>) -> PyResult<Promise> {
        let message = match message.cast::<PyBytes>() {
            Ok(bytes) => Message::Binary(Bytes::copy_from_slice(bytes.as_bytes())),
            Err(_) => Message::text(message.cast::<PyString>()?.to_str()?),
        };
        let sender = Arc::clone(&self.sender);
        Ok(Promise::new("WebSocket.send()", async move {
            match sender.lock().await.send(message).await {
                Ok(()) => outcome(|py| Ok(py.None())),
                Err(error) => failed(&error),
            }
        }))
    }

    /// Returns the next message for the client as `str` or `bytes`, or at the end the code and the
    /// reason with which the socket is closed.
    fn receive(&self) -> Promise {
        let receiver = Arc::clone(&self.receiver);
        Promise::new("WebSocket.receive()", async move {
            loop {
                match receiver.lock().await.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return outcome(move |py| Ok(PyString::new(py, &text).into_any().unbind()));
                    }
                    Some(Ok(Message::Binary(bytes))) => {
                        return outcome(move |py| Ok(PyBytes::new(py, &bytes).into_any().unbind()));
                    }
                    Some(Ok(Message::Close(Some(frame)))) => {
                        let (code, reason) = (u16::from(frame.code), frame.reason.to_string());
                        return closed(code, reason);
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(None)) | Err(_)) | None => return closed(1000, String::new()),
                }
            }
        })
    }
}

fn closed(code: u16, reason: String) -> Outcome {
    outcome(move |py| {
        let closed: Bound<'_, PyTuple> = (code, reason).into_pyobject(py)?;
        Ok(closed.into_any().unbind())
    })
}
