//! The journal: turns that outlive a connection, with any number of readers.
//!
//! ```text
//!  orchestrator ──► queue ──► recorder ──► log of the turn: 0 1 2 3 … end
//!                             recorder.rs  log.rs             │   │   │
//!                                                  Turn ◄─────┘   │   └─────► resume(id, owner, 7)
//!                                                  the first      ▼           on another wire
//!                                                  reader         resume(id, owner, 3)
//! ```
//!
//! After the response has begun a recorder takes the frames out of the queue and puts them into the turn's log, where each gets its
//! index: 0, 1, 2 …, the end too. Texts that meet in the queue become one before that, so every reader on every wire sees the same
//! frames under the same indexes. Readers follow the log at their own pace, the first one like all others; nobody waits for
//! anybody.
//!
//! A log is bounded, so it may lose its head. What that came to, the answer so far and the last state of each step, is kept as long as it
//! is small, and given as a snapshot to readers that are too far behind, where their wire can carry one. Otherwise they are told so by
//! their wire's failure completion under the code `gone`; who asks for frames that are gone gets a typed error. Nobody ever gets a
//! stream with a hole.
//!
//! With a [store](redis::Store) beside it the turns stand on a server as well, and are found on every host. It deliberately knows no http and
//! no session.

mod error;
mod fold;
pub(crate) mod follower;
mod kept;
mod limits;
mod log;
mod recorder;
#[cfg(feature = "redis")]
mod redis;
#[cfg(not(feature = "redis"))]
#[path = "alone.rs"]
mod redis;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use tokio::time::Instant;

pub use error::{ResumeError, StopError, UnknownTurn};
pub use limits::{Disconnect, JournalLimits};

use self::kept::{Kept, Record};
use self::log::{Head, Log};
use self::recorder::Recorder;
use self::redis::{Opening, Store};
use super::admission::busy;
use super::admission::group::{Membership, RETRY_AFTER};
use super::human::open::AnswerSource;
use super::reader::Reader;
use super::spawn::spawn;
use super::{AnswerError, AnswerOutcome, OpenQuestion, Rejected, Turn, TurnId};
use crate::event::AuthorizationOutcome;

/// Keeps the frames of turns, so that they can be read again, by several readers, and stopped by their id. Clones are the same journal.
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
/// let turn = journal.resume(id, "alice", 0).await?; // the same reader comes back, or another one
/// assert_eq!(turn.collect().await?.text, "Forty-two.");
/// assert_eq!(journal.resume(id, "mallory", 0).await.unwrap_err().code(), "unknown_turn");
/// assert!(!journal.stop(id, "alice").await?, "it is over already");
/// # Ok(()) }
/// ```
///
/// # Drop
///
/// Turns that run keep their journal; those that are over go with its last clone.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    limits: JournalLimits,
    /// Where the turns stand as well, for other hosts.
    store: Option<Arc<Store>>,
    /// What all logs count.
    bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
}

/// A lane, and the owner of its turns.
type Conversation = (String, String);

#[derive(Default)]
struct State {
    turns: HashMap<TurnId, Arc<Log>>,
    /// Of each conversation the turn that began last, as long as it is kept.
    newest: HashMap<Conversation, TurnId>,
    /// Places of turns whose response has not begun.
    reserved: usize,
    /// Turns that are over, with the moment of their end, the first one first.
    over: VecDeque<(Instant, TurnId)>,
    /// Whether a task drops what is kept too long.
    is_swept: bool,
}

impl Journal {
    /// A journal in the memory of this process.
    pub fn in_memory(limits: JournalLimits) -> Self {
        Self::new(limits, None)
    }

