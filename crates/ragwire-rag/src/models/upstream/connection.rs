//! One HTTP/1.1 connection that is polled by the task that uses it, and the idle connections of a
//! client.
//!
//! hyper-util's client runs each connection as a separate task, which hands over one chunk at a
//! time. A stream of many small chunks then switches between two tasks for each of them, even if
//! all have arrived at once. Here the reader of a body polls the connection itself and finds every
//! chunk that has arrived.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::error::UpstreamError;

/// Size of the largest head of a response, and of a read: gateways add cookies and policies. Four
/// times the limit of hyper's own server.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Number of headers at most; hyper's default.
const MAX_HEADERS: usize = 100;
/// How long an idle connection is kept. Node closes after 5 seconds, others later; a connection that
/// the server has closed is replaced.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Number of idle connections at most: as many turns as a server runs at a time by default. Each
/// has a buffer of 8 KiB and usually no more.
const MAX_IDLE_CONNECTIONS: usize = 64;

/// The socket of a connection, with or without TLS.
pub(super) type Socket = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection for one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// What reads and writes; `None` once the connection has ended.
    driver: Option<Box<http1::Connection<Socket, Full<Bytes>>>>,
}

impl Connection {
    /// Prepares a connection on a connected socket.
    pub(super) async fn new(socket: Socket) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(socket)
            .await?;
        Ok(Self {
            sender,
            driver: Some(Box::new(driver)),
        })
    }

    /// Reads and writes what is possible now.
    fn drive(&mut self, cx: &mut Context<'_>) {
        // The request or the body that an error belongs to reports it.
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Returns `true` if a request can be sent.
    fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Returns `true` if the server has not closed the idle connection.
    pub(super) async fn is_open(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(self.is_ready())
        })
        .await
    }

    /// Sends a request and returns the head of its response.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, drop the connection too.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut response = pin!(self.sender.send_request(request));
        poll_fn(|cx| {
            self.drive(cx);
            response.as_mut().poll(cx)
        })
        .await
    }
}

/// A server: connections to it are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
}

impl Server {
    pub(super) fn of(uri: &Uri) -> Self {
        Self {
            scheme: uri.scheme().cloned(),
            authority: uri.authority().cloned(),
        }
    }
}

/// The idle connections of a client.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    idle: Vec<Idle>,
    /// A task closes connections that have been idle for too long.
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    server: Server,
    connection: Connection,
    since: Instant,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection to the server that was used last.
    pub(super) fn take(&self, server: &Server) -> Option<Connection> {
        let mut state = self.lock();
        let at = state.idle.iter().rposition(|idle| idle.server == *server)?;
        Some(state.idle.remove(at).connection)
    }

    fn put(self: &Arc<Self>, server: Server, connection: Connection) {
        // Without a runtime nothing would close it.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut state = self.lock();
        if state.idle.len() >= MAX_IDLE_CONNECTIONS {
            return;
        }
        let since = Instant::now();
        state.idle.push(Idle {
            server,
            connection,
            since,
        });
        if !std::mem::replace(&mut state.is_swept, true) {
            // Ends with the last idle connection, or with the client.
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Closes connections that have been idle for too long.
async fn sweep(pool: Weak<Pool>) {
    loop {
        let oldest = {
            let Some(pool) = pool.upgrade() else {
                return;
            };
            let mut state = pool.lock();
            state.idle.retain(|idle| idle.since.elapsed() < MAX_IDLE);
            let Some(oldest) = state.idle.first() else {
                state.is_swept = false;
                return;
            };
            oldest.since
        };
        sleep_until(oldest + MAX_IDLE).await;
    }
}

/// The body of a response. Reading it to its end makes its connection usable again; dropping it
/// before closes the connection.
#[derive(Debug)]
pub struct HttpBody {
    body: Incoming,
    /// `None` once the body has ended.
    connection: Option<Connection>,
    server: Server,
    pool: Arc<Pool>,
}

impl HttpBody {
    pub(super) fn new(body: Incoming, connection: Connection, server: Server, pool: Arc<Pool>) -> Self {
        Self {
            body,
            connection: Some(connection),
            server,
            pool,
        }
    }

    /// Returns the connection to the pool if its response is complete.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take().filter(Connection::is_ready) {
            self.pool.put(self.server.clone(), connection);
        }
    }

    /// Reads the next bytes; `None` at the end. Trailers are ignored.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Broken`] if the connection breaks off.
    pub async fn data(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        poll_fn(|cx| self.poll_data(cx)).await.transpose()
    }

    /// As [`data`](Self::data), for implementations of `Stream`.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            if let Some(connection) = &mut self.connection {
                connection.drive(cx);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(UpstreamError::Broken(Some(error.into())))));
                }
                None => {
                    self.release();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }
}
