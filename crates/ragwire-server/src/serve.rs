//! Connections: accepting, serving and closing them, and shutting down.
//!
//! `axum::serve` does not allow these settings, so this module has its own accept loop:
//!
//! - `TCP_NODELAY`, because an event must not wait for the next one;
//! - small buffers, because each stalled reader keeps its buffers full;
//! - a write time-out that closes the connection;
//! - TLS, in `tls.rs`, within the same limits;
//! - a limit on connections, in `connections.rs`;
//! - a shutdown that ends the streams first.
//!
//! The server starts its connection tasks here and joins all of them.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire_endpoints::{ClientShare, SocketSlot};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_io_timeout::TimeoutStream;
use tokio_util::either::Either;

use crate::app::{App, Stores};
use crate::connections::{OpenConnection, OpenConnections};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::respond::Routes;
use crate::routes;
use crate::settings::Settings;
use crate::tls::Tls;
use crate::version::{Http, Version};

/// Connections that the kernel queues before it refuses further ones.
const BACKLOG: u32 = 1024;
/// The kernel's send buffer. By default it grows to megabytes for a reader that does not read.
const SEND_BUFFER_BYTES: u32 = 64 << 10;
/// Pause after an `accept` error that would repeat at once, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often expired sessions are deleted if no request changes a session. They are not readable in
/// any case.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// An open port. The kernel queues connections until the server accepts them.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
}

impl Listening {
    /// Listens on the address in the settings.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be used.
    pub fn bind(settings: &Settings) -> io::Result<Self> {
        let address = *settings.listen;
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Otherwise a restart has to wait for the connections of the last run. On Windows the
        // option means something else.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        // Accepted sockets inherit it.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            tls: None,
        })
    }

    /// Encrypts every connection, if there is a certificate.
    #[must_use]
    pub fn encrypted(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the address it listens on, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its certificate.
    pub(crate) fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// Returns what a client on this machine calls.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
    settings: Settings,
    readiness: Readiness,
    routes: Arc<OnceLock<Routes>>,
    opened: oneshot::Receiver<Arc<App>>,
}

/// Opens the routes of a server that is starting.
#[derive(Debug)]
pub struct Opener {
    routes: Arc<OnceLock<Routes>>,
    address: SocketAddr,
    open: oneshot::Sender<Arc<App>>,
}

impl Opener {
    /// Gives every connection, those that are already open too, the routes of the app. If the
    /// server has stopped, nothing happens.
    pub fn open(self, app: Arc<App>) {
        // The only opener is consumed, so the routes are not set yet.
        let _ = self.routes.set(Routes {
            router: routes::router(&app, self.address),
            metrics: Some(Arc::clone(&app.metrics)),
        });
        let _ = self.open.send(app);
    }
}

/// How the server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every connection finished.
    Drained,
    /// The drain time elapsed or a second signal arrived; this many connections were closed.
    Cut(usize),
}

impl Server {
    /// Listens on the address in the settings.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be used.
    pub fn bind(app: Arc<App>) -> io::Result<Self> {
        let listening = Listening::bind(&app.settings)?;
        let (settings, readiness) = (app.settings.clone(), app.readiness.clone());
        let (server, opener) = Self::starting(listening, settings, readiness);
        opener.open(app);
        Ok(server)
    }

    /// Creates a server that reports the progress of its start until the opener gives it its routes.
    /// If the opener is dropped, it never has them.
    pub fn starting(listening: Listening, settings: Settings, readiness: Readiness) -> (Self, Opener) {
        let (open, opened) = oneshot::channel();
        let routes = Arc::new(OnceLock::new());
        let opener = Opener {
            routes: Arc::clone(&routes),
            address: listening.address,
            open,
        };
        let server = Self {
            listening,
            settings,
            readiness,
            routes,
            opened,
        };
        (server, opener)
    }