    fn new(limits: JournalLimits, store: Option<Arc<Store>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                limits,
                store,
                bytes: Arc::default(),
                state: Mutex::default(),
            }),
        }
    }

    /// A further reader of a turn, from the frame of index `from` on and live to its end. It may read on another wire than those
    /// before it.
    ///
    /// A reader that has seen the frame of index `n` asks for `n + 1`. Where that one is next but not there yet, it is waited for;
    /// where the turn is over, there is nothing left: see [`Turn::is_over`].
    ///
    /// Where frames from `from` on are kept no longer, the turn begins with a [`Snapshot`](crate::Snapshot) of all frames before the first
    /// one that is kept, if there is one and the wire can carry it; [`Turn::supports`] says that.
    ///
    /// `owner` has to be the one that the turn was started with. A turn that was started without one is given to whoever has its id.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`ResumeError`]
    pub async fn resume(&self, id: TurnId, owner: &str, from: u64) -> Result<Turn, ResumeError> {
        let reading = match (self.find(id, owner), &self.shared.store) {
            (Ok(log), None) => log.attach(from)?,
            (Ok(log), Some(store)) => store.resume_here(&log, from).await?,
            (Err(_), Some(store)) => store.resume(self, id, owner, from).await?,
            (Err(unknown), None) => return Err(unknown.into()),
        };
        Ok(Turn::follow(reading))
    }

    /// Stops a turn, whether somebody reads it or not: its readers get what was sent so far and their wire's terminal for a stop, and
    /// so does whoever reads it later. False where the turn was over already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may or may not have stopped the turn; stopping it again is safe.
    ///
    /// # Errors
    ///
    /// [`StopError`]
    pub async fn stop(&self, id: TurnId, owner: &str) -> Result<bool, StopError> {
        match (self.find(id, owner), &self.shared.store) {
            (Ok(log), _) => Ok(log.head.handle.stop()),
            (Err(_), Some(store)) => store.stop(self, id, owner).await,
            (Err(unknown), None) => Err(unknown.into()),
        }
    }

    /// Gives a human's answer to a question that a turn asks: as [`TurnHandle::answer`](super::TurnHandle::answer), by the turn's id and
    /// owner, and also when the turn is over. A turn that is not found has asked nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may or may not have given the answer; giving the same one again is safe.
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

    /// Says how an authorization ended: as [`TurnHandle::authorized`](super::TurnHandle::authorized), by the turn's id and owner.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may or may not have said it; saying it again is safe.
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
        match (self.find(id, owner), &self.shared.store) {
            (Ok(log), _) => log.head.handle.accept(request_id, answer.0, answer.1),
            (Err(_), Some(store)) => store.answer(self, id, owner, request_id, answer).await,
            (Err(UnknownTurn), None) => Err(AnswerError::Unknown),
        }
    }

    /// A question that a turn has asked, open or over, and where its readers go on. A reader whose wire ends its stream at a question
    /// (`AiSdk::parks`, `AgUi::parks`, `Eve::parks`) comes back with the answer: [`resume`](Self::resume) it at [`Asked::next`]
    /// first, and give the [`answer`](Self::answer) then, so that the turn is not without a reader when it goes on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Unknown`]: there is no such turn for that owner, it has not asked this, or the frame is not kept any more.
    /// [`AnswerError::Unavailable`] where the journal's server does not answer.
    pub async fn asked(&self, id: TurnId, owner: &str, request_id: &str) -> Result<Asked, AnswerError> {
        let asked = match (self.find(id, owner), &self.shared.store) {
            (Ok(log), _) => log.question(request_id),
            (Err(_), Some(store)) => {
                let mut reading = store.resume(self, id, owner, 0).await;
                if let Err(ResumeError::Gone { base }) = reading {
                    reading = store.resume(self, id, owner, base).await;
                }
                match reading {
                    Ok(reading) => reading.question(request_id),
                    Err(ResumeError::Unavailable) => return Err(AnswerError::Unavailable),
                    Err(_) => None,
                }
            }
            (Err(UnknownTurn), None) => None,
        };
        let (ask, next) = asked.ok_or(AnswerError::Unknown)?;
        Ok(Asked { ask, next })
    }

    /// The newest turn of a conversation, running or over: of the turns of this [`owner`](super::TurnBuilder::owner) in this
    /// [`lane`](super::TurnBuilder::lane) the one whose response began last. `None` where there is none, or it is kept no longer.
    ///
    /// A turn without a lane of its own has its owner's name for one. Turns that were started without an owner are found as those of the
    /// owner `""`, and by no other: a lane's name may be guessed, where a turn's id may not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`StopError::Unavailable`]
    pub async fn latest(&self, lane: &str, owner: &str) -> Result<Option<TurnId>, StopError> {
        if let Some(store) = &self.shared.store {
            return store.latest(lane, owner).await;
        }
        self.shared.expire();
        let conversation = (lane.to_owned(), owner.to_owned());
        Ok(self.shared.lock().newest.get(&conversation).copied())
    }

    /// How many turns are kept, running and over.
    pub fn turns(&self) -> usize {
        self.shared.expire();
        self.shared.lock().turns.len()
    }

    /// How many bytes are kept, by the count of [`JournalLimits`].
    pub fn bytes(&self) -> usize {
        self.shared.expire();
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// A turn of this host. A foreign one is looked for elsewhere like one that nobody knows, and takes as long.
    fn find(&self, id: TurnId, owner: &str) -> Result<Arc<Log>, UnknownTurn> {
        let log = self.local(id).ok_or(UnknownTurn)?;
        if log.head.owner.is_empty() || log.head.owner == owner {
            Ok(log)
        } else {
            Err(UnknownTurn)
        }
    }

    fn local(&self, id: TurnId) -> Option<Arc<Log>> {
        self.shared.expire();
        self.shared.lock().turns.get(&id).cloned()
    }

    /// A log that goes on behind what is kept of its turn.
    fn log(&self, head: Head, kept: Kept) -> Log {
        let shared = &self.shared;
        Log::new(
            head,
            kept,
            shared.limits.max_turn_bytes,
            Arc::clone(&shared.bytes),
        )
    }

    /// Keeps a place for a turn, so that nothing is spent on one that would find none.
    pub(super) fn reserve(&self, id: TurnId) -> Result<Slot, Rejected> {
        self.shared.expire();
        let mut dropped = Vec::new();
        let mut state = self.shared.lock();
        // An id that everybody could guess (see `TurnId::random`) must not become one that gives access.
        let is_usable = id.is_random() && !state.turns.contains_key(&id);
        while state.turns.len() + state.reserved >= self.shared.limits.max_turns {
            match state.drop_oldest() {
                Some(log) => dropped.push(log),
                None => break,
            }
        }
        let is_full = state.turns.len() + state.reserved >= self.shared.limits.max_turns;
        if is_usable && !is_full {
            state.reserved += 1;
        }
        drop(state);
        forget(dropped);
        if is_usable && !is_full {
            Ok(Slot(self.clone()))
        } else {
            Err(Rejected {
                retry_after: Some(RETRY_AFTER),
                ..Rejected::new(busy())
            })
        }
    }

    /// Appends a frame to a log, and keeps the sum of all logs within its limit.
    fn append(&self, log: &Log, record: Record) {
        log.append(record);
        let excess = || {
            let bytes = self.shared.bytes.load(Ordering::Relaxed);
            bytes.saturating_sub(self.shared.limits.max_bytes)
        };
        while excess() > 0 {
            let oldest = self.shared.lock().drop_oldest();
            if oldest.is_none() {
                break;
            }
            forget(oldest);
        }
        match excess() {
            0 => {}
            excess => log.shrink_by(excess),
        }
    }

    /// The turn is over: from now on its time runs.
    fn retire(&self, id: TurnId) {
        self.shared.lock().over.push_back((Instant::now(), id));
    }

    /// What drops turns that are kept too long, unless somebody does that already.
    fn sweeper(&self) -> Option<Sweeper> {
        let mut state = self.shared.lock();
        let is_swept = std::mem::replace(&mut state.is_swept, true);
        (!is_swept).then(|| Sweeper(Arc::downgrade(&self.shared)))
    }
}

