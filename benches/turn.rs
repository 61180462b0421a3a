//! A whole turn through a hyper body on loopback, in CPU time of the server, beside two baselines
//! in the same run.
//!
//! - `framed`, `ndjson`, `sse`, `ai-sdk`: `Turn::start` and `respond` on these wires, events
//!   serialised at the sink; `framed, journal` with a journal in memory.
//! - `channel`: the hand-written alternative: a hyper body over a bounded tokio channel, one chunk
//!   per item, *already encoded*.
//! - `axum Sse`: axum's `Sse` over the same channel, events serialised there.
//!
//! Each runs in its own process with the same settings and one thread; 32 connections request one
//! turn after the other. CPU time is what the kernel counts for that process, so the client and other
//! load have little effect. All take turns in each round, and a round's ratios are taken within it.
//! The first byte is printed as a part of the time to the last one.
//!
//! `RAGWIRE_BENCH_SERVER=KIND cargo bench --bench turn` serves that kind alone, and
//! `RAGWIRE_BENCH_TURNS=N` with it runs N turns in the process without a socket, for callgrind.
//!
//! `hop` is only the queue: producer task to reader, without a socket.

mod workload;

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion};
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ragwire::turn::{Journal, JournalLimits, Turn, TurnBuilder};
use ragwire::wire::Wire;
use ragwire::{AiSdk, Framed, Metadata, Ndjson, SendError, Sink, Sse, Timestamp};
use tokio::sync::mpsc;

use workload::channel::Received;

const CONNECTIONS: usize = 32;
const BASELINE: &str = "channel";
const KINDS: [&str; 7] = [
    BASELINE,
    "framed",
    "ndjson",
    "sse",
    "ai-sdk",
    "framed, journal",
    "axum Sse",
];
/// How many turns the server runs without a socket before it ends.
const TURNS: &str = "RAGWIRE_BENCH_TURNS";
/// Tells a copy of this program that it is the server, and of which kind.
const SERVER: &str = "RAGWIRE_BENCH_SERVER";

fn main() {
    if let Ok(kind) = std::env::var(SERVER) {
        return serve(&kind);
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    hop(&mut criterion);
    let mut servers: Vec<Server> = KINDS.iter().map(|kind| Server::start(kind)).collect();
    let mut group = criterion.benchmark_group("turn over loopback, server CPU");
    for server in &mut servers {
        group.bench_function(BenchmarkId::from_parameter(server.kind), |bencher| {
            bencher.iter_custom(|turns| server.run(turns));
        });
    }
    group.finish();
    ratios(&mut servers);
    criterion.final_summary();
}

/// Compares the variants, measured in alternation so that load on the machine affects all of them.
fn ratios(servers: &mut [Server]) {
    const TURNS: u64 = 2_000;
    const ROUNDS: usize = 9;
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (server, times) in servers.iter_mut().zip(&mut rounds) {
            times.push(server.run(TURNS).as_secs_f64() * 1e6 / TURNS as f64);
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("\nserver CPU per turn, median of {ROUNDS} x {TURNS} turns over {CONNECTIONS} connections");
    println!("{:>16}  {:>9}  {:>11}  first byte", "", "us", "x baseline");
    let baseline = rounds[0].clone();
    for (server, times) in servers.iter_mut().zip(rounds) {
        let ratios = times.iter().zip(&baseline).map(|(time, base)| time / base);
        let first = median(std::mem::take(
            server.first.get_mut().expect("no thread panicked"),
        ));
        println!(
            "{:>16}  {:>9.1}  {:>11.2}  {first:.2} of the turn",
            server.kind,
            median(times.clone()),
            median(ratios.collect()),
        );
    }
}

async fn answer(sink: Sink) -> Result<Metadata, SendError> {
    for event in workload::events() {
        sink.send(event).await?;
    }
    for text in workload::texts() {
        sink.send(text).await?;
    }
    Ok(workload::metadata())
}

/// Every item of the turn in its encoded form.
fn encoded() -> Vec<Bytes> {
    let mut encoder = Framed::default().encoder();
    let timestamp = Some(Timestamp::from_micros(1_767_323_045_678_000));
    let mut items = Vec::new();
    let mut take = |encode: &mut dyn FnMut(&mut BytesMut)| {
        let mut bytes = BytesMut::new();
        encode(&mut bytes);
        items.push(bytes.freeze());
    };
    for event in workload::events() {
        take(&mut |out| {
            encoder
                .event(&event, timestamp, out)
                .expect("the workload is legal")
        });
    }
    for text in workload::texts() {
        take(&mut |out| encoder.text(text, out).expect("the workload is legal"));
    }
    take(&mut |out| encoder.end(&workload::end(), out).expect("the workload is legal"));
    items
}

/// Only the queue.
fn hop(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("hop, 337 items");
    group.bench_function("ragwire", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let turn = Turn::start(answer).commit().await.expect("the workload commits");
                let mut stream = turn.stream(&Framed::default());
                while let Some(chunk) = stream.next().await {
                    std::hint::black_box(chunk);
                }
            });
        });
    });
    let items: Arc<[Bytes]> = encoded().into();
    group.bench_function("channel", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let mut receiver = send_all(Arc::clone(&items));
                while let Some(item) = receiver.recv().await {
                    std::hint::black_box(item);
                }
            });
        });
    });
    group.finish();
}

fn send_all(items: Arc<[Bytes]>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(256);
    #[expect(
        clippy::disallowed_methods,
        reason = "the baseline is what one writes by hand"
    )]
    tokio::spawn(async move {
        for item in items.iter().cloned() {
            if sender.send(item).await.is_err() {
                return;
            }
        }
    });
    receiver
}

