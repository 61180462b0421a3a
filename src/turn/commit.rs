//! When a response begins, and the turn until then.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::TurnHandle;
use super::id::TurnId;
use super::journal::Recording;
use super::queue::CommitOn;
use super::reader::Reader;
use super::rejected::Rejected;
use super::{Source, Turn};
use crate::failure::Failure;

/// When the response begins. Until then a failure is an HTTP status.
///
/// The end of the turn also decides it. So do a full queue, because no further frame could arrive,
/// and a question to a human ([`Sink::ask`](super::Sink::ask)), which nobody could see otherwise.
///
/// ```
/// use std::time::Duration;
///
/// use ragwire::{Commit, Turn};
///
/// // Report a failing retrieval as an HTTP status, but begin to stream after 5 seconds at the latest.
/// let turn = Turn::builder().commit_on(Commit::first_text().or_after(Duration::from_secs(5)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    on: CommitOn,
    after: Option<Duration>,
}

impl Commit {
    /// Begins the response with the first frame, as ADR 0007 requires. The default.
    pub const fn first_frame() -> Self {
        Self {
            on: CommitOn::Frame,
            after: None,
        }
    }

    /// Begins the response with the first piece of the answer: a failing retrieval is still an HTTP
    /// status. Events wait until then.
    pub const fn first_text() -> Self {
        Self {
            on: CommitOn::Text,
            after: None,
        }
    }

    /// Begins the response after this time, counted from the call of [`Pending::commit`].
    pub const fn deadline(after: Duration) -> Self {
        Self {
            on: CommitOn::End,
            after: Some(after),
        }
    }

    /// Begins the response after this time at the latest.
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

/// A turn whose response has not begun.
///
/// Dropping it disconnects: the orchestrator is dropped at its current `await`.
#[derive(Debug)]
#[must_use = "a turn that is not committed is cancelled when it is dropped"]
pub struct Pending {
    // Boxed, because a caller that waits for the commit holds it in a future that its server keeps
    // as long as the connection is open.
    pub(super) reader: Box<Reader>,
    pub(super) commit: Commit,
    pub(super) refused: Option<Box<Rejected>>,
    pub(super) recording: Option<Box<Recording>>,
}

impl Pending {
    /// Waits until the response begins, as the [`Commit`] policy decides.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn and cancels the orchestrator.
    ///
    /// # Errors
    ///
    /// Returns [`Rejected`] if the turn failed, was stopped or was refused before its response
    /// began. With the feature `http` it converts to a complete JSON response.
    pub fn commit(self) -> impl Future<Output = Result<Turn, Rejected>> + Send {
        // On the heap until the response begins: a hyper connection keeps the room of its service's
        // future as long as it is open.
        Box::pin(self.decide())
    }

    async fn decide(self) -> Result<Turn, Rejected> {
        let (mut reader, commit) = (self.reader, self.commit);
        if let Some(rejected) = self.refused {
            reader.rejected = Some(Box::new(rejected.failure.clone()));
            return Err(*rejected);
        }
        let deadline = commit.after.and_then(|after| Instant::now().checked_add(after));
        let check = reader.check_overdue();
        let first = deadline.map_or(check, |deadline| deadline.min(check));
        let mut timer = pin!(tokio::time::sleep_until(first));
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
                    padding: None,
                },
                // On the heap, because most turns have no journal.
                Some(recording) => Box::pin(recording.begin(reader)).await?,
            }),
            Err(end) => {
                let failure = Failure::of(&end.status).unwrap_or_default();
                reader.rejected = Some(Box::new(failure.clone()));
                Err(Rejected {
                    id: reader.id,
                    failure,
                    retry_after: None,
                })
            }
        }
    }

    /// Returns a handle that stops the turn from elsewhere.
    pub fn handle(&self) -> TurnHandle {
        self.reader.handle()
    }

    /// Returns the turn's ID.
    pub fn id(&self) -> TurnId {
        self.reader.id
    }
}
