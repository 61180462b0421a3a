//! The WebSocket gateway: many concurrent turns on one socket, in TrustGraph's envelope.
//!
//! ```text
//!  client ──► request {id, service, …} ──► handler ──► turn ──► wire ──┐
//!         ──► request {id, service, …} ──► handler ──► turn ──► wire ──┤ round robin, one message each
//!         ◄────────────────────────────────────────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handshake.rs` | turns a request into a socket or a JSON error |
//! | `socket.rs` | one socket: the loop that reads, writes and checks the timeouts |
//! | `calls.rs` | the IDs in flight, served round robin |
//! | `request.rs`, `frames.rs` | messages of the client; messages of the gateway itself |
//! | `auth.rs`, `limits.rs` | authentication by the first message; size limits and timeouts |
//!
//! `tungstenite` implements the WebSocket protocol, hyper the upgrade. The messages are specified
//! in `PROTOCOL.md`, section "The WebSocket gateway" (`[W-nn]`); `docs/protocols.md` introduces
//! TrustGraph.
//!
//! # Back-pressure
//!
//! There is one writer and no queue besides those of the turns: a message is taken from a turn only
//! when the socket can take it. A batch is one message of each ID that has one, repeated up to 16
//! KiB; the next batch begins when the socket has taken all of it. Therefore an ID with a slow turn
//! or a huge answer does not delay the others, and a client that does not read suspends its
//! orchestrators.
//!
//! # Cancellation
//!
//! When the client disconnects, everything on its socket is dropped: handlers without a turn yet at
//! their current `await`, and turns like any turn whose reader disconnects.

mod auth;
mod calls;
mod frames;
mod guarded;
mod handshake;
mod limits;
mod metered;
mod request;
mod socket;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Extensions, Request, Response};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use auth::{Identity, Token};
pub use limits::{GatewayLimits, GatewayTimeouts};

use self::guarded::Guarded;
use self::handshake::Origins;
use super::TurnBody;
use crate::failure::{Failure, FailureKind};
use crate::turn::admission::group;
use crate::turn::{Rejected, Turn};
use crate::wire::trustgraph::TrustGraph;

/// A request of a client, passed to the handler of its service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The flow that the client named.
    pub flow: Option<String>,
    /// The workspace that the client named. The handler must check that the client may use it.
    pub workspace: Option<String>,
    /// The request itself: `query`, `streaming`, and any other parameters of the service.
    pub request: Map<String, Value>,
    /// The authenticated client; `None` if the gateway does not authenticate.
    pub identity: Option<Arc<Identity>>,
    /// The extensions of the request that opened the socket, for what a middleware stored there.
    pub extensions: Arc<Extensions>,
}

impl Call {
    /// Returns the question; empty if there is none.
    pub fn query(&self) -> &str {
        self.request
            .get("query")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// The TrustGraph service that a handler implements.
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

/// A gateway that serves WebSockets. Clones share one gateway.
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
    socket_permits: Arc<Semaphore>,
    /// Set to `true` on shutdown. Each socket holds a receiver.
    closing: watch::Sender<bool>,
}

impl Gateway {
    /// The message cannot be understood.
    pub const ERROR: &'static str = "error";
    /// The client must authenticate first.
    pub const AUTH_REQUIRED: &'static str = "auth-required";
    /// No service has that name.
    pub const UNKNOWN_SERVICE: &'static str = "unknown-service";
    /// The workspace does not exist. Handlers use it as the code of a failure.
    pub const WORKSPACE_NOT_FOUND: &'static str = "workspace-not-found";
    /// The client has no permission. Handlers use it as the code of a failure.
    pub const ACCESS_DENIED: &'static str = "access-denied";
    /// The request has no usable ID. Not a TrustGraph type.
    pub const BAD_ID: &'static str = "bad-id";
    /// The ID is in flight. Not a TrustGraph type.
    pub const DUPLICATE_ID: &'static str = "duplicate-id";
    /// The maximum number of IDs is in flight. Not a TrustGraph type.
    pub const TOO_MANY_REQUESTS: &'static str = "too-many-requests";

    /// The error types that TrustGraph sends in the envelope. A handler's rejection with one of
    /// these codes is sent there too.
    const ENVELOPE_TYPES: [&str; 5] = [
        Self::ERROR,
        Self::AUTH_REQUIRED,
        Self::UNKNOWN_SERVICE,
        Self::WORKSPACE_NOT_FOUND,
        Self::ACCESS_DENIED,
    ];

