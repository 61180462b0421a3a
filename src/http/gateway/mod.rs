//! The WebSocket gateway: many turns at once over one socket, in TrustGraph's envelope.
//!
//! ```text
//!  client ──► request {id, service, …} ──► handler ──► turn ──► wire ──┐
//!         ──► request {id, service, …} ──► handler ──► turn ──► wire ──┤ one message of each in turn
//!         ◄────────────────────────────────────────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handshake.rs` | from a request to a socket, or to a JSON error |
//! | `socket.rs` | one socket: the loop that reads, writes and watches the clock |
//! | `calls.rs` | the ids in flight, each in its turn |
//! | `request.rs`, `frames.rs` | what the client says; what the gateway itself says |
//! | `auth.rs`, `limits.rs` | the first-frame authentication; how much, and how long |
//!
//! The WebSocket protocol is `tungstenite`'s, the upgrade hyper's. The messages are specified in `PROTOCOL.md`.
//!
//! # Back-pressure
//!
//! There is one writer, and no queue but those of the turns: a message is taken from a turn when the socket takes it. A batch is one
//! message of each id that has one, again and again up to 16 KiB; the next begins when the socket has taken it whole. So an id whose
//! turn is slow, or whose answer is huge, delays no other; and a client that does not read suspends its orchestrators.
//!
//! # Cancellation
//!
//! Where the socket goes away, everything on it is dropped: handlers that have not begun their response at their current wait, turns as
//! any turn whose reader went away.

mod auth;
mod calls;
mod frames;
mod guarded;
mod handshake;
mod limits;
mod request;
mod socket;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use auth::{Identity, Token};
pub use limits::{GatewayLimits, GatewayTimeouts};

use self::guarded::Guarded;
use self::handshake::Origins;
use super::TurnBody;
use crate::failure::{Failure, FailureKind};
use crate::turn::{Rejected, Turn, group};
use crate::wire::trustgraph::TrustGraph;

/// A request of a client, as its service's handler gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// Which flow the client named.
    pub flow: Option<String>,
    /// Which workspace the client named. Whether it may is for the handler to say.
    pub workspace: Option<String>,
    /// The request itself: `query`, `streaming`, and what else the service knows.
    pub request: Map<String, Value>,
    /// Who asks; `None` where the gateway authenticates nobody.
    pub identity: Option<Arc<Identity>>,
}

impl Call {
    /// The question; empty where there is none.
    pub fn query(&self) -> &str {
        self.request
            .get("query")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// As which of TrustGraph's services one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceKind {
    /// `graph-rag`.
    GraphRag,
    /// `document-rag`.
    DocumentRag,
}

type Handler = Box<dyn Fn(Call) -> BoxFuture<'static, Result<Turn, Rejected>> + Send + Sync>;

struct Service {
    kind: ServiceKind,
    handler: Handler,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.kind, f)
    }
}

/// Serves WebSockets. Clones are the same gateway.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::extract::Request;
/// use axum::response::Response;
/// use axum::{Router, body::Body, routing::get};
/// use ragwire::http::gateway::{Call, Gateway, ServiceKind};
/// use ragwire::{Metadata, SendError, Sink, Turn};
///
/// async fn answer(question: String, sink: Sink) -> Result<Metadata, SendError> {
///     sink.send(format!("You ask: {question}")).await?;
///     Ok(Metadata::default())
/// }
///
/// let gateway = Gateway::builder()
///     .service("graph-rag", ServiceKind::GraphRag, |call: Call| {
///         Turn::start(|sink| answer(call.query().to_owned(), sink)).commit()
///     })
///     .build();
///
/// let socket = |mut request: Request| async move { gateway.upgrade(&mut request).map(Body::new) };
/// let router: Router = Router::new().route("/api/v1/socket", get(socket));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    services: HashMap<String, Service>,
    specified: bool,
    auth: Option<auth::Hook>,
    origins: Origins,
    limits: GatewayLimits,
    timeouts: GatewayTimeouts,
    places: Arc<Semaphore>,
    /// True once it goes down. Each socket holds a receiver.
    closing: watch::Sender<bool>,
}

