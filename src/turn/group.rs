//! Turns that are counted and ended together: how many run, how many wait for their place, and graceful shutdown.
//!
//! Who is next is decided in `line.rs`; how a turn waits, in `waiting.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::line::{After, Joined, Limits, Line, Spot};
use super::{Rejected, TurnHandle, TurnId};
use crate::metadata::QueueStats;

pub(crate) use super::line::shutting_down;

/// What a client is told to wait when all places are taken: about the length of a short turn.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A wait that nobody notices is none: that of the session chat's contract. Nobody is told of one, either.
pub(super) const NOTICED: Duration = Duration::from_millis(10);

/// Turns that are counted and ended together. Clones are the same group.
///
/// A turn belongs to the group until its orchestrator and its readers are gone, and has a place in it until then. One that
/// ends while it waits has none any more, from that moment on. A reader that takes nothing for as long as
/// [`Timeouts::write_stall`](super::Timeouts::write_stall) says counts as gone, though its connection may live on: of HTTP/2 a client may
/// leave one stream alone.
///
/// # Waiting
///
/// A group that is made with [`max_queued`](TurnGroupBuilder::max_queued) lets so many turns wait for a place, in the order in
/// which they came. A turn that waits is told its place with [`Queued`](crate::event::Queued) events: after 10 ms, since a shorter
/// wait is none, and then when it changes, at most twice a second. Its orchestrator's future is not polled before it has
/// its place. A turn whose reader leaves, or that is stopped, is skipped.
///
/// Every turn of such a group says in its metadata how it waited ([`QueueStats`]), unless its orchestrator has said so itself.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use ragwire::turn::TurnGroup;
/// use ragwire::{Metadata, SendError, Sink, Turn};
///
/// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
///     sink.send("Forty-two.").await?;
///     Ok(Metadata::default())
/// }
///
/// let turns = TurnGroup::builder()
///     .max_active(4)
///     .max_queued(64)
///     .queue_timeout(Duration::from_secs(600))
///     .max_per_owner(2)
///     .build();
/// let turn = Turn::builder().group(&turns).owner("alice").start(answer).commit().await?;
/// let stats = turn.collect().await?.end.metadata.queue_stats.unwrap();
/// assert_eq!((stats.was_queued, stats.queue_position), (false, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct TurnGroup {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    queue_timeout: Duration,
    line: Mutex<Line>,
    changed: Notify,
}

/// What a [`TurnGroup`] is made with.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TurnGroupBuilder {
    limits: Limits,
    queue_timeout: Duration,
}

impl TurnGroupBuilder {
    /// Sets how many turns run at a time; [`TurnGroup::MAX_ACTIVE`] by default.
    pub fn max_active(mut self, turns: usize) -> Self {
        self.limits.max_active = turns;
        self
    }

    /// Sets how many turns may wait for a place; none by default. Each holds its connection and its question in memory.
    pub fn max_queued(mut self, turns: usize) -> Self {
        self.limits.max_queued = turns;
        self
    }

    /// Sets how long a turn waits before it fails; [`TurnGroup::QUEUE_TIMEOUT`] by default.
    pub fn queue_timeout(mut self, after: Duration) -> Self {
        self.queue_timeout = after;
        self
    }

    /// Sets how many turns of one [`owner`](super::TurnBuilder::owner), or [`lane`](super::TurnBuilder::lane), run at a time, at least
    /// one; as many as of all owners together by default. Further ones wait, if they may, and hold up nobody else's.
    pub fn max_per_owner(mut self, turns: usize) -> Self {
        self.limits.max_per_owner = turns.max(1);
        self
    }

    /// Makes the group.
    pub fn build(self) -> TurnGroup {
        TurnGroup {
            shared: Arc::new(Shared {
                limits: self.limits,
                queue_timeout: self.queue_timeout,
                line: Mutex::default(),
                changed: Notify::new(),
            }),
        }
    }
}

/// Whose turns run and wait, by owner or lane. Turns without are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owners {
    /// Of the turns that run, the one that has run for longest first; once for each turn.
    pub active: Vec<String>,
    /// Of the turns that wait, in the order in which they came; once for each turn.
    pub queued: Vec<String>,
}

impl TurnGroup {
    /// 64: each computes, so a machine that runs more of them only makes all of them late.
    pub const MAX_ACTIVE: usize = 64;
    /// 30 minutes: that of the session chat's contract. Three of the longest turns fit into it.
    pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

    /// A group of at most `max_turns` turns at a time; none waits.
    pub fn new(max_turns: usize) -> Self {
        Self::builder().max_active(max_turns).build()
    }

    /// Everything that can be said of a group.
    pub fn builder() -> TurnGroupBuilder {
        TurnGroupBuilder {
            limits: Limits {
                max_active: Self::MAX_ACTIVE,
                max_queued: 0,
                max_per_owner: usize::MAX,
            },
            queue_timeout: Self::QUEUE_TIMEOUT,
        }
    }

