//! Streams that stay open: what each costs in memory, and each of its items in CPU time and delay.
//!
//! `cargo bench --bench open -- [memory|paced|stalled] [STREAMS]` runs one part, without a name all
//! three. Every server runs in its own process with one thread, and all get the same requests:
//!
//! - `channel`: a hyper body over a bounded tokio channel, one chunk per item, already encoded. It is
//!   the baseline.
//! - `axum Sse`: axum's `Sse` over the same channel.
//! - `framed`, `framed, axum`, `framed, journal`, `framed, redis`: `Turn::start` and `respond` in a
//!   bare hyper service, in axum, with a journal in memory, and with one on a Redis server, which
//!   must be installed; otherwise that row is missing.
//!
//! `memory`: resident memory of the server per open stream (default 10,000, so `ulimit -n` must be
//! above that); each sends a text of 100 bytes every second. `paced`: turns of 24 events and 312 texts
//! with one item every 12 ms (default 100 streams), CPU time per item, and the delay from emitting a
//! text to its arrival. CPU time is what the kernel counts for the process; all servers take turns
//! in each round, and ratios are taken within it. `stalled`: resident memory per reader that asks for
//! a turn of 20 MB and reads nothing of it (default 100).

mod workload;

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::response::sse::{Event as SseEvent, Sse};
use axum::serve::ListenerExt;
use bytes::{Bytes, BytesMut};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ragwire::http::TurnBody;
use ragwire::redis::RedisOptions;
use ragwire::turn::{Journal, JournalLimits, Turn};
use ragwire::wire::Wire;
use ragwire::{Event, Framed, Item, Metadata, SendError, Sink, Timestamp};
use ragwire_test_support::redis::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, interval, sleep, sleep_until};

use workload::channel::Received;

/// Makes a copy of this program the server of this kind.
const SERVER: &str = "RAGWIRE_BENCH_SERVER";
/// What its turns send.
const WORK: &str = "RAGWIRE_BENCH_WORK";
/// The address of the Redis server.
const REDIS: &str = "RAGWIRE_BENCH_REDIS";

const ON_REDIS: &str = "framed, redis";
const KINDS: [&str; 6] = [
    "channel",
    "axum Sse",
    "framed",
    "framed, axum",
    "framed, journal",
    ON_REDIS,
];
const PACE: Duration = Duration::from_millis(12);
/// One in so many texts says when it was sent.
const STAMPED_EVERY: usize = 8;
/// The texts of a turn, and these and its events.
const TEXTS: f64 = 312.0;
const ITEMS: f64 = TEXTS + 24.0;
const SLOW_PACE: Duration = Duration::from_secs(1);
const LARGE_BYTES: usize = 20_000_000;
const SLOW_TEXT: &str =
    "A text of a hundred bytes, as a model writes it in a second: the first frame decides the status. ";
const LARGE_TEXT: &str = match std::str::from_utf8(&[b'x'; 16 * 1024]) {
    Ok(text) => text,
    Err(_) => "",
};
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    if let Ok(kind) = std::env::var(SERVER) {
        let work = Work::of(&std::env::var(WORK).expect("what to send"));
        return runtime.block_on(serve(&kind, work));
    }
    // `cargo bench` adds a flag of its own.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let part = arguments.first().map(String::as_str);
    let streams = arguments
        .get(1)
        .map(|streams| streams.parse().expect("a number of streams"));
    let redis = Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
        .then(|| RedisServer::start(&[]));
    runtime.block_on(async {
        if part.is_none_or(|part| part == "memory") {
            memory(streams.unwrap_or(10_000), redis.as_ref()).await;
        }
        if part.is_none_or(|part| part == "paced") {
            paced(streams.unwrap_or(100), redis.as_ref()).await;
        }
        if part.is_none_or(|part| part == "stalled") {
            stalled(streams.unwrap_or(100)).await;
        }
    });
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

// The servers.

/// What a turn sends.
#[derive(Clone, Copy)]
enum Work {
    /// A short text every second, without end.
    Slow,
    /// The turn of all benches, one item every 12 ms.
    Paced,
    /// 20 MB of text as fast as it is taken.
    Large,
}

impl Work {
    fn of(name: &str) -> Self {
        match name {
            "slow" => Self::Slow,
            "paced" => Self::Paced,
            _ => Self::Large,
        }
    }

    fn items(self) -> Items {
        let (events, texts) = match self {
            Self::Paced => (workload::events(), workload::texts()),
            // What a stream holds is measured.
            Self::Slow | Self::Large => (Vec::new(), Vec::new()),
        };
        Items {
            work: self,
            pace: interval(if matches!(self, Self::Slow) {
                SLOW_PACE
            } else {
                PACE
            }),
            events: events.into_iter(),
            texts: texts.into_iter(),
            sent: 0,
        }
    }
}