/// A question of a turn that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// What is asked.
    pub ask: OpenQuestion,
    /// The index of the frame behind the question.
    pub next: u64,
}

impl fmt::Debug for Journal {
    /// Without the turns: what people ask and are told does not belong into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeps_for_ever(&self) -> bool {
        Instant::now().checked_add(self.limits.keep).is_none()
    }

    /// Drops what is kept too long, and says when to do it again.
    fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut expired = Vec::new();
        let mut state = self.lock();
        let next = loop {
            let Some((ended, _)) = state.over.front() else {
                break None;
            };
            match ended.checked_add(self.limits.keep) {
                Some(due) if due <= now => expired.extend(state.drop_oldest()),
                due => break due,
            }
        };
        drop(state);
        forget(expired);
        next
    }
}

impl State {
    /// Takes the turn out that ended first; to be [forgotten](forget) outside of the lock.
    fn drop_oldest(&mut self) -> Option<Arc<Log>> {
        let (_, id) = self.over.pop_front()?;
        let log = self.turns.remove(&id)?;
        if let Some(conversation) = &log.head.conversation
            && self.newest.get(conversation) == Some(&id)
        {
            self.newest.remove(conversation);
        }
        Some(log)
    }
}

/// Drops the frames of turns that are kept no longer. Readers that are still behind are told so: otherwise those who never read would
/// keep what no limit counts.
fn forget(logs: impl IntoIterator<Item = Arc<Log>>) {
    for log in logs {
        log.shrink_by(usize::MAX);
    }
}