    /// Returns the address it listens on, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Serves until `stop` resolves. Then ends open turns with their terminal, refuses new ones,
    /// and waits for the connections until the drain time elapses or `kill` resolves.
    pub async fn run(self, stop: impl Future<Output = ()>, kill: impl Future<Output = ()>) -> Shutdown {
        let Self {
            listening:
                Listening {
                    listener,
                    address,
                    tls,
                },
            settings,
            readiness,
            routes,
            mut opened,
        } = self;
        let (closing, _) = watch::channel(false);
        let connections = Connections {
            starting: Routes {
                router: routes::starting(&settings, address, &readiness),
                metrics: None,
            },
            routes,
            tls,
            http: Arc::new(Http::new(*settings.header_timeout)),
            first_request: *settings.header_timeout,
            write_timeout: *settings.write_timeout,
            open: OpenConnections::new(
                *settings.max_connections,
                // Behind a proxy that names the users every connection has its address.
                match settings.owner_header.as_ref() {
                    Some(_) => ClientShare::ALL,
                    None => *settings.client_share,
                },
            ),
            pending: Mutex::new(None),
            closing,
        };
        // A receiver that has given its value, or whose sender is gone, must not be awaited.
        let (mut app, mut waits_for_app) = match opened.try_recv() {
            Ok(app) => (Some(app), false),
            Err(TryRecvError::Empty) => (None, true),
            Err(TryRecvError::Closed) => (None, false),
        };
        connections.open.set_app(app.as_deref());
        let mut tasks = JoinSet::new();
        let (mut stop, mut kill) = (pin!(stop), pin!(kill));
        let mut sweep = interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                (socket, open) = connections.accept(&listener) => {
                    tasks.spawn(connections.serve(socket, open));
                }
                Some(joined) = tasks.join_next() => log_panic(joined),
                given = &mut opened, if waits_for_app => {
                    waits_for_app = false;
                    app = given.ok();
                    connections.open.set_app(app.as_deref());
                }
                _ = sweep.tick() => {
                    if let Some(app) = &app {
                        tasks.spawn(sweep_stores(app.stores.clone(), Arc::clone(&app.metrics)));
                    }
                }
                () = &mut stop => break,
            }
        }

        // Opened in the same moment.
        app = app.or_else(|| opened.try_recv().ok());
        let drain = *settings.drain;
        let turns = app.as_ref().map_or(0, |app| app.turns.active());
        tracing::info!(turns, ?drain, "shutting down");
        if let Some(app) = &app {
            app.endpoints.shut_down();
        }
        let deadline = Instant::now() + drain;
        // Still accepting: until the open turns have finished, new requests get 503 with
        // `retry-after`.
        let all_uploads = u32::try_from(*settings.max_uploads).unwrap_or(u32::MAX);
        let mut idle = pin!(async {
            if let Some(app) = &app {
                app.endpoints.drained().await;
                let _ = app.uploads.acquire_many(all_uploads).await;
            }
        });
        let mut out_of_time = pin!(async {
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = &mut kill => {}
            }
        });
        let in_time = loop {
            tokio::select! {
                (socket, open) = connections.accept(&listener) => {
                    tasks.spawn(connections.serve(socket, open));
                }
                Some(joined) = tasks.join_next() => log_panic(joined),
                () = &mut idle => break true,
                () = &mut out_of_time => break false,
            }
        };
        drop(listener);

        connections.closing.send_replace(true);
        let mut shutdown = None;
        if in_time {
            let finish = async {
                while let Some(joined) = tasks.join_next().await {
                    log_panic(joined);
                }
            };
            tokio::select! {
                () = finish => shutdown = Some(Shutdown::Drained),
                () = &mut out_of_time => {}
            }
        }
        let cut = tasks.len();
        tasks.shutdown().await;
        if let Some(app) = &app {
            app.tracing.shut_down().await;
        }
        shutdown.unwrap_or(Shutdown::Cut(cut))
    }
}

async fn sweep_stores(stores: Stores, metrics: Arc<Metrics>) {
    let (sessions, records) = (stores.sessions.sweep().await, stores.records.sweep().await);
    if let Ok(sessions) = &sessions {
        metrics.set_sessions(*sessions);
    }
    for error in [sessions.err(), records.err()].into_iter().flatten() {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "cannot delete expired sessions"
        );
    }
}

fn log_panic(joined: Result<(), tokio::task::JoinError>) {
    if let Err(error) = joined {
        tracing::error!(%error, "a connection task panicked");
    }
}

