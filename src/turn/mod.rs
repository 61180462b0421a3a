//! Turns: one question, run in the background, and everything sent back for it.
//!
//! ```text
//!  orchestrator ──► Sink ──► queue ──► Turn ──► stream(wire), respond(wire) or collect()
//!  producer.rs      sink.rs  queue.rs  here     stream.rs, crate::http   collect.rs
//! ```
//!
//! [`Turn::start`] runs the orchestrator in a task of its own. [`Pending::commit`] waits until it is decided whether the response
//! is an HTTP status or a stream; after that nothing can fail any more: whatever happens to the orchestrator, the reader gets
//! the wire's own terminal, exactly once. This layer knows tokio, and no http.
//!
//! # Cancellation
//!
//! Dropping a [`Pending`], a [`Turn`] or the body made of it disconnects the reader: the orchestrator's future is dropped at its
//! current wait. [`TurnHandle::stop`] ends the turn for its reader as well, with the wire's terminal for that.

mod collect;
mod group;
mod pair;
mod producer;
mod queue;
mod sink;
mod stream;
mod sync;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

pub use collect::{CollectError, Collected};
pub use group::TurnGroup;
pub use pair::{EventSink, Evidence, Reply, collect_evidence};
pub use producer::BoxError;
pub use queue::QueueLimits;
pub use sink::{SendError, Sink, TrySendError};
pub use stream::TurnStream;

use crate::frame::{End, Failure, Status};
use crate::metadata::Metadata;
use queue::{CommitOn, Queue, overdue};

/// How much longer than its time-out a turn may take to notice it. Only an orchestrator that blocks its thread is late.
const GRACE: Duration = Duration::from_secs(1);

/// The limits of a turn in time. `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Silence after which the wire's filler is sent, so that proxies keep the connection and a dead one is noticed.
    pub keep_alive: Option<Duration>,
    /// Silence of the orchestrator after which the turn fails.
    pub idle: Option<Duration>,
    /// Length of the turn after which it fails.
    pub total: Option<Duration>,
    /// How long data may be ready without the reader taking it, before the turn fails.
    ///
    /// The orchestrator is freed then. To cut the connection itself, which a body cannot do, put a write time-out around the
    /// socket as the reference server does.
    pub write_stall: Option<Duration>,
}

impl Timeouts {
    /// 15 seconds: what SSE servers use, below every common proxy's 60.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// 2 minutes: a large model may read a long prompt for a minute without a word.
    pub const IDLE: Duration = Duration::from_secs(120);
    /// 10 minutes: some hosts cut a response after 601 seconds, whatever it sends (`wires.md` d.9).
    pub const TOTAL: Duration = Duration::from_secs(600);
    /// 30 seconds: longer than a phone takes from one network to the next.
    pub const WRITE_STALL: Duration = Duration::from_secs(30);

    /// Sets the keep-alive interval.
    #[must_use]
    pub fn keep_alive(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.keep_alive = after.into();
        self
    }

    /// Sets the longest silence of the orchestrator.
    #[must_use]
    pub fn idle(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.idle = after.into();
        self
    }

    /// Sets the longest turn.
    #[must_use]
    pub fn total(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.total = after.into();
        self
    }

    /// Sets how long the reader may leave data untaken.
    #[must_use]
    pub fn write_stall(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.write_stall = after.into();
        self
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            keep_alive: Some(Self::KEEP_ALIVE),
            idle: Some(Self::IDLE),
            total: Some(Self::TOTAL),
            write_stall: Some(Self::WRITE_STALL),
        }
    }
}

const TIMEOUT_MESSAGE: &str = "The answer took too long. Please retry.";

fn total_timeout() -> Failure {
    Failure::new(Failure::TIMEOUT, TIMEOUT_MESSAGE)
}

fn idle_timeout() -> Failure {
    Failure::new(Failure::TIMEOUT, TIMEOUT_MESSAGE)
}

fn write_stalled() -> Failure {
    Failure::new(
        Failure::WRITE_STALLED,
        "The connection was too slow for this answer. Please retry.",
    )
}

/// When the response begins, that is, until when a failure is an HTTP status.
///
/// A turn that ends also decides it. So does a full queue, since nothing more could come.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    on: CommitOn,
    after: Option<Duration>,
}

impl Commit {
    /// At the first frame, as ADR 0007 says. The default.
    pub const fn first_frame() -> Self {
        Self {
            on: CommitOn::Frame,
            after: None,
        }
    }

