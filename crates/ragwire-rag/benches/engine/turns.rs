//! Both ways through this crate: generations read directly from the engine, and whole turns read
//! from their sockets.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ragwire::event::Search;
use ragwire::http::TurnBody;
use ragwire::wire::Decode;
use ragwire::{Frame, Framed, Metadata, Sink, Status, Turn};
use ragwire_rag::answer::WriterOptions;
use ragwire_rag::models::llama::{LlamaEngine, LlamaFile, LlamaOptions, Step};
use ragwire_rag::models::{Boxed, FinishReason, Generation, LanguageModel, ModelError, Prompt};
use ragwire_rag::{Chunk, Generate, GenerateError, GenerateRequest, Hit, Writer};
use tokio::net::{TcpListener, TcpStream};

use crate::shapes::PROSE;
use crate::{Case, Cpu, Run, Setup};

/// The time at which each step of the engine finished, and the step.
type Steps = Arc<Mutex<Vec<(Instant, Step)>>>;

/// An engine, and a server that answers turns with it.
pub(crate) struct Turns {
    engine: LlamaEngine,
    steps: Steps,
    /// The prompts that a turn's writer sends to the engine, to do the same work without turns.
    prompts: Vec<Prompt>,
    prompt_tokens: u32,
    connections: Vec<SendRequest<Empty<Bytes>>>,
}

impl Turns {
    pub(crate) async fn start(model: &std::path::Path, setup: &Setup) -> Self {
        let steps = Steps::default();
        let recorded = Arc::clone(&steps);
        let file = LlamaFile::new(model)
            .threads(setup.threads)
            .gpu_layers(setup.gpu_layers);
        let options = LlamaOptions::new(file)
            .context_tokens(setup.context)
            .slots(setup.most_turns)
            // No prefixes are shared, as in the other program.
            .prefixes(0)
            .step_tokens(setup.step)
            .slice_tokens(setup.slice)
            .observer(move |step| lock(&recorded).push((Instant::now(), *step)));
        let engine = LlamaEngine::load(options).await.expect("the model loads");
        let writer = |model: Arc<dyn LanguageModel>| {
            let mut options = WriterOptions::default();
            options.max_tokens = setup.answer;
            Writer::new(model).options(options)
        };
        let evidence = Arc::new(evidence(&writer(Arc::new(engine.clone())), setup).await);

        let recorder = Arc::new(Recorder::new(engine.clone()));
        let recording = writer(recorder.clone());
        for turn in 0..setup.most_turns {
            let (asked, hits) = (question(turn), (*evidence).clone());
            let recording = recording.clone();
            let turn = Turn::start(move |sink| answer(asked, hits, recording, sink))
                .commit()
                .await;
            // The turn fails when it asks the model.
            let _ = turn.expect("an event before the failure").collect().await;
        }
        let prompts = std::mem::take(&mut *lock(&recorder.asked));
        assert_eq!(prompts.len(), setup.most_turns as usize);
        let prompt_tokens = engine
            .count_tokens(&prompts[0])
            .await
            .expect("the model counts tokens");

        let address = serve(writer(Arc::new(engine.clone())), evidence).await;
        let connections = join_all((0..setup.most_turns).map(|_| connect(address))).await;
        Self {
            engine,
            steps,
            prompts,
            prompt_tokens,
            connections,
        }
    }

    /// Returns the number of tokens of a prompt that the writer builds.
    pub(crate) fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    /// Runs as many generations at once as there are turns, each read as it arrives.
    pub(crate) async fn generations(&mut self, case: &Case) -> Run {
        let prompts = self.prompts[..case.turns as usize].to_vec();
        let engine = self.engine.clone();
        self.measure(case, async move {
            let generations = prompts.into_iter().map(|prompt| engine.generate(prompt));
            join_all(generations.collect::<Vec<_>>().into_iter().map(read)).await;
        })
        .await
    }

    /// Runs as many turns at once, each read from its connection and decoded.
    pub(crate) async fn turns(&mut self, case: &Case) -> Run {
        let mut connections = std::mem::take(&mut self.connections);
        let asked = (0_u32..).zip(&mut connections[..case.turns as usize]);
        let run = self
            .measure(case, async {
                join_all(asked.map(|(turn, connection)| ask(connection, turn))).await;
            })
            .await;
        self.connections = connections;
        run
    }

    /// Ends the engine. CUDA aborts a process that exits while a thread still frees its model.
    pub(crate) async fn shutdown(&self) {
        self.engine.shutdown().await;
    }

