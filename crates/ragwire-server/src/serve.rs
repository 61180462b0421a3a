//! Sockets: accepting, holding and cutting connections, and going down.
//!
//! An accept loop of its own instead of `axum::serve`, for what that one does not let one set: `TCP_NODELAY` (an event must not
//! wait for the next one), small buffers (they are what a reader that does not read costs), a time-out on writes that cuts the
//! connection, a limit on connections, and an end of the server that ends the streams first.
//!
//! This is the one place of the server that starts tasks, and it joins all of them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use ragwire::Gateway;
use ragwire::http::gateway::Socket;
use ragwire::session::Sessions;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

use crate::app::App;
use crate::routes;
use crate::routes::refusal::Refusal;
use crate::routes::trustgraph;

/// Connections that the kernel may hold for us before it refuses.
const BACKLOG: u32 = 1024;
/// hyper's buffer for a connection: some events. Its default of 400 KiB is what each stalled reader would cost.
const MAX_BUFFER_BYTES: usize = 64 << 10;
/// The kernel's buffer for what was written: left to itself it grows to megabytes for a reader that does not read.
const SEND_BUFFER_BYTES: u32 = 64 << 10;
/// Streams of one HTTP/2 connection.
const MAX_STREAMS: u32 = 64;
/// How often the other side of an HTTP/2 connection is asked whether it lives, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Wait after an error of `accept` that will come again at once, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often sessions that are too old are dropped, where nobody changes any. Nobody sees them in any case.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    gateway: Gateway,
    listener: TcpListener,
    address: SocketAddr,
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every connection was done.
    Drained,
    /// The time was over, or the second signal came: this many connections were cut.
    Cut(usize),
}

impl Server {
    /// Listens on the address of the settings.
    ///
    /// # Errors
    ///
    /// Where the address cannot be used.
    pub fn bind(app: Arc<App>) -> io::Result<Self> {
        let address = app.settings.listen;
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Else a restart has to wait for the connections of the last run. On Windows it means something else.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        // Accepted sockets inherit it.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Self {
            gateway: trustgraph::gateway(&app),
            app,
            listener,
            address,
        })
    }

    /// The address it listens on, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then ends open turns with their completion, refuses new ones, and waits for the connections as long
    /// as the settings say or until `kill`.
    pub async fn run(self, stop: impl Future<Output = ()>, kill: impl Future<Output = ()>) -> Shutdown {
        let settings = &self.app.settings;
        let (closing, _) = watch::channel(false);
        let connections = Connections {
            router: routes::router(&self.app, &self.gateway, self.address),
            http: Arc::new(http(*settings.header_timeout)),
            first_request: *settings.header_timeout,
            write_timeout: *settings.write_timeout,
            places: Arc::new(Semaphore::new(*settings.max_connections)),
            closing,
        };
        let mut tasks = JoinSet::new();
        let (mut stop, mut kill) = (pin!(stop), pin!(kill));
        let mut sweep = interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                (socket, place) = connections.accept(&self.listener) => {
                    tasks.spawn(connections.hold(socket, place));
                }
                Some(joined) = tasks.join_next() => note(joined),
                _ = sweep.tick() => {
                    tasks.spawn(sweep_sessions(self.app.sessions.clone()));
                }
                () = &mut stop => break,
            }
        }

        let drain = *settings.drain;
        tracing::info!(turns = self.app.turns.active(), ?drain, "going down");
        self.app.turns.shut_down();
        self.gateway.shut_down();
        let deadline = Instant::now() + drain;
        // Still accepting: whoever comes now is told 503 and when to retry, until the open turns are over.
        let all_uploads = u32::try_from(*settings.max_uploads).unwrap_or(u32::MAX);
        let mut idle = pin!(async {
            self.app.turns.drained().await;
            self.app.eve.settled().await;
            let _ = self.app.uploads.acquire_many(all_uploads).await;
        });
        let mut out_of_time = pin!(async {
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = &mut kill => {}
            }
        });
        let in_time = loop {
            tokio::select! {
                (socket, place) = connections.accept(&self.listener) => {
                    tasks.spawn(connections.hold(socket, place));
                }
                Some(joined) = tasks.join_next() => note(joined),
                () = &mut idle => break true,
                () = &mut out_of_time => break false,
            }
        };
        drop(self.listener);

        connections.closing.send_replace(true);
        if in_time {
            let finish = async {
                while let Some(joined) = tasks.join_next().await {
                    note(joined);
                }
            };
            tokio::select! {
                () = finish => return Shutdown::Drained,
                () = &mut out_of_time => {}
            }
        }
        let cut = tasks.len();
        tasks.shutdown().await;
        Shutdown::Cut(cut)
    }
}

