//! The wait of a turn on the waiting list: it reports its position to the reader and ends when it
//! is stopped, abandoned or out of time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::group::{MIN_WAIT, Membership};
use super::members::Position;
use crate::event::Queued;
use crate::failure::{Failure, FailureKind};
use crate::frame::End;
use crate::time::Timestamp;
use crate::turn::queue::Queue;
use crate::turn::timeouts::{Timeouts, overdue};

/// The minimum time between two `queued` events of a turn: faster changes cannot be read. The
/// reader gets the last change of each interval.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the turn is admitted.
///
/// # Errors
///
/// Returns the end of a turn that is not admitted: it was stopped, its reader disconnected, or it
/// waited too long. The turn is then no longer on the waiting list.
pub(in crate::turn) async fn wait(
    membership: &Membership,
    queue: &Queue,
    timeouts: &Timeouts,
) -> Result<(), End> {
    let admitted = wait_for_room(membership, queue, timeouts).await;
    match &admitted {
        Ok(()) => queue.begin(Instant::now().into_std()),
        Err(_) => membership.give_up(),
    }
    admitted
}

async fn wait_for_room(membership: &Membership, queue: &Queue, timeouts: &Timeouts) -> Result<(), End> {
    let joined_at = membership.joined_at();
    let due = joined_at.checked_add(membership.queue_timeout());
    let (mut reported, mut report_at) = (None, joined_at + MIN_WAIT);
    let mut timer = pin!(tokio::time::sleep_until(report_at));
    poll_fn(|cx| {
        if let Poll::Ready(end) = queue.poll_cancelled(cx) {
            return Poll::Ready(Err(end));
        }
        loop {
            let Some(position) = membership.poll_position(cx) else {
                return Poll::Ready(Ok(()));
            };
            let now = Instant::now();
            if due.is_some_and(|due| due <= now) {
                tracing::warn!("turn exceeded the queue timeout");
                return Poll::Ready(Err(End::failed(timed_out(membership.queue_timeout()))));
            }
            if reported != Some(position) && report_at <= now {
                // If the queue is full, the next report has the position at that time.
                if report(queue, position, now - joined_at) {
                    reported = Some(position);
                }
                report_at = now + REPORT_INTERVAL;
            }
            let now = now.into_std();
            let stalled = overdue(queue.activity(now), timeouts, now);
            let mut next = match stalled {
                Ok(next) => Instant::from_std(next),
                Err(failure) => return Poll::Ready(Err(End::failed(failure))),
            };
            if reported != Some(position) {
                next = next.min(report_at);
            }
            timer.as_mut().reset(due.map_or(next, |due| next.min(due)));
            ready!(timer.as_mut().poll(cx));
        }
    })
    .await
}

/// Reports the position to the reader. Returns `false` if the queue is full.
fn report(queue: &Queue, position: Position, waited: Duration) -> bool {
    let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    let queued = Queued::new(position.index, position.ahead, waited);
    let now = || Instant::now().into_std();
    queue
        .push_waiting(&mut queued.into(), Timestamp::from(SystemTime::now()), now)
        .is_ok()
}

/// The failure of a turn that waited too long, with the message of the session-chat contract. It
/// has its own kind because nothing was tried: the server is full (503); it did not take too long
/// to answer (504).
fn timed_out(after: Duration) -> Failure {
    let message = format!(
        "Timed out after {} waiting for another request to finish.",
        format_time(after)
    );
    Failure::new(FailureKind::QueueTimeout, message)
}

/// Formats a time in the largest unit that divides it, up to minutes: two hours are 120 minutes.
fn format_time(time: Duration) -> String {
    let millis = time.as_millis();
    let (number, unit) = match millis {
        0 => (0, "second"),
        _ if millis.is_multiple_of(60_000) => (millis / 60_000, "minute"),
        _ if millis.is_multiple_of(1_000) => (millis / 1_000, "second"),
        _ => (millis, "millisecond"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        for (millis, words) in [
            (0, "0 seconds"),
            (1, "1 millisecond"),
            (1_500, "1500 milliseconds"),
            (1_000, "1 second"),
            (90_000, "90 seconds"),
            (60_000, "1 minute"),
            (30 * 60_000, "30 minutes"),
            (120 * 60_000, "120 minutes"),
        ] {
            assert_eq!(format_time(Duration::from_millis(millis)), words);
        }
    }
}