    /// At the first piece of the answer: a failing retrieval is still an HTTP status. Its events are held back until then.
    pub const fn first_text() -> Self {
        Self {
            on: CommitOn::Text,
            after: None,
        }
    }

    /// After this time whatever there is, counted from the call of [`Pending::commit`].
    pub const fn deadline(after: Duration) -> Self {
        Self {
            on: CommitOn::End,
            after: Some(after),
        }
    }

    /// But no later than after this time.
    #[must_use]
    pub const fn or_after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }
}

impl Default for Commit {
    fn default() -> Self {
        Self::first_frame()
    }
}

/// Names a turn in responses and logs: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnId(u128);

impl TurnId {
    /// A new id from the operating system's randomness.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        // A system without randomness still serves turns: these ids name a turn, they give no access to it.
        if getrandom::fill(&mut bytes).is_err() {
            tracing::error!("the operating system gave no randomness for a turn id");
        }
        Self(u128::from_ne_bytes(bytes))
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a turn ended, told to the application before the reader learns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ending {
    /// The turn.
    pub id: TurnId,
    /// Its end. A reader that went away counts as stopped.
    pub end: End,
    /// The answer so far, at most 1 MiB of it.
    pub text: String,
}

impl Ending {
    /// What the reader of a text wire has in the end: the answer, and the completing sentence where the turn failed.
    pub fn answer(&self) -> String {
        match &self.end.status {
            Status::Failed(failure) if self.text.is_empty() => failure.message.clone().into_owned(),
            Status::Failed(failure) => format!("{}\n\n{}", self.text, failure.message),
            Status::Completed | Status::Stopped => self.text.clone(),
        }
    }
}

type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application's own work before the end.
struct Hook(Box<dyn FnOnce(Ending) -> HookFuture + Send>);

impl Hook {
    async fn call(self, ending: Ending) {
        (self.0)(ending).await;
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// Everything about a turn that is not the orchestrator.
#[derive(Debug)]
pub struct TurnBuilder {
    commit: Commit,
    limits: QueueLimits,
    timeouts: Timeouts,
    mode: Option<String>,
    hook: Option<Hook>,
    group: Option<TurnGroup>,
}

impl TurnBuilder {
    /// Sets when the response begins.
    #[must_use]
    pub fn commit_on(mut self, commit: Commit) -> Self {
        self.commit = commit;
        self
    }

    /// Sets how much may wait for the reader.
    #[must_use]
    pub fn queue(mut self, limits: QueueLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the limits in time.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the mode that the metadata names, also where the turn fails and the orchestrator cannot say it.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Calls `hook` exactly once, after the orchestrator is gone and before the reader learns of the end, however the turn
    /// ended: to remember the answer, for example. It has 10 seconds.
    #[must_use]
    pub fn before_end<F, H>(mut self, hook: H) -> Self
    where
        H: FnOnce(Ending) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.hook = Some(Hook(Box::new(|ending| Box::pin(hook(ending)))));
        self
    }

    /// Makes the turn one of a group: counted against its limit, and ended by its shutdown.
    #[must_use]
    pub fn group(mut self, group: &TurnGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Runs `orchestrator` in a task of its own. It gets the sink; what it returns is the end of the turn.
    ///
    /// An error that is a [`Failure`] is shown to the reader in its own words, any other only logged.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn start<O, F, E>(self, orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.run(false, |sink| {
            let orchestrator = orchestrator(sink);
            async move { orchestrator.await.map_err(Into::into) }
        })
    }

    /// Gives the sink away instead of running something: for producers that have a thread or a task already. The turn ends
    /// with [`Sink::finish`] or [`Sink::fail`]; it fails when the last sink is dropped without.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn channel(self) -> (Sink, Pending) {
        let mut kept = None;
        let pending = self.run(true, |sink| {
            kept = Some(sink);
            std::future::pending()
        });
        let Some(sink) = kept else {
            unreachable!("the closure above has run")
        };
        (sink, pending)
    }

