//! The server: hyper for HTTP/1 and HTTP/2, the gateway for WebSocket, configured like the
//! reference server but with short time limits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ragwire::http::TurnBody;
use ragwire::http::gateway::{Call, Gateway, GatewayTimeouts, ServiceKind};
use ragwire::turn::{Disconnect, Journal, JournalLimits, TurnGroup};
use ragwire::{Ndjson, Rejected, Timeouts, Turn, TurnId};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_io_timeout::TimeoutStream;

use crate::stage::Role;

/// The time after which the wire's filler is written on a silent stream.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_millis(100);
/// The time for which the client may read nothing: the limit of the turn, of the socket and of the
/// gateway.
pub(crate) const STALL: Duration = Duration::from_millis(1_500);
/// The ping interval and the time limit for a pong.
const PING: Duration = Duration::from_millis(300);
const PONG: Duration = Duration::from_secs(2);
/// The buffers of hyper and of the kernel, small so that little is sent to a client that reads
/// nothing.
const BUFFER_BYTES: usize = 16 << 10;
/// The grace period of turns with that policy.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
/// The owner of all turns.
pub(crate) const OWNER: &str = "alice";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http1,
    Http2,
    WebSocket,
}

/// The policy for a turn whose reader disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    NoJournal,
    Cancel,
    Grace(Duration),
    GoOn,
}

impl Policy {
    pub(crate) const ALL: [Self; 4] = [Self::NoJournal, Self::Cancel, Self::Grace(GRACE), Self::GoOn];
}

/// A server. Its cell decides which orchestrator plays which turn.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) journal: Journal,
    pub(crate) group: TurnGroup,
    pub(crate) gateway: Gateway,
    connections: Arc<AtomicUsize>,
    stage: Arc<Stage>,
    pub(crate) ids: mpsc::Receiver<TurnId>,
    accepting: AbortHandle,
}

struct Stage {
    roles: Mutex<VecDeque<(Role, Policy)>>,
    journal: Journal,
    group: TurnGroup,
    ids: mpsc::Sender<TurnId>,
    stall: Duration,
}

impl Stage {
    /// Starts the next turn.
    async fn turn(&self) -> Result<Turn, Rejected> {
        let (role, policy) = self.roles.lock().unwrap().pop_front().unwrap();
        let timeouts = Timeouts::default().keep_alive(KEEP_ALIVE).write_stall(self.stall);
        let builder = Turn::builder().group(&self.group).owner(OWNER).timeouts(timeouts);
        let builder = match policy {
            Policy::NoJournal => builder,
            Policy::Cancel => builder.journal(&self.journal),
            Policy::Grace(after) => builder
                .journal(&self.journal)
                .on_disconnect(Disconnect::grace(after)),
            Policy::GoOn => builder
                .journal(&self.journal)
                .on_disconnect(Disconnect::run_to_end()),
        };
        let pending = builder.start(|sink| role.play(sink));
        self.ids.send(pending.id()).await.unwrap();
        pending.commit().await
    }
}

/// A connection of the server.
struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(all))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Server {
    pub(crate) fn start(transport: Transport, group: TurnGroup, stall: Duration) -> Self {
        // More than a turn has here, so that the resumed frames can be compared completely.
        let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(8 << 20));
        let (sender, ids) = mpsc::channel(16);
        let stage = Arc::new(Stage {
            roles: Mutex::default(),
            journal: journal.clone(),
            group: group.clone(),
            ids: sender,
            stall,
        });
        let gateway = gateway(&stage);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(BUFFER_BYTES as u32).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let accepting = tokio::spawn(accept(
            transport,
            listener,
            Arc::clone(&stage),
            gateway.clone(),
            Arc::clone(&connections),
        ));
        Self {
            address,
            journal,
            group,
            gateway,
            connections,
            stage,
            ids,
            accepting: accepting.abort_handle(),
        }
    }

    /// Sets the orchestrator of the next turn.
    pub(crate) fn expect(&self, role: Role, policy: Policy) {
        self.stage.roles.lock().unwrap().push_back((role, policy));
    }

    /// Returns the number of connections, including WebSockets.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst) + self.gateway.active()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn gateway(stage: &Arc<Stage>) -> Gateway {
    let stage = Arc::clone(stage);
    let stall = stage.stall;
    let timeouts = GatewayTimeouts::default()
        .ping(PING)
        .pong(PONG)
        .write(stall)
        .close(STALL);
    Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, move |_: Call| {
            let stage = Arc::clone(&stage);
            async move { stage.turn().await }
        })
        .timeouts(timeouts)
        .build()
}

async fn accept(
    transport: Transport,
    listener: TcpListener,
    stage: Arc<Stage>,
    gateway: Gateway,
    all: Arc<AtomicUsize>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (socket, _) = accepted.unwrap();
                socket.set_nodelay(true).unwrap();
                let count = ConnectionCount::new(&all);
                let (stage, gateway) = (Arc::clone(&stage), gateway.clone());
                tasks.spawn(async move {
                    let _counted = count;
                    serve(transport, socket, stage, gateway).await;
                });
            }
            Some(joined) = tasks.join_next() => joined.unwrap(),
        }
    }
}

async fn serve(transport: Transport, socket: TcpStream, stage: Arc<Stage>, gateway: Gateway) {
    let stall = stage.stall;
    // Disconnects are expected here.
    let _ = match transport {
        Transport::Http1 => {
            let service = service_fn(move |_: http::Request<Incoming>| respond(Arc::clone(&stage)));
            http1()
                .serve_connection(TokioIo::new(timed(socket, stall)), service)
                .await
        }
        Transport::Http2 => {
            let service = service_fn(move |_: http::Request<Incoming>| respond(Arc::clone(&stage)));
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .max_send_buf_size(BUFFER_BYTES)
                .serve_connection(TokioIo::new(timed(socket, stall)), service)
                .await
        }
        // The gateway has its own write time-out.
        Transport::WebSocket => {
            let service = service_fn(move |mut request: http::Request<Incoming>| {
                let response = gateway.upgrade(&mut request);
                async move { Ok::<_, Infallible>(response) }
            });
            http1()
                .serve_connection(TokioIo::new(socket), service)
                .with_upgrades()
                .await
        }
    };
}

fn http1() -> hyper::server::conn::http1::Builder {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).max_buf_size(BUFFER_BYTES);
    builder
}

/// Data that is not read for this long fails the next write and closes the connection.
fn timed(socket: TcpStream, stall: Duration) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    let mut socket = TimeoutStream::new(socket);
    socket.set_write_timeout(Some(stall));
    Box::pin(socket)
}

async fn respond(stage: Arc<Stage>) -> Result<http::Response<TurnBody>, Infallible> {
    Ok(match stage.turn().await {
        Ok(turn) => turn.respond(Ndjson::default()),
        Err(rejected) => rejected.respond(),
    })
}