    /// Creates a builder without services.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }

    /// Answers a handshake request with 101 and runs the socket in a new task, or returns a
    /// complete JSON error.
    ///
    /// Use it in an axum handler or in a hyper service. The connection must be served with
    /// upgrades, as `axum::serve` does. [`drained`](Self::drained) waits for the tasks.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, as `tokio::spawn` does.
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

    /// Answers a handshake request like [`upgrade`](Self::upgrade), but returns the socket for the
    /// caller to run.
    ///
    /// # Errors
    ///
    /// The complete JSON response: 503 if the gateway is full or shutting down, 403 for a page of
    /// another origin, and 426, 405 or 400 if the request is not a WebSocket handshake.
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
        let Ok(permit) = Arc::clone(&self.shared.socket_permits).try_acquire_owned() else {
            let failure = Failure::new(
                FailureKind::Busy,
                "Too many sockets are open. Please retry in a moment.",
            );
            return Err(unavailable(failure));
        };
        let (response, upgrade) = handshake::shake(request, &self.shared.origins)?;
        let gateway = Arc::clone(&self.shared);
        let extensions = Arc::new(request.extensions().clone());
        let socket = Box::pin(socket::run(upgrade, gateway, extensions, closing));
        Ok((
            response,
            Socket {
                socket,
                _permit: permit,
            },
        ))
    }

    /// Refuses new sockets and new requests, and ends running requests with a failure. Each socket
    /// is closed with 1001 after the client has got these messages. To wait for that, call
    /// [`drained`](Self::drained).
    pub fn shut_down(&self) {
        self.shared.closing.send_replace(true);
    }

    /// Waits until no socket is open.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped, call the method again.
    pub async fn drained(&self) {
        self.shared.closing.closed().await;
    }

    /// Returns the number of open sockets.
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

/// One socket, from its handshake to its end.
///
/// Poll it in its own task. Dropping it cuts the connection and drops everything on it.
#[must_use = "a socket must be polled to be served"]
pub struct Socket {
    socket: Pin<Box<dyn Future<Output = ()> + Send>>,
    _permit: OwnedSemaphorePermit,
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

/// Configures a [`Gateway`].
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
    /// Registers the handler of the service `name`, replacing an earlier one.
    ///
    /// The handler runs in the socket's task until it returns a turn; it must not block. It is
    /// dropped if the client cancels or disconnects, or if it takes longer than
    /// [`GatewayTimeouts::start`]. A panic in it ends only this request. An error that it returns
    /// is sent to the client; with the code [`Gateway::ACCESS_DENIED`] or
    /// [`Gateway::WORKSPACE_NOT_FOUND`] it has TrustGraph's form.
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

    /// Authenticates clients by the token of their first message: no request is served before
    /// `hook` accepts a token. A client may send another token at any time; if that one is refused,
    /// the last accepted token stays in force.
    ///
    /// The client never learns the reason: the error of the hook is dropped. Note that
    /// `tungstenite` logs whole messages at the level `trace`.
    ///
    /// Without a hook every token is accepted, because TrustGraph's clients always send one.
    #[must_use]
    pub fn authenticate<H, F, E>(mut self, hook: H) -> Self
    where
        H: Fn(Token) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Identity, E>> + Send + 'static,
    {
        self.auth = Some(auth::Hook::new(hook));
        self
    }

    /// Allows pages of this origin, for example `https://example.org`, to open a socket. By default
    /// only pages of the request's own host and clients that are not browsers may.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.allow(origin.into());
        self
    }

    /// Allows every page to open a socket. Use it only if a proxy in front of the gateway checks
    /// origins, or if nothing is secret.
    #[must_use]
    pub fn allow_any_origin(mut self) -> Self {
        self.origins.allow_any();
        self
    }

    /// Uses the envelope of TrustGraph's specification instead of that of its server.
    #[must_use]
    pub fn specified(mut self) -> Self {
        self.specified = true;
        self
    }

    /// Sets the limits on sockets, requests and messages.
    #[must_use]
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the timeouts.
    #[must_use]
    pub fn timeouts(mut self, timeouts: GatewayTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Builds the gateway.
    pub fn build(self) -> Gateway {
        Gateway {
            shared: Arc::new(Shared {
                services: self.services,
                specified: self.specified,
                auth: self.auth,
                origins: self.origins,
                socket_permits: Arc::new(Semaphore::new(
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
