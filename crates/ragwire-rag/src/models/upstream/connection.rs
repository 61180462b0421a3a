//! One HTTP/1.1 connection, which is read and written by the task that uses it.
//!
//! The protocol is that of [`ureq_proto`], which knows no sockets. A stream of many small chunks that
//! have arrived together is thus one read and one piece of the body. hyper's client hands over each
//! chunk alone, from another task, and takes the line with the size of a chunk apart byte by byte.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use ureq_proto::BodyMode;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call, RecvBodyResult, RecvResponseResult, SendRequestResult};

use super::error::UpstreamError;
use super::pool::{Pool, Server};

/// Size of the largest head of a response: gateways add cookies and policies. Four times the limit of
/// hyper's server. Also the most that a server may send without completing the size of a chunk.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Size of a read: a third of what the queue of a turn holds.
const READ_BYTES: usize = 16 * 1024;

/// The socket of a connection, with or without TLS.
pub(super) type Socket = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Why a connection has no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    /// The head of the response is not HTTP, or too large.
    #[error("the head of the response is not http, or too large")]
    Head,
    /// The request cannot be written as HTTP.
    #[error("the request is not http: {0}")]
    Request(ureq_proto::Error),
    /// The socket failed, or was closed before the response.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// A connection for one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TokioIo<Socket>,
    /// What was read and not used yet. Empty while the connection is idle.
    received: BytesMut,
    /// The rest of the request.
    unsent: Bytes,
    is_flushed: bool,
    /// Writing has failed. The response may still arrive.
    is_broken: bool,
}

impl Connection {
    /// Prepares a connection on a connected socket.
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket: TokioIo::new(socket),
            received: BytesMut::new(),
            unsent: Bytes::new(),
            is_flushed: true,
            is_broken: false,
        }
    }

    /// Reads what has arrived and returns its length; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.received.reserve(READ_BYTES);
        pin!(self.socket.read_buf(&mut self.received)).poll(cx)
    }

    /// Writes what is possible now. An error is reported by the end of the response: a server may
    /// respond before it has read the whole request, and then close.
    fn write(&mut self, cx: &mut Context<'_>) {
        while self.unsent.has_remaining() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.unsent) {
                Poll::Ready(Ok(written @ 1..)) => {
                    self.unsent.advance(written);
                    self.is_flushed = false;
                }
                Poll::Ready(Ok(0) | Err(_)) => return self.give_up_writing(),
                Poll::Pending => return,
            }
        }
        // TLS keeps bytes that the socket did not accept.
        if !self.is_flushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(cx)
        {
            self.is_flushed = true;
            if flushed.is_err() {
                self.give_up_writing();
            }
        }
    }

    fn give_up_writing(&mut self) {
        self.is_broken = true;
        self.is_flushed = true;
        self.unsent.clear();
    }

    /// Returns `true` if another request can be sent after a response that was read to its end.
    fn is_reusable(&self) -> bool {
        self.received.is_empty() && self.unsent.is_empty() && self.is_flushed && !self.is_broken
    }

    /// Returns `true` if the server has not closed the idle connection.
    pub(super) async fn is_open(&mut self) -> bool {
        // An idle connection has nothing to read but its end.
        poll_fn(|cx| Poll::Ready(self.poll_read(cx).is_pending())).await
    }

    /// Sends a request and returns the head of its response, with the state of its body.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, drop the connection too.
    pub(super) async fn send(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Response<BodyState>, ConnectionError> {
        let (mut call, request) = begin(request).map_err(ConnectionError::Request)?;
        self.unsent = request;
        let head = poll_fn(|cx| {
            self.write(cx);
            loop {
                match call.try_response(&self.received, false) {
                    Ok((used, response)) => {
                        self.received.advance(used);
                        if let Some(response) = response {
                            return Poll::Ready(Ok(response));
                        }
                        // An interim response may be followed by the response.
                        if used > 0 {
                            continue;
                        }
                    }
                    Err(_) => return Poll::Ready(Err(ConnectionError::Head)),
                }
                if self.received.len() >= MAX_HEAD_BYTES {
                    return Poll::Ready(Err(ConnectionError::Head));
                }
                if ready!(self.poll_read(cx))? == 0 {
                    let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Err(closed.into()));
                }
            }
        });
        let response = head.await?;
        let body = match call.proceed() {
            Some(RecvResponseResult::RecvBody(call)) => BodyState::Open(Box::new(call)),
            Some(RecvResponseResult::Redirect(call)) => BodyState::ended(call.must_close_connection()),
            Some(RecvResponseResult::Cleanup(call)) => BodyState::ended(call.must_close_connection()),
            None => BodyState::Closed,
        };
        Ok(response.map(|()| body))
    }
}

