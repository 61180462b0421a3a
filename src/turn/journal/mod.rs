//! The journal: turns that outlive a connection and have any number of readers.
//!
//! ```text
//!  orchestrator ──► queue ──► recorder ──► log of the turn: 0 1 2 3 … end
//!                             recorder.rs  log.rs             │   │   │
//!                                                  Turn ◄─────┘   │   └─────► resume(id, owner, 7)
//!                                                  the first      ▼           on another wire
//!                                                  reader         resume(id, owner, 3)
//! ```
//!
//! When the response begins, a recorder takes the frames out of the queue and appends them to the
//! turn's log. There each frame gets its index: 0, 1, 2 …, the end included. The queue merges
//! consecutive texts before that, so all readers on all wires see the same frames under the same
//! indexes. Each reader, the first one included, follows the log at its own pace and waits for no
//! other.
//!
//! A log is bounded, so it may drop its first frames. As long as they fit, the text so far and the
//! last state of each step are kept as a snapshot, which replaces the dropped frames for readers
//! that are too far behind, if their wire can carry one. Other readers fail with the code `gone`,
//! and a request for dropped frames is refused with [`ResumeError::Gone`]. No stream ever contains
//! a gap.
//!
//! With a server ([`Journal::redis`]) the turns are stored there as well, and every host finds
//! them. This module knows no HTTP and no session.

mod cursor;
mod entries;
mod error;
mod fold;
mod follower;
mod limits;
mod log;
#[cfg(not(feature = "redis"))]
mod no_server;
mod record;
mod recorder;
mod recording;
#[cfg(feature = "redis")]
mod redis;
mod registry;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use error::{ResumeError, StopError, UnknownTurn};
pub use limits::{Disconnect, JournalLimits};

pub(crate) use cursor::Cursor;
pub(crate) use follower::Follower;
#[cfg(not(feature = "redis"))]
use no_server as server;
pub(super) use recording::Recording;
#[cfg(feature = "redis")]
use redis as server;

use self::recording::Slot;
use self::registry::Registry;
use self::server::Store;

use super::human::open::AnswerSource;
use super::{AnswerError, AnswerOutcome, OpenQuestion, Rejected, Turn, TurnId};
use crate::event::AuthorizationOutcome;

/// Stores the frames of turns, so that several readers can read them, also after a disconnect, and
/// so that a turn can be stopped and answered by its ID. Clones share the journal.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use ragwire::turn::{Disconnect, Journal, JournalLimits};
/// use ragwire::{Metadata, SendError, Sink, Turn};
///
/// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
///     sink.send("Forty-two.").await?;
///     Ok(Metadata::default())
/// }
///
/// let journal = Journal::in_memory(JournalLimits::default());
/// let turn = Turn::builder()
///     .journal(&journal)
///     .owner("alice")
///     .on_disconnect(Disconnect::grace(Duration::from_secs(30)))
///     .start(answer)
///     .commit()
///     .await?;
/// let id = turn.id();
/// drop(turn); // the connection is lost
///
/// let turn = journal.resume(id, "alice", 0).await?; // the same reader or another one
/// assert_eq!(turn.collect().await?.text, "Forty-two.");
/// assert_eq!(journal.resume(id, "mallory", 0).await.unwrap_err().code(), "unknown_turn");
/// assert!(!journal.stop(id, "alice").await?, "the turn has ended before");
/// # Ok(()) }
/// ```
///
/// # Drop
///
/// Running turns keep what they need of the journal; finished turns are dropped with its last
/// clone.
#[derive(Clone)]
pub struct Journal {
    registry: Arc<Registry>,
    /// The server that stores the turns for other hosts.
    store: Option<Arc<Store>>,
}

impl Journal {
    /// Creates a journal in the memory of this process.
    pub fn in_memory(limits: JournalLimits) -> Self {
        Self {
            registry: Arc::new(Registry::new(limits)),
            store: None,
        }
    }

    /// Adds a reader to a turn, from the frame with index `from` to the end, live. It may use
    /// another wire than the readers before it.
    ///
    /// A reader that has seen the frame with index `n` asks for `n + 1`. If that frame does not
    /// exist yet, the reader waits for it; if the turn has ended with frame `n`, nothing is left to
    /// read: see [`Turn::is_empty`].
    ///
    /// If the journal has dropped frames from `from` on, the stream begins with a
    /// [`Snapshot`](crate::Snapshot) of all frames before the first stored one, provided that there
    /// is a snapshot and that the wire can carry it. [`Turn::supports`] checks that.
    ///
    /// `owner` must be the owner that the turn was started with. A turn without an owner is
    /// returned to any caller that knows its ID.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`ResumeError`]
    pub async fn resume(&self, id: TurnId, owner: &str, from: u64) -> Result<Turn, ResumeError> {
        let cursor = match (self.registry.find(id, owner), &self.store) {
            (Ok(log), None) => Cursor::attach(&log, from)?,
            (Ok(log), Some(store)) => store.resume_here(&log, from).await?,
            (Err(_), Some(store)) => store.resume(id, owner, from).await?,
            (Err(unknown), None) => return Err(unknown.into()),
        };
        self.registry.count_resume();
        Ok(Turn::follow(cursor))
    }

    /// Stops a turn, whether it has readers or not. Its readers, present and later ones, get what
    /// was sent so far and their wire's terminal for a stop. Returns false if the turn had ended
    /// before.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the turn may or may not have been stopped; it is safe to stop it
    /// again.
    ///
    /// # Errors
    ///
    /// [`StopError`]
    pub async fn stop(&self, id: TurnId, owner: &str) -> Result<bool, StopError> {
        match (self.registry.find(id, owner), &self.store) {
            (Ok(log), _) => Ok(log.head.handle.stop()),
            (Err(_), Some(store)) => store.stop(id, owner).await,
            (Err(unknown), None) => Err(unknown.into()),
        }
    }

