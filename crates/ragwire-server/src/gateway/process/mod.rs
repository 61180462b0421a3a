//! An orchestrator as child processes: a bounded pool of workers, each of which answers one question
//! at a time.
//!
//! The lines on stdin and stdout are documented in `docs/gateway-orchestrators.md`. A worker that
//! dies is replaced when the next question needs it, after a pause that grows with each death.

mod command;
mod lines;
mod worker;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use ragwire::orchestrator::Question;
use ragwire::wire::ndjson::NdjsonDecoder;
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{Frame, Metadata, Ndjson, Sink};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error::{GatewayError, Trouble, excerpt};
use super::interrupts::Decoder;
use super::relay::{Before, Source, relay};
use super::request;
use super::trace::{TRACEPARENT, TRACESTATE, passed_headers};
use worker::{Worker, kill_group};

pub use command::split;

/// The pause before the first replacement of a worker that died, which doubles with each further
/// death before a complete answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause: long enough to not burn a core, short enough that a fixed program is used
/// again while its author watches.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// What the gateway needs to know of an orchestrator that it starts itself.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Maximum number of processes.
    pub workers: usize,
    /// From the question to the first line of its answer.
    pub first: Duration,
    /// The longest silence between two lines of an answer.
    pub idle: Duration,
    /// How often a question is asked in total if workers die before their first line.
    pub attempts: u32,
}

/// The processes of an orchestrator. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ProcessPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    options: ProcessOptions,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// The process IDs of all workers.
    live: HashSet<u32>,
    /// Deaths since the last complete answer.
    deaths: u32,
    /// No worker is started again.
    is_closed: bool,
    /// No worker is started before this moment.
    not_before: Option<Instant>,
}

impl ProcessPool {
    /// Starts the first worker, so that a program that does not exist is reported at once.
    pub(super) fn start(options: ProcessOptions) -> Result<Self, GatewayError> {
        let pool = Pool {
            permits: Arc::new(Semaphore::new(options.workers)),
            options,
            state: Mutex::default(),
        };
        let worker = pool.start_worker()?;
        pool.lock().idle.push(worker);
        Ok(Self(Arc::new(pool)))
    }

    /// Asks a worker and relays its answer.
    pub(super) async fn answer(&self, question: Question, sink: Sink) -> Result<Metadata, Trouble> {
        let turn = sink.handle().id().to_string();
        let line = question_line(&question, &sink, &turn);
        drop(question);
        let Ok(permit) = Arc::clone(&self.0.permits).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        let mut lease = Lease {
            pool: Arc::clone(&self.0),
            worker: None,
            turn,
            _permit: Some(permit),
        };
        let mut attempt = 1;
        loop {
            let mut has_begun = false;
            let answered = lease.ask(&line, &sink, &mut has_begun).await;
            let trouble = match answered {
                Ok(metadata) => return Ok(metadata),
                Err(trouble) => trouble,
            };
            let is_dead = matches!(trouble.error, GatewayError::Exited(_));
            if !is_dead || has_begun || attempt >= self.0.options.attempts {
                return Err(trouble);
            }
            tracing::info!(error = %trouble.error, "asking another orchestrator process");
            attempt += 1;
        }
    }

    /// Kills all processes.
    pub(super) fn shut_down(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.idle.clear();
        for group in state.live.drain() {
            kill_group(group);
        }
    }
}

fn question_line(question: &Question, sink: &Sink, turn: &str) -> Value {
    let headers = passed_headers(question, sink.handle().id());
    let mut passed = Map::new();
    for (name, value) in &headers {
        if let Ok(value) = value.to_str() {
            passed.insert(name.as_str().to_owned(), value.into());
        }
    }
    debug_assert!(passed.contains_key(TRACEPARENT) || !passed.contains_key(TRACESTATE));
    json!({"turn": turn, "question": request::plain(question), "headers": passed})
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_worker(&self) -> Result<Worker, GatewayError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(GatewayError::Start(std::io::ErrorKind::Interrupted.into()));
        }
        let worker = Worker::start(&self.options.command)?;
        state.live.insert(worker.pid());
        Ok(worker)
    }

    /// Returns an idle worker, or starts one after the pause that earlier deaths require.
    async fn worker(&self) -> Result<Worker, GatewayError> {
        loop {
            let idle = self.lock().idle.pop();
            let Some(mut worker) = idle else {
                break;
            };
            if worker.is_running() {
                return Ok(worker);
            }
            self.bury(worker);
        }
        let not_before = self.lock().not_before;
        if let Some(not_before) = not_before {
            sleep_until(not_before).await;
        }
        self.start_worker().inspect_err(|_| self.count_death())
    }

    /// Kills a worker that cannot be used again.
    fn bury(&self, worker: Worker) {
        self.lock().live.remove(&worker.pid());
        drop(worker);
        self.count_death();
    }

    fn count_death(&self) {
        let mut state = self.lock();
        let pause = FIRST_PAUSE
            .saturating_mul(2_u32.saturating_pow(state.deaths))
            .min(MAX_PAUSE);
        state.deaths = state.deaths.saturating_add(1);
        state.not_before = Some(Instant::now() + pause);
    }

    fn put_back(&self, worker: Worker) {
        let mut state = self.lock();
        state.idle.push(worker);
        state.deaths = 0;
        state.not_before = None;
    }
}