/// Returns the state of a request that is sent, and its bytes.
fn begin(request: Request<Bytes>) -> Result<(Call<RecvResponse>, Bytes), ureq_proto::Error> {
    let (mut head, body) = request.into_parts();
    if !body.is_empty() || head.method == Method::POST {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let headers = head.headers.iter();
    let headers: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    // A method and a version have less than 40 bytes.
    let mut bytes = vec![0; headers + head.uri.to_string().len() + 40];
    let mut call = Call::new(Request::from_parts(head, ()))?.proceed();
    let written = call.write(&mut bytes)?;
    bytes.truncate(written);
    let overflow = ureq_proto::Error::OutputOverflow;
    match call.proceed()? {
        Some(SendRequestResult::RecvResponse(call)) => Ok((call, bytes.into())),
        Some(SendRequestResult::SendBody(mut call)) => {
            call.consume_direct_write(body.len())?;
            bytes.extend_from_slice(&body);
            Ok((call.proceed().ok_or(overflow)?, bytes.into()))
        }
        Some(SendRequestResult::Await100(_)) | None => Err(overflow),
    }
}

/// How much of a body was read.
#[derive(Debug)]
pub(super) enum BodyState {
    /// A part of it.
    Open(Box<Call<RecvBody>>),
    /// All of it; the connection can be used again.
    Ended,
    /// All of it; the connection cannot be used again.
    Closed,
}

impl BodyState {
    fn ended(must_close: bool) -> Self {
        if must_close { Self::Closed } else { Self::Ended }
    }

    fn call(&mut self) -> Option<&mut Call<RecvBody>> {
        match self {
            Self::Open(call) => Some(call),
            Self::Ended | Self::Closed => None,
        }
    }

    /// Ends the body if it is complete, or if the server has closed the connection and that is how the
    /// body ends. Returns `false` if more is to come.
    fn end(&mut self, is_closed: bool) -> bool {
        let is_complete = |call: &mut Call<RecvBody>| match call.body_mode() {
            BodyMode::CloseDelimited => is_closed,
            BodyMode::NoBody | BodyMode::LengthDelimited(_) | BodyMode::Chunked => call.can_proceed(),
        };
        if !self.call().is_none_or(is_complete) {
            return false;
        }
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Open(call) => match call.proceed() {
                Some(RecvBodyResult::Cleanup(call)) => Self::ended(call.must_close_connection()),
                Some(RecvBodyResult::Redirect(call)) => Self::ended(call.must_close_connection()),
                None => Self::Closed,
            },
            ended => ended,
        };
        true
    }
}

/// The body of a response. Reading it to its end makes its connection usable again; dropping it
/// before closes the connection.
#[derive(Debug)]
pub struct HttpBody {
    state: BodyState,
    /// `None` once the body has ended.
    connection: Option<Connection>,
    server: Server,
    pool: Arc<Pool>,
}

impl HttpBody {
    pub(super) fn new(state: BodyState, connection: Connection, server: Server, pool: Arc<Pool>) -> Self {
        Self {
            state,
            connection: Some(connection),
            server,
            pool,
        }
    }

    /// Returns the connection to the pool if it can be used again.
    fn release(&mut self) {
        let connection = self.connection.take();
        if let (Some(mut connection), BodyState::Ended) = (connection, &self.state)
            && connection.is_reusable()
        {
            connection.received = BytesMut::new();
            self.pool.put(self.server.clone(), connection);
        }
    }

    fn fail(&mut self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> UpstreamError {
        self.connection = None;
        UpstreamError::Broken(Some(error.into()))
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

    /// As [`data`](Self::data), for implementations of `Stream`. All chunks that have arrived are
    /// returned together.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let Some(connection) = &mut self.connection else {
                return Poll::Ready(None);
            };
            connection.write(cx);
            match self
                .state
                .call()
                .map(|call| decode(call, &mut connection.received))
            {
                Some(Ok(Some(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Err(error)) => return Poll::Ready(Some(Err(self.fail(error)))),
                Some(Ok(None)) | None => {}
            }
            if self.state.end(false) {
                self.release();
                return Poll::Ready(None);
            }
            if connection.received.len() >= MAX_HEAD_BYTES {
                let endless = ureq_proto::Error::ChunkExpectedCrLf;
                return Poll::Ready(Some(Err(self.fail(endless))));
            }
            match ready!(connection.poll_read(cx)) {
                Ok(0) if self.state.end(true) => self.release(),
                Ok(0) => {
                    let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Some(Err(self.fail(closed))));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
            }
        }
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        if self.state.end(false) {
            self.release();
        }
    }
}

/// Takes the bytes of the body out of what was received; `None` if there are none yet.
fn decode(call: &mut Call<RecvBody>, received: &mut BytesMut) -> Result<Option<Bytes>, ureq_proto::Error> {
    let mut data = vec![0; received.len()];
    let mut length = 0;
    while !received.is_empty() {
        if call.body_mode() == BodyMode::Chunked && call.is_on_chunk_boundary() {
            length += take_whole_chunks(received, &mut data[length..]);
        }
        let (used, decoded) = call.read(received, &mut data[length..])?;
        received.advance(used);
        length += decoded;
        if used == 0 {
            break;
        }
    }
    data.truncate(length);
    Ok((length > 0).then(|| data.into()))
}

/// Moves the content of the chunks that have arrived as a whole to the beginning of `data` and returns its
/// length. `ureq_proto` takes the rest: the end, a part of a chunk and what is not a chunk. It searches a
/// hundred bytes of every chunk for extensions, which is most of what a chunk with one token costs.
fn take_whole_chunks(received: &mut BytesMut, data: &mut [u8]) -> usize {
    let (mut rest, mut length): (&[u8], usize) = (received, 0);
    while let Some((content, after)) = whole_chunk(rest) {
        data[length..][..content.len()].copy_from_slice(content);
        length += content.len();
        rest = after;
    }
    let used = received.len() - rest.len();
    received.advance(used);
    length
}

/// Returns the content of the chunk at the beginning of `bytes`, and what follows it. `None` if it is the
/// last chunk, has not arrived as a whole, or is not a chunk.
fn whole_chunk(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let Ok(httparse::Status::Complete((head, size @ 1..))) = httparse::parse_chunk_size(bytes) else {
        return None;
    };
    let (content, after) = bytes[head..].split_at_checked(size.try_into().ok()?)?;
    Some((content, after.strip_prefix(b"\r\n")?))
}
