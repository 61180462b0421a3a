//! Thousands of streams open at once on the reference server: the server's memory per stream, and
//! the delay from emitting a text to its arrival. The figures are printed, not asserted.
//!
//! `cargo bench -p ragwire-server --bench streams -- [STREAMS] [SECONDS]`; the defaults are 10,000
//! and 20. Each stream gets two texts a second; a text is the time at which it was sent. Two
//! servers run one after the other, each in its own process, for the same client:
//!
//! - `bare`: axum over a stream of ready-made chunks, paced by the same timer. It is the baseline:
//!   the cost of hyper, the kernel and this client.
//! - `ragwire`: the reference server with its defaults, on `POST /v1/turns` as server-sent events;
//!   every turn is journaled.
//!
//! The client decodes every frame and checks its index, so it detects a lost or doubled one. Both
//! sides share the machine: the processor limits the delay, and the client takes about half of it.
//! Each process needs a file descriptor per stream (`ulimit -n`).

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use ragwire::orchestrator::Answering;
use ragwire::wire::Decode;
use ragwire::{Frame, Metadata, Sink, Sse};
use ragwire::{Orchestrator, Question};
use ragwire_rag::Library;
use ragwire_server::app::{App, Stores};
use ragwire_server::extract::Extractor;
use ragwire_server::journal;
use ragwire_server::serve::Server;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, Listen};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Makes a copy of this program the server, of the kind in its value.
const SERVER: &str = "RAGWIRE_BENCH_SERVER";
const STREAMS: usize = 10_000;
const SECONDS: u64 = 20;
const PACE: Duration = Duration::from_millis(500);
/// How many connections are opened at a time.
const OPENING: usize = 64;

/// The server's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let Ok(kind) = std::env::var(SERVER) {
        return runtime.block_on(serve(&kind));
    }
    // `cargo bench` adds a flag of its own.
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok());
    let streams = numbers.next().unwrap_or(STREAMS);
    let measured = Duration::from_secs(numbers.next().map_or(SECONDS, |seconds| seconds as u64));
    println!(
        "{streams} open streams, 2 texts a second each, measured for {} s",
        measured.as_secs()
    );
    println!(
        "{:>10}  {:>14} {:>12} {:>10} {:>10} {:>10} {:>8}",
        "server", "KiB per stream", "texts per s", "p50 ms", "p99 ms", "max ms", "lost"
    );
    for kind in ["bare", "ragwire"] {
        runtime.block_on(measure(kind, streams, measured)).print(kind);
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

// The servers.

/// Emits the current time until its reader disconnects.
#[derive(Debug)]
struct Clock;

impl Orchestrator for Clock {
    fn answer(&self, _: Question, sink: Sink) -> Answering {
        Box::pin(async move {
            let mut pace = tokio::time::interval(PACE);
            while sink.send(format!("{} ", micros())).await.is_ok() {
                pace.tick().await;
            }
            Ok(Metadata::default())
        })
    }
}

async fn serve(kind: &str) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    match kind {
        "bare" => {
            let listener = TcpListener::bind(listen).await.expect("a port");
            println!("{}", listener.local_addr().expect("an address"));
            let routes = axum::Router::new()
                .route("/v1/turns", axum::routing::post(bare))
                .with_state(Arc::new(()));
            axum::serve(listener, routes).await.expect("it serves");
        }
        _ => {
            let settings = Settings {
                listen: Listen(listen),
                max_turns: Count(1 << 20),
                max_connections: Count(1 << 20),
                journal_turns: Count(1 << 21),
                ..Settings::default()
            };
            let library = Arc::new(Library::in_memory(Default::default()).expect("a library"));
            let this = std::env::current_exe().expect("a name");
            let extractor = Extractor::new(this, &settings);
            let stores = Stores::in_memory(&settings);
            let journal = journal::in_memory(&settings);
            let app = Arc::new(App::new(
                settings,
                stores,
                library,
                Arc::new(Clock),
                extractor,
                journal,
            ));
            let server = Server::bind(app).expect("a port");
            println!("{}", server.address());
            server.run(std::future::pending(), std::future::pending()).await;
        }
    }
}

/// The same chunks, without anything that waits, merges or ends a stream.
async fn bare(State(_): State<Arc<()>>) -> Response<Body> {
    let chunks = stream::unfold((0_u64, tokio::time::interval(PACE)), async |(index, mut pace)| {
        pace.tick().await;
        let chunk = format!(
            "id: {index}\nevent: text\ndata: {{\"text\":\"{} \"}}\n\n",
            micros()
        );
        Some((
            Ok::<_, std::convert::Infallible>(Bytes::from(chunk)),
            (index + 1, pace),
        ))
    });
    Response::builder()
        .header(CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(chunks))
        .expect("a response")
}

