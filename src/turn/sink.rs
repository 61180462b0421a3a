//! The sink: where the orchestrator puts events and text.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::SystemTime;

use tokio::time::Instant;

use super::queue::{Closed, Queue, Refused};
use crate::event::Event;
use crate::event::item::Item;
use crate::failure::Failure;
use crate::frame::End;
use crate::metadata::Metadata;
use crate::time::Timestamp;
use crate::wire::EncodeError;

/// Largest piece of text that goes into the queue at once; longer ones are cut between characters, so that one huge piece
/// cannot stand in the way of the queue's limit in bytes.
const MAX_PIECE_BYTES: usize = 16 * 1024;

/// Where the orchestrator puts events and text. Clones feed the same turn; each keeps its own order.
///
/// # Back-pressure
///
/// [`send`](Self::send) waits while the queue is full, in frames or in bytes. Nothing is dropped, except the events named in
/// [`drop_when_full`](Self::drop_when_full).
///
/// # Disconnection
///
/// When the reader is gone, the turn is stopped or has ended, every send returns a [`SendError`]; it never waits and
/// never panics. The orchestrator's future itself is dropped then, so only code on threads of its own has to look.
///
/// # Drop
///
/// For [`TurnBuilder::channel`](super::TurnBuilder::channel), dropping the last sink without [`finish`](Self::finish) fails the
/// turn. For [`Turn::start`](super::Turn::start) the orchestrator's return value is the end, and dropping sinks means nothing.
#[derive(Clone, Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    droppable: Arc<[String]>,
}

/// What all clones of a sink have in common; dropped with the last one.
#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    /// Whether the turn fails when nobody can send any more.
    ends_turn: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.ends_turn {
            let _ = self.queue.request_end(End::failed(Failure::default()));
        }
    }
}

impl Sink {
    pub(super) fn new(queue: Arc<Queue>, ends_turn: bool) -> Self {
        Self {
            shared: Arc::new(Shared { queue, ends_turn }),
            droppable: Arc::new([]),
        }
    }