/// The items of one turn, each at its time.
struct Items {
    work: Work,
    pace: Interval,
    events: std::vec::IntoIter<Event>,
    texts: std::vec::IntoIter<&'static str>,
    sent: usize,
}

impl Items {
    async fn next(&mut self) -> Option<Item<'static>> {
        self.sent += 1;
        match self.work {
            Work::Slow => {
                self.pace.tick().await;
                Some(Item::from(SLOW_TEXT))
            }
            Work::Paced => {
                self.pace.tick().await;
                match self.events.next() {
                    Some(event) => Some(event.into()),
                    // A part of the texts says when it was sent.
                    None if self.sent.is_multiple_of(STAMPED_EVERY) => {
                        self.texts.next().map(|_| format!("@{} ", micros()).into())
                    }
                    None => self.texts.next().map(Item::from),
                }
            }
            Work::Large => (self.sent * LARGE_TEXT.len() <= LARGE_BYTES).then_some(Item::from(LARGE_TEXT)),
        }
    }
}

async fn answer(work: Work, sink: Sink) -> Result<Metadata, SendError> {
    let mut items = work.items();
    while let Some(item) = items.next().await {
        sink.send(item).await?;
    }
    Ok(workload::metadata())
}

fn encode(write: impl FnOnce(&mut ragwire::wire::Encoder, &mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::new();
    write(&mut Framed::default().encoder(), &mut bytes);
    bytes.freeze()
}

/// What one writes by hand: a task that sends chunks.
fn chunks(work: Work, events: Arc<[Bytes]>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(256);
    #[expect(
        clippy::disallowed_methods,
        reason = "the baseline is what one writes by hand"
    )]
    tokio::spawn(async move {
        let mut items = work.items();
        while let Some(item) = items.next().await {
            let chunk = match item {
                Item::Event(_) => events[items.sent - 1].clone(),
                Item::Text(Cow::Borrowed(text)) => Bytes::from_static(text.as_bytes()),
                Item::Text(Cow::Owned(text)) => Bytes::from(text),
                Item::Bytes(bytes) => Bytes::copy_from_slice(&bytes),
            };
            if sender.send(chunk).await.is_err() {
                return;
            }
        }
    });
    receiver
}