/// The right to one worker, for one turn. Dropping it cancels the turn, if it runs, and returns the
/// worker.
struct Lease {
    pool: Arc<Pool>,
    /// A worker that answers the turn.
    worker: Option<Worker>,
    turn: String,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Lease {
    /// Asks one worker. `has_begun` becomes `true` with its first line.
    async fn ask(&mut self, line: &Value, sink: &Sink, has_begun: &mut bool) -> Result<Metadata, Trouble> {
        let options = &self.pool.options;
        let begin = Instant::now() + options.first;
        let late = |what| {
            let after = options.first;
            move |_| GatewayError::Silent { what, after }
        };
        let worker = timeout_at(begin, self.pool.worker())
            .await
            .map_err(late("start"))??;
        let worker = self.worker.insert(worker);
        let mut has_ended = false;
        let answered = match worker.write(line).await {
            Ok(()) => match timeout_at(begin, worker.next())
                .await
                .map_err(late("begin to answer"))
            {
                Ok(Ok(first)) => {
                    *has_begun = true;
                    let first = Some(Bytes::copy_from_slice(first));
                    relay_from(worker, &self.turn, first, sink, options.idle, &mut has_ended).await
                }
                Ok(Err(error)) | Err(error) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        };
        match answered {
            Ok(_) => {
                self.finish();
                answered
            }
            // The process has ended its answer itself, as failed or stopped, and can be used again.
            Err(_) if has_ended => {
                self.finish();
                answered
            }
            Err(mut trouble) => {
                if let GatewayError::Exited(_) = trouble.error {
                    trouble.error = worker.exited().await;
                }
                // What follows in its output is unknown.
                if let GatewayError::Exited(_) | GatewayError::LineTooLong(_) = trouble.error
                    && let Some(worker) = self.worker.take()
                {
                    self.pool.bury(worker);
                }
                Err(trouble)
            }
        }
    }

    /// Returns the worker after a complete answer.
    fn finish(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.put_back(worker);
        }
    }
}

/// Relays an answer whose first line was read. `has_ended` becomes `true` with its last line.
async fn relay_from(
    worker: &mut Worker,
    turn: &str,
    first: Option<Bytes>,
    sink: &Sink,
    idle: Duration,
    has_ended: &mut bool,
) -> Result<Metadata, Trouble> {
    let decoder = LineDecoder {
        turn: turn.to_owned(),
        frames: Ndjson::default().lenient_decoder(),
    };
    let channel = worker.channel(turn);
    let last = Bytes::new();
    let source = LineSource { worker, first, last };
    let before = Before::new(Decoder::Other(Box::new(decoder)));
    let relayed = relay(sink.clone(), before, source, channel, idle, false).await;
    relayed.map(|relayed| relayed.metadata).map_err(|unfinished| {
        *has_ended = unfinished.has_ended;
        Trouble::from(unfinished.error).saying(excerpt(&unfinished.last, []))
    })
}

/// The lines of a worker.
struct LineSource<'a> {
    worker: &'a mut Worker,
    first: Option<Bytes>,
    last: Bytes,
}

impl Source for LineSource<'_> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>> {
        let line = match self.first.take() {
            Some(first) => Ok(first),
            None => ready!(pin!(self.worker.next()).poll(cx)).map(Bytes::copy_from_slice),
        };
        if let Ok(line) = &line {
            self.last = line.clone();
        }
        Poll::Ready(Some(line))
    }

    fn last(&self) -> &Bytes {
        &self.last
    }

    fn silent(&self, after: Duration) -> GatewayError {
        GatewayError::Silent {
            what: "continue",
            after,
        }
    }

    fn ends_with_answer(&self) -> bool {
        true
    }
}

/// Decodes the lines of one turn. Each chunk is one line without its end.
#[derive(Debug)]
struct LineDecoder {
    turn: String,
    frames: NdjsonDecoder,
}

impl Decode for LineDecoder {
    fn feed(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let mut object: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
        match object.shift_remove("turn") {
            Some(turn) if turn == self.turn.as_str() => self.frames.feed_object(object),
            // The rest of a turn that was cancelled.
            Some(_) => {}
            // Not a line of this protocol: an object without members is not a frame.
            None => self.frames.feed_object(Map::new()),
        }
    }

    fn finish(&mut self) -> Finish {
        self.frames.finish()
    }

    fn shows_failures(&self) -> bool {
        self.frames.shows_failures()
    }
}

impl Iterator for LineDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.frames.next()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(mut worker) = self.worker.take() else {
            return;
        };
        // Without a runtime the worker is dropped, which kills it.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (pool, turn) = (Arc::clone(&self.pool), std::mem::take(&mut self.turn));
        let permit = self._permit.take();
        // Bounded by `Worker::cancel`, and by the permit.
        runtime.spawn(async move {
            if worker.cancel(&turn).await {
                pool.put_back(worker);
            } else {
                tracing::warn!("killed an orchestrator process that did not end its cancelled turn");
                pool.bury(worker);
            }
            drop(permit);
        });
    }
}