    /// Answers a question of a turn, like [`TurnHandle::answer`](super::TurnHandle::answer), by the
    /// turn's ID and owner, also after the turn has ended. A turn that is not found has no
    /// questions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the answer may or may not have been given; it is safe to give the
    /// same answer again.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]
    pub async fn answer(
        &self,
        id: TurnId,
        owner: &str,
        request_id: &str,
        answer: Value,
    ) -> Result<AnswerOutcome, AnswerError> {
        self.take(id, owner, request_id, (answer, AnswerSource::Human))
            .await
    }

    /// Reports the outcome of an authorization, like
    /// [`TurnHandle::authorized`](super::TurnHandle::authorized), by the turn's ID and owner.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the outcome may or may not have been reported; it is safe to
    /// report it again.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]
    pub async fn authorized(
        &self,
        id: TurnId,
        owner: &str,
        request_id: &str,
        outcome: AuthorizationOutcome,
    ) -> Result<AnswerOutcome, AnswerError> {
        let answer = outcome.as_str().into();
        self.take(id, owner, request_id, (answer, AnswerSource::Program))
            .await
    }

    async fn take(
        &self,
        id: TurnId,
        owner: &str,
        request_id: &str,
        answer: (Value, AnswerSource),
    ) -> Result<AnswerOutcome, AnswerError> {
        match (self.registry.find(id, owner), &self.store) {
            (Ok(log), _) => log.head.handle.accept(request_id, answer.0, answer.1),
            (Err(_), Some(store)) => store.answer(id, owner, request_id, answer).await,
            (Err(UnknownTurn), None) => Err(AnswerError::Unknown),
        }
    }

    /// Returns a question of a turn, open or resolved, and the index after it. If the reader's wire
    /// ends its stream at a question (`AiSdk::parks`, `AgUi::parks`, `Eve::parks`), the client
    /// sends the answer in a new request: first [`resume`](Self::resume) at
    /// [`RecordedRequest::next`], then give the [`answer`](Self::answer), so that the turn has a
    /// reader when it continues.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Unknown`] if this owner has no such turn, the turn has no such question, or
    /// its frame has been dropped. [`AnswerError::Unavailable`] if the journal's server does not
    /// answer.
    pub async fn request(
        &self,
        id: TurnId,
        owner: &str,
        request_id: &str,
    ) -> Result<RecordedRequest, AnswerError> {
        let found = match (self.registry.find(id, owner), &self.store) {
            (Ok(log), _) => log.question(request_id),
            (Err(_), Some(store)) => {
                let mut cursor = store.resume(id, owner, 0).await;
                if let Err(ResumeError::Gone { base }) = cursor {
                    cursor = store.resume(id, owner, base).await;
                }
                match cursor {
                    Ok(cursor) => cursor.question(request_id),
                    Err(ResumeError::Unavailable) => return Err(AnswerError::Unavailable),
                    Err(_) => None,
                }
            }
            (Err(UnknownTurn), None) => None,
        };
        let (ask, next) = found.ok_or(AnswerError::Unknown)?;
        Ok(RecordedRequest { ask, next })
    }

    /// Returns the newest turn of a conversation, running or finished: of the turns of this
    /// [`owner`](super::TurnBuilder::owner) in this [`lane`](super::TurnBuilder::lane), the one
    /// whose response began last. `None` if no such turn exists or it has been evicted.
    ///
    /// A turn without a lane is in the lane that has its owner's name. Turns without an owner are
    /// found only under the owner `""`, since the name of a lane may be guessable, unlike a turn's
    /// ID.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`StopError::Unavailable`]
    pub async fn latest(&self, lane: &str, owner: &str) -> Result<Option<TurnId>, StopError> {
        match &self.store {
            Some(store) => store.latest(lane, owner).await,
            None => Ok(self.registry.newest(lane, owner)),
        }
    }

    /// Returns how many turns are stored, running and finished.
    pub fn turns(&self) -> usize {
        self.registry.turns()
    }

    /// Returns how many bytes are stored, counted as in [`JournalLimits`].
    pub fn bytes(&self) -> usize {
        self.registry.bytes()
    }

    /// Returns what the journal of this process holds and has done, for metrics.
    pub fn stats(&self) -> JournalStats {
        self.registry.stats()
    }

    /// Reserves a slot for a turn that is about to start.
    pub(super) fn reserve(&self, id: TurnId) -> Result<Slot, Rejected> {
        Slot::reserve(&self.registry, self.store.as_ref(), id)
    }
}

impl fmt::Debug for Journal {
    /// Omits the turns: questions and answers do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("limits", &self.registry.limits)
            .finish_non_exhaustive()
    }
}

/// What a journal holds and has done, see [`Journal::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStats {
    /// Stored turns, running and finished.
    pub turns: usize,
    /// Stored bytes, counted as in [`JournalLimits`].
    pub bytes: usize,
    /// Readers that follow a turn now.
    pub readers: usize,
    /// Turns that were resumed so far.
    pub resumes: u64,
    /// Finished turns that were evicted so far to stay within the limits on turns and bytes, before
    /// [`JournalLimits::keep`] had passed.
    pub evictions: u64,
}

/// A question to a human that is stored in a turn's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The question.
    pub ask: OpenQuestion,
    /// The index of the frame after the question.
    pub next: u64,
}
