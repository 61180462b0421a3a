//! The network between the hosts and the server: delays, partitions, connections that break with
//! requests and replies in flight, and a server that restarts.
//!
//! A connection is TCP in what it may do: bytes arrive in order, once, and late. When it breaks, the
//! server still executes the first few of the requests that are in flight, perhaps seconds later and
//! thus after the client's next attempt, and their replies are lost.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ragwire_test_support::seed::Seed;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::server::{Bytes, Reply, Server, take_command};
use super::spawn;
use crate::redis::connector::simulated;

/// The longest delay of one direction in a healthy network.
const MAX_DELAY: Duration = Duration::from_millis(20);
/// How late a request in flight on a broken connection may still be executed.
pub(super) const MAX_LATENESS: Duration = Duration::from_secs(4);
/// Requests or replies in flight on a connection. Clients wait for replies, so there are few.
const IN_FLIGHT: usize = 1024;
const PIPE_BYTES: usize = 64 * 1024;

/// What precedes the time of day in a frame.
const TIMESTAMP: &str = "\"timestamp\":\"";

pub(super) struct Network {
    state: Mutex<State>,
    /// Something has been written to the server's data.
    written: Notify,
    /// A connection has broken, or a host or the server can be reached again.
    changed: Notify,
}

struct State {
    server: Server,
    is_server_up: bool,
    /// How often the server was stopped: requests in flight end with the process.
    stops: u64,
    random: Seed,
    max_delay: Duration,
    /// Hosts that cannot reach the server.
    cut: Vec<bool>,
    /// Open connections with their hosts.
    open: BTreeMap<u64, usize>,
    next_connection: u64,
    counts: Counts,
    trace: u64,
}

/// What has happened, to show that the simulation reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Requests that were executed after their connection had broken.
    pub(super) late: u64,
    pub(super) lost_requests: u64,
    pub(super) lost_replies: u64,
}