fn sse(work: Work) -> Sse<impl futures_util::Stream<Item = Result<SseEvent, Infallible>>> {
    let (sender, receiver) = mpsc::channel(256);
    #[expect(
        clippy::disallowed_methods,
        reason = "the baseline is what one writes by hand"
    )]
    tokio::spawn(async move {
        let mut items = work.items();
        while let Some(item) = items.next().await {
            let event = match item {
                Item::Event(event) => SseEvent::default()
                    .event(event.name())
                    .json_data(&event)
                    .expect("serialises"),
                Item::Text(text) => SseEvent::default().event("token").data(text),
                Item::Bytes(_) => SseEvent::default(),
            };
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    Sse::new(futures_util::stream::unfold(receiver, |mut receiver| async {
        let event = receiver.recv().await?;
        Some((Ok(event), receiver))
    }))
}

async fn serve(kind: &str, work: Work) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    let journal = match kind {
        "framed, journal" => {
            let limits = JournalLimits::default().max_turns(1 << 20).max_bytes(1 << 30);
            Some(Journal::in_memory(limits))
        }
        ON_REDIS => {
            let url = std::env::var(REDIS).expect("the address of a redis server");
            let options = RedisOptions::new(&url).expect("an address");
            let limits = JournalLimits::default().max_turns(1 << 20).max_bytes(1 << 30);
            Some(Journal::redis(options, limits).await.expect("a redis server"))
        }
        _ => None,
    };
    async fn respond(work: Work, journal: Option<Journal>) -> Response<TurnBody> {
        let builder = match &journal {
            Some(journal) => Turn::builder().journal(journal),
            None => Turn::builder(),
        };
        let pending = builder.start(move |sink| answer(work, sink));
        pending
            .commit()
            .await
            .expect("the workload commits")
            .respond(Framed::default())
    }
    match kind {
        "axum Sse" => serve_axum(listener, axum::routing::get(async move || sse(work))).await,
        "framed, axum" => {
            serve_axum(
                listener,
                axum::routing::get(async move || respond(work, None).await),
            )
            .await
        }
        "channel" => {
            let timestamp = Some(Timestamp::from_micros(1_767_323_045_678_000));
            let events = workload::events().into_iter().map(|event| {
                encode(|encoder, out| encoder.event(&event, timestamp, out).expect("it is legal"))
            });
            let events: Arc<[Bytes]> = events.collect();
            let respond =
                move || std::future::ready(Response::new(Received(chunks(work, Arc::clone(&events)))));
            serve_hyper(listener, respond).await;
        }
        _ => {
            let respond = move || {
                let journal = journal.clone();
                async move { respond(work, journal).await }
            };
            serve_hyper(listener, respond).await;
        }
    }
}

async fn serve_axum(listener: TcpListener, route: axum::routing::MethodRouter) {
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let _ = axum::serve(listener, axum::Router::new().route("/", route)).await;
}

async fn serve_hyper<F, R, B>(listener: TcpListener, respond: F)
where
    F: Fn() -> R + Clone + Send + 'static,
    R: Future<Output = Response<B>> + Send,
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        socket.set_nodelay(true).expect("a socket");
        let respond = respond.clone();
        let service = service_fn(move |_: Request<hyper::body::Incoming>| {
            let response = respond();
            async move { Ok::<_, Infallible>(response.await) }
        });
        #[expect(clippy::disallowed_methods, reason = "a server of a bench")]
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.max_buf_size(64 * 1024);
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

// The client.

struct Server {
    kind: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(kind: &'static str, work: &str, redis: Option<&RedisServer>) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a name"))
            .env(SERVER, kind)
            .env(WORK, work)
            .env(REDIS, redis.map(RedisServer::url).unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a copy of this program");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it was piped"))
            .read_line(&mut line)
            .expect("its address");
        Self {
            kind,
            child,
            address: line.trim().parse().expect("its address"),
        }
    }

    fn start_all(work: &str, redis: Option<&RedisServer>) -> Vec<Self> {
        KINDS
            .into_iter()
            .filter(|kind| *kind != ON_REDIS || redis.is_some())
            .map(|kind| Self::start(kind, work, redis))
            .collect()
    }

    /// Resident memory in KiB, as the kernel reports it.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.and_then(|kib| kib.parse().ok()).expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of all threads of a process so far, as the scheduler counts it.
fn cpu(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("linux");
    let nanoseconds = tasks.map(|task| {
        let stat =
            std::fs::read_to_string(task.expect("a task").path().join("schedstat")).unwrap_or_default();
        stat.split(' ')
            .next()
            .and_then(|time| time.parse().ok())
            .unwrap_or(0)
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

async fn connect(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(REQUEST).await.expect("a server");
    socket
}

/// Opens `streams` streams at once and returns the memory of each.
async fn memory(streams: usize, redis: Option<&RedisServer>) {
    println!("\n{streams} open streams, one text of 100 bytes a second each: resident memory per stream");
    for kind in KINDS
        .into_iter()
        .filter(|kind| *kind != ON_REDIS || redis.is_some())
    {
        let server = Server::start(kind, "slow", redis);
        // What the first stream allocates once is not counted as theirs.
        drop(connect(server.address).await);
        sleep(Duration::from_millis(500)).await;
        let before = server.memory();
        let opening = Arc::new(Semaphore::new(64));
        let mut readers = JoinSet::new();
        let all_open = Arc::new(tokio::sync::Barrier::new(streams + 1));
        for _ in 0..streams {
            let (opening, all_open, address) = (Arc::clone(&opening), Arc::clone(&all_open), server.address);
            readers.spawn(async move {
                let permit = opening.acquire_owned().await.expect("never closed");
                let mut socket = connect(address).await;
                let mut buffer = [0; 512];
                assert!(socket.read(&mut buffer).await.expect("an answer") > 0);
                drop(permit);
                all_open.wait().await;
                while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            });
        }
        all_open.wait().await;
        sleep(3 * SLOW_PACE).await;
        println!(
            "{kind:>16}  {:6.1} KiB",
            (server.memory() - before) / streams as f64
        );
    }
}

/// Measures a paced stream of each server in turn.
async fn paced(streams: usize, redis: Option<&RedisServer>) {
    const ROUNDS: usize = 7;
    const MEASURED: Duration = Duration::from_secs(4);
    let servers = Server::start_all("paced", redis);
    let redis_id: Option<u32> = redis.and_then(|redis| redis.info("process_id")?.trim().parse().ok());
    let mut rounds: Vec<Vec<Round>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (server, rounds) in servers.iter().zip(&mut rounds) {
            rounds.push(Round::measure(server, redis_id, streams, MEASURED).await);
        }
    }
    println!("\n{streams} streams, one item every {PACE:?} each: median of {ROUNDS} x {MEASURED:?}");
    println!(
        "{:>16}  {:>11} {:>10} {:>11} {:>10}  p50 and p99 of the delay",
        "", "us per item", "x baseline", "with redis", "x framed"
    );
    let column = |rounds: &[Round], value: fn(&Round) -> f64| median(rounds.iter().map(value).collect());
    let ratio = |rounds: &[Round], base: &[Round], value: fn(&Round) -> f64| {
        median(
            rounds
                .iter()
                .zip(base)
                .map(|(round, base)| value(round) / base.cpu)
                .collect(),
        )
    };
    let framed = servers
        .iter()
        .position(|server| server.kind == "framed")
        .expect("it is listed");
    for (server, measured) in servers.iter().zip(&rounds) {
        println!(
            "{:>16}  {:11.1} {:10.2} {:11.1} {:10.2}  {:.2} and {:.2} ms; {:.2} x framed with redis",
            server.kind,
            column(measured, |round| round.cpu),
            ratio(measured, &rounds[0], |round| round.cpu),
            column(measured, |round| round.cpu + round.redis),
            ratio(measured, &rounds[framed], |round| round.cpu),
            column(measured, |round| round.p50),
            column(measured, |round| round.p99),
            ratio(measured, &rounds[framed], |round| round.cpu + round.redis),
        );
    }
}

/// One measurement: microseconds per item, milliseconds of delay.
struct Round {
    cpu: f64,
    redis: f64,
    p50: f64,
    p99: f64,
}

impl Round {
    async fn measure(server: &Server, redis: Option<u32>, streams: usize, measured: Duration) -> Self {
        let from = Instant::now() + Duration::from_secs(1);
        let until = from + measured;
        let mut readers = JoinSet::new();
        for number in 0..streams {
            let address = server.address;
            readers.spawn(async move {
                // Spread over one turn.
                sleep(Duration::from_millis(number as u64 * 997 % 900)).await;
                read_turns(address, from, until).await
            });
        }
        sleep_until(from).await;
        let uses_redis = redis.filter(|_| server.kind == ON_REDIS);
        let before = (cpu(server.child.id()), uses_redis.map(cpu));
        sleep_until(until).await;
        let own = cpu(server.child.id()) - before.0;
        let redis = uses_redis
            .zip(before.1)
            .map(|(process, before)| cpu(process) - before);
        let mut delays: Vec<u64> = readers.join_all().await.into_iter().flatten().collect();
        delays.sort_unstable();
        let delay = |share: f64| {
            let at = (delays.len() as f64 * share) as usize;
            delays.get(at).map_or(f64::NAN, |delay| *delay as f64 / 1e3)
        };
        // What arrived: on a busy machine it is less than the pace allows.
        let items = (delays.len() * STAMPED_EVERY) as f64 * ITEMS / TEXTS;
        Self {
            cpu: own.as_secs_f64() * 1e6 / items,
            redis: redis.unwrap_or_default().as_secs_f64() * 1e6 / items,
            p50: delay(0.5),
            p99: delay(0.99),
        }
    }
}

/// Reads one turn after the other. Returns the delays of the texts that say when they were sent.
async fn read_turns(address: SocketAddr, from: Instant, until: Instant) -> Vec<u64> {
    let mut socket = connect(address).await;
    let mut delays = Vec::new();
    let (mut buffer, mut tail) = ([0; 16 * 1024], Vec::new());
    loop {
        let read = tokio::select! {
            read = socket.read(&mut buffer) => read.expect("an answer"),
            () = sleep_until(until) => return delays,
        };
        assert!(read > 0, "the server closed the connection");
        let now = micros();
        if Instant::now() >= from {
            let stamps = buffer[..read].split(|byte| *byte == b'@').skip(1);
            let sent = stamps.filter_map(|stamp| std::str::from_utf8(stamp.get(..16)?).ok()?.parse().ok());
            delays.extend(sent.map(|sent: u64| now.saturating_sub(sent)));
        }
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(7));
        if tail == b"\r\n0\r\n\r\n" {
            tail.clear();
            socket.write_all(REQUEST).await.expect("a server");
        }
    }
}

/// Measures readers that read nothing.
async fn stalled(readers: usize) {
    println!("\n{readers} readers that read nothing of a turn of 20 MB: resident memory per reader");
    for kind in KINDS.into_iter().filter(|kind| *kind != ON_REDIS) {
        let server = Server::start(kind, "large", None);
        let first = connect(server.address).await;
        sleep(Duration::from_secs(1)).await;
        let before = server.memory();
        let mut sockets = vec![first];
        for _ in 0..readers {
            sockets.push(connect(server.address).await);
        }
        sleep(Duration::from_secs(3)).await;
        println!(
            "{kind:>16}  {:6.1} KiB",
            (server.memory() - before) / readers as f64
        );
    }
}
