//! HTTP over one connection: its settings, and the version that a client speaks.
//!
//! hyper-util detects the version by reading the first bytes and handing them to hyper again. That
//! doubles hyper's read buffer for as long as the connection is open. This module peeks at them in the
//! socket instead, and uses hyper-util only for what may be HTTP/2.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

/// hyper's buffer per connection, enough for some events. Each stalled reader would cost its
/// default of 400 KiB.
const MAX_BUFFER_BYTES: usize = 64 << 10;
/// Concurrent streams of one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;
/// How often an HTTP/2 client is pinged, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
/// What a client that speaks HTTP/2 sends first (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The version of HTTP of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    /// HTTP/1.1 or HTTP/2, as the first bytes say.
    Either,
}

impl Version {
    /// Waits for the first bytes of a connection. They stay in the socket.
    pub(crate) async fn sent(socket: &TcpStream) -> Self {
        let mut first = [0; HTTP2_PREFACE.len()];
        match socket.peek(&mut first).await {
            Ok(length) if !HTTP2_PREFACE.starts_with(&first[..length]) => Self::Http1,
            // Also the end and errors, which hyper reports.
            Ok(_) | Err(_) => Self::Either,
        }
    }
}

/// The settings of all connections.
#[derive(Debug)]
pub(crate) struct Http {
    http1: http1::Builder,
    either: auto::Builder<TokioExecutor>,
}

impl Http {
    /// A request's head must arrive within `header_timeout`.
    pub(crate) fn new(header_timeout: Duration) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(MAX_BUFFER_BYTES)
            // For small chunks one flat write is cheaper than a list of buffers.
            .writev(false);
        // The same settings: its builder is another type.
        let mut either = auto::Builder::new(TokioExecutor::new());
        either
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(MAX_BUFFER_BYTES)
            .writev(false);
        either
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY)
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buf_size(MAX_BUFFER_BYTES);
        Self { http1, either }
    }

    /// Serves a connection until it closes.
    pub(crate) fn serve<I, S>(&self, version: Version, socket: I, service: S) -> Serving<'_, I, S>
    where
        I: Read + Write + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S::Future: Send + 'static,
    {
        match version {
            Version::Http1 => {
                let connection = self.http1.serve_connection(socket, service);
                Serving::Http1(Box::pin(connection.with_upgrades()))
            }
            Version::Either => {
                let connection = self.either.serve_connection_with_upgrades(socket, service);
                Serving::Either(Box::pin(connection))
            }
        }
    }
}

/// A connection that is being served. Boxed, because the two kinds differ in size.
pub(crate) enum Serving<'a, I, S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    Http1(Pin<Box<http1::UpgradeableConnection<I, S>>>),
    Either(Pin<Box<auto::UpgradeableConnection<'a, I, S, TokioExecutor>>>),
}

impl<I, S> Serving<'_, I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    /// Closes the connection after the requests that have begun.
    pub(crate) fn shut_down(&mut self) {
        match self {
            Self::Http1(connection) => connection.as_mut().graceful_shutdown(),
            Self::Either(connection) => connection.as_mut().graceful_shutdown(),
        }
    }
}

impl<I, S> Future for Serving<'_, I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Output = Result<(), Box<dyn Error + Send + Sync>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Http1(connection) => connection.as_mut().poll(cx).map_err(Into::into),
            Self::Either(connection) => connection.as_mut().poll(cx),
        }
    }
}
