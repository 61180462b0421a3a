//! The reading end of a turn, shared by streams, collected turns and the commit.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::admission::group::Membership;
use super::handle::TurnHandle;
use super::id::TurnId;
use super::observer::{Observation, Seen};
use super::queue::Queue;
use super::timeouts::{Timeouts, overdue};
use crate::failure::Failure;
use crate::frame::End;

/// How long after a time-out the reader waits for the producer to notice it. The producer is late
/// only if the orchestrator blocks its thread, and the reader notices only if the runtime has
/// another thread.
const GRACE: Duration = Duration::from_secs(1);

/// The reading end of a turn. Dropping it disconnects.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) id: TurnId,
    pub(crate) queue: Arc<Queue>,
    pub(super) started: Instant,
    pub(crate) timeouts: Timeouts,
    /// Held until the reader is dropped.
    pub(super) membership: Option<Membership>,
    pub(crate) span: tracing::Span,
    /// Set if the turn was rejected, so that the log does not report a disconnect.
    pub(super) rejected: Option<Box<Failure>>,
    pub(super) observation: Option<Arc<Observation>>,
}

impl Reader {
    pub(super) fn handle(&self) -> TurnHandle {
        TurnHandle {
            id: self.id,
            queue: Arc::clone(&self.queue),
        }
    }

    /// Records the wire.
    pub(super) fn name_wire(&self, name: &'static str) {
        if let Some(observation) = &self.observation {
            observation.name_wire(name);
        }
    }

    /// Checks the time limits on the reader's side, in case the orchestrator blocks the thread that
    /// should check them. Returns when to check again.
    pub(crate) fn check_overdue(&self) -> Instant {
        let now = Instant::now();
        match overdue(
            self.queue.activity(now.into_std()),
            &self.timeouts,
            now.into_std(),
        ) {
            Ok(next) => Instant::from_std(next) + GRACE,
            Err(failure) => {
                // The producer's task ends the turn within this time, unless it cannot run.
                let late = now.checked_sub(GRACE).map(Instant::into_std);
                let overdue_for_long = late
                    .is_some_and(|late| overdue(self.queue.activity(late), &self.timeouts, late).is_err());
                if overdue_for_long && !self.queue.is_decided() {
                    let mut end = End::failed(failure);
                    if let Some(membership) = &self.membership {
                        let activity = self.queue.activity(now.into_std());
                        end.metadata.queue_stats = membership.stats(activity.began);
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
        let end = self.queue.end_taken();
        let status = end.as_ref().map(|(status, _)| status);
        let figures = self.queue.figures();
        let since = |moment: Option<std::time::Instant>| {
            moment.map(|moment| moment.saturating_duration_since(self.started.into_std()))
        };
        let (first_event, first_text) = (since(figures.first_event), since(figures.first_text));
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        self.span.record("first_event_ms", ms(first_event));
        self.span.record("first_text_ms", ms(first_text));
        self.span.record("frames", figures.frames);
        self.span.record("bytes", figures.bytes);
        let outcome = match (&self.rejected, status) {
            (Some(failure), _) => failure.code(),
            (None, Some(status)) => status.outcome(),
            (None, None) => "disconnected",
        };
        if !self.span.is_disabled() {
            self.span.record("outcome", outcome);
            self.span
                .in_scope(|| tracing::info!(target: "ragwire", outcome, "turn finished"));
        }
        if let Some(observation) = &self.observation {
            observation.record(Seen {
                id: self.id,
                rejected: self.rejected.take().map(|failure| *failure),
                end,
                duration: self.started.elapsed(),
                first_event,
                first_text,
                waited: since(self.queue.activity(Instant::now().into_std()).began),
                frames: figures.frames,
                stalls: figures.stalls,
            });
        }
        self.queue.disconnect();
    }
}
