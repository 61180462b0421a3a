//! Turns: one question, run in the background, and everything sent back for it.
//!
//! ```text
//!  orchestrator ──► Sink ──► queue ──► Turn ──► stream(wire), respond(wire) or collect()
//!  producer.rs      sink.rs  queue.rs  here     stream.rs, crate::http   collect.rs
//!                              │
//!                              └────► journal/ ──► any number of readers  (only if asked for)
//! ```
//!
//! [`Turn::start`] runs the orchestrator in a task of its own. [`Pending::commit`] waits until it is decided whether the response
//! is an HTTP status or a stream; after that nothing can fail any more: whatever happens to the orchestrator, the reader gets
//! the wire's own terminal, exactly once. This layer knows tokio, and no http.
//!
//! # Cancellation
//!
//! Dropping a [`Pending`], a [`Turn`] or the body made of it disconnects the reader: the orchestrator's future is dropped at its
//! current wait. A turn with a [`Journal`] may go on then; [`Disconnect`] says how long. [`TurnHandle::stop`] ends the turn for its
//! readers as well, with the wire's terminal for that.

mod ask;
mod asks;
mod builder;
mod collect;
pub(crate) mod group;
pub(crate) mod journal;
mod limits;
mod line;
mod pair;
mod producer;
mod queue;
mod reader;
mod sink;
mod stream;
mod sync;
pub(crate) mod timeouts;
mod waiting;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

pub use ask::{Ask, AskError, Authorize};
pub use asks::{AnswerError, Answered, OpenAsk};
pub use builder::{Ending, TurnBuilder};
pub use collect::{CollectError, Collected};
pub use group::{Owners, TurnGroup, TurnGroupBuilder};
pub use journal::{Asked, Disconnect, Journal, JournalLimits, ResumeError, StopError, UnknownTurn};
pub use limits::QueueLimits;
pub use pair::{EventSink, Evidence, Reply, collect_evidence};
pub use producer::BoxError;
pub use sink::{SendError, Sink, TrySendError};
pub use stream::TurnStream;
pub use timeouts::Timeouts;

#[cfg(feature = "redis")]
pub use crate::redis::{Durability, RedisError, RedisOptions};

use crate::failure::Failure;
use crate::frame::End;
use crate::metadata::Metadata;
use crate::wire::Wire;
use journal::Recording;
use journal::follower::Reading;
use queue::{CommitOn, Queue};
use reader::Reader;