async fn sweep_sessions(sessions: Sessions) {
    if let Err(error) = sessions.sweep().await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "old sessions are still there"
        );
    }
}

fn note(joined: Result<(), tokio::task::JoinError>) {
    if let Err(error) = joined {
        tracing::error!(%error, "a connection was lost");
    }
}

fn http(header_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_BUFFER_BYTES)
        // For small chunks one flat write is cheaper than a list of buffers.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(MAX_BUFFER_BYTES);
    builder
}

/// What all connections have in common.
struct Connections {
    router: Router,
    http: Arc<Builder<TokioExecutor>>,
    first_request: Duration,
    write_timeout: Duration,
    places: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

impl Connections {
    /// The next connection, once there is a place for it. Losing this future between two calls loses nothing.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, OwnedSemaphorePermit) {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        loop {
            match listener.accept().await {
                Ok((socket, _)) => return (socket, place),
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections now");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection to its end.
    fn hold(&self, socket: TcpStream, place: OwnedSemaphorePermit) -> impl Future<Output = ()> + use<> {
        let (router, http) = (self.router.clone(), Arc::clone(&self.http));
        let mut closing = self.closing.subscribe();
        let (first_request, write_timeout) = (self.first_request, self.write_timeout);
        async move {
            let _place = place;
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "a connection was gone before it was served");
                return;
            }
            // What nobody reads for this long fails the next write, and with it the connection.
            let mut socket = TimeoutStream::new(socket);
            socket.set_write_timeout(Some(write_timeout));
            let begun = Arc::new(AtomicBool::new(false));
            let upgrade = Upgrade::default();
            let service = service_fn({
                let (begun, upgrade) = (Arc::clone(&begun), upgrade.clone());
                move |mut request: hyper::Request<Incoming>| {
                    begun.store(true, Ordering::Relaxed);
                    request.extensions_mut().insert(upgrade.clone());
                    respond(router.clone(), request)
                }
            });
            let mut connection =
                pin!(http.serve_connection_with_upgrades(TokioIo::new(Box::pin(socket)), service));
            // hyper's own time-out begins with HTTP/1; before that it waits for ever to learn which version it is.
            let mut overdue = pin!(sleep(first_request));
            let mut waiting = true;
            let mut open = true;
            let ended = loop {
                tokio::select! {
                    ended = &mut connection => break ended,
                    _ = closing.wait_for(|closing| *closing), if open => {
                        open = false;
                        connection.as_mut().graceful_shutdown();
                    }
                    () = &mut overdue, if waiting => {
                        waiting = false;
                        if !begun.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(error, "a connection broke");
            }
            // Here, so that it keeps its place among the connections and ends with them.
            if let Some(socket) = upgrade.take() {
                socket.await;
            }
        }
    }
}

/// Where a request that becomes a WebSocket leaves it for the task of its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upgrade(Arc<Mutex<Option<Socket>>>);

impl Upgrade {
    /// The connection is this socket from now on.
    pub(crate) fn hand_over(&self, socket: Socket) {
        *self.lock() = Some(socket);
    }

    fn take(&self) -> Option<Socket> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// Errors that belong to the connection that was about to be accepted; the next one may be fine.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// A panic of a handler is one request's 500; the other requests of the connection go on.
async fn respond(
    router: Router,
    request: hyper::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    let handled = AssertUnwindSafe(router.oneshot(request)).catch_unwind().await;
    handled.unwrap_or_else(|_| {
        let refusal = Refusal::passing(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed. Please retry.",
        );
        Ok(refusal.into_response())
    })
}
