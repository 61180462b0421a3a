//! Turns: one question, run in the background, and everything sent back for it.
//!
//! ```text
//!  orchestrator ──► Sink ──► queue ──► Turn ──► stream(wire), respond(wire) or collect()
//!  producer.rs      sink.rs  queue/    here     stream.rs, crate::http   collect.rs
//!                              │
//!                              └────► journal/ ──► any number of readers  (optional)
//! ```
//!
//! [`Turn::start`] runs the orchestrator in its own task. [`Pending::commit`] waits until it is
//! known whether the response is an HTTP status or a stream. After that nothing can fail: whatever
//! happens to the orchestrator, the reader gets the wire's terminal exactly once. This layer
//! depends on tokio but not on HTTP.
//!
//! # Cancellation
//!
//! Dropping a [`Pending`], a [`Turn`] or the body made from it disconnects the reader: the
//! orchestrator's future is dropped at its current `await`. A turn with a [`Journal`] may continue;
//! [`Disconnect`] decides for how long. [`TurnHandle::stop`] also ends the turn for its readers,
//! with the wire's terminal for a stopped turn.

pub(crate) mod admission;
mod builder;
mod collect;
mod commit;
mod ending;
mod handle;
mod human;
mod id;
pub(crate) mod journal;
mod limits;
mod observer;
mod pair;
mod producer;
mod queue;
mod reader;
mod rejected;
mod relay;
mod sink;
mod spawn;
mod stream;
mod sync;
pub(crate) mod timeouts;

pub use admission::group::{Backlog, Owners, TurnGroup, TurnGroupBuilder};
pub use builder::TurnBuilder;
pub use collect::{CollectError, Collected};
pub use commit::{Commit, Pending};
pub use ending::{BoxError, Ending};
pub use handle::TurnHandle;
pub use human::{AnswerError, AnswerOutcome, Ask, AskError, Authorize, OpenQuestion};
pub use id::TurnId;
#[cfg(all(test, feature = "redis"))]
pub(in crate::turn) use id::repeatable;
pub use journal::{
    Disconnect, Journal, JournalLimits, JournalStats, RecordedRequest, ResumeError, StopError, UnknownTurn,
};
pub use limits::QueueLimits;
pub use observer::{FinishedTurn, TurnObserver, TurnOutcome};
pub use pair::{EventSink, Evidence, Reply, collect_evidence};
pub use rejected::Rejected;
pub use relay::{OfItem, OfResult, RelayError, StreamItem};
pub use sink::{SendError, Sink, TrySendError};
pub use spawn::{Executor, Task, with_executor};
pub use stream::TurnStream;
pub use timeouts::Timeouts;

#[cfg(feature = "redis")]
pub use crate::redis::{Durability, RedisError, RedisOptions};

use std::num::NonZeroUsize;

use self::journal::Cursor;
use self::reader::Reader;
use crate::wire::Wire;

/// A turn whose response has begun. Nothing can fail from here on: every stream ends with the
/// wire's terminal.
///
/// Read it as one of: a stream of bytes with [`stream`](Self::stream), an HTTP response with
/// `respond` (feature `http`), or one value with [`collect`](Self::collect).
///
/// Dropping it disconnects: the orchestrator is dropped at its current `await`, unless the turn has
/// a [`Journal`] with other readers or with a [`Disconnect`] policy that lets it continue.
#[derive(Debug)]
#[must_use = "a turn that is not read is cancelled when it is dropped"]
pub struct Turn {
    source: Source,
    /// What the chunks of its stream are padded to, in bytes.
    padding: Option<NonZeroUsize>,
}

/// What a turn is read from.
#[derive(Debug)]
enum Source {
    /// Its queue: one reader, and nothing is stored.
    Queue(Box<Reader>),
    /// The log of a journal.
    Log(Cursor),
}

impl Turn {
    /// Creates a turn that reads a journal's log.
    fn follow(cursor: Cursor) -> Self {
        Self {
            source: Source::Log(cursor),
            padding: None,
        }
    }

    /// Returns a handle that stops the turn from elsewhere.
    pub fn handle(&self) -> TurnHandle {
        match &self.source {
            Source::Queue(reader) => reader.handle(),
            Source::Log(cursor) => cursor.handle().clone(),
        }
    }

    /// Returns the turn's ID.
    pub fn id(&self) -> TurnId {
        match &self.source {
            Source::Queue(reader) => reader.id,
            Source::Log(cursor) => cursor.handle().id(),
        }
    }

    /// Returns `true` if the turn was resumed past its last frame. The stream is then empty and the
    /// response is 204, which tells an `EventSource` not to reconnect.
    pub fn is_empty(&self) -> bool {
        match &self.source {
            Source::Queue(_) => false,
            Source::Log(cursor) => cursor.is_finished(),
        }
    }

    /// Returns `true` if the turn's journal already has its end, so that nothing more is written to
    /// it. There may still be frames to read. Returns `false` if the turn has no journal.
    pub fn is_finished(&self) -> bool {
        match &self.source {
            Source::Queue(_) => false,
            Source::Log(cursor) => cursor.has_ended(),
        }
    }

    /// Checks whether `wire` can begin where the turn was resumed.
    ///
    /// Wires with independent frames (`Sse`, `Ndjson`) can if the journal still has the requested
    /// frames, or a [`Snapshot`](crate::Snapshot) of them. All other wires depend on what came
    /// before, so they cannot once the journal has dropped the turn's first frames. Some of those
    /// write a snapshot as events and text for a reader that resumes from 0; `PROTOCOL.md` has the
    /// table. On a wire that cannot begin there, the stream consists of the failure terminal with
    /// code `gone`.
    ///
    /// # Errors
    ///
    /// Returns [`ResumeError::Gone`] if the wire cannot begin there.
    pub fn supports(&self, wire: &impl Wire) -> Result<(), ResumeError> {
        match &self.source {
            Source::Queue(_) => Ok(()),
            Source::Log(cursor) => cursor.supports(wire),
        }
    }
}
