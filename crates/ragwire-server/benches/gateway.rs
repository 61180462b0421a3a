//! The server's CPU time per turn through the gateway, beside the same turn of an orchestrator in the
//! server's own process, and beside a bare relay. The figures are printed, not asserted.
//!
//! `cargo bench -p ragwire-server --bench gateway -- [TURNS]`; the default is 2,000. The turn is the
//! one of `cargo bench --bench turn`: 24 events, 312 texts and 1.6 KB of metadata, read as framed
//! text. Each server runs in a process of its own, and so does the orchestrator behind the gateway,
//! which writes JSON lines that were encoded before, one chunk per line.
//!
//! | server | does |
//! |---|---|
//! | `in-process` | runs the orchestrator itself |
//! | `gateway` | asks the orchestrator over HTTP, decodes, records, encodes |
//! | `relay` | hyper's server and hyper-util's client, which pass the bytes on and know nothing of them: the cost of two connections and of one chunk per line |
//!
//! Each runs twice: in a `burst`, with lines as fast as the orchestrator writes them, and `paced`, one
//! line every few milliseconds as a model writes them, so that each line arrives alone and costs a
//! read, a write and a wake-up. A tenth of the turns is paced.
//!
//! CPU time is read from `/proc`, so the bench needs Linux. Only compare figures of one run.

#[path = "../../../benches/workload/mod.rs"]
mod workload;

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ragwire::orchestrator::Answering;
use ragwire::wire::Wire;
use ragwire::{Frame, Ndjson, Orchestrator, Question, Sink};
use ragwire_server::app::{App, Stores};
use ragwire_server::extract::Extractor;
use ragwire_server::gateway::Gateway;
use ragwire_server::journal;
use ragwire_server::serve::Server;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Address;
use ragwire_server::settings::values::Listen;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Interval;

/// Makes a copy of this program the server, of the kind in its value.
const SERVER: &str = "RAGWIRE_BENCH_SERVER";
/// The address of the orchestrator, for the server with the gateway.
const ORCHESTRATOR: &str = "RAGWIRE_BENCH_ORCHESTRATOR";
const TURNS: usize = 2_000;
/// Turns that warm up connections and allocators.
const WARM_UP: usize = 100;
/// Questions that are asked at a time.
const AT_ONCE: usize = 32;
/// The time between two lines of a paced answer: a fast model's.
const PACE: Duration = Duration::from_millis(3);
/// The prompt of a paced answer, up to its number.
const PACED: &str = "Paced";
/// The unit of the times in `/proc/PID/stat` on every Linux that Rust supports.
const TICK: Duration = Duration::from_millis(10);

/// The server's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let Ok(kind) = std::env::var(SERVER) {
        return runtime.block_on(serve(&kind));
    }
    // `cargo bench` adds a flag of its own.
    let turns = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok());
    let turns = turns.unwrap_or(TURNS);
    println!("{turns} turns, {AT_ONCE} at a time, in µs of server CPU per turn");
    let orchestrator = Running::start("orchestrator", None);
    for (pace, turns) in [("Burst", turns), (PACED, turns.div_ceil(10))] {
        let mut direct = None;
        for kind in ["in-process", "gateway", "relay"] {
            let server = Running::start(kind, Some(orchestrator.address));
            runtime.block_on(ask(server.address, "Burst", WARM_UP));
            let before = server.cpu();
            runtime.block_on(ask(server.address, pace, turns));
            let per_turn = (server.cpu() - before).as_secs_f64() * 1e6 / turns as f64;
            let baseline = *direct.get_or_insert(per_turn);
            println!(
                "{pace:>6} {kind:>12}  {per_turn:>8.0}  {:>5.2}",
                per_turn / baseline
            );
        }
    }
}