impl Gateway {
    /// The message cannot be understood.
    pub const ERROR: &'static str = "error";
    /// The client has to authenticate first.
    pub const AUTH_REQUIRED: &'static str = "auth-required";
    /// No service has that name.
    pub const UNKNOWN_SERVICE: &'static str = "unknown-service";
    /// There is no such workspace: for handlers, as the code of a failure.
    pub const WORKSPACE_NOT_FOUND: &'static str = "workspace-not-found";
    /// The client may not do that: for handlers, as the code of a failure.
    pub const ACCESS_DENIED: &'static str = "access-denied";
    /// The request has no id, or none that can be used. Ours.
    pub const BAD_ID: &'static str = "bad-id";
    /// The id is in flight. Ours.
    pub const DUPLICATE_ID: &'static str = "duplicate-id";
    /// As many ids as allowed are in flight. Ours.
    pub const TOO_MANY_REQUESTS: &'static str = "too-many-requests";

    /// The types of errors that TrustGraph tells in the envelope. A handler's rejection with such a code is told so too.
    const ENVELOPE_TYPES: [&str; 5] = [
        Self::ERROR,
        Self::AUTH_REQUIRED,
        Self::UNKNOWN_SERVICE,
        Self::WORKSPACE_NOT_FOUND,
        Self::ACCESS_DENIED,
    ];

    /// A gateway without services.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }

    /// Answers a request with the handshake, and runs the socket in a task of its own: 101, or a complete JSON error. For an axum
    /// handler and a bare hyper service alike; the connection has to be served with upgrades, as `axum::serve` does.
    ///
    /// [`drained`](Self::drained) waits for the tasks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn upgrade<B>(&self, request: &mut Request<B>) -> Response<TurnBody> {
        match self.accept(request) {
            Ok((response, socket)) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the one place of this layer that spawns; `drained` waits for the task"
                )]
                tokio::spawn(socket);
                response
            }
            Err(refusal) => refusal,
        }
    }

    /// As [`upgrade`](Self::upgrade), but the caller runs the socket.
    ///
    /// # Errors
    ///
    /// The complete JSON response: 503 where the gateway is full or goes down, 403 for a page of another origin, 426, 405 or 400
    /// where the request is no WebSocket handshake.
    #[expect(
        clippy::result_large_err,
        reason = "the error is the response, passed on once"
    )]
    pub fn accept<B>(
        &self,
        request: &mut Request<B>,
    ) -> Result<(Response<TurnBody>, Socket), Response<TurnBody>> {
        let closing = self.shared.closing.subscribe();
        if *closing.borrow() {
            return Err(unavailable(group::shutting_down()));
        }
        let Ok(place) = Arc::clone(&self.shared.places).try_acquire_owned() else {
            let failure = Failure::new(
                FailureKind::Busy,
                "Too many sockets are open. Please retry in a moment.",
            );
            return Err(unavailable(failure));
        };
        let (response, upgrade) = handshake::shake(request, &self.shared.origins)?;
        let gateway = Arc::clone(&self.shared);
        let socket = Box::pin(socket::run(upgrade, gateway, closing));
        Ok((
            response,
            Socket {
                socket,
                _place: place,
            },
        ))
    }

    /// Refuses new sockets and new requests, ends what runs with a failure, and closes each socket with 1001 when the client was
    /// told of that. Wait for it with [`drained`](Self::drained).
    pub fn shut_down(&self) {
        self.shared.closing.send_replace(true);
    }

    /// Waits until no socket is open.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this future is dropped; call it again.
    pub async fn drained(&self) {
        self.shared.closing.closed().await;
    }

    /// How many sockets are open.
    pub fn active(&self) -> usize {
        self.shared.closing.receiver_count()
    }
}

