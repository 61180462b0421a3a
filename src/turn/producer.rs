//! The producer's task: it runs the orchestrator and turns whatever happens to it into one end.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::admission::group::Membership;
use super::admission::wait;
use super::ending::{BoxError, Chain, Ending, Hook};
use super::id::TurnId;
use super::queue::Queue;
use super::relay::RelayError;
use super::spawn::spawn;
use super::timeouts::{Timeouts, overdue};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::metadata::Metadata;
use crate::time::{Timestamp, Timing};

/// The time limit of the application's hook before the end. The reader waits for the hook.
const MAX_HOOK_TIME: Duration = Duration::from_secs(10);

/// Everything that the task needs besides the orchestrator.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) id: TurnId,
    pub(super) queue: Arc<Queue>,
    pub(super) started: Instant,
    pub(super) timeouts: Timeouts,
    /// Whether the first text is held, which needs a clock.
    pub(super) delays_text: bool,
    pub(super) mode: Option<String>,
    pub(super) hook: Option<Hook>,
    /// Held until the orchestrator was dropped.
    pub(super) membership: Option<Membership>,
}

impl Producer {
    /// Runs `orchestrator` to its end. The orchestrator is dropped before the end is published, so
    /// that none of its code runs after the reader has the end.
    pub(super) fn spawn<F>(self, orchestrator: F, span: tracing::Span)
    where
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        // On the heap before it becomes a part of the task, which would otherwise have room for it
        // twice. There it can be dropped under `catch_unwind` before the end is published.
        // `Unfinished` accounts for the task.
        spawn(self.run(Box::pin(orchestrator)), span);
    }

    async fn run<F>(mut self, mut orchestrator: Pin<Box<F>>)
    where
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        let mut unfinished = Unfinished {
            queue: Arc::clone(&self.queue),
            mode: self.mode,
            started: self.started,
            membership: self.membership,
        };
        let membership = unfinished.membership.as_ref();
        let refused = match membership.filter(|membership| membership.waits()) {
            // On the heap, because few turns wait.
            Some(membership) => {
                let admitted = Box::pin(wait(membership, &self.queue, &self.timeouts)).await;
                admitted.err().map(Box::new)
            }
            None => None,
        };
        // On the heap, because an end is large and this task is held by each open turn.
        let mut end = match refused {
            Some(end) => end,
            None => {
                let timeouts = &self.timeouts;
                Box::new(drive(orchestrator.as_mut(), &self.queue, timeouts, self.delays_text).await)
            }
        };
        if catch_unwind(AssertUnwindSafe(|| drop(orchestrator))).is_err() {
            tracing::error!("orchestrator panicked while it was dropped");
        }
        // A stop while the orchestrator was polled for the last time was promised to whoever asked for it.
        end = self.queue.settle(end);
        unfinished.complete(&mut end);
        if let Some(hook) = self.hook.take() {
            self.queue.decide();
            let ending = Ending {
                id: self.id,
                end: (*end).clone(),
                text: self.queue.take_transcript(),
            };
            if tokio::time::timeout(MAX_HOOK_TIME, hook.call(ending))
                .await
                .is_err()
            {
                tracing::warn!("the hook before the end exceeded its time limit");
            }
        }
        // Released before the end is published, so that a client that has read the end finds room
        // in the group.
        let membership = unfinished.membership.take();
        let readers = membership.as_ref().map(Membership::downgrade);
        drop(membership);
        self.queue.finish(*end);
        // A reader that takes no data would be a member forever: an HTTP/2 client can abandon a
        // stream and keep the connection.
        if let (Some(readers), Some(after)) = (readers, self.timeouts.write_stall)
            && Box::pin(end_taken(&self.queue, after)).await.is_err()
            && let Some(membership) = readers.upgrade()
        {
            membership.leave();
        }
    }
}