    fn run<O, F>(self, ends_turn: bool, orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        let id = TurnId::random();
        let started = Instant::now();
        let span = tracing::info_span!(
            target: "ragwire",
            "turn",
            %id,
            wire = tracing::field::Empty,
            first_event_ms = tracing::field::Empty,
            first_text_ms = tracing::field::Empty,
            frames = tracing::field::Empty,
            bytes = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        let queue = Arc::new(Queue::new(self.limits, self.hook.is_some(), started.into_std()));
        let handle = TurnHandle {
            id,
            queue: Arc::clone(&queue),
        };
        let membership = self.group.as_ref().map(|group| group.join(&handle)).transpose();
        let mut reader = Reader {
            id,
            queue: Arc::clone(&queue),
            started,
            timeouts: self.timeouts,
            membership: None,
            span: span.clone(),
        };
        let refused = match membership {
            Ok(membership) => {
                reader.membership.clone_from(&membership);
                let producer = producer::Producer {
                    id,
                    queue: Arc::clone(&queue),
                    started,
                    timeouts: self.timeouts,
                    mode: self.mode,
                    hook: self.hook,
                    membership,
                };
                let orchestrator = span.in_scope(|| orchestrator(Sink::new(queue, ends_turn)));
                producer.spawn(orchestrator, span);
                None
            }
            // Nothing is spent on a turn that cannot run: the orchestrator is not even called.
            Err(refusal) => {
                drop(orchestrator);
                Some(refusal)
            }
        };
        Pending {
            reader,
            commit: self.commit,
            refused,
        }
    }
}

impl Default for TurnBuilder {
    fn default() -> Self {
        Self {
            commit: Commit::default(),
            limits: QueueLimits::default(),
            timeouts: Timeouts::default(),
            mode: None,
            hook: None,
            group: None,
        }
    }
}

/// A turn whose response has not begun.
///
/// Dropping it disconnects: the orchestrator is dropped at its current wait.
#[derive(Debug)]
#[must_use = "a turn that nobody commits is cancelled when it is dropped"]
pub struct Pending {
    reader: Reader,
    commit: Commit,
    refused: Option<Rejected>,
}

impl Pending {
    /// Waits until the response has begun, by the [`Commit`] policy.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn: the orchestrator is cancelled.
    ///
    /// # Errors
    ///
    /// [`Rejected`] where the turn failed, was stopped or was refused before that; as HTTP it is a complete JSON response.
    pub async fn commit(self) -> Result<Turn, Rejected> {
        if let Some(rejected) = self.refused {
            return Err(rejected);
        }
        let (reader, commit) = (self.reader, self.commit);
        let deadline = commit.after.and_then(|after| Instant::now().checked_add(after));
        let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
        let committed = poll_fn(|cx| {
            let now = Instant::now();
            let overdue = deadline.is_some_and(|deadline| deadline <= now);
            if let Poll::Ready(decided) = reader.queue.poll_commit(cx, commit.on, overdue) {
                return Poll::Ready(decided);
            }
            while timer.as_mut().poll(cx).is_ready() {
                let check = reader.check_overdue();
                timer
                    .as_mut()
                    .reset(deadline.map_or(check, |deadline| deadline.min(check)));
            }
            Poll::Pending
        });
        match committed.await {
            Ok(()) => Ok(Turn { reader }),
            Err(end) => {
                let failure = match end.status {
                    Status::Failed(failure) => failure,
                    _ => Failure::new(Failure::STOPPED, "The turn was stopped."),
                };
                reader.span.record("outcome", &*failure.code);
                Err(Rejected {
                    id: reader.id,
                    failure,
                    retry_after: None,
                })
            }
        }
    }

    /// A handle to stop the turn from elsewhere.
    pub fn handle(&self) -> TurnHandle {
        self.reader.handle()
    }

    /// The turn's id.
    pub fn id(&self) -> TurnId {
        self.reader.id
    }
}

/// A turn whose response has begun: from here on nothing fails, every stream gets its terminal.
///
/// Dropping it disconnects: the orchestrator is dropped at its current wait.
#[derive(Debug)]
#[must_use = "a turn that nobody reads is cancelled when it is dropped"]
pub struct Turn {
    pub(crate) reader: Reader,
}

impl Turn {
    /// Runs `orchestrator` with the defaults of [`TurnBuilder`]; see [`TurnBuilder::start`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::{Metadata, SendError, Sink, Turn, event::Search};
    ///
    /// async fn answer(question: String, sink: Sink) -> Result<Metadata, SendError> {
    ///     sink.send(Search::new("bm25").query(&question)).await?;
    ///     sink.send("Forty-two.").await?;
    ///     Ok(Metadata::default().tools_used(["bm25"]))
    /// }
    ///
    /// let turn = Turn::start(|sink| answer("why?".into(), sink)).commit().await?;
    /// assert_eq!(turn.collect().await?.text, "Forty-two.");
    /// # Ok(()) }
    /// ```
    pub fn start<O, F, E>(orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::builder().start(orchestrator)
    }