/// When the response begins, that is, until when a failure is an HTTP status.
///
/// A turn that ends also decides it. So does a full queue, since nothing more could come, and a question to a human
/// ([`Sink::ask`]), which nobody could see.
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
        // A system without randomness still serves turns: there the id only names one. A journal refuses it.
        if getrandom::fill(&mut bytes).is_err() {
            tracing::error!("the operating system gave no randomness for a turn id");
        }
        Self(u128::from_ne_bytes(bytes))
    }

    /// Reads an id as it is written: 32 hexadecimal digits, the letters small. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_written =
            text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| is_written)
            .map(Self)
    }

    /// False where the system gave no randomness.
    fn is_random(self) -> bool {
        self.0 != 0
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

/// A turn whose response has not begun.
///
/// Dropping it disconnects: the orchestrator is dropped at its current wait.
#[derive(Debug)]
#[must_use = "a turn that nobody commits is cancelled when it is dropped"]
pub struct Pending {
    reader: Reader,
    commit: Commit,
    refused: Option<Rejected>,
    recording: Option<Recording>,
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
        let (mut reader, commit) = (self.reader, self.commit);
        if let Some(rejected) = self.refused {
            reader.rejected = Some(rejected.failure.clone());
            return Err(rejected);
        }
        let deadline = commit.after.and_then(|after| Instant::now().checked_add(after));
        let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
        let committed = poll_fn(|cx| {
            loop {
                let overdue = deadline.is_some_and(|deadline| deadline <= Instant::now());
                if let Poll::Ready(decided) = reader.queue.poll_commit(cx, commit.on, overdue) {
                    return Poll::Ready(decided);
                }
                std::task::ready!(timer.as_mut().poll(cx));
                let check = reader.check_overdue();
                timer
                    .as_mut()
                    .reset(deadline.map_or(check, |deadline| deadline.min(check)));
            }
        });
        match committed.await {
            Ok(()) => Ok(match self.recording {
                None => Turn {
                    source: Source::Queue(reader),
                },
                Some(recording) => recording.begin(reader).await?,
            }),
            Err(end) => {
                let failure = Failure::of(&end.status).unwrap_or_default();
                reader.rejected = Some(failure.clone());
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
/// Dropping it disconnects: the orchestrator is dropped at its current wait, unless the turn has a [`Journal`], and with it other
/// readers or a [`Disconnect`] that lets it go on.
#[derive(Debug)]
#[must_use = "a turn that nobody reads is cancelled when it is dropped"]
pub struct Turn {
    source: Source,
}

/// Where a turn comes from.
#[derive(Debug)]
enum Source {
    /// Straight from its queue: one reader, nothing is kept.
    Queue(Reader),
    /// Out of a journal.
    Log(Reading),
}

impl Turn {
    fn follow(reading: Reading) -> Self {
        Self {
            source: Source::Log(reading),
        }
    }

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
        match &self.source {
            Source::Queue(reader) => reader.handle(),
            Source::Log(reading) => reading.handle().clone(),
        }
    }

    /// The turn's id.
    pub fn id(&self) -> TurnId {
        match &self.source {
            Source::Queue(reader) => reader.id,
            Source::Log(reading) => reading.handle().id(),
        }
    }

    /// Whether nothing is left to read: the turn was resumed behind its end. Its stream is empty, and its response has the status
    /// 204, which tells an `EventSource` not to come back.
    pub fn is_over(&self) -> bool {
        match &self.source {
            Source::Queue(_) => false,
            Source::Log(reading) => reading.is_over(),
        }
    }

    /// Whether the turn's end is there already, though it may still have to be read: nothing more is written to it. False where the turn has
    /// no journal.
    pub fn has_ended(&self) -> bool {
        match &self.source {
            Source::Queue(_) => false,
            Source::Log(reading) => reading.end().is_some(),
        }
    }

    /// Whether `wire` can go on where the turn was resumed. Wires whose frames stand alone (`Sse`, `Ndjson`) can where the frames asked
    /// for are kept, or begin with a [`Snapshot`](crate::Snapshot) if there is one. The others have to know what came before, so
    /// they cannot where the journal dropped the turn's first frames; except that some tell a snapshot as events and text to a reader that
    /// asks for everything, from 0 on (`PROTOCOL.md` has the table). Where a wire cannot, its stream is nothing but the failure
    /// completion, under the code `gone`.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Gone`]
    pub fn supports(&self, wire: &impl Wire) -> Result<(), ResumeError> {
        match &self.source {
            Source::Queue(_) => Ok(()),
            Source::Log(reading) => reading.supports(wire),
        }
    }
}

/// Ends a turn from elsewhere, and answers what it asks. It does not keep the turn's reader or orchestrator alive.
///
/// Of a turn that runs on another host, and is only read here through a [`Journal`], it does nothing: it says that there is nothing to end or
/// to answer. There [`Journal::stop`] and [`Journal::answer`] reach the turn.
#[derive(Clone, Debug)]
pub struct TurnHandle {
    id: TurnId,
    queue: Arc<Queue>,
}

impl TurnHandle {
    /// Of a turn whose queue is on another host: here stands one that is over.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "there are no other hosts")
    )]
    fn elsewhere(id: TurnId) -> Self {
        let queue = Queue::new(QueueLimits::default(), false, Instant::now().into_std());
        queue.finish(End::default());
        Self {
            id,
            queue: Arc::new(queue),
        }
    }

    /// The turn's id.
    pub fn id(&self) -> TurnId {
        self.id
    }

    /// Stops the turn: each reader gets what was sent so far and the wire's terminal for a stop. Doing it again, or after the
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
#[error("turn {id} was rejected: {}", failure.code())]
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
