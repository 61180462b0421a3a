//! One socket: the loop that reads, writes and watches the clock, and the goodbye.

use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

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
use super::request::{self, Incoming, Request};
use super::{Call, Shared};
use crate::turn::{Rejected, group};

/// Longest wait for the server to send the 101 and hand the connection over. It does both at once, or never.
const UPGRADE_WITHIN: Duration = Duration::from_secs(10);
/// Buffer for what the client sends: some questions.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// What is written before the socket has to have taken all of it: some dozen messages of a few words, one of every id.
const BATCH_BYTES: usize = 16 * 1024;
/// Most messages that are read while the socket takes nothing. A cancellation is among them; each may also be a ping, whose answer
/// would have to wait in memory.
const MAX_UNANSWERED: usize = 64;

type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// How a socket ended.
#[derive(Debug)]
enum Over {
    /// The client closed it, and waits for the answer to that.
    Closed,
    /// It broke, or the client is not there any more.
    Gone(&'static str),
    /// We close it.
    Close(CloseCode, &'static str),
    /// The client broke the protocol; nothing that it sends can be read on.
    Broken(CloseCode, &'static str),
}

/// Serves one socket to its end.
pub(super) async fn run(upgrade: OnUpgrade, gateway: Arc<Shared>, mut closing: watch::Receiver<bool>) {
    let connection = match timeout(UPGRADE_WITHIN, upgrade).await {
        Ok(Ok(connection)) => TokioIo::new(connection),
        Ok(Err(error)) => return tracing::debug!(target: "ragwire", %error, "no socket came of a handshake"),
        Err(_) => {
            return tracing::warn!(target: "ragwire", "a handshake was answered, but the connection was kept");
        }
    };
    let close_within = gateway.timeouts.close;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(BATCH_BYTES)
        .max_message_size(Some(gateway.limits.max_message_bytes))
        .max_frame_size(Some(gateway.limits.max_frame_bytes));
    let socket = WebSocket::from_raw_socket(connection, Role::Server, Some(config)).await;
    let mut live = Live::new(socket, gateway);
    let over = {
        let mut closing = pin!(async { closing.wait_for(|closing| *closing).await.is_ok() });
        let mut going_down = false;
        poll_fn(|cx| {
            if !going_down && closing.as_mut().poll(cx).is_ready() {
                going_down = true;
                live.go_down();
            }
            live.poll(cx)
        })
        .await
    };
    let served = live.served;
    // Everything on it is dropped before the goodbye, which may take its time.
    let socket = live.into_socket();
    match &over {
        Over::Closed => tracing::info!(target: "ragwire", served, outcome = "closed", "socket over"),
        Over::Gone(why) => tracing::info!(target: "ragwire", served, outcome = why, "socket over"),
        Over::Close(code, why) | Over::Broken(code, why) => {
            tracing::info!(target: "ragwire", served, outcome = why, code = u16::from(*code), "socket over");
        }
    }
    if timeout(close_within, goodbye(socket, over)).await.is_err() {
        tracing::debug!(target: "ragwire", "a client did not answer the close frame");
    }
}

/// Ends the connection as its end asks for.
async fn goodbye(mut socket: WebSocket, over: Over) {
    match over {
        Over::Gone(_) => {}
        Over::Closed => while let Some(Ok(_)) = socket.next().await {},
        Over::Close(code, reason) => {
            if say_close(&mut socket, code, reason).await {
                while let Some(Ok(_)) = socket.next().await {}
            }
        }
        Over::Broken(code, reason) => {
            if say_close(&mut socket, code, reason).await {
                // The system resets a connection that is dropped with bytes unread, and the close frame with it.
                let mut connection = socket.into_inner();
                let _ = poll_fn(|cx| Pin::new(&mut connection).poll_shutdown(cx)).await;
                poll_fn(|cx| discard(&mut connection, cx)).await;
            }
        }
    }
}

async fn say_close(socket: &mut WebSocket, code: CloseCode, reason: &'static str) -> bool {
    let frame = CloseFrame {
        code,
        reason: Utf8Bytes::from_static(reason),
    };
    socket.send(Message::Close(Some(frame))).await.is_ok()
}

/// Reads until the other side ends.
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

/// A socket that is open.
struct Live {
    socket: WebSocket,
    gateway: Arc<Shared>,
    calls: Calls,
    /// What the gateway itself has to say. There is one place: nothing more is read before it is said.
    answer: Option<Bytes>,

    /// The token that is looked at, and by when that must be done. Nothing is read meanwhile, so what follows it waits for it.
    asked: Option<(Guarded<Option<Identity>>, Option<Instant>)>,
    identity: Option<Arc<Identity>>,
    /// By when the client has to be authenticated; `None` once it is.
    auth_by: Option<Instant>,

    /// Whether something was written that the socket has not taken yet, and since when it did not want to.
    unflushed: bool,
    blocked_since: Option<Instant>,
    /// What was read since.
    unanswered: usize,

    /// When the client last said anything.
    heard: Instant,
    /// Since when it has been asked whether it lives.
    pinged: Option<Instant>,
    /// Whether everything that it said was read.
    listening: bool,

    going_down: bool,
    timer: Pin<Box<Sleep>>,
    /// How many requests were taken.
    served: u64,
}

/// What the clock may ask for.
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
    fn new(socket: WebSocket, gateway: Arc<Shared>) -> Self {
        let now = Instant::now();
        let auth_by = gateway
            .auth
            .as_ref()
            .map(|_| now.checked_add(gateway.timeouts.auth).unwrap_or(now));
        Self {
            socket,
            gateway,
            calls: Calls::default(),
            answer: None,
            asked: None,
            identity: None,
            auth_by,
            unflushed: false,
            blocked_since: None,
            unanswered: 0,
            heard: now,
            pinged: None,
            listening: false,
            going_down: false,
            timer: Box::pin(sleep_until(now)),
            served: 0,
        }
    }

    fn into_socket(self) -> WebSocket {
        self.socket
    }

    fn go_down(&mut self) {
        self.going_down = true;
        self.asked = None;
        self.calls.fail_all(&group::shutting_down());
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        loop {
            match self.step(cx) {
                Ok(true) => {}
                Ok(false) => match self.poll_clock(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(over)) => return Poll::Ready(over),
                    Poll::Pending => return Poll::Pending,
                },
                Err(over) => return Poll::Ready(over),
            }
        }
    }

    /// Everything that can be done now, once. False where that was nothing.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
        let asked = self.poll_asked(cx);
        let written = self.write(cx)?;
        let idle = self.calls.is_empty() && self.answer.is_none() && !self.unflushed;
        if self.going_down && idle {
            return Err(Over::Close(CloseCode::Away, "shutting down"));
        }
        let read = self.read(cx)?;
        Ok(asked || written || read)
    }

