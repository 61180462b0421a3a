//! One socket: the loop that reads, writes and checks the timeouts, and the closing handshake.

use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::Extensions;
use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::auth::Identity;
use super::calls::Calls;
use super::frames::{self, Refusal};
use super::guarded::Guarded;
use super::metered::{Metered, is_too_many_frames};
use super::request::{self, Incoming, Request};
use super::{Call, Shared};
use crate::turn::Rejected;
use crate::turn::admission::group;
use crate::wire::trustgraph::Triples;

/// The longest wait for hyper to send the 101 and hand over the connection. It does both at once,
/// or never.
const UPGRADE_WITHIN: Duration = Duration::from_secs(10);
/// The size of the read buffer: several questions.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// The size of a batch, which the socket must take before the next: some dozen messages of a few
/// words, so one of every ID.
const BATCH_BYTES: usize = 16 * 1024;
/// The maximum number of messages that are read while the socket takes nothing. A cancellation may
/// be among them; each may also be a ping, whose answer would wait in memory.
const MAX_UNANSWERED: usize = 64;

/// How many bytes a client may send for one message, as a multiple of the longest message: frames of
/// six bytes, each with a head of as many, are twice their contents.
const MAX_OVERHEAD: usize = 2;

type WebSocket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// The end of a socket.
#[derive(Debug)]
enum SocketEnd {
    /// The client closed it and waits for our close frame.
    ClosedByClient,
    /// The connection broke, or the client does not respond.
    Lost(&'static str),
    /// We close it.
    Close(CloseCode, &'static str),
    /// The client violated the protocol, so nothing more can be read.
    Violation(CloseCode, &'static str),
}

/// Serves one socket to its end.
pub(super) async fn run(
    upgrade: OnUpgrade,
    gateway: Arc<Shared>,
    extensions: Arc<Extensions>,
    mut closing: watch::Receiver<bool>,
) {
    let connection = match timeout(UPGRADE_WITHIN, upgrade).await {
        Ok(Ok(connection)) => TokioIo::new(connection),
        Ok(Err(error)) => {
            return tracing::debug!(target: "ragwire", %error, "the connection ended during the WebSocket handshake");
        }
        Err(_) => {
            return tracing::warn!(target: "ragwire", "the server did not hand over the connection after a WebSocket handshake");
        }
    };
    let close_within = gateway.timeouts.close;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(BATCH_BYTES)
        .max_message_size(Some(gateway.limits.max_message_bytes))
        .max_frame_size(Some(gateway.limits.max_frame_bytes));
    let most = MAX_OVERHEAD * gateway.limits.max_message_bytes + READ_BUFFER_BYTES;
    let connection = Metered::new(connection, most);
    let socket = WebSocket::from_raw_socket(connection, Role::Server, Some(config)).await;
    let mut live = Live::new(socket, gateway, extensions);
    let end = {
        let mut closing = pin!(async { closing.wait_for(|closing| *closing).await.is_ok() });
        let mut shutting_down = false;
        poll_fn(|cx| {
            if !shutting_down && closing.as_mut().poll(cx).is_ready() {
                shutting_down = true;
                live.shut_down();
            }
            live.poll(cx)
        })
        .await
    };
    let served = live.served;
    // Drop everything on it before the closing handshake, which may take some time.
    let socket = live.into_socket();
    match &end {
        SocketEnd::ClosedByClient => {
            tracing::info!(target: "ragwire", served, outcome = "closed", "socket closed");
        }
        SocketEnd::Lost(reason) => {
            tracing::info!(target: "ragwire", served, outcome = reason, "socket closed");
        }
        SocketEnd::Close(code, reason) | SocketEnd::Violation(code, reason) => {
            let code = u16::from(*code);
            tracing::info!(target: "ragwire", served, outcome = reason, code, "socket closed");
        }
    }
    if timeout(close_within, close(socket, end)).await.is_err() {
        tracing::debug!(target: "ragwire", "a client did not answer the close frame");
    }
}

/// Closes the connection in the way that its end requires.
async fn close(mut socket: WebSocket, end: SocketEnd) {
    match end {
        SocketEnd::Lost(_) => {}
        SocketEnd::ClosedByClient => while let Some(Ok(_)) = socket.next().await {},
        SocketEnd::Close(code, reason) => {
            if send_close(&mut socket, code, reason).await {
                while let Some(Ok(_)) = socket.next().await {}
            }
        }
        SocketEnd::Violation(code, reason) => {
            if send_close(&mut socket, code, reason).await {
                // The system resets a connection that is dropped with unread bytes, and the close
                // frame is lost.
                let mut connection = socket.into_inner().into_inner();
                let _ = poll_fn(|cx| Pin::new(&mut connection).poll_shutdown(cx)).await;
                poll_fn(|cx| discard(&mut connection, cx)).await;
            }
        }
    }
}

async fn send_close(socket: &mut WebSocket, code: CloseCode, reason: &'static str) -> bool {
    let frame = CloseFrame {
        code,
        reason: Utf8Bytes::from_static(reason),
    };
    socket.send(Message::Close(Some(frame))).await.is_ok()
}

/// Reads and discards until the other side ends.
fn discard(connection: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<()> {
    loop {
        let mut buffer = [0; 4096];
        let mut buffer = ReadBuf::new(&mut buffer);
        match std::task::ready!(Pin::new(&mut *connection).poll_read(cx, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => {}
            _ => return Poll::Ready(()),
        }
    }
}

/// The service that resolves what was explained on the socket.
const TRIPLES: &str = "triples";

/// The state of an open socket.
struct Live {
    socket: WebSocket,
    gateway: Arc<Shared>,
    /// Those of the handshake request.
    extensions: Arc<Extensions>,
    calls: Calls,
    /// What was explained on this socket.
    triples: Triples,
    /// A message of the gateway itself. There is room for one: nothing more is read before it is
    /// sent.
    answer: Option<Bytes>,

    /// The running authentication and its deadline. Nothing is read meanwhile, so later messages
    /// wait.
    auth: Option<(Guarded<Option<Identity>>, Option<Instant>)>,
    identity: Option<Arc<Identity>>,
    /// The deadline for the client to be authenticated; `None` once it is.
    auth_by: Option<Instant>,

    /// Whether the socket has not taken everything that was written, and since when it takes
    /// nothing.
    unflushed: bool,
    blocked_since: Option<Instant>,
    /// The number of messages read since then.
    unanswered: usize,

    /// The time of the client's last message.
    last_read: Instant,
    /// The time of an unanswered ping.
    pinged_at: Option<Instant>,
    /// Whether every message that arrived was read.
    read_all: bool,

    shutting_down: bool,
    timer: Pin<Box<Sleep>>,
    /// The number of requests that were started.
    served: u64,
}

/// A deadline.
#[derive(Clone, Copy)]
enum Due {
    Auth,
    Hook,
    Write,
    Ping,
    Pong,
    Start,
}

impl Live {
    fn new(socket: WebSocket, gateway: Arc<Shared>, extensions: Arc<Extensions>) -> Self {
        let now = Instant::now();
        let auth_by = gateway
            .auth
            .as_ref()
            .map(|_| now.checked_add(gateway.timeouts.auth).unwrap_or(now));
        Self {
            socket,
            gateway,
            extensions,
            calls: Calls::default(),
            triples: Triples::default(),
            answer: None,
            auth: None,
            identity: None,
            auth_by,
            unflushed: false,
            blocked_since: None,
            unanswered: 0,
            last_read: now,
            pinged_at: None,
            read_all: false,
            shutting_down: false,
            timer: Box::pin(sleep_until(now)),
            served: 0,
        }
    }

    fn into_socket(self) -> WebSocket {
        self.socket
    }

    fn shut_down(&mut self) {
        self.shutting_down = true;
        self.auth = None;
        self.calls.fail_all(&group::shutting_down());
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<SocketEnd> {
        loop {
            match self.step(cx) {
                Ok(true) => {}
                Ok(false) => match self.poll_timeouts(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(end)) => return Poll::Ready(end),
                    Poll::Pending => return Poll::Pending,
                },
                Err(end) => return Poll::Ready(end),
            }
        }
    }

    /// Authenticates, writes and reads once. Returns `false` if nothing could be done.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, SocketEnd> {
        let authenticated = self.poll_auth(cx);
        let written = self.write(cx)?;
        let idle = self.calls.is_empty() && self.answer.is_none() && !self.unflushed;
        if self.shutting_down && idle {
            return Err(SocketEnd::Close(CloseCode::Away, "shutting down"));
        }
        let read = self.read(cx)?;
        Ok(authenticated || written || read)
    }

    fn poll_auth(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((auth, _)) = &mut self.auth else {
            return false;
        };
        let Poll::Ready(identity) = auth.poll(cx) else {
            return false;
        };
        self.auth = None;
        self.answer = Some(match identity.flatten() {
            Some(identity) => {
                let answer = frames::auth_ok(identity.default_workspace.as_deref());
                self.identity = Some(Arc::new(identity));
                self.auth_by = None;
                answer
            }
            None => frames::auth_failed(),
        });
        true
    }

    /// Writes one batch if the socket has taken the last one.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, SocketEnd> {
        if !self.flush(cx)? {
            return Ok(false);
        }
        let mut batch = 0;
        while batch < BATCH_BYTES
            && let Some(message) = self.next_message(cx)
        {
            batch += message.len();
            match Utf8Bytes::try_from(message) {
                Ok(text) => self.send(Message::Text(text))?,
                Err(error) => {
                    // The wire writes nothing but text.
                    tracing::error!(%error, "a message is not UTF-8 text");
                    return Err(SocketEnd::Close(CloseCode::Error, "internal error"));
                }
            }
        }
        self.flush(cx)?;
        Ok(batch > 0)
    }

    fn next_message(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        self.answer.take().or_else(|| match self.calls.poll_message(cx) {
            Poll::Ready(message) => Some(message),
            Poll::Pending => None,
        })
    }

    fn send(&mut self, message: Message) -> Result<(), SocketEnd> {
        self.unflushed = true;
        Pin::new(&mut self.socket).start_send(message).map_err(|_| BROKEN)
    }

    /// Returns `true` if the socket has taken everything.
    fn flush(&mut self, cx: &mut Context<'_>) -> Result<bool, SocketEnd> {
        if !self.unflushed {
            return Ok(true);
        }
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                self.unflushed = false;
                self.blocked_since = None;
                self.unanswered = 0;
                Ok(true)
            }
            Poll::Ready(Err(_)) => Err(BROKEN),
            Poll::Pending => {
                self.blocked_since.get_or_insert_with(Instant::now);
                Ok(false)
            }
        }
    }

    /// Reads one message if it could be answered.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, SocketEnd> {
        self.read_all = false;
        let full = self.unflushed && self.unanswered >= MAX_UNANSWERED;
        if full || self.answer.is_some() || self.auth.is_some() {
            return Ok(false);
        }
        let message = match Pin::new(&mut self.socket).poll_next(cx) {
            Poll::Ready(Some(Ok(message))) => message,
            Poll::Ready(Some(Err(error))) => return Err(unreadable(&error)),
            Poll::Ready(None) => return Err(BROKEN),
            Poll::Pending => {
                self.read_all = true;
                return Ok(false);
            }
        };
        self.socket.get_mut().reset();
        self.last_read = Instant::now();
        self.pinged_at = None;
        self.unanswered += usize::from(self.unflushed);
        match message {
            Message::Text(text) => self.take(&text),
            Message::Binary(_) => return Err(SocketEnd::Close(CloseCode::Unsupported, "text only")),
            // tungstenite has queued the pong.
            Message::Ping(_) => self.unflushed = true,
            Message::Pong(_) | Message::Frame(_) => {}
            Message::Close(_) => return Err(SocketEnd::ClosedByClient),
        }
        Ok(true)
    }

