//! Runs the orchestrator in a task of its own, and makes one end of whatever becomes of it; starts the recorder of a journaled turn.

use std::error::Error;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::Instrument;

use super::builder::{Ending, Hook};
use super::group::Membership;
use super::queue::Queue;
use super::timeouts::overdue;
use super::{Timeouts, TurnId, waiting};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::metadata::Metadata;
use crate::time::{Timestamp, Timing};

/// Any error of an orchestrator. Where it is a [`Failure`], its words reach the reader; anything else is only logged.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Longest time that the application's hook before the end may take; the reader waits for it.
const MAX_HOOK_TIME: Duration = Duration::from_secs(10);

/// What the task needs besides the orchestrator.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) id: TurnId,
    pub(super) queue: Arc<Queue>,
    pub(super) started: Instant,
    pub(super) timeouts: Timeouts,
    pub(super) mode: Option<String>,
    pub(super) hook: Option<Hook>,
    /// Held until the orchestrator is gone.
    pub(super) membership: Option<Membership>,
}

impl Producer {
    /// Runs `orchestrator` to one end. It is dropped before the end is published, so the reader's decision comes after it.
    pub(super) fn spawn<F>(self, orchestrator: F, span: tracing::Span)
    where
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that spawns; `Unfinished` accounts for the task"
        )]
        tokio::spawn(self.run(orchestrator).instrument(span));
    }

    async fn run<F>(mut self, orchestrator: F)
    where
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        let mut unfinished = Unfinished {
            queue: Arc::clone(&self.queue),
            mode: self.mode,
            started: self.started,
            membership: self.membership,
        };
        // On the heap, so that it can be dropped under `catch_unwind`, before anybody is told of the end.
        let mut orchestrator = Box::pin(orchestrator);
        let mut waited = Ok(());
        if let Some(place) = unfinished.membership.as_ref().filter(|place| place.waits()) {
            waited = waiting::wait(place, &self.queue, &self.timeouts).await;
        }
        let mut end = match waited {
            Ok(()) => drive(orchestrator.as_mut(), &self.queue, &self.timeouts).await,
            Err(end) => end,
        };
        if catch_unwind(AssertUnwindSafe(|| drop(orchestrator))).is_err() {
            tracing::error!("orchestrator panicked while it was dropped");
        }
        unfinished.complete(&mut end);
        if let Some(hook) = self.hook.take() {
            self.queue.decide();
            let ending = Ending {
                id: self.id,
                end: end.clone(),
                text: self.queue.take_transcript(),
            };
            if tokio::time::timeout(MAX_HOOK_TIME, hook.call(ending))
                .await
                .is_err()
            {
                tracing::warn!("the hook before the end took too long");
            }
        }
        // Nothing is left to run: whoever has read the end finds the place free.
        let place = unfinished.membership.take();
        let readers = place.as_ref().map(Membership::downgrade);
        drop(place);
        self.queue.finish(end);
        // A reader that takes nothing would hold the place for ever: of HTTP/2 one may leave a stream and keep the connection.
        if let (Some(readers), Some(after)) = (readers, self.timeouts.write_stall)
            && told(&self.queue, after).await.is_err()
            && let Some(place) = readers.upgrade()
        {
            place.leave();
        }
    }
}

/// Runs the recorder of a journaled turn in a task of its own: an orchestrator that blocks its thread must not hold up the readers.
pub(super) fn spawn_recorder(recorder: impl Future<Output = ()> + Send + 'static, span: tracing::Span) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that spawns; the recorder accounts for the task"
    )]
    tokio::spawn(recorder.instrument(span));
}

/// Polls the orchestrator, the cancellation and the clock until one of them makes an end.
async fn drive<F>(mut orchestrator: Pin<&mut F>, queue: &Queue, timeouts: &Timeouts) -> End
where
    F: Future<Output = Result<Metadata, BoxError>>,
{
    let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
    poll_fn(|cx| {
        if let Poll::Ready(end) = queue.poll_cancelled(cx) {
            return Poll::Ready(end);
        }
        match catch_unwind(AssertUnwindSafe(|| orchestrator.as_mut().poll(cx))) {
            Ok(Poll::Ready(returned)) => return Poll::Ready(end_of(returned)),
            Ok(Poll::Pending) => {}
            Err(_) => {
                tracing::error!("orchestrator panicked");
                return Poll::Ready(End::failed(Failure::default()));
            }
        }
        // Sending does not touch the timer: when it fires it looks how much time is really left.
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now().into_std();
            match overdue(queue.activity(now), timeouts, now) {
                Ok(next) => timer.as_mut().reset(Instant::from_std(next)),
                Err(failure) => {
                    tracing::warn!(code = failure.code(), "turn ran out of time");
                    return Poll::Ready(End::failed(failure));
                }
            }
        }
        Poll::Pending
    })
    .await
}

/// The reader has taken nothing for too long.
struct Stalled;

/// Waits until the reader has the end of the turn, or is gone.
async fn told(queue: &Queue, after: Duration) -> Result<(), Stalled> {
    let ended = Instant::now();
    let mut timer = pin!(tokio::time::sleep_until(ended));
    poll_fn(|cx| {
        if queue.poll_told(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            // A wire may be chosen right now.
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
        Err(error) => match error.downcast::<Failure>() {
            Ok(failure) => End::failed(*failure),
            Err(error) => {
                // The one place where the source error is said: in the log of whoever runs this.
                tracing::error!(error = %Chain(&*error), "orchestrator failed");
                End::failed(Failure::default())
            }
        },
    }
}

/// Prints an error with all its sources.
struct Chain<'a>(&'a (dyn Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// The runtime may drop the task at any await (shutdown), and the hook may panic: the reader still gets its end.
struct Unfinished {
    queue: Arc<Queue>,
    mode: Option<String>,
    started: Instant,
    /// Held until the orchestrator is gone.
    membership: Option<Membership>,
}

impl Unfinished {
    /// Adds what the orchestrator does not know, or did not say.
    fn complete(&self, end: &mut End) {
        if end.metadata.mode.is_none() {
            end.metadata.mode.clone_from(&self.mode);
        }
        if let Some(place) = &self.membership
            && end.metadata.queue_stats.is_none()
        {
            let activity = self.queue.activity(Instant::now().into_std());
            end.metadata.queue_stats = place.stats(activity.began);
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
    /// One word for logs: how the turn ended.
    pub(super) fn outcome(&self) -> &str {
        match self {
            Self::Failed(failure) => failure.code(),
            status => status.as_str(),
        }
    }
}