    /// Everything about a turn that is not the orchestrator.
    pub fn builder() -> TurnBuilder {
        TurnBuilder::default()
    }

    /// A handle to stop the turn from elsewhere.
    pub fn handle(&self) -> TurnHandle {
        self.reader.handle()
    }

    /// The turn's id.
    pub fn id(&self) -> TurnId {
        self.reader.id
    }
}

/// Ends a turn from elsewhere. It does not keep the turn's reader or orchestrator alive.
#[derive(Clone, Debug)]
pub struct TurnHandle {
    id: TurnId,
    queue: Arc<Queue>,
}

impl TurnHandle {
    /// The turn's id.
    pub fn id(&self) -> TurnId {
        self.id
    }

    /// Stops the turn: its reader gets what was sent so far and the wire's terminal for a stop. Doing it again, or after the
    /// end, does nothing. False where the turn was over already.
    pub fn stop(&self) -> bool {
        self.queue.request_end(End::stopped()).is_ok()
    }

    /// Ends the turn with a failure, for example because the server goes down. False where the turn was over already.
    pub fn fail(&self, failure: Failure) -> bool {
        self.queue.request_end(End::failed(failure)).is_ok()
    }
}

/// Why there is no stream: the turn failed, was stopped or was refused before the response began.
#[derive(Clone, Debug, thiserror::Error)]
#[error("turn {id} was rejected: {}", failure.code)]
#[non_exhaustive]
pub struct Rejected {
    /// The turn, as `request_id` in the response.
    pub id: TurnId,
    /// What the client is told.
    pub failure: Failure,
    /// When asking again makes sense, where that is known.
    pub retry_after: Option<Duration>,
}

impl Rejected {
    /// A refusal of the caller's own, before anything was started.
    pub fn new(failure: Failure) -> Self {
        Self {
            id: TurnId::random(),
            failure,
            retry_after: None,
        }
    }
}

/// The reading end of a turn. Dropping it disconnects.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) id: TurnId,
    pub(crate) queue: Arc<Queue>,
    started: Instant,
    pub(crate) timeouts: Timeouts,
    /// Held until the reader is gone.
    membership: Option<group::Membership>,
    pub(crate) span: tracing::Span,
}

impl Reader {
    fn handle(&self) -> TurnHandle {
        TurnHandle {
            id: self.id,
            queue: Arc::clone(&self.queue),
        }
    }

    /// The reader's own look at the clock, in case the orchestrator blocks the thread that should do it. Returns when to
    /// look again.
    pub(crate) fn check_overdue(&self) -> Instant {
        let now = Instant::now();
        match overdue(
            self.queue.activity(now.into_std()),
            self.started.into_std(),
            &self.timeouts,
            now.into_std(),
        ) {
            Ok(next) => Instant::from_std(next) + GRACE,
            Err(failure) => {
                // The producer's task sees the same a moment earlier, unless it cannot run.
                let late = now.checked_sub(GRACE).map(Instant::into_std);
                let overdue_for_long = late.is_some_and(|late| {
                    overdue(
                        self.queue.activity(late),
                        self.started.into_std(),
                        &self.timeouts,
                        late,
                    )
                    .is_err()
                });
                if overdue_for_long {
                    self.queue.finish(End::failed(failure));
                }
                now + GRACE
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let told = self.queue.end_taken();
        let figures = self.queue.figures();
        let since = |moment: Option<std::time::Instant>| {
            moment.map(|moment| {
                moment
                    .saturating_duration_since(self.started.into_std())
                    .as_secs_f64()
                    * 1e3
            })
        };
        self.span.record("first_event_ms", since(figures.first_event));
        self.span.record("first_text_ms", since(figures.first_text));
        self.span.record("frames", figures.frames);
        self.span.record("bytes", figures.bytes);
        let outcome = told.as_ref().map_or("disconnected", Status::outcome);
        if !self.span.is_disabled() {
            self.span.record("outcome", outcome);
            self.span
                .in_scope(|| tracing::info!(target: "ragwire", outcome, "turn over"));
        }
        self.queue.disconnect();
    }
}