/// The state that all connections share.
struct Connections {
    /// The routes until the server has its own.
    starting: Routes,
    routes: Arc<OnceLock<Routes>>,
    tls: Option<Tls>,
    http: Arc<Http>,
    first_request: Duration,
    write_timeout: Duration,
    open: OpenConnections,
    /// A socket that was accepted and waits for room.
    pending: Mutex<Option<(TcpStream, SocketAddr)>>,
    closing: watch::Sender<bool>,
}

impl Connections {
    /// Accepts the next connection and waits for room for it. Dropping the future loses nothing.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, OpenConnection) {
        loop {
            if self.pending().is_none() {
                let accepted = Self::accept_socket(listener).await;
                *self.pending() = Some(accepted);
            }
            let permit = self.open.room().await;
            let Some((socket, address)) = self.pending().take() else {
                continue;
            };
            if self.open.has_room_for(address) {
                return (socket, self.open.open(address, permit));
            }
            tracing::debug!(%address, "this address has its share of the connections");
        }
    }

    fn pending(&self) -> MutexGuard<'_, Option<(TcpStream, SocketAddr)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn accept_socket(listener: &TcpListener) -> (TcpStream, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection until it closes.
    fn serve(&self, socket: TcpStream, open: OpenConnection) -> impl Future<Output = ()> + use<> {
        let (starting, routes) = (self.starting.clone(), Arc::clone(&self.routes));
        let (tls, http) = (self.tls.clone(), Arc::clone(&self.http));
        let mut closing = self.closing.subscribe();
        let (first_request, write_timeout) = (self.first_request, self.write_timeout);
        async move {
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "a client disconnected before it was served");
                return;
            }
            let mut no_request = pin!(sleep(first_request));
            // Boxed, so that its memory is freed when the connection has started. The stream is boxed as
            // well, because this future would otherwise reserve room for TLS on every connection.
            let start = Box::pin(async {
                let version = match &tls {
                    None => Version::sent(&socket).await,
                    Some(_) => Version::Either,
                };
                // If the client reads nothing for this long, the next write fails and the connection
                // closes.
                let mut socket = TimeoutStream::new(socket);
                socket.set_write_timeout(Some(write_timeout));
                let socket = Box::pin(socket);
                let Some(tls) = &tls else {
                    return Ok((version, Either::Left(socket)));
                };
                let (version, socket) = tls.accept(socket).await?;
                Ok::<_, io::Error>((version, Either::Right(Box::new(socket))))
            });
            let (version, socket) = tokio::select! {
                started = start => match started {
                    Ok(started) => started,
                    Err(error) => {
                        tracing::debug!(%error, "a client did not finish the handshake");
                        return;
                    }
                },
                () = &mut no_request => return,
                () = open.closed() => return,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            let has_request = Arc::new(AtomicBool::new(false));
            let upgrade = SocketSlot::new();
            let service = service_fn({
                let (has_request, upgrade) = (Arc::clone(&has_request), upgrade.clone());
                let (requests, peer) = (open.requests(), open.peer().clone());
                move |mut request: hyper::Request<Incoming>| {
                    has_request.store(true, Ordering::Relaxed);
                    request.extensions_mut().insert(upgrade.clone());
                    request.extensions_mut().insert(peer.clone());
                    let routes = routes.get().unwrap_or(&starting).clone();
                    // On the heap until the response begins: hyper keeps the room of this future as
                    // long as the connection is open.
                    Box::pin(routes.respond(request, requests.begin()))
                }
            });
            let mut connection = http.serve(version, TokioIo::new(socket), service);
            // hyper's header time-out starts once the HTTP version is known; until then it waits
            // for ever.
            let mut waiting = true;
            let mut is_open = true;
            let served = loop {
                tokio::select! {
                    served = &mut connection => break served,
                    _ = closing.wait_for(|closing| *closing), if is_open => {
                        is_open = false;
                        connection.shut_down();
                    }
                    // Another connection needs the room, and this one is idle.
                    () = open.closed() => return,
                    () = &mut no_request, if waiting => {
                        waiting = false;
                        if !has_request.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection failed");
            }
            // Served here, so that the socket counts as a connection and closes with them.
            if let Some(socket) = upgrade.take() {
                let _request = open.requests().begin();
                socket.await;
            }
        }
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// Returns `true` for an error of the connection that was about to be accepted. The next one may
/// work.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