    async fn measure(&self, case: &Case, work: impl Future<Output = ()>) -> Run {
        lock(&self.steps).clear();
        let before = self.engine.stats();
        let (began, cpu) = (Instant::now(), cpu());
        work.await;
        let (seconds, used) = (began.elapsed().as_secs_f64(), self::cpu());
        let after = self.engine.stats();
        // Every round does exactly the same work, down to the token.
        assert_eq!(
            (
                after.prompt_tokens - before.prompt_tokens,
                after.answer_tokens - before.answer_tokens,
                after.finished - before.finished,
            ),
            (
                u64::from(case.prompt_tokens * case.turns),
                u64::from(case.answer_tokens * case.turns),
                u64::from(case.turns),
            ),
        );
        let steps = lock(&self.steps).clone();
        let fed = steps.iter().rposition(|(_, step)| step.prompt_tokens > 0);
        let fed = steps[fed.expect("prompts were fed")].0 - began;
        let (mut tokens, mut time) = (0_u32, Duration::ZERO);
        for pair in steps.windows(2) {
            let (at, step) = pair[1];
            // Steps in which all sequences answer and nothing else happens.
            if step.prompt_tokens == 0 && step.answer_tokens == case.turns {
                tokens += step.answer_tokens;
                time += at - pair[0].0;
            }
        }
        Run {
            prompt_rate: case.prompts() / fed.as_secs_f64(),
            answer_rate: f64::from(tokens) / time.as_secs_f64(),
            seconds,
            cpu: Cpu {
                model: used.model - cpu.model,
                others: used.others - cpu.others,
            },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the CPU time of this process so far, as the scheduler counts it for each thread.
fn cpu() -> Cpu {
    /// The engine's decoding thread and the threads that compute for it, which inherit its name.
    const DECODING: &str = "ragwire-llama\n";
    let mut cpu = Cpu::default();
    for task in std::fs::read_dir("/proc/self/task").expect("linux") {
        let task = task.expect("a task").path();
        let contents = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let stat = contents("schedstat");
        let nanoseconds = stat.split(' ').next().and_then(|time| time.parse::<u64>().ok());
        let seconds = nanoseconds.unwrap_or(0) as f64 / 1e9;
        if contents("comm") == DECODING {
            cpu.model += seconds;
        } else {
            cpu.others += seconds;
        }
    }
    cpu
}

async fn read(mut generation: Generation) {
    while let Some(piece) = generation.next().await {
        std::hint::black_box(piece.expect("the model continues"));
    }
    let finished = generation.finished().expect("the model finished");
    assert_eq!(finished.reason, FinishReason::Length);
}

fn question(turn: u32) -> String {
    format!("What does report {turn:02} say about the pump?")
}

/// Returns as much evidence as is needed for a prompt of at least this many tokens.
async fn evidence(writer: &Writer, setup: &Setup) -> Vec<Hit> {
    let hit = |times: usize| {
        vec![Hit::new(
            Chunk::new("reports", "reports.md", 0, &PROSE.repeat(times)),
            1.0,
        )]
    };
    for times in 1.. {
        let hits = hit(times);
        let question = question(0);
        let fit = writer
            .fit(GenerateRequest::new(&question, &hits, "bm25"))
            .await
            .expect("the model counts tokens");
        assert_eq!(fit.trimmed_chunks, 0, "the context has room for such a prompt");
        if fit.tokens >= setup.prompt {
            return hits;
        }
    }
    unreachable!("prompts grow")
}

async fn answer(
    question: String,
    hits: Vec<Hit>,
    writer: Writer,
    sink: Sink,
) -> Result<Metadata, GenerateError> {
    sink.send(Search::new("bm25").query(&question)).await?;
    let request = GenerateRequest::new(&question, &hits, "bm25");
    let generated = writer.generate(request, &sink).await?;
    let mut metadata = Metadata::default()
        .tools_used(["bm25"])
        .citations(generated.citations);
    metadata.usage = generated.usage;
    Ok(metadata)
}

async fn serve(writer: Writer, evidence: Arc<Vec<Hit>>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let chat = move |request: Request<Incoming>| {
        let (writer, hits) = (writer.clone(), (*evidence).clone());
        async move {
            let turn = request.uri().query().and_then(|query| query.parse().ok());
            let asked = question(turn.expect("a number"));
            let turn = Turn::start(|sink| answer(asked, hits, writer, sink))
                .commit()
                .await;
            Ok::<Response<TurnBody>, Infallible>(match turn {
                Ok(turn) => turn.respond(Framed::default()),
                Err(rejected) => rejected.respond(),
            })
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a server of a bench")]
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.expect("a connection");
            socket.set_nodelay(true).expect("a socket");
            let http = hyper::server::conn::http1::Builder::new();
            let connection = http.serve_connection(TokioIo::new(socket), service_fn(chat.clone()));
            tokio::spawn(connection);
        }
    });
    address
}

async fn connect(address: std::net::SocketAddr) -> SendRequest<Empty<Bytes>> {
    let socket = TcpStream::connect(address).await.expect("a server");
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (sender, connection) = handshake.expect("a server");
    #[expect(clippy::disallowed_methods, reason = "a client of a bench")]
    tokio::spawn(connection);
    sender
}

/// Runs one turn to its end.
async fn ask(connection: &mut SendRequest<Empty<Bytes>>, turn: u32) {
    connection.ready().await.expect("the connection stays open");
    let request = Request::get(format!("/?{turn}")).header("host", "bench");
    let request = request.body(Empty::new()).expect("a request");
    let mut response = connection.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), 200);
    let mut decoder = Framed::default().decoder();
    let mut status = None;
    while let Some(frame) = response.body_mut().frame().await {
        if let Some(bytes) = frame.expect("the whole answer").data_ref() {
            decoder.feed(bytes);
        }
        for frame in decoder.by_ref() {
            if let Frame::End(end) = frame.expect("a framed stream") {
                status = Some(end.status);
            }
        }
    }
    assert_eq!(status, Some(Status::Completed));
}

/// Records the prompts that it receives and answers none.
#[derive(Debug)]
struct Recorder {
    engine: LlamaEngine,
    asked: Mutex<Vec<Prompt>>,
}

impl Recorder {
    fn new(engine: LlamaEngine) -> Self {
        Self {
            engine,
            asked: Mutex::default(),
        }
    }
}

impl LanguageModel for Recorder {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn context_tokens(&self) -> u32 {
        self.engine.context_tokens()
    }

    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>> {
        self.engine.count_tokens(prompt)
    }

    fn generate(&self, prompt: Prompt) -> Generation {
        lock(&self.asked).push(prompt);
        Generation::failed(ModelError::Closed)
    }
}