/// Polls the orchestrator, the cancellation and the clock until one of them ends the turn.
async fn drive<F>(mut orchestrator: Pin<&mut F>, queue: &Queue, timeouts: &Timeouts, delays_text: bool) -> End
where
    F: Future<Output = Result<Metadata, BoxError>>,
{
    let now = Instant::now().into_std();
    // A time that has passed would have the runtime fire at once.
    let first = overdue(queue.activity(now), timeouts, now).unwrap_or(now);
    let mut timer = pin!(tokio::time::sleep_until(Instant::from_std(first)));
    poll_fn(|cx| {
        if let Poll::Ready(end) = queue.poll_cancelled(cx) {
            return Poll::Ready(end);
        }
        match catch_unwind(AssertUnwindSafe(|| orchestrator.as_mut().poll(cx))) {
            Ok(Poll::Ready(returned)) => {
                // A stop or a disconnect during this poll is why sending failed, and with it the orchestrator.
                if returned.is_err()
                    && let Poll::Ready(end) = queue.poll_cancelled(cx)
                {
                    return Poll::Ready(end);
                }
                return Poll::Ready(end_of(returned));
            }
            Ok(Poll::Pending) => {}
            Err(_) => {
                tracing::error!("orchestrator panicked");
                return Poll::Ready(End::failed(Failure::default()));
            }
        }
        if delays_text
            && let Some(due) = queue.text_due(Instant::now().into_std())
            && due < timer.deadline().into_std()
        {
            timer.as_mut().reset(Instant::from_std(due));
        }
        // Sending does not reset the timer. When it fires, the remaining time is computed.
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now().into_std();
            match overdue(queue.activity(now), timeouts, now) {
                Ok(next) => {
                    let due = delays_text.then(|| queue.text_due(now)).flatten();
                    let next = due.map_or(next, |due| due.min(next));
                    timer.as_mut().reset(Instant::from_std(next));
                }
                Err(failure) => {
                    tracing::warn!(code = failure.code(), "turn exceeded a time limit");
                    return Poll::Ready(End::failed(failure));
                }
            }
        }
        Poll::Pending
    })
    .await
}

/// The reader has taken no data for too long.
struct Stalled;

/// Waits until the reader has the end of the turn or has disconnected.
async fn end_taken(queue: &Queue, after: Duration) -> Result<(), Stalled> {
    let ended = Instant::now();
    let since = queue.untaken_since(ended.into_std());
    let first = since.map_or(ended, Instant::from_std).checked_add(after);
    let mut timer = pin!(tokio::time::sleep_until(first.unwrap_or(ended)));
    poll_fn(|cx| {
        if queue.poll_end_taken(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            // Without a wire the reader is not late: it may choose one now.
            let since = queue
                .untaken_since(ended.into_std())
                .map_or(now, Instant::from_std);
            match since.checked_add(after) {
                Some(due) if due <= now => return Poll::Ready(Err(Stalled)),
                Some(due) => timer.as_mut().reset(due),
                None => return Poll::Pending,
            }
        }
        Poll::Pending
    })
    .await
}

fn timing(started: Instant) -> Timing {
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Timing {
        timestamp: Timestamp::from(SystemTime::now()),
        elapsed_ms,
    }
}

fn end_of(returned: Result<Metadata, BoxError>) -> End {
    match returned {
        Ok(metadata) => End::completed(metadata),
        Err(error) => end_of_error(error).unwrap_or_else(|error| {
            // The only place that reports the source error: the server's log.
            tracing::error!(error = %Chain(&*error), "orchestrator failed");
            End::failed(Failure::default())
        }),
    }
}

/// Returns the end that an error asks for, or the error if it asks for none.
fn end_of_error(error: BoxError) -> Result<End, BoxError> {
    let error = match error.downcast::<Failure>() {
        Ok(failure) => return Ok(End::failed(*failure)),
        Err(error) => error,
    };
    Ok(error.downcast::<RelayError>()?.into_end()?)
}

/// Publishes an end when the task is dropped: the runtime may shut down at any `await`, and the
/// hook may panic.
struct Unfinished {
    queue: Arc<Queue>,
    mode: Option<String>,
    started: Instant,
    /// Held until the orchestrator was dropped.
    membership: Option<Membership>,
}

impl Unfinished {
    /// Adds what the orchestrator does not know or did not set.
    fn complete(&self, end: &mut End) {
        if end.metadata.mode.is_none() {
            end.metadata.mode.clone_from(&self.mode);
        }
        if let Some(membership) = &self.membership
            && end.metadata.queue_stats.is_none()
        {
            let activity = self.queue.activity(Instant::now().into_std());
            end.metadata.queue_stats = membership.stats(activity.began);
        }
        end.timing = Some(timing(self.started));
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut end = End::failed(Failure::default());
        self.complete(&mut end);
        self.queue.finish(end);
    }
}

impl Status {
    /// Returns how the turn ended as one word for logs.
    pub(super) fn outcome(&self) -> &str {
        match self {
            Self::Failed(failure) => failure.code(),
            Self::Completed | Self::Stopped => self.as_str(),
        }
    }
}
