//! The limits of a turn in time, and what is overdue.

use std::time::{Duration, Instant};

use super::queue::Activity;
use crate::failure::{Failure, FailureKind};

/// The limits of a turn in time. `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Silence after which the wire's filler is sent, so that proxies keep the connection and a dead one is noticed.
    pub keep_alive: Option<Duration>,
    /// Silence of the orchestrator after which the turn fails. Waiting for a place in a group does not count, and while it waits for a
    /// human ([`Sink::ask`](super::Sink::ask)) it is not silent.
    pub idle: Option<Duration>,
    /// Length of the turn after which it fails, from the moment at which it has its place.
    pub total: Option<Duration>,
    /// How long data may be ready without the reader taking it, before the turn fails.
    ///
    /// The orchestrator is freed then, and the turn's place in its [group](super::TurnGroup). Of a [journaled](super::Journal) turn it is the
    /// reader that is given up: it counts as gone, [`Disconnect`](super::Disconnect) says what becomes of the turn, and should it read on it
    /// gets the failure completion, and may come back for the rest. To cut the connection itself, which a body cannot do, put a write time-out around the
    /// socket as the reference server does.
    pub write_stall: Option<Duration>,
}

impl Timeouts {
    /// 15 seconds: what SSE servers use, below every common proxy's 60.
    pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
    /// 2 minutes: a large model may read a long prompt for a minute without a word.
    pub const IDLE: Duration = Duration::from_secs(120);
    /// 10 minutes: some hosts cut a response after 601 seconds, whatever it sends (`wires.md` d.9).
    pub const TOTAL: Duration = Duration::from_secs(600);
    /// 30 seconds: longer than a phone takes from one network to the next.
    pub const WRITE_STALL: Duration = Duration::from_secs(30);

    /// Sets the keep-alive interval.
    #[must_use]
    pub fn keep_alive(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.keep_alive = after.into();
        self
    }

    /// Sets the longest silence of the orchestrator.
    #[must_use]
    pub fn idle(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.idle = after.into();
        self
    }

    /// Sets the longest turn.
    #[must_use]
    pub fn total(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.total = after.into();
        self
    }

    /// Sets how long the reader may leave data untaken.
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

/// What is overdue at `now`, or when to look again.
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
    // A turn that waits for its place may get it right now.
    let (began, sent) = match activity.began {
        Some(began) => (began, activity.sent),
        None => (now, now),
    };
    check(began, timeouts.total, total_timeout)?;
    check(sent, timeouts.idle, idle_timeout)?;
    // A reader that is not behind may fall behind right now.
    check(
        activity.behind_since.unwrap_or(now),
        timeouts.write_stall,
        write_stalled,
    )?;
    Ok(next)
}