    fn take(&mut self, text: &str) {
        match request::read(text, &self.gateway.limits) {
            Incoming::Auth(token) => match (&self.gateway.auth, token) {
                (None, _) => self.answer = Some(frames::auth_ok(None)),
                (Some(_), None) => self.answer = Some(frames::auth_failed()),
                (Some(hook), Some(token)) => {
                    let by = Instant::now().checked_add(self.gateway.timeouts.auth);
                    self.auth = Some((hook.call(token), by));
                }
            },
            // The last message of the ID may be on its way, so an ID that is not in flight is not
            // an error.
            Incoming::Cancel(id) => self.calls.cancel(&id),
            Incoming::Refused(id, refusal) => self.refuse(id.as_deref(), refusal),
            Incoming::Request(request) => self.start(request),
        }
    }

    fn start(&mut self, request: Request) {
        let Request {
            id,
            service,
            streaming,
            call,
        } = request;
        let gateway = Arc::clone(&self.gateway);
        let refusal = if self.auth_by.is_some() {
            Refusal::AuthRequired
        } else if self.calls.len() >= gateway.limits.max_calls {
            Refusal::TooManyRequests
        } else if let Some(service) = gateway.services.get(&service)
            && !self.calls.contains(&id)
        {
            let call = Call {
                identity: self.identity.clone(),
                extensions: Arc::clone(&self.extensions),
                ..call
            };
            let wire = gateway.wire(service.kind, &id, streaming);
            let wire = wire.explain_into(self.triples.clone());
            let starting = if self.shutting_down {
                Guarded::new(|| Box::pin(ready(Err(Rejected::new(group::shutting_down())))))
            } else {
                service.start(call)
            };
            let start_by = Instant::now().checked_add(gateway.timeouts.start);
            self.calls.add(id, wire, start_by, starting);
            self.served += 1;
            return;
        } else if service == TRIPLES && !self.calls.contains(&id) {
            let found = self.triples.query(&call.request);
            self.answer = Some(frames::triples(&id, &found));
            return;
        } else {
            Refusal::UnknownService
        };
        self.refuse(Some(&id), refusal);
    }