    fn poll_asked(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((asked, _)) = &mut self.asked else {
            return false;
        };
        let Poll::Ready(identity) = asked.poll(cx) else {
            return false;
        };
        self.asked = None;
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

    /// Writes one batch, where the socket has taken the last.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
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
                    // No wire of ours writes anything else.
                    tracing::error!(%error, "a message is not text");
                    return Err(Over::Close(CloseCode::Error, "internal error"));
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

    fn send(&mut self, message: Message) -> Result<(), Over> {
        self.unflushed = true;
        Pin::new(&mut self.socket).start_send(message).map_err(|_| BROKEN)
    }

    /// Whether the socket has taken everything.
    fn flush(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
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

    /// Reads one message, where it could be answered.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
        self.listening = false;
        let full = self.unflushed && self.unanswered >= MAX_UNANSWERED;
        if full || self.answer.is_some() || self.asked.is_some() {
            return Ok(false);
        }
        let message = match Pin::new(&mut self.socket).poll_next(cx) {
            Poll::Ready(Some(Ok(message))) => message,
            Poll::Ready(Some(Err(error))) => return Err(unreadable(&error)),
            Poll::Ready(None) => return Err(BROKEN),
            Poll::Pending => {
                self.listening = true;
                return Ok(false);
            }
        };
        self.heard = Instant::now();
        self.pinged = None;
        self.unanswered += usize::from(self.unflushed);
        match message {
            Message::Text(text) => self.take(&text),
            Message::Binary(_) => return Err(Over::Close(CloseCode::Unsupported, "text only")),
            // tungstenite has the answer ready.
            Message::Ping(_) => self.unflushed = true,
            Message::Pong(_) | Message::Frame(_) => {}
            Message::Close(_) => return Err(Over::Closed),
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
                    self.asked = Some((hook.call(token), by));
                }
            },
            // Its last message may be on its way already, so an id that is not in flight is no mistake.
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
                ..call
            };
            let wire = gateway.wire(service.kind, &id, streaming);
            let starting = if self.going_down {
                Guarded::new(|| Box::pin(ready(Err(Rejected::new(group::shutting_down())))))
            } else {
                service.start(call)
            };
            let start_by = Instant::now().checked_add(gateway.timeouts.start);
            self.calls.add(id, wire, start_by, starting);
            self.served += 1;
            return;
        } else {
            Refusal::UnknownService
        };
        self.refuse(Some(&id), refusal);
    }

    /// Says no. An id that is in flight is not named as one that ends, whatever is wrong with the second request.
    fn refuse(&mut self, id: Option<&str>, refusal: Refusal) {
        let refusal = match id {
            Some(id) if self.calls.contains(id) => Refusal::DuplicateId,
            _ => refusal,
        };
        self.answer = Some(refusal.frame(id));
    }

    /// Waits for the next moment at which something is due, and does it.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Over>> {
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
        let hook_by = self.asked.as_ref().and_then(|(_, by)| *by);
        // While it is blocked, the time for writing decides; while it is not heard, its silence is ours.
        let pong_by = after(self.pinged, timeouts.pong).filter(|_| self.listening && !self.unflushed);
        let ping_at =
            after(Some(self.heard), timeouts.ping).filter(|_| self.pinged.is_none() && !self.unflushed);
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

    fn act(&mut self, due: Due) -> Result<(), Over> {
        match due {
            Due::Auth => Err(Over::Close(CloseCode::Policy, "not authenticated")),
            Due::Hook => {
                self.asked = None;
                self.answer = Some(frames::auth_failed());
                Ok(())
            }
            Due::Write => Err(Over::Gone("stalled")),
            Due::Ping => {
                self.pinged = Some(Instant::now());
                self.send(Message::Ping(Bytes::new()))
            }
            Due::Pong => Err(Over::Gone("silent")),
            Due::Start => {
                self.calls.fail_late(Instant::now());
                Ok(())
            }
        }
    }
}

/// The connection is lost.
const BROKEN: Over = Over::Gone("lost");

/// What an error of reading means.
fn unreadable(error: &tungstenite::Error) -> Over {
    use tungstenite::Error;
    use tungstenite::error::ProtocolError;
    match error {
        Error::Capacity(_) => Over::Broken(CloseCode::Size, "message too large"),
        Error::Utf8(_) => Over::Broken(CloseCode::Invalid, "text is not UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => BROKEN,
        Error::Protocol(_) => Over::Broken(CloseCode::Protocol, "protocol error"),
        _ => BROKEN,
    }
}
