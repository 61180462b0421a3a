//! The handle that ends a turn from elsewhere.

use std::sync::Arc;

#[cfg(feature = "redis")]
use tokio::time::Instant;

use super::id::TurnId;
#[cfg(feature = "redis")]
use super::limits::QueueLimits;
use super::queue::Queue;
use crate::failure::Failure;
use crate::frame::End;

/// Ends a turn from elsewhere and answers its questions. A handle does not keep the turn's reader
/// or orchestrator alive.
///
/// For a turn that runs on another host and is only read here through a
/// [`Journal`](super::Journal), the handle is inert: [`stop`](Self::stop) returns `false` and there
/// are no questions. Use [`Journal::stop`](super::Journal::stop) and
/// [`Journal::answer`](super::Journal::answer) instead, which reach the other host.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire::{Status, Turn};
///
/// let (sink, pending) = Turn::builder().channel();
/// sink.send("The answer begins").await?;
/// let turn = pending.commit().await?;
/// let handle = turn.handle();
/// assert!(handle.stop());
/// assert!(!handle.stop(), "the turn has already ended");
/// assert_eq!(turn.collect().await?.end.status, Status::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct TurnHandle {
    pub(super) id: TurnId,
    pub(super) queue: Arc<Queue>,
}

impl TurnHandle {
    /// Creates the inert handle of a turn that runs on another host: its queue has already ended.
    #[cfg(feature = "redis")]
    pub(super) fn elsewhere(id: TurnId) -> Self {
        let queue = Queue::new(QueueLimits::default(), false, Instant::now().into_std());
        queue.finish(End::default());
        Self {
            id,
            queue: Arc::new(queue),
        }
    }

    /// Returns the turn's ID.
    pub fn id(&self) -> TurnId {
        self.id
    }

    /// Returns the number and the size of the frames that wait for the reader.
    pub(super) fn backlog(&self) -> (usize, usize) {
        self.queue.backlog()
    }

    /// Stops the turn: each reader gets everything sent so far and then the wire's terminal for a
    /// stopped turn.
    ///
    /// Returns `false` and does nothing if the turn has already ended.
    pub fn stop(&self) -> bool {
        self.queue.request_end(End::stopped()).is_ok()
    }

    /// Ends the turn with a failure, for example because the server shuts down.
    ///
    /// Returns `false` and does nothing if the turn has already ended.
    pub fn fail(&self, failure: Failure) -> bool {
        self.queue.request_end(End::failed(failure)).is_ok()
    }
}