fn unavailable(failure: Failure) -> Response<TurnBody> {
    Rejected {
        retry_after: Some(group::RETRY_AFTER),
        ..Rejected::new(failure)
    }
    .respond()
}

/// One socket, from its handshake to its end. It has to be polled, in a task of its own; dropping it cuts the socket and drops
/// everything on it.
#[must_use = "a socket that nobody polls is never served"]
pub struct Socket {
    socket: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

impl Future for Socket {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.as_mut().poll(cx)
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

/// Everything about a gateway.
#[derive(Debug, Default)]
pub struct GatewayBuilder {
    services: HashMap<String, Service>,
    specified: bool,
    auth: Option<auth::Hook>,
    origins: Origins,
    limits: GatewayLimits,
    timeouts: GatewayTimeouts,
}

impl GatewayBuilder {
    /// Registers what answers the requests for `name`. A name that is registered already is replaced.
    ///
    /// The handler runs in the socket's task, until it has a turn; it must not block. It is dropped where the client cancels or
    /// goes away or where it takes longer than [`GatewayTimeouts::start`], and a panic in it ends this one request. Whatever it returns as an error is told the client: with a code of
    /// [`Gateway::ACCESS_DENIED`] or [`Gateway::WORKSPACE_NOT_FOUND`] as TrustGraph says it.
    #[must_use]
    pub fn service<H, F>(mut self, name: impl Into<String>, kind: ServiceKind, handler: H) -> Self
    where
        H: Fn(Call) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Turn, Rejected>> + Send + 'static,
    {
        let handler: Handler = Box::new(move |call| Box::pin(handler(call)));
        self.services.insert(name.into(), Service { kind, handler });
        self
    }

    /// Authenticates clients by the token of their first message: nothing is served before `hook` accepts one. A client may send
    /// another at any time; where that one is refused, the last that was accepted holds on.
    ///
    /// The client is never told why; what the hook's error says is dropped here. Note that `tungstenite` logs whole messages at the
    /// level `trace`.
    ///
    /// Without a hook every token is accepted, since TrustGraph's clients always send one.
    #[must_use]
    pub fn authenticate<H, F, E>(mut self, hook: H) -> Self
    where
        H: Fn(Token) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Identity, E>> + Send + 'static,
    {
        self.auth = Some(auth::Hook::new(hook));
        self
    }

    /// Lets pages of that origin, such as `https://example.org`, open a socket. Without it only those of the request's own host may,
    /// and clients that are no browser.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.allow(origin.into());
        self
    }

    /// Lets every page open a socket: where something before the gateway looks at origins, or nothing is secret.
    #[must_use]
    pub fn allow_any_origin(mut self) -> Self {
        self.origins.allow_any();
        self
    }

    /// Spells responses as TrustGraph's specification does, instead of as its server.
    #[must_use]
    pub fn specified(mut self) -> Self {
        self.specified = true;
        self
    }

    /// Sets how much it takes on.
    #[must_use]
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long it waits.
    #[must_use]
    pub fn timeouts(mut self, timeouts: GatewayTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The gateway.
    pub fn build(self) -> Gateway {
        Gateway {
            shared: Arc::new(Shared {
                services: self.services,
                specified: self.specified,
                auth: self.auth,
                origins: self.origins,
                places: Arc::new(Semaphore::new(
                    self.limits.max_sockets.min(Semaphore::MAX_PERMITS),
                )),
                limits: self.limits,
                timeouts: self.timeouts,
                closing: watch::Sender::new(false),
            }),
        }
    }
}

impl Service {
    fn start(&self, call: Call) -> calls::Starting {
        Guarded::new(|| (self.handler)(call))
    }
}

impl Shared {
    fn wire(&self, kind: ServiceKind, id: &str, streaming: bool) -> TrustGraph {
        let wire = match kind {
            ServiceKind::GraphRag => TrustGraph::graph_rag(id),
            ServiceKind::DocumentRag => TrustGraph::document_rag(id),
        }
        .streaming(streaming);
        if self.specified { wire.specified() } else { wire }
    }
}