    /// Sends an event or a piece of the answer; waits while the queue is full.
    ///
    /// Text is cut into pieces of at most 16 KiB, between characters.
    ///
    /// # Cancel safety
    ///
    /// An event is sent or not. Of a text longer than 16 KiB the beginning may have been sent.
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing of this item was sent, or for a long text the beginning.
    pub async fn send<'a>(&self, item: impl Into<Item<'a>>) -> Result<(), SendError> {
        match item.into() {
            Item::Event(event) => {
                while let Err(refused) = self.try_event(&event) {
                    wait_or_fail(refused)?;
                    self.room().await;
                }
                Ok(())
            }
            Item::Text(text) if text.is_empty() => self.closed().map_or(Ok(()), Err),
            Item::Text(text) => {
                for piece in pieces(&text, MAX_PIECE_BYTES) {
                    while let Err(refused) = self.queue().push_text(piece, now) {
                        wait_or_fail(refused)?;
                        self.room().await;
                    }
                }
                Ok(())
            }
            Item::Bytes(bytes) => {
                for piece in bytes.chunks(MAX_PIECE_BYTES) {
                    while let Err(refused) = self.queue().push_bytes(piece, now) {
                        wait_or_fail(refused)?;
                        self.room().await;
                    }
                }
                Ok(())
            }
        }
    }

    /// Sends without waiting. A text longer than 16 KiB is queued whole, so the queue may exceed its bytes by this one piece.
    ///
    /// # Errors
    ///
    /// [`TrySendError::Full`] where [`send`](Self::send) would wait; nothing was sent then.
    pub fn try_send<'a>(&self, item: impl Into<Item<'a>>) -> Result<(), TrySendError> {
        let tried = match item.into() {
            Item::Event(event) => self.try_event(&event),
            Item::Text(text) => self.queue().push_text(&text, now),
            Item::Bytes(bytes) => self.queue().push_bytes(&bytes, now),
        };
        match tried {
            Err(Refused::Full) => Err(TrySendError::Full),
            Err(refused) => Ok(wait_or_fail(refused)?),
            Ok(()) => Ok(()),
        }
    }

    /// [`send`](Self::send) for a plain thread, such as one that decodes with llama.cpp: blocks it while the queue is full.
    ///
    /// Within an async task it would block the runtime; use [`send`](Self::send) there.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn blocking_send<'a>(&self, item: impl Into<Item<'a>>) -> Result<(), SendError> {
        block_on(self.send(item))
    }

    /// Ends the turn. What is sent after this, by any clone, is refused.
    ///
    /// The orchestrator's future is dropped at its next wait; work that should outlive the turn belongs into a task of its own.
    ///
    /// # Errors
    ///
    /// [`SendError`] where the turn was over already.
    pub fn finish(&self, metadata: Metadata) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::completed(metadata))?)
    }

    /// Ends the turn with a failure.
    ///
    /// # Errors
    ///
    /// [`SendError`] where the turn was over already.
    pub fn fail(&self, failure: Failure) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::failed(failure))?)
    }

    /// Ends the turn as stopped: for an orchestrator that learns of a stop by a way of its own. Elsewhere there is
    /// [`TurnHandle::stop`](super::TurnHandle::stop).
    ///
    /// # Errors
    ///
    /// [`SendError`] where the turn was over already.
    pub fn stop(&self) -> Result<(), SendError> {
        Ok(self.queue().request_end(End::stopped())?)
    }

    /// Lets events of these names be dropped while the queue is full instead of waiting. The metadata then says how many were, as
    /// `events_dropped`. Applies to this sink and to clones made of it later.
    #[must_use]
    pub fn drop_when_full(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.droppable = names.into_iter().map(Into::into).collect();
        self
    }

    /// Why nothing can be sent any more, if so. For loops on plain threads that compute for long between two sends.
    pub fn closed(&self) -> Option<SendError> {
        self.queue().closed().map(SendError::from)
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.shared.queue
    }

    fn try_event(&self, event: &Event) -> Result<(), Refused> {
        match self
            .queue()
            .push_event(event, Timestamp::from(SystemTime::now()), now)
        {
            Err(Refused::Full) if self.droppable.iter().any(|name| name == event.name()) => {
                self.queue().count_dropped();
                Ok(())
            }
            pushed => pushed,
        }
    }

    /// Waits until there may be room.
    async fn room(&self) {
        let mut waited = false;
        poll_fn(|cx| {
            if waited || !self.queue().wait_for_room(cx) {
                return Poll::Ready(());
            }
            waited = true;
            Poll::Pending
        })
        .await;
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// `Ok` where waiting helps.
fn wait_or_fail(refused: Refused) -> Result<(), SendError> {
    match refused {
        Refused::Full => Ok(()),
        Refused::Closed(closed) => Err(closed.into()),
        Refused::Invalid(error) => Err(SendError::Invalid(error)),
    }
}

/// Cuts `text` into pieces of at most `max_bytes`, between characters.
pub(super) fn pieces(mut text: &str, max_bytes: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (piece, rest) = text.split_at(text.floor_char_boundary(max_bytes));
        text = rest;
        Some(piece)
    })
}

/// Drives a future on a thread that belongs to no runtime.
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

/// Why an item was not sent, and none will be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The turn has ended, was stopped, or ran out of time.
    #[error("turn has ended")]
    Ended,
    /// Nobody reads any more.
    #[error("reader is gone")]
    Disconnected,
    /// The event is not legal; others may be.
    #[error("event cannot be sent")]
    Invalid(#[source] EncodeError),
}

impl SendError {
    /// Stable machine word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ended => "turn_ended",
            Self::Disconnected => "disconnected",
            Self::Invalid(error) => error.code(),
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

/// Why an item was not sent at once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// The queue is full now.
    #[error("queue is full")]
    Full,
    /// Waiting would not help.
    #[error(transparent)]
    Send(#[from] SendError),
}