type Body = UnsyncBoxBody<Bytes, axum::Error>;

async fn commit(builder: TurnBuilder) -> Turn {
    let pending = builder.start(answer);
    pending.commit().await.expect("the workload commits")
}

fn boxed<B>(response: Response<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    response.map(|body| body.map_err(axum::Error::new).boxed_unsync())
}

async fn respond(kind: String, items: Arc<[Bytes]>) -> Response<Body> {
    match kind.as_str() {
        "framed" => boxed(commit(Turn::builder()).await.respond(Framed::default())),
        "ndjson" => boxed(commit(Turn::builder()).await.respond(Ndjson::default())),
        "sse" => boxed(commit(Turn::builder()).await.respond(Sse::default())),
        "ai-sdk" => boxed(commit(Turn::builder()).await.respond(AiSdk::default())),
        "framed, journal" => {
            static JOURNAL: LazyLock<Journal> =
                LazyLock::new(|| Journal::in_memory(JournalLimits::default()));
            boxed(
                commit(Turn::builder().journal(&JOURNAL))
                    .await
                    .respond(Framed::default()),
            )
        }
        "channel" => {
            Response::new(Received(send_all(items))).map(|body| body.map_err(axum::Error::new).boxed_unsync())
        }
        _ => {
            let (sender, receiver) = mpsc::channel(256);
            #[expect(
                clippy::disallowed_methods,
                reason = "the baseline is what one writes by hand"
            )]
            tokio::spawn(async move {
                use axum::response::sse::Event;
                for event in workload::events() {
                    let event = Event::default()
                        .event(event.name())
                        .json_data(&event)
                        .expect("serialises");
                    let _ = sender.send(event).await;
                }
                for text in workload::texts() {
                    let _ = sender.send(Event::default().event("token").data(text)).await;
                }
                let citations = workload::metadata().citations;
                let _ = sender
                    .send(
                        Event::default()
                            .event("done")
                            .json_data(citations)
                            .expect("serialises"),
                    )
                    .await;
            });
            let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
                let event = receiver.recv().await?;
                Some((Ok::<_, Infallible>(event), receiver))
            });
            let response = axum::response::Sse::new(stream).into_response();
            response.map(|body| {
                StreamBody::new(body.into_data_stream().map(|data| data.map(Frame::data))).boxed_unsync()
            })
        }
    }
}

/// Reads `turns` turns without a socket.
async fn run(kind: &str, turns: u64) {
    let items: Arc<[Bytes]> = encoded().into();
    for _ in 0..turns {
        let mut body = respond(kind.to_owned(), Arc::clone(&items)).await.into_body();
        while let Some(frame) = body.frame().await {
            std::hint::black_box(frame.expect("the body cannot fail"));
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(kind: &str) {
    if let Ok(turns) = std::env::var(TURNS) {
        return run(kind, turns.parse().expect("a number of turns")).await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    let items: Arc<[Bytes]> = encoded().into();
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        socket.set_nodelay(true).expect("a socket");
        let (kind, items) = (kind.to_owned(), Arc::clone(&items));
        let service = service_fn(move |_: Request<hyper::body::Incoming>| {
            let (kind, items) = (kind.clone(), Arc::clone(&items));
            async move { Ok::<_, Infallible>(respond(kind, items).await) }
        });
        #[expect(clippy::disallowed_methods, reason = "a server of a bench")]
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

/// A server in its own process, and the connections to it.
struct Server {
    kind: &'static str,
    process: Child,
    connections: Vec<TcpStream>,
    /// For each turn, the time to its first byte as a part of the time to its last.
    first: Mutex<Vec<f64>>,
}

impl Server {
    fn start(kind: &'static str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .env(SERVER, kind)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut port = String::new();
        BufReader::new(process.stdout.as_mut().expect("its output"))
            .read_line(&mut port)
            .expect("its port");
        let address = format!("127.0.0.1:{}", port.trim());
        let connections = (0..CONNECTIONS)
            .map(|_| TcpStream::connect(&address).expect("a connection"))
            .collect();
        Self {
            kind,
            process,
            connections,
            first: Mutex::default(),
        }
    }

    /// Requests `turns` turns. Returns the CPU time that the server used.
    fn run(&mut self, turns: u64) -> Duration {
        let before = self.cpu();
        let first = &self.first;
        std::thread::scope(|scope| {
            for (number, connection) in self.connections.iter_mut().enumerate() {
                let share =
                    turns / CONNECTIONS as u64 + u64::from((number as u64) < turns % CONNECTIONS as u64);
                scope.spawn(move || {
                    let parts: Vec<f64> = (0..share).map(|_| ask(connection)).collect();
                    first.lock().expect("no thread panicked").extend(parts);
                });
            }
        });
        self.cpu() - before
    }

    /// CPU time of all threads of the server so far, as the scheduler counts it.
    fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("linux");
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
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One turn on a kept connection: reads to the end of the chunked body. Returns the time to the first
/// byte as a part of the whole time.
fn ask(connection: &mut TcpStream) -> f64 {
    let begun = Instant::now();
    let mut first = None;
    connection
        .write_all(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n")
        .expect("a server");
    let (mut buffer, mut tail) = ([0; 16 * 1024], Vec::new());
    while !tail.ends_with(b"\r\n0\r\n\r\n") {
        let read = connection.read(&mut buffer).expect("an answer");
        assert!(read > 0, "the server closed the connection");
        first.get_or_insert_with(|| begun.elapsed());
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(7));
    }
    first.unwrap_or_default().as_secs_f64() / begun.elapsed().as_secs_f64()
}
