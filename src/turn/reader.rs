//! The reading end of a turn: what a stream, a collected turn and the commitment have in common.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::group::Membership;
use super::queue::Queue;
use super::timeouts::overdue;
use super::{Timeouts, TurnHandle, TurnId};
use crate::failure::Failure;
use crate::frame::End;

/// How much longer than its time-out a turn may take to notice it. Only an orchestrator that blocks its thread is late, and
/// only where the runtime has another thread to look at the clock.
const GRACE: Duration = Duration::from_secs(1);

/// The reading end of a turn. Dropping it disconnects.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) id: TurnId,
    pub(crate) queue: Arc<Queue>,
    pub(super) started: Instant,
    pub(crate) timeouts: Timeouts,
    /// Held until the reader is gone.
    pub(super) membership: Option<Membership>,
    pub(crate) span: tracing::Span,
    /// Set where the turn was rejected, so that nobody takes it for a lost connection.
    pub(super) rejected: Option<Failure>,
}

impl Reader {
    pub(super) fn handle(&self) -> TurnHandle {
        TurnHandle {
            id: self.id,
            queue: Arc::clone(&self.queue),
        }
    }

    /// The reader's own look at the clock, in case the orchestrator blocks the thread that should do it. Returns when to
    /// look again.
    pub(crate) fn check_overdue(&self) -> Instant {
        let now = Instant::now();
        match overdue(
            self.queue.activity(now.into_std()),
            &self.timeouts,
            now.into_std(),
        ) {
            Ok(next) => Instant::from_std(next) + GRACE,
            Err(failure) => {
                // The producer's task sees the same a moment earlier, unless it cannot run.
                let late = now.checked_sub(GRACE).map(Instant::into_std);
                let overdue_for_long = late
                    .is_some_and(|late| overdue(self.queue.activity(late), &self.timeouts, late).is_err());
                if overdue_for_long && !self.queue.is_decided() {
                    let mut end = End::failed(failure);
                    if let Some(place) = &self.membership {
                        let activity = self.queue.activity(now.into_std());
                        end.metadata.queue_stats = place.stats(activity.began);
                    }
                    self.queue.finish(end);
                }
                now + GRACE
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let told = self.queue.end_taken();
        let figures = self.queue.figures();
        let since = |moment: Option<std::time::Instant>| {
            moment.map(|moment| {
                moment
                    .saturating_duration_since(self.started.into_std())
                    .as_secs_f64()
                    * 1e3
            })
        };
        self.span.record("first_event_ms", since(figures.first_event));
        self.span.record("first_text_ms", since(figures.first_text));
        self.span.record("frames", figures.frames);
        self.span.record("bytes", figures.bytes);
        let outcome = match (&self.rejected, &told) {
            (Some(failure), _) => failure.code(),
            (None, Some(status)) => status.outcome(),
            (None, None) => "disconnected",
        };
        if !self.span.is_disabled() {
            self.span.record("outcome", outcome);
            self.span
                .in_scope(|| tracing::info!(target: "ragwire", outcome, "turn over"));
        }
        self.queue.disconnect();
    }
}