    /// Answers with an error. If the ID is in flight, it is a duplicate whatever else is wrong with
    /// the request, because an error under that ID would end the running request in the client.
    fn refuse(&mut self, id: Option<&str>, refusal: Refusal) {
        let refusal = match id {
            Some(id) if self.calls.contains(id) => Refusal::DuplicateId,
            _ => refusal,
        };
        self.answer = Some(refusal.frame(id));
    }

    /// Waits for the next deadline and acts on it.
    fn poll_timeouts(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        loop {
            let Some((at, due)) = self.next_due() else {
                return Poll::Pending;
            };
            if at <= Instant::now() {
                return Poll::Ready(self.act(due));
            }
            if self.timer.deadline() != at {
                self.timer.as_mut().reset(at);
            }
            std::task::ready!(self.timer.as_mut().poll(cx));
        }
    }

    fn next_due(&self) -> Option<(Instant, Due)> {
        let timeouts = &self.gateway.timeouts;
        let after = |since: Option<Instant>, wait| since.and_then(|since| since.checked_add(wait));
        let hook_by = self.auth.as_ref().and_then(|(_, by)| *by);
        // While the socket is blocked, only the write timeout counts. While we do not read, the
        // client's silence is our doing.
        let pong_by = after(self.pinged_at, timeouts.pong).filter(|_| self.read_all && !self.unflushed);
        let ping_at = after(Some(self.last_read), timeouts.ping)
            .filter(|_| self.pinged_at.is_none() && !self.unflushed);
        let write_by = after(self.blocked_since, timeouts.write);
        [
            (self.auth_by, Due::Auth),
            (hook_by, Due::Hook),
            (write_by, Due::Write),
            (pong_by, Due::Pong),
            (ping_at, Due::Ping),
            (self.calls.start_by(), Due::Start),
        ]
        .into_iter()
        .filter_map(|(at, due)| Some((at?, due)))
        .min_by_key(|(at, _)| *at)
    }