/// A place for a turn whose response has not begun. A turn that is rejected leaves nothing behind.
#[derive(Debug)]
pub(super) struct Slot(Journal);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.shared.lock().reserved -= 1;
    }
}

/// What a turn that is to be journaled knows before its response has begun.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) slot: Slot,
    pub(super) owner: String,
    pub(super) lane: Option<String>,
    pub(super) disconnect: Disconnect,
}

impl Recording {
    /// The response has begun: the turn is recorded, and `reader`'s place is taken by the first reader of the log. Rejected where the
    /// journal's server does not take it.
    pub(super) async fn begin(self, mut reader: Reader) -> Result<Turn, Rejected> {
        let journal = self.slot.0.clone();
        let id = reader.id;
        let mut writer = None;
        if let Some(store) = &journal.shared.store {
            let opening = Opening {
                id,
                owner: &self.owner,
                lane: self.lane.as_deref(),
                keep_alive: reader.timeouts.keep_alive,
            };
            match store.begin(&journal, opening).await {
                Ok(begun) => writer = Some(begun),
                Err(failure) => {
                    reader.rejected = Some(failure.clone());
                    return Err(Rejected {
                        id,
                        failure,
                        retry_after: Some(RETRY_AFTER),
                    });
                }
            }
        }
        let conversation = self.lane.map(|lane| (lane, self.owner.clone()));
        let head = Head {
            handle: reader.handle(),
            owner: self.owner,
            conversation: conversation.clone(),
            timeouts: reader.timeouts,
            membership: reader.membership.as_ref().map(Membership::downgrade),
            _journal: None,
        };
        let log = Arc::new(journal.log(head, Kept::default()));
        let first = log.first_reader();
        let mut state = journal.shared.lock();
        state.turns.insert(id, Arc::clone(&log));
        if let Some(conversation) = conversation {
            state.newest.insert(conversation, id);
        }
        drop(state);
        drop(self.slot);
        let span = reader.span.clone();
        span.record("wire", "journal");
        let recorder = Recorder {
            reader,
            journal,
            log,
            writer,
            disconnect: self.disconnect,
        };
        spawn(recorder.run(), span);
        Ok(Turn::follow(first))
    }
}

/// Drops turns that are kept too long, until there is none left that could be.
struct Sweeper(Weak<Shared>);

impl Sweeper {
    async fn run(mut self) {
        while let Some(next) = self.next() {
            tokio::time::sleep_until(next).await;
        }
    }

    /// Drops what is due, and says when to do it again. The decision that nobody sweeps any more falls under the lock under which turns
    /// are added.
    fn next(&mut self) -> Option<Instant> {
        let shared = self.0.upgrade()?;
        loop {
            if let Some(next) = shared.expire() {
                return Some(next);
            }
            let mut state = shared.lock();
            // Otherwise one was added this moment, or all are kept for ever.
            if state.over.is_empty() || shared.keeps_for_ever() {
                state.is_swept = false;
                self.0 = Weak::new();
                return None;
            }
        }
    }
}

impl Drop for Sweeper {
    /// The runtime may drop the task while it sleeps.
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lock().is_swept = false;
        }
    }
}