/// A server in another process.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    fn start(kind: &str, orchestrator: Option<SocketAddr>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a name"));
        command.env(SERVER, kind).stdout(Stdio::piped());
        if let Some(orchestrator) = orchestrator {
            command.env(ORCHESTRATOR, format!("http://{orchestrator}/ask"));
        }
        let mut child = command.spawn().expect("a process");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.trim().parse().expect("an address");
        Self { child, address }
    }

    /// The CPU time of the process so far.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux");
        // The name in parentheses may contain spaces; user and system time follow as the 12th and
        // 13th field after it.
        let fields = stat.rsplit(')').next().expect("fields").split_whitespace();
        let ticks: u32 = fields
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u32>().ok())
            .sum();
        TICK * ticks
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks questions and reads their whole answers.
async fn ask(address: SocketAddr, pace: &'static str, turns: usize) {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut asking = JoinSet::new();
    for turn in 0..turns {
        if asking.len() == AT_ONCE {
            asking.join_next().await.expect("a task").expect("no panic");
        }
        let client = client.clone();
        asking.spawn(async move {
            let body = format!("{{\"prompt\":\"{pace} {turn}?\"}}");
            let request = Request::post(format!("http://{address}/v1/turns"))
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "text/plain")
                .body(Full::new(body.into()))
                .expect("a request");
            let response = client.request(request).await.expect("a response");
            assert_eq!(response.status(), 200);
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert!(body.trim_ascii_end().ends_with(b"}"), "the answer is whole");
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.expect("no panic");
    }
}

async fn serve(kind: &str) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    if kind == "orchestrator" {
        let listener = TcpListener::bind(listen).await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        let lines = Arc::new(lines());
        let answer = move |question: Bytes| {
            let lines = Arc::clone(&lines);
            async move { answer(&lines, is_paced(&question)) }
        };
        let routes = axum::Router::new().route("/ask", axum::routing::post(answer));
        return axum::serve(listener, routes).await.expect("it serves");
    }
    if kind == "relay" {
        let listener = TcpListener::bind(listen).await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        return relay(listener).await;
    }
    let mut settings = Settings {
        listen: Listen(listen),
        ..Settings::default()
    };
    let orchestrator: Arc<dyn Orchestrator> = if kind == "gateway" {
        settings.orchestrator = Address(std::env::var(ORCHESTRATOR).ok());
        let options = settings.gateway_options().expect("valid settings");
        Arc::new(Gateway::start(options.expect("an orchestrator")).expect("a gateway"))
    } else {
        Arc::new(InProcess)
    };
    let this = std::env::current_exe().expect("a name");
    let extractor = Extractor::new(this, &settings);
    let stores = Stores::in_memory(&settings);
    let journal = journal::in_memory(&settings);
    let app = App::new(settings, stores, None, orchestrator, extractor, journal);
    let server = Server::bind(Arc::new(app)).expect("a port");
    println!("{}", server.address());
    server.run(std::future::pending(), std::future::pending()).await;
}

/// The lines of the turn.
fn lines() -> Vec<Bytes> {
    let events = workload::events().into_iter().map(|event| Frame::Event {
        event,
        timestamp: None,
    });
    let texts = workload::texts().into_iter().map(|text| Frame::Text(text.into()));
    let mut encoder = Ndjson::default().encoder();
    let frames = events.chain(texts).chain([Frame::End(workload::end())]);
    let lines = frames.map(|frame| {
        let mut line = BytesMut::new();
        encoder.encode(&frame, &mut line).expect("a frame");
        line.freeze()
    });
    lines.collect()
}

/// Whether the question in this JSON asks for a paced answer.
fn is_paced(question: &[u8]) -> bool {
    question
        .windows(PACED.len())
        .any(|window| window == PACED.as_bytes())
}

fn answer(lines: &Arc<Vec<Bytes>>, is_paced: bool) -> Response<Body> {
    let lines = lines.as_ref().clone().into_iter();
    let lines = stream::unfold((lines, pacing(is_paced)), |(mut lines, mut pacing)| async move {
        let line = lines.next()?;
        pace(&mut pacing).await;
        Some((Ok::<_, Infallible>(line), (lines, pacing)))
    });
    Response::builder()
        .header(CONTENT_TYPE, "application/x-ndjson")
        .body(Body::from_stream(lines))
        .expect("a response")
}

fn pacing(is_paced: bool) -> Option<Interval> {
    is_paced.then(|| tokio::time::interval(PACE))
}

async fn pace(pacing: &mut Option<Interval>) {
    if let Some(interval) = pacing {
        interval.tick().await;
    }
}

/// Passes requests and answers on with hyper's server and hyper-util's client.
async fn relay(listener: TcpListener) {
    let target = std::env::var(ORCHESTRATOR).expect("an orchestrator");
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build_http();
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        socket.set_nodelay(true).expect("a socket");
        let (client, target) = (client.clone(), target.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let question = Request::post(&target)
                .body(request.into_body())
                .expect("a request");
            client.request(question)
        });
        let http = hyper::server::conn::http1::Builder::new();
        let connection = http.serve_connection(TokioIo::new(socket), service);
        #[expect(clippy::disallowed_methods, reason = "the process ends with the bench")]
        tokio::spawn(connection);
    }
}

/// The same turn without a network in between.
struct InProcess;

impl Orchestrator for InProcess {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        Box::pin(async move {
            let mut pacing = pacing(is_paced(question.prompt.as_bytes()));
            for event in workload::events() {
                pace(&mut pacing).await;
                sink.send(event).await?;
            }
            for text in workload::texts() {
                pace(&mut pacing).await;
                sink.send(text).await?;
            }
            Ok(workload::metadata())
        })
    }
}