    fn act(&mut self, due: Due) -> Result<(), SocketEnd> {
        match due {
            Due::Auth => Err(SocketEnd::Close(CloseCode::Policy, "not authenticated")),
            Due::Hook => {
                self.auth = None;
                self.answer = Some(frames::auth_failed());
                Ok(())
            }
            Due::Write => Err(SocketEnd::Lost("stalled")),
            Due::Ping => {
                self.pinged_at = Some(Instant::now());
                self.send(Message::Ping(Bytes::new()))
            }
            Due::Pong => Err(SocketEnd::Lost("silent")),
            Due::Start => {
                self.calls.fail_late(Instant::now());
                Ok(())
            }
        }
    }
}

/// The connection is lost.
const BROKEN: SocketEnd = SocketEnd::Lost("lost");

/// The end of a socket after a read error.
fn unreadable(error: &tungstenite::Error) -> SocketEnd {
    use tungstenite::Error;
    use tungstenite::error::ProtocolError;
    match error {
        Error::Io(error) if is_too_many_frames(error) => {
            SocketEnd::Violation(CloseCode::Policy, "too many frames for one message")
        }
        Error::Capacity(_) => SocketEnd::Violation(CloseCode::Size, "message too large"),
        Error::Utf8(_) => SocketEnd::Violation(CloseCode::Invalid, "text is not UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => BROKEN,
        Error::Protocol(_) => SocketEnd::Violation(CloseCode::Protocol, "protocol error"),
        _ => BROKEN,
    }
}
