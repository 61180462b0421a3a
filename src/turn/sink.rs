//! The sink, into which the orchestrator sends events and text.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::SystemTime;

use tokio::time::Instant;

use super::handle::TurnHandle;
use super::queue::{Closed, Queue, Refused};
use crate::event::Event;
use crate::event::item::Item;
use crate::failure::Failure;
use crate::frame::End;
use crate::metadata::Metadata;
use crate::time::Timestamp;
use crate::utf8::pieces;
use crate::wire::EncodeError;

/// The maximum length of a piece of text in the queue. Longer ones are cut between characters, so
/// that one huge piece cannot exceed the queue's limit in bytes.
const MAX_PIECE_BYTES: usize = 16 * 1024;

/// Sends the orchestrator's events and text to the turn. Clones feed the same turn; each keeps its
/// own order.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire::event::Search;
/// use ragwire::{Metadata, SendError, Sink, Turn};
///
/// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
///     sink.send(Search::new("bm25").query("answer")).await?;
///     for token in ["Forty", "-two."] {
///         sink.send(token).await?;
///     }
///     Ok(Metadata::default())
/// }
///
/// let collected = Turn::start(answer).commit().await?.collect().await?;
/// assert_eq!((collected.events.len(), &*collected.text), (1, "Forty-two."));
/// # Ok(()) }
/// ```
///
/// # Back-pressure
///
/// [`send`](Self::send) waits while the queue is full, in frames or in bytes. Nothing is dropped,
/// except events that [`drop_when_full`](Self::drop_when_full) names.
///
/// # Disconnection
///
/// Once the reader has disconnected, or the turn has ended or was stopped, every send returns a
/// [`SendError`]; it never waits and never panics. The orchestrator's future is dropped then, so
/// only code on separate threads has to check.
///
/// # Drop
///
/// For [`TurnBuilder::channel`](super::TurnBuilder::channel), dropping the last sink without
/// [`finish`](Self::finish) fails the turn. For [`Turn::start`](super::Turn::start) the
/// orchestrator's return value is the end, and dropping sinks has no effect.
#[derive(Clone, Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    droppable: Arc<[String]>,
}

/// How many rounds of the runtime an orchestrator waits after its first frame. In the first one its own
/// response begins, in the others those of turns that began with it: of 32 turns at once on one thread, the
/// first byte comes after 0.44 of a turn with one round, 0.40 with two and 0.34 with three, for the same CPU.
const ROUNDS_FOR_FIRST_FRAME: usize = 3;

/// The state that all clones of a sink share.
#[derive(Debug)]
struct Shared {
    turn: TurnHandle,
    /// Whether the turn fails when the last sink is dropped.
    ends_turn: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.ends_turn {
            let _ = self.turn.fail(Failure::default());
        }
    }
}

impl Sink {
    pub(super) fn new(turn: TurnHandle, ends_turn: bool) -> Self {
        Self {
            shared: Arc::new(Shared { turn, ends_turn }),
            droppable: Arc::new([]),
        }
    }