    /// How many turns have a place.
    pub fn active(&self) -> usize {
        self.lock().active()
    }

    /// How many turns wait for a place.
    pub fn queued(&self) -> usize {
        self.lock().queued()
    }

    /// Whose turns run and wait, at one moment.
    pub fn owners(&self) -> Owners {
        let line = self.lock();
        Owners {
            active: line.active_owners(),
            queued: line.queued_owners(),
        }
    }

    /// The turn of that id, while its orchestrator or a reader of it is there.
    ///
    /// An id is no authority: who hands it in has to be the turn's owner by some other proof.
    pub fn get(&self, id: &TurnId) -> Option<TurnHandle> {
        self.lock().turn(id)
    }

    /// Whether a turn without an owner could join now, to run or to wait. A request that is refused anyway need not be read.
    ///
    /// # Errors
    ///
    /// [`Rejected`], as the turn itself would be.
    pub fn check(&self) -> Result<(), Rejected> {
        self.lock().check(&self.shared.limits).map_err(refused)
    }

    /// Refuses new turns, and ends those that run or wait with a failure. Their readers still have to take it: wait with
    /// [`drained`](Self::drained).
    pub fn shut_down(&self) {
        let turns = self.lock().close();
        for turn in turns {
            turn.fail(shutting_down());
        }
    }

    /// Waits until no turn belongs to the group.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this future is dropped; call it again.
    pub async fn drained(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn join(
        &self,
        turn: &TurnHandle,
        owner: Option<String>,
        came: Instant,
    ) -> Result<Membership, Rejected> {
        let (joined, after) = self.lock().join(&self.shared.limits, turn, owner.map(Arc::from));
        after.run();
        let joined = joined.map_err(refused)?;
        Ok(Membership(Arc::new(Place {
            group: self.clone(),
            joined,
            came,
            has_left: AtomicBool::new(false),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.shared.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(failure: crate::Failure) -> Rejected {
    Rejected {
        retry_after: Some(RETRY_AFTER),
        ..Rejected::new(failure)
    }
}

/// A turn's place in its group, or in the line for one, held by its orchestrator and by its readers.
#[derive(Clone, Debug)]
pub(super) struct Membership(Arc<Place>);

/// The way to a turn's place in its group, while it has one.
#[derive(Clone, Debug)]
pub(super) struct WeakMembership(Weak<Place>);

impl WeakMembership {
    pub(super) fn upgrade(&self) -> Option<Membership> {
        self.0.upgrade().map(Membership)
    }
}

#[derive(Debug)]
struct Place {
    group: TurnGroup,
    joined: Joined,
    came: Instant,
    /// Whether the turn was counted as over though a reader of it is there.
    has_left: AtomicBool,
}

impl Membership {
    pub(super) fn downgrade(&self) -> WeakMembership {
        WeakMembership(Arc::downgrade(&self.0))
    }

    /// Whether it had to wait when it came.
    pub(super) fn waits(&self) -> bool {
        self.0.joined.position > 0
    }

    pub(super) fn came(&self) -> Instant {
        self.0.came
    }

    pub(super) fn queue_timeout(&self) -> Duration {
        self.0.group.shared.queue_timeout
    }

    /// Where it stands now; `None` when it has its place. Wakes the caller when that changes.
    pub(super) fn look(&self, cx: &Context<'_>) -> Option<Spot> {
        self.0.group.lock().look(self.0.joined.ticket, cx)
    }

    /// The turn ends without having run: whoever is next need not wait for its reader.
    pub(super) fn give_up(&self) {
        let group = &self.0.group;
        let after = group.lock().give_up(&group.shared.limits, self.0.joined.ticket);
        after.run();
    }

    /// The turn is over for the group, whoever still reads it: its place is free, and nobody waits for its reader.
    pub(super) fn leave(&self) {
        self.0.leave();
    }

    /// How it waited, of a turn that has run since `began` or waits still; `None` where nobody waits.
    pub(super) fn stats(&self, began: Option<std::time::Instant>) -> Option<QueueStats> {
        if self.0.group.shared.limits.max_queued == 0 {
            return None;
        }
        let until = began.unwrap_or_else(|| Instant::now().into_std());
        let waited = until.saturating_duration_since(self.0.came.into_std());
        let stats = QueueStats::new(waited > NOTICED, self.0.joined.position);
        Some(stats.queue_wait_ms(waited.as_micros() as f64 / 1e3))
    }
}

impl Place {
    fn leave(&self) {
        if self.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        let after: After = {
            let mut line = self.group.lock();
            line.leave(&self.group.shared.limits, self.joined.ticket)
        };
        after.run();
        self.group.shared.changed.notify_waiters();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
