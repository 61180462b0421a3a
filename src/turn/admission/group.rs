//! Groups of turns: how many run, how many wait, and graceful shutdown.
//!
//! `members.rs` decides which turn is next, and `wait.rs` waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::members::{Deferred, Joined, Limits, Members, Names, Position};
use crate::failure::Failure;
use crate::metadata::QueueStats;
use crate::turn::handle::TurnHandle;
use crate::turn::id::TurnId;
use crate::turn::rejected::Rejected;

pub(crate) use super::members::shutting_down;

/// The `Retry-After` of a full group: about the length of a short turn.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Waits shorter than this are not reported. The session-chat contract uses the same threshold.
pub(super) const MIN_WAIT: Duration = Duration::from_millis(10);

/// A group of turns with common limits and a common shutdown. Clones are the same group.
///
/// A turn is a member of the group until its orchestrator and its readers are gone. A turn that
/// ends on the waiting list leaves the list at that moment. A reader that takes no data for as long
/// as [`Timeouts::write_stall`](crate::Timeouts::write_stall) counts as disconnected, although its
/// connection may still be open: an HTTP/2 client can abandon one stream and keep the others.
///
/// # Waiting
///
/// A group with [`max_queued`](TurnGroupBuilder::max_queued) has a waiting list of that length, in
/// order of arrival. A waiting turn reports its position with [`Queued`](crate::event::Queued)
/// events: first after 10 ms, because shorter waits are not reported, and then after a change, at
/// most twice per second. Its orchestrator's future is not polled before the turn is admitted.
/// Turns that are stopped or whose reader disconnects leave the waiting list.
///
/// Every turn of such a group has [`QueueStats`] in its metadata, unless the orchestrator has
/// already set them.
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
    members: Mutex<Members>,
    changed: Notify,
}

/// Configures a [`TurnGroup`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TurnGroupBuilder {
    limits: Limits,
    queue_timeout: Duration,
}

impl TurnGroupBuilder {
    /// Sets the maximum number of running turns. Default: 64.
    pub fn max_active(mut self, turns: usize) -> Self {
        self.limits.max_active = turns;
        self
    }

    /// Sets the maximum length of the waiting list. Default: 0, so that no turn waits. Each waiting
    /// turn occupies a connection and keeps its question in memory.
    pub fn max_queued(mut self, turns: usize) -> Self {
        self.limits.max_queued = turns;
        self
    }

    /// Sets how long a turn waits before it fails. Default: 30 minutes.
    pub fn queue_timeout(mut self, after: Duration) -> Self {
        self.queue_timeout = after;
        self
    }

    /// Sets the maximum number of running turns with the same
    /// [`owner`](crate::turn::TurnBuilder::owner) or [`lane`](crate::turn::TurnBuilder::lane), at
    /// least 1. Default: no such limit. Further turns go to the waiting list and do not delay other
    /// owners there.
    pub fn max_per_owner(mut self, turns: usize) -> Self {
        self.limits.max_per_owner = turns.max(1);
        self
    }

    /// Sets the maximum number of running turns of the same
    /// [`client`](crate::turn::TurnBuilder::client), at least 1. Default: no such limit. Further
    /// turns go to the waiting list and do not delay other clients there.
    pub fn max_active_per_client(mut self, turns: usize) -> Self {
        self.limits.max_active_per_client = turns.max(1);
        self
    }

    /// Sets the maximum number of turns of the same [`client`](crate::turn::TurnBuilder::client) on
    /// the waiting list. Default: no such limit. Further turns are refused.
    pub fn max_queued_per_client(mut self, turns: usize) -> Self {
        self.limits.max_queued_per_client = turns;
        self
    }

    /// Creates the group.
    pub fn build(self) -> TurnGroup {
        TurnGroup {
            shared: Arc::new(Shared {
                limits: self.limits,
                queue_timeout: self.queue_timeout,
                members: Mutex::default(),
                changed: Notify::new(),
            }),
        }
    }
}

/// The owners or lanes of the turns in a group. Turns without one are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owners {
    /// One entry per running turn, the longest running first.
    pub active: Vec<String>,
    /// One entry per waiting turn, in order of arrival.
    pub queued: Vec<String>,
}

/// Frames that wait for their readers, see [`TurnGroup::backlog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Their number.
    pub frames: usize,
    /// Their size.
    pub bytes: usize,
}

impl TurnGroup {
    /// The default limit of running turns, 64: each one computes, so more of them would only delay
    /// all.
    pub const MAX_ACTIVE: usize = 64;
    /// The default queue timeout, 30 minutes, as in the session-chat contract. Three of the longest
    /// turns fit into it.
    pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

    /// Creates a group of at most `max_turns` running turns, without a waiting list.
    pub fn new(max_turns: usize) -> Self {
        Self::builder().max_active(max_turns).build()
    }

    /// Returns a builder with the defaults.
    pub fn builder() -> TurnGroupBuilder {
        TurnGroupBuilder {
            limits: Limits {
                max_active: Self::MAX_ACTIVE,
                max_queued: 0,
                max_per_owner: usize::MAX,
                max_active_per_client: usize::MAX,
                max_queued_per_client: usize::MAX,
            },
            queue_timeout: Self::QUEUE_TIMEOUT,
        }
    }