    /// Sends an event or a piece of the answer. Waits while the queue is full.
    ///
    /// Text is cut into pieces of at most 16 KiB, between characters.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, an event was either sent or not. The beginning of a text longer
    /// than 16 KiB may have been sent.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the item was not sent. The beginning of a text longer than 16 KiB
    /// may have been sent.
    pub fn send<'a>(&self, item: impl Into<Item<'a>>) -> impl Future<Output = Result<(), SendError>> {
        // The item is stored once, and no state of a loop over its pieces: this future is a part of
        // every open turn's orchestrator.
        let mut item = item.into();
        async move {
            let mut progress = Progress::default();
            poll_fn(|cx| self.poll_send(&mut item, &mut progress, cx)).await?;
            // The reader runs before the orchestrator continues: one that waits for nothing would
            // otherwise be done before the response begins.
            if progress.has_first_frame {
                for _ in 0..ROUNDS_FOR_FIRST_FRAME {
                    tokio::task::yield_now().await;
                }
            }
            Ok(())
        }
    }

    /// Sends an event as [`send`](Self::send) does, but does not give way once it is queued: when the future is done,
    /// the reader gets the event, and until then it does not.
    pub(super) async fn queue_event(&self, event: Event) -> Result<(), SendError> {
        let mut item = Item::from(event);
        let mut progress = Progress::default();
        poll_fn(|cx| self.poll_send(&mut item, &mut progress, cx)).await
    }

    /// Sends without waiting. A text longer than 16 KiB is queued as one piece, by which the queue
    /// may then exceed its limit in bytes.
    ///
    /// # Errors
    ///
    /// Returns [`TrySendError::Full`] if [`send`](Self::send) would wait; nothing was sent then.
    pub fn try_send<'a>(&self, item: impl Into<Item<'a>>) -> Result<(), TrySendError> {
        let tried = match item.into() {
            Item::Event(mut event) => self.try_event(&mut event),
            Item::Text(text) => self.queue().push_text(&text, now),
            Item::Bytes(bytes) => self.queue().push_bytes(&bytes, now),
        };
        match tried {
            Err(Refused::Full) => Err(TrySendError::Full),
            Err(refused) => Ok(wait_or_fail(refused)?),
            Ok(_) => Ok(()),
        }
    }

    /// Sends from a plain thread, for example one that runs llama.cpp, and blocks it while the
    /// queue is full. In an async task this would block the runtime; use [`send`](Self::send)
    /// there.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`send`](Self::send).
    pub fn blocking_send<'a>(&self, item: impl Into<Item<'a>>) -> Result<(), SendError> {
        block_on(self.send(item))
    }

    /// Ends the turn. Later sends by any clone return an error.
    ///
    /// The orchestrator's future is dropped at its next `await`. Spawn a task for work that should
    /// outlive the turn.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the turn has already ended.
    pub fn finish(&self, metadata: Metadata) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::completed(metadata))?)
    }

    /// Ends the turn with a failure.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the turn has already ended.
    pub fn fail(&self, failure: Failure) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::failed(failure))?)
    }

    /// Ends the turn as stopped, for an orchestrator that has its own stop signal. From elsewhere
    /// use [`TurnHandle::stop`](super::TurnHandle::stop).
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the turn has already ended.
    pub fn stop(&self) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::stopped())?)
    }

    /// Drops events with these names instead of waiting while the queue is full. The metadata has
    /// their number as `events_dropped`. Applies to this sink and to later clones of it.
    #[must_use]
    pub fn drop_when_full(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.droppable = names.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the error that every send would return, or `None` while the sink is open. Check it
    /// in loops on plain threads that compute for a long time between two sends.
    pub fn closed(&self) -> Option<SendError> {
        self.queue().closed().map(SendError::from)
    }

    /// Returns the turn's handle, for example to report the outcome of an authorization that this
    /// orchestrator has received itself.
    pub fn handle(&self) -> &TurnHandle {
        &self.shared.turn
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.shared.turn.queue
    }

    fn try_event(&self, event: &mut Event) -> Result<bool, Refused> {
        match self
            .queue()
            .push_event(event, Timestamp::from(SystemTime::now()), now)
        {
            Err(Refused::Full) if self.droppable.iter().any(|name| name == event.name()) => {
                self.queue().count_dropped();
                Ok(false)
            }
            pushed => pushed,
        }
    }

    /// Queues the rest of an item, piece by piece, as soon as there is room.
    fn poll_send(
        &self,
        item: &mut Item<'_>,
        progress: &mut Progress,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            let (pushed, length, is_last) = match item {
                Item::Event(event) => (self.try_event(event), 0, true),
                Item::Text(text) if text.is_empty() => {
                    return Poll::Ready(self.closed().map_or(Ok(()), Err));
                }
                Item::Text(text) => {
                    let rest = &text[progress.sent..];
                    let piece = pieces(rest, MAX_PIECE_BYTES).next().unwrap_or_default();
                    let pushed = self.queue().push_text(piece, now);
                    (pushed, piece.len(), piece.len() == rest.len())
                }
                Item::Bytes(bytes) if bytes.is_empty() => return Poll::Ready(Ok(())),
                Item::Bytes(bytes) => {
                    let rest = &bytes[progress.sent..];
                    let piece = &rest[..rest.len().min(MAX_PIECE_BYTES)];
                    let pushed = self.queue().push_bytes(piece, now);
                    (pushed, piece.len(), piece.len() == rest.len())
                }
            };
            match pushed {
                Ok(is_first_frame) => {
                    progress.has_first_frame |= is_first_frame;
                    progress.sent += length;
                    if is_last {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(refused) => {
                    wait_or_fail(refused)?;
                    if self.queue().wait_for_room(cx) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

/// How much of an item is queued.
#[derive(Debug, Default)]
struct Progress {
    /// The bytes of a text that are queued.
    sent: usize,
    /// Whether the first frame of the turn is among them.
    has_first_frame: bool,
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Returns `Ok` if the caller should wait and try again.
fn wait_or_fail(refused: Refused) -> Result<(), SendError> {
    match refused {
        Refused::Full => Ok(()),
        Refused::Closed(closed) => Err(closed.into()),
        Refused::Invalid(error) => Err(SendError::Invalid(error)),
    }
}

/// Drives a future on a thread outside of any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Why an item was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The turn has ended, was stopped, or exceeded a time limit.
    #[error("turn has ended")]
    Ended,
    /// The reader has disconnected.
    #[error("reader has disconnected")]
    Disconnected,
    /// The event is invalid. Others may still be sent.
    #[error("event cannot be sent")]
    Invalid(#[source] EncodeError),
    /// An [`EventSink`](super::EventSink) has reported its maximum of 10,000 events.
    #[error("too many events: an evidence collector may report 10000")]
    TooManyEvents,
}

impl SendError {
    /// Returns a stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ended => "turn_ended",
            Self::Disconnected => "disconnected",
            Self::Invalid(error) => error.code(),
            Self::TooManyEvents => "too_many_events",
        }
    }
}

impl From<Closed> for SendError {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Ended => Self::Ended,
            Closed::Disconnected => Self::Disconnected,
        }
    }
}

/// Why an item was not sent without waiting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// The queue is full.
    #[error("queue is full")]
    Full,
    /// Sending failed.
    #[error(transparent)]
    Send(#[from] SendError),
}