// The client.

struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    fn start(kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a name"))
            .env(SERVER, kind)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a copy of this program");
        let mut line = String::new();
        let out = child.stdout.take().expect("it was piped");
        BufReader::new(out).read_line(&mut line).expect("its address");
        Self {
            child,
            address: line.trim().parse().expect("its address"),
        }
    }

    /// Resident memory in KiB, as the kernel reports it.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.and_then(|kib| kib.parse().ok()).expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The measurements of one server.
struct Figures {
    kib_per_stream: f64,
    texts_per_second: f64,
    delays: Vec<u64>,
    lost: u64,
}

impl Figures {
    fn print(mut self, kind: &str) {
        self.delays.sort_unstable();
        let share = |share: f64| {
            let at = (self.delays.len() as f64 * share) as usize;
            let delay = self.delays.get(at.min(self.delays.len().saturating_sub(1)));
            delay.map_or(f64::NAN, |micros| *micros as f64 / 1e3)
        };
        println!(
            "{kind:>10}  {:14.1} {:12.0} {:10.1} {:10.1} {:10.1} {:8}",
            self.kib_per_stream,
            self.texts_per_second,
            share(0.5),
            share(0.99),
            share(1.0),
            self.lost
        );
    }
}

async fn measure(kind: &str, streams: usize, measured: Duration) -> Figures {
    let server = Running::start(kind);
    // One-time allocations for the first streams are not counted as theirs.
    drop(open(server.address).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.memory();
    let opening = Arc::new(Semaphore::new(OPENING));
    let all_open = Arc::new(tokio::sync::Barrier::new(streams + 1));
    let mut readers = JoinSet::new();
    for _ in 0..streams {
        let place = Arc::clone(&opening).acquire_owned().await.expect("never closed");
        let (address, all_open) = (server.address, Arc::clone(&all_open));
        readers.spawn(async move {
            let reader = open(address).await;
            drop(place);
            read(reader, &all_open, measured).await
        });
    }
    all_open.wait().await;
    let (mut delays, mut lost) = (Vec::new(), 0);
    tokio::time::sleep(measured).await;
    let after = server.memory();
    while let Some(read) = readers.join_next().await {
        let (mut its_delays, its_lost) = read.expect("a reader");
        delays.append(&mut its_delays);
        lost += its_lost;
    }
    Figures {
        kib_per_stream: after.saturating_sub(before) as f64 / streams as f64,
        texts_per_second: delays.len() as f64 / measured.as_secs_f64(),
        delays,
        lost,
    }
}

async fn open(address: SocketAddr) -> hyper::body::Incoming {
    let socket = TcpStream::connect(address).await.expect("a connection");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .expect("a handshake");
    #[expect(
        clippy::disallowed_methods,
        reason = "a client's connection ends with its reader"
    )]
    tokio::spawn(connection);
    let request = Request::post("/v1/turns")
        .header(HOST, address.to_string())
        .header(ACCEPT, "text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from_static(br#"{"prompt":"when?"}"#)))
        .expect("a request");
    let response = sender.send_request(request).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK, "the server is full");
    response.into_body()
}

/// Reads until all streams are open and the time has passed; earlier frames are not counted.
/// Returns the delays in microseconds and the number of frames with a wrong index.
async fn read(
    mut body: hyper::body::Incoming,
    all_open: &tokio::sync::Barrier,
    measured: Duration,
) -> (Vec<u64>, u64) {
    let mut decoder = Sse::default().decoder();
    let mut delays = Vec::new();
    let mut lost = 0;
    let mut waiting = std::pin::pin!(all_open.wait());
    let mut until = None;
    loop {
        let frame = tokio::select! {
            _ = &mut waiting, if until.is_none() => {
                until = Some(tokio::time::Instant::now() + measured);
                continue;
            }
            () = tokio::time::sleep_until(until.unwrap_or_else(tokio::time::Instant::now)), if until.is_some() => break,
            frame = body.frame() => frame,
        };
        let Some(Ok(frame)) = frame else {
            return (delays, lost + 1);
        };
        let now = micros();
        decoder.feed(frame.data_ref().map_or(&[], |data| data));
        for decoded in decoder.by_ref() {
            match decoded {
                Ok(Frame::Text(text)) if until.is_some() => delays.extend(
                    text.split_whitespace()
                        .filter_map(|sent| sent.parse().ok())
                        .map(|sent| now.saturating_sub(sent)),
                ),
                Ok(_) => {}
                // The decoder rejects an index that is not the next one.
                Err(_) => lost += 1,
            }
        }
    }
    (delays, lost)
}
