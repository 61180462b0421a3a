//! What an application learns of each turn, for its metrics.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::failure::Failure;
use crate::frame::Status;
use crate::metadata::Usage;
use crate::turn::TurnId;

/// Receives the figures of each turn of a [`TurnBuilder`](super::TurnBuilder), once, after its end.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use ragwire::turn::{FinishedTurn, TurnObserver};
/// use ragwire::{Metadata, SendError, Sink, Turn};
///
/// #[derive(Default)]
/// struct Frames(AtomicU64);
///
/// impl TurnObserver for Frames {
///     fn finished(&self, turn: &FinishedTurn<'_>) {
///         self.0.fetch_add(turn.frames, Ordering::Relaxed);
///     }
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let frames = Arc::new(Frames::default());
/// let turn = Turn::builder().observer(frames.clone()).start(|sink: Sink| async move {
///     sink.send("Forty-two.").await?;
///     Ok::<_, SendError>(Metadata::default())
/// });
/// turn.commit().await?.collect().await?;
/// assert_eq!(frames.0.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
pub trait TurnObserver: Send + Sync + 'static {
    /// Records a turn. Called in the task that read its end, so it must not block.
    fn finished(&self, turn: &FinishedTurn<'_>);
}

/// How a turn ended for its reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TurnOutcome<'a> {
    /// The turn completed.
    Completed,
    /// The turn was stopped after its response began.
    Stopped,
    /// The turn failed after its response began.
    Failed(&'a Failure),
    /// The turn was refused, failed or was stopped before its response began.
    Rejected(&'a Failure),
    /// The reader disconnected before the end. With a journal: the turn ended without readers, or
    /// its task was dropped.
    Disconnected,
}

/// The figures of a turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedTurn<'a> {
    /// Its ID.
    pub id: TurnId,
    /// How it ended.
    pub outcome: TurnOutcome<'a>,
    /// The name of its first reader's wire. `None` if it was collected, or rejected.
    pub wire: Option<&'static str>,
    /// The time since the turn was started.
    pub duration: Duration,
    /// From the start to the first event, those of the waiting list included.
    pub first_event: Option<Duration>,
    /// From the start to the first text.
    pub first_text: Option<Duration>,
    /// The number of frames that the producer sent, without the end.
    pub frames: u64,
    /// How often a sender waited for its reader because the queue was full.
    pub stalls: u64,
    /// The time until the turn was admitted; `None` if it ended on the waiting list.
    pub waited: Option<Duration>,
    /// What the turn consumed, as its metadata reports it; `None` if the reader did not get it.
    pub usage: Option<&'a Usage>,
}

/// What is observed of one turn. It is reported when it is dropped: the reader of the queue owns it,
/// and with a journal also the first reader of the log, until that reader has its wire. Otherwise a
/// turn that ends at once would have no wire.
pub(crate) struct Observation {
    observer: Arc<dyn TurnObserver>,
    wire: OnceLock<&'static str>,
    seen: OnceLock<Seen>,
}

/// What the reader of the queue has seen.
pub(super) struct Seen {
    pub(super) id: TurnId,
    /// Set if the turn was rejected.
    pub(super) rejected: Option<Failure>,
    /// How the turn ended, and what it consumed, if the reader has the end.
    pub(super) end: Option<(Status, Option<Usage>)>,
    pub(super) duration: Duration,
    pub(super) first_event: Option<Duration>,
    pub(super) first_text: Option<Duration>,
    pub(super) waited: Option<Duration>,
    pub(super) frames: u64,
    pub(super) stalls: u64,
}

impl Observation {
    pub(super) fn new(observer: Arc<dyn TurnObserver>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            wire: OnceLock::new(),
            seen: OnceLock::new(),
        })
    }

    /// Records the wire of the first reader.
    pub(super) fn name_wire(&self, name: &'static str) {
        let _ = self.wire.set(name);
    }

    /// Records what the reader of the queue has seen.
    pub(super) fn record(&self, seen: Seen) {
        let _ = self.seen.set(seen);
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let Some(seen) = self.seen.get() else { return };
        let outcome = match (&seen.rejected, &seen.end) {
            (Some(failure), _) => TurnOutcome::Rejected(failure),
            (None, None) => TurnOutcome::Disconnected,
            (None, Some((Status::Completed, _))) => TurnOutcome::Completed,
            (None, Some((Status::Stopped, _))) => TurnOutcome::Stopped,
            (None, Some((Status::Failed(failure), _))) => TurnOutcome::Failed(failure),
        };
        self.observer.finished(&FinishedTurn {
            id: seen.id,
            outcome,
            wire: self.wire.get().copied(),
            duration: seen.duration,
            first_event: seen.first_event,
            first_text: seen.first_text,
            waited: seen.waited,
            frames: seen.frames,
            stalls: seen.stalls,
            usage: seen.end.as_ref().and_then(|(_, usage)| usage.as_ref()),
        });
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}