impl Network {
    pub(super) fn new(hosts: usize, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                server: Server::new(Instant::now()),
                is_server_up: true,
                stops: 0,
                random: Seed::new(seed),
                max_delay: MAX_DELAY,
                cut: vec![false; hosts],
                open: BTreeMap::new(),
                next_connection: 0,
                counts: Counts::default(),
                trace: 0xcbf2_9ce4_8422_2325,
            }),
            written: Notify::new(),
            changed: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn server<T>(&self, read: impl FnOnce(&mut Server) -> T) -> T {
        read(&mut self.lock().server)
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Adds an event to the fingerprint of the run, without the time of day that frames contain.
    pub(super) fn trace(&self, event: &[u8]) {
        let text = String::from_utf8_lossy(event);
        let mut parts = text.split(TIMESTAMP);
        let first = parts.next().unwrap_or_default();
        let rest = parts.map(|part| part.split_once('"').map_or("", |(_, rest)| rest));
        let event = std::iter::once(first).chain(rest).collect::<String>();
        let now = Instant::now();
        let mut state = self.lock();
        let micros = now.duration_since(state.server.started()).as_micros() as u64;
        for byte in micros.to_le_bytes().iter().chain(event.as_bytes()) {
            state.trace = (state.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.lock().trace
    }

    /// Separates a host from the server, or ends that.
    pub(super) fn cut(&self, host: usize, is_cut: bool) {
        self.lock().cut[host] = is_cut;
        self.changed.notify_waiters();
    }

    pub(super) fn set_max_delay(&self, delay: Option<Duration>) {
        self.lock().max_delay = delay.unwrap_or(MAX_DELAY);
    }

    /// Breaks the connections of a host, or of all hosts.
    pub(super) fn break_connections(&self, of: Option<usize>) {
        self.lock()
            .open
            .retain(|_, host| of.is_some_and(|of| of != *host));
        self.changed.notify_waiters();
    }

    /// Stops the server, which forgets the scripts; the data stays, or becomes that of `before`.
    pub(super) fn stop_server(&self, before: Option<Server>) {
        let mut state = self.lock();
        state.is_server_up = false;
        state.stops += 1;
        if let Some(before) = before {
            state.server = before;
        }
        state.server.scripts.clear();
        drop(state);
        self.break_connections(None);
    }

    pub(super) fn start_server(&self) {
        self.lock().is_server_up = true;
        self.changed.notify_waiters();
    }

    fn delay(&self) -> Duration {
        let mut state = self.lock();
        let most = state.max_delay;
        state.random.between(Duration::from_millis(1), most)
    }

    async fn open(self: &Arc<Self>, host: usize) -> io::Result<DuplexStream> {
        self.reachable(host, None).await;
        sleep(self.delay()).await;
        let mut state = self.lock();
        if !state.is_server_up {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let id = state.next_connection;
        state.next_connection += 1;
        state.open.insert(id, host);
        let connection = Connection {
            network: Arc::clone(self),
            host,
            id,
            stops: state.stops,
        };
        drop(state);
        let (read, write) = tokio::io::split(server);
        let (requests, received) = mpsc::channel(IN_FLIGHT);
        let (replies, answered) = mpsc::channel(IN_FLIGHT);
        spawn(connection.clone().receive(read, requests));
        spawn(connection.clone().answer(received, replies));
        spawn(connection.send(write, answered));
        Ok(client)
    }

    fn is_reachable(&self, host: usize, connection: Option<u64>) -> bool {
        let state = self.lock();
        !state.cut[host] || connection.is_some_and(|id| !state.open.contains_key(&id))
    }

    /// Waits until the host can reach the server, or the connection has broken.
    async fn reachable(&self, host: usize, connection: Option<u64>) {
        loop {
            let changed = self.changed.notified();
            if self.is_reachable(host, connection) {
                return;
            }
            changed.await;
        }
    }
}

/// The network as one host sees it.
pub(super) struct HostNetwork {
    pub(super) network: Arc<Network>,
    pub(super) host: usize,
    pub(super) connect_timeout: Duration,
}

impl simulated::Network for HostNetwork {
    fn connect(&self) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send + '_>> {
        Box::pin(self.network.open(self.host))
    }

    fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }
}

/// The server's side of a connection.
#[derive(Clone)]
struct Connection {
    network: Arc<Network>,
    host: usize,
    id: u64,
    stops: u64,
}

impl Connection {
    fn is_open(&self) -> bool {
        self.network.lock().open.contains_key(&self.id)
    }

    /// Waits for `future`; returns `None` if the connection breaks before.
    async fn unless_broken<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let broken = async {
            loop {
                let changed = self.network.changed.notified();
                if !self.is_open() {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = broken => None,
            value = future => Some(value),
        }
    }

    /// Takes the client's requests and gives each the time of its arrival.
    async fn receive(
        self,
        mut stream: ReadHalf<DuplexStream>,
        requests: mpsc::Sender<(Instant, Vec<Bytes>)>,
    ) {
        let (mut buffer, mut last) = (Vec::new(), Instant::now());
        while let Some(Ok(1..)) = self.unless_broken(stream.read_buf(&mut buffer)).await {
            while let Some(command) = take_command(&mut buffer) {
                last = last.max(Instant::now() + self.network.delay());
                let _ = requests.send((last, command)).await;
            }
        }
        // The client has gone, or the connection has broken: either way no reply arrives any more.
        self.network.lock().open.remove(&self.id);
        self.network.changed.notify_waiters();
    }

    /// Executes the requests, in order. Those that are in flight when the connection breaks may be
    /// lost, and all later ones with them.
    async fn answer(
        self,
        mut requests: mpsc::Receiver<(Instant, Vec<Bytes>)>,
        replies: mpsc::Sender<(Instant, Bytes)>,
    ) {
        let (mut queued, mut last): (Option<Vec<Vec<Bytes>>>, _) = (None, Instant::now());
        while let Some((arrives, command)) = requests.recv().await {
            sleep_until(arrives).await;
            self.network.reachable(self.host, Some(self.id)).await;
            if !self.is_open() {
                let (is_lost, lateness) = {
                    let mut state = self.network.lock();
                    let is_lost = state.random.below(3) == 0 || state.stops != self.stops;
                    let lateness = state.random.between(Duration::ZERO, MAX_LATENESS);
                    state.counts.late += u64::from(!is_lost);
                    state.counts.lost_requests += u64::from(is_lost);
                    (is_lost, lateness)
                };
                if is_lost {
                    return;
                }
                sleep(lateness).await;
            }
            let reply = match (&*command[0], &mut queued) {
                (b"MULTI", _) => {
                    queued = Some(Vec::new());
                    Reply::Ok
                }
                (b"EXEC", _) => {
                    let commands = queued.take().unwrap_or_default();
                    let mut state = self.network.lock();
                    let now = Instant::now();
                    Reply::List(
                        commands
                            .iter()
                            .map(|command| state.server.execute(now, command))
                            .collect(),
                    )
                }
                (_, Some(queued)) => {
                    queued.push(command.clone());
                    Reply::Queued
                }
                (_, None) => self.execute(&command).await,
            };
            self.network.trace(&command.concat());
            self.network.written.notify_waiters();
            let mut bytes = Vec::new();
            reply.write(&mut bytes);
            last = last.max(Instant::now() + self.network.delay());
            let _ = replies.send((last, bytes)).await;
        }
    }

    /// Executes a command, and waits where it blocks.
    async fn execute(&self, command: &[Bytes]) -> Reply {
        let mut deadline = None;
        loop {
            let written = self.network.written.notified();
            let reply = {
                let mut state = self.network.lock();
                state.counts.requests += 1;
                state.server.execute(Instant::now(), command)
            };
            let Reply::Blocked(until) = reply else {
                return reply;
            };
            let waits = async {
                tokio::select! {
                    biased;
                    () = written => true,
                    () = sleep_until(*deadline.get_or_insert(until)) => false,
                }
            };
            if self.unless_broken(waits).await != Some(true) {
                return Reply::Nil;
            }
        }
    }

    /// Sends the replies, each at its time.
    async fn send(self, mut stream: WriteHalf<DuplexStream>, mut replies: mpsc::Receiver<(Instant, Bytes)>) {
        while let Some((arrives, bytes)) = replies.recv().await {
            let sent = async {
                sleep_until(arrives).await;
                self.network.reachable(self.host, None).await;
                stream.write_all(&bytes).await.is_ok()
            };
            if self.unless_broken(sent).await != Some(true) {
                self.network.lock().counts.lost_replies += 1;
                break;
            }
        }
    }
}
