//! How a turn waits for its place: it tells its reader where it stands, and gives up where nobody waits for it any more.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Timeouts;
use super::group::{Membership, NOTICED};
use super::line::Spot;
use super::queue::Queue;
use super::timeouts::overdue;
use crate::event::Queued;
use crate::failure::{Failure, FailureKind};
use crate::frame::End;
use crate::time::Timestamp;

/// Shortest time between two `queued` events of a turn: as often as a reader follows a number. Of what changes meanwhile, the last
/// is told then.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Waits until the turn has its place.
///
/// # Errors
///
/// The end of a turn that gets none: it was stopped, its reader left, or it took too long. It does not stand in the line any more.
pub(super) async fn wait(place: &Membership, queue: &Queue, timeouts: &Timeouts) -> Result<(), End> {
    let waited = in_line(place, queue, timeouts).await;
    match &waited {
        Ok(()) => queue.begin(Instant::now().into_std()),
        Err(_) => place.give_up(),
    }
    waited
}

async fn in_line(place: &Membership, queue: &Queue, timeouts: &Timeouts) -> Result<(), End> {
    let came = place.came();
    let due = came.checked_add(place.queue_timeout());
    let (mut told, mut tell_at) = (None, came + NOTICED);
    let mut timer = pin!(tokio::time::sleep_until(tell_at));
    poll_fn(|cx| {
        if let Poll::Ready(end) = queue.poll_cancelled(cx) {
            return Poll::Ready(Err(end));
        }
        loop {
            let Some(spot) = place.look(cx) else {
                return Poll::Ready(Ok(()));
            };
            let now = Instant::now();
            if due.is_some_and(|due| due <= now) {
                tracing::warn!("turn waited too long for its place");
                return Poll::Ready(Err(End::failed(timed_out(place.queue_timeout()))));
            }
            if told != Some(spot) && tell_at <= now {
                // A reader that has no room is told the next time, as it then stands.
                if tell(queue, spot, now - came) {
                    told = Some(spot);
                }
                tell_at = now + TELL_EVERY;
            }
            let now = now.into_std();
            let stalled = overdue(queue.activity(now), timeouts, now);
            let mut next = match stalled {
                Ok(next) => Instant::from_std(next),
                Err(failure) => return Poll::Ready(Err(End::failed(failure))),
            };
            if told != Some(spot) {
                next = next.min(tell_at);
            }
            timer.as_mut().reset(due.map_or(next, |due| next.min(due)));
            ready!(timer.as_mut().poll(cx));
        }
    })
    .await
}

/// True where the reader has been told.
fn tell(queue: &Queue, spot: Spot, waited: Duration) -> bool {
    let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    let queued = Queued::new(spot.position, spot.ahead, waited);
    let now = || Instant::now().into_std();
    queue
        .push_waiting(&queued.into(), Timestamp::from(SystemTime::now()), now)
        .is_ok()
}

/// In the words of the session chat's contract, with the time as it is. A code of its own, since nothing was tried: the server is
/// full (503), it did not take too long to answer (504).
fn timed_out(after: Duration) -> Failure {
    let message = format!(
        "Timed out after {} waiting for another request to finish.",
        in_words(after)
    );
    Failure::new(FailureKind::QueueTimeout, message)
}

/// In the largest unit that it is a whole number of, hours left out: half an hour and two hours are minutes.
fn in_words(time: Duration) -> String {
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
    fn times_in_words() {
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
            assert_eq!(in_words(Duration::from_millis(millis)), words);
        }
    }
}