    /// Returns the number of running turns.
    pub fn active(&self) -> usize {
        self.lock().active()
    }

    /// Returns the number of turns on the waiting list.
    pub fn queued(&self) -> usize {
        self.lock().queued()
    }

    /// Returns the owners of all running and waiting turns, as of one moment.
    pub fn owners(&self) -> Owners {
        let members = self.lock();
        Owners {
            active: members.active_owners(),
            queued: members.queued_owners(),
        }
    }

    /// Returns what the orchestrators of all running turns have sent and no reader has taken yet.
    pub fn backlog(&self) -> Backlog {
        let running = self.lock().running();
        running
            .iter()
            .map(TurnHandle::backlog)
            .fold(Backlog::default(), |sum, (frames, bytes)| Backlog {
                frames: sum.frames + frames,
                bytes: sum.bytes + bytes,
            })
    }

    /// Returns the turn with this ID, while it has an orchestrator or a reader.
    ///
    /// Check ownership before you use the handle: knowing an ID does not grant access.
    pub fn get(&self, id: &TurnId) -> Option<TurnHandle> {
        self.lock().turn(id)
    }

    /// Checks whether a turn without an owner could join now, to run or to wait, so that a request
    /// that would be refused need not be read.
    ///
    /// # Errors
    ///
    /// Returns the [`Rejected`] that the turn itself would get.
    pub fn check(&self) -> Result<(), Rejected> {
        self.lock().check(&self.shared.limits).map_err(refused)
    }

    /// Refuses new turns and ends all others with a failure. Their readers still have to receive
    /// it; wait for them with [`drained`](Self::drained).
    pub fn shut_down(&self) {
        let turns = self.lock().close();
        for turn in turns {
            turn.fail(shutting_down());
        }
    }

    /// Waits until the group has no members.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; call it again.
    pub async fn drained(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    pub(in crate::turn) fn join(
        &self,
        turn: &TurnHandle,
        names: Names,
        joined_at: Instant,
    ) -> Result<Membership, Rejected> {
        let (joined, deferred) = self.lock().join(&self.shared.limits, turn, names);
        deferred.run();
        let joined = joined.map_err(refused)?;
        Ok(Membership(Arc::new(Member {
            group: self.clone(),
            joined,
            joined_at,
            has_left: AtomicBool::new(false),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.shared.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(failure: Failure) -> Rejected {
    Rejected {
        retry_after: Some(RETRY_AFTER),
        ..Rejected::new(failure)
    }
}

/// The membership of a turn in its group, running or waiting. Its orchestrator and its readers own
/// it together.
#[derive(Clone, Debug)]
pub(in crate::turn) struct Membership(Arc<Member>);

/// A reference to a membership that does not keep it.
#[derive(Clone, Debug)]
pub(in crate::turn) struct WeakMembership(Weak<Member>);

impl WeakMembership {
    pub(in crate::turn) fn upgrade(&self) -> Option<Membership> {
        self.0.upgrade().map(Membership)
    }
}

#[derive(Debug)]
struct Member {
    group: TurnGroup,
    joined: Joined,
    joined_at: Instant,
    /// Whether the turn was removed although it may still have a reader.
    has_left: AtomicBool,
}

impl Membership {
    pub(in crate::turn) fn downgrade(&self) -> WeakMembership {
        WeakMembership(Arc::downgrade(&self.0))
    }

    /// Returns `true` if the turn was not admitted at once.
    pub(in crate::turn) fn waits(&self) -> bool {
        self.0.joined.position > 0
    }

    pub(in crate::turn) fn joined_at(&self) -> Instant {
        self.0.joined_at
    }

    pub(in crate::turn) fn queue_timeout(&self) -> Duration {
        self.0.group.shared.queue_timeout
    }

    /// Returns the turn's position on the waiting list, or `None` once it is admitted. Wakes the
    /// caller when that changes.
    pub(super) fn poll_position(&self, cx: &Context<'_>) -> Option<Position> {
        self.0.group.lock().poll_position(self.0.joined.number, cx)
    }

    /// Takes a turn that never ran off the waiting list, before its reader has its end.
    pub(in crate::turn) fn give_up(&self) {
        let group = &self.0.group;
        let deferred = group.lock().give_up(&group.shared.limits, self.0.joined.number);
        deferred.run();
    }

    /// Ends the membership although the turn may still have a reader.
    pub(in crate::turn) fn leave(&self) {
        self.0.leave();
    }

    /// Returns how long the turn waited until `began`, or until now if it still waits. Returns
    /// `None` for a group without a waiting list.
    pub(in crate::turn) fn stats(&self, began: Option<std::time::Instant>) -> Option<QueueStats> {
        if self.0.group.shared.limits.max_queued == 0 {
            return None;
        }
        let until = began.unwrap_or_else(|| Instant::now().into_std());
        let waited = until.saturating_duration_since(self.0.joined_at.into_std());
        let stats = QueueStats::new(waited > MIN_WAIT, self.0.joined.position);
        Some(stats.queue_wait_ms(waited.as_micros() as f64 / 1e3))
    }
}

impl Member {
    fn leave(&self) {
        if self.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        let deferred: Deferred = {
            let mut members = self.group.lock();
            members.leave(&self.group.shared.limits, self.joined.number)
        };
        deferred.run();
        self.group.shared.changed.notify_waiters();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}
