//! The time limits of a turn.

use std::time::{Duration, Instant};

use super::queue::Activity;
use crate::failure::{Failure, FailureKind};

/// The time limits of a turn. `None` turns a limit off.
///
/// ```
/// use std::time::Duration;
///
/// use ragwire::{Timeouts, Turn};
///
/// let timeouts = Timeouts::default().idle(Duration::from_secs(30)).keep_alive(None);
/// let turn = Turn::builder().timeouts(timeouts);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// How long the stream may be silent before the wire's filler is sent, so that proxies keep the
    /// connection open and a dead one is noticed.
    pub keep_alive: Option<Duration>,
    /// How long the orchestrator may be silent before the turn fails. Time on the waiting list and
    /// time spent waiting for a human ([`Sink::ask`](super::Sink::ask)) do not count.
    pub idle: Option<Duration>,
    /// How long the turn may run before it fails, counted from its admission.
    pub total: Option<Duration>,
    /// How long data may wait for the reader before the turn fails.
    ///
    /// The turn then ends and leaves its [group](super::TurnGroup). A [journaled](super::Journal)
    /// turn gives up only the reader: it counts as disconnected, [`Disconnect`](super::Disconnect)
    /// decides what happens to the turn, and if the reader continues, it gets the failure terminal
    /// and may resume. A body cannot cut the connection itself; put a write time-out around the
    /// socket for that, as the reference server does.
    pub write_stall: Option<Duration>,
}

impl Timeouts {
    /// The default keep-alive interval, 15 seconds: usual for SSE servers, and well below the 60
    /// seconds of common proxies.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// The default idle limit, 2 minutes: a large model may process a long prompt for a minute
    /// without output.
    pub const IDLE: Duration = Duration::from_secs(120);
    /// The default total limit, 10 minutes: some hosting platforms cut every response after 601
    /// seconds.
    pub const TOTAL: Duration = Duration::from_secs(600);
    /// The default write limit, 30 seconds: longer than a phone needs to change networks.
    pub const WRITE_STALL: Duration = Duration::from_secs(30);

    /// Sets the keep-alive interval.
    #[must_use]
    pub fn keep_alive(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.keep_alive = after.into();
        self
    }

    /// Sets how long the orchestrator may be silent.
    #[must_use]
    pub fn idle(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.idle = after.into();
        self
    }

    /// Sets how long the turn may run.
    #[must_use]
    pub fn total(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.total = after.into();
        self
    }

    /// Sets how long data may wait for the reader.
    #[must_use]
    pub fn write_stall(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.write_stall = after.into();
        self
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            keep_alive: Some(Self::KEEP_ALIVE),
            idle: Some(Self::IDLE),
            total: Some(Self::TOTAL),
            write_stall: Some(Self::WRITE_STALL),
        }
    }
}

const TIMEOUT_MESSAGE: &str = "The answer took too long. Please retry.";

pub(crate) fn total_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, TIMEOUT_MESSAGE)
}

fn idle_timeout() -> Failure {
    Failure::new(FailureKind::Timeout, TIMEOUT_MESSAGE)
}

pub(super) fn write_stalled() -> Failure {
    Failure::new(
        FailureKind::WriteStalled,
        "The connection was too slow for this answer. Please retry.",
    )
}

/// Returns the failure of a limit that is exceeded at `now`, or when to check again.
pub(super) fn overdue(activity: Activity, timeouts: &Timeouts, now: Instant) -> Result<Instant, Failure> {
    let mut next = now + Duration::from_secs(24 * 3600);
    let mut check = |since: Instant, after: Option<Duration>, failure: fn() -> Failure| {
        let Some(after) = after else { return Ok(()) };
        match since.checked_add(after) {
            Some(due) if due <= now => Err(failure()),
            Some(due) => {
                next = next.min(due);
                Ok(())
            }
            None => Ok(()),
        }
    };
    // The limits of a waiting turn start when it is admitted, at the earliest now.
    let (began, sent) = match activity.began {
        Some(began) => (began, activity.sent),
        None => (now, now),
    };
    check(began, timeouts.total, total_timeout)?;
    check(sent, timeouts.idle, idle_timeout)?;
    // A reader without waiting data can fall behind from now on.
    check(
        activity.behind_since.unwrap_or(now),
        timeouts.write_stall,
        write_stalled,
    )?;
    Ok(next)
}
