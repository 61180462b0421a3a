//! What the producing host knows of the readers of its turn on other hosts.
//!
//! A host with readers sets a mark that expires after a lease and renews it each third of a lease. Each
//! renewal of the turn's own lease reports how long the mark remains.

use std::time::Duration;

use tokio::time::Instant;

/// Until when other hosts have readers of one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteReaders {
    /// The time of the last report.
    pub(super) asked_at: Instant,
    pub(super) until: Option<Instant>,
    /// Whether `until` is not the end of a mark but the time that a host gets to renew it.
    is_assumed: bool,
}

impl RemoteReaders {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            asked_at: now,
            until: None,
            is_assumed: false,
        }
    }

    /// Takes the report of an append that began at `begun` and whose reply came at `now`: how long the
    /// mark remains, if it exists.
    ///
    /// A mark that expired during the append could not be renewed while the server accepted nothing,
    /// so its host gets one more lease. Renewals of the turn's lease within that time do not extend it;
    /// otherwise a turn without readers would never be stopped. An append that lasts until after that
    /// time does, because the server may have been away again.
    pub(super) fn report(&mut self, begun: Instant, now: Instant, mark: Option<Duration>, lease: Duration) {
        let was_marked = !self.is_assumed && self.until.is_some_and(|until| until > begun);
        // A server that was away again, until after the assumed time.
        let was_away = self.until.is_some_and(|until| until > begun && until <= now);
        self.asked_at = now;
        if let Some(time) = mark {
            self.until = Some(now + time.min(lease));
            self.is_assumed = false;
        } else if was_marked || was_away {
            self.until = Some(now + lease);
            self.is_assumed = true;
        } else {
            self.until = self.until.filter(|until| *until > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(9);

    /// The reports of appends: each with its begin, its end and the remaining time of the mark in
    /// milliseconds, and until when there are readers after it.
    fn check(reports: &[(u64, u64, Option<u64>, Option<u64>)]) {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut readers = RemoteReaders::new(start);
        for &(begun, now, mark, expected) in reports {
            readers.report(at(begun), at(now), mark.map(Duration::from_millis), LEASE);
            let until = readers.until.map(|until| (until - start).as_millis() as u64);
            assert_eq!(
                (readers.asked_at, until),
                (at(now), expected),
                "{begun} of {reports:?}"
            );
        }
    }

    #[test]
    fn a_mark_counts_for_the_time_that_it_remains() {
        check(&[
            (0, 10, None, None),
            (100, 110, Some(9_000), Some(9_110)),
            (3_000, 3_010, Some(6_090), Some(9_100)),
            (12_000, 12_010, None, None),
        ]);
        // A clock that runs faster on the server.
        check(&[(0, 10, Some(20_000), Some(9_010))]);
    }

    #[test]
    fn a_mark_that_expires_during_an_append_counts_for_one_more_lease_and_not_for_ever() {
        check(&[
            (0, 10, Some(2_000), Some(2_010)),
            // The server was away.
            (1_000, 4_000, None, Some(13_000)),
            // The lease of the turn is renewed every three seconds.
            (7_000, 7_010, None, Some(13_000)),
            (10_000, 10_010, None, Some(13_000)),
            (13_000, 13_010, None, None),
        ]);
        // The reply took ten milliseconds, so the mark expired a little before it was expected to.
        check(&[
            (0, 10, Some(2_000), Some(2_010)),
            (2_004, 2_008, None, Some(11_008)),
            (5_000, 5_010, None, Some(11_008)),
            (11_008, 11_010, None, None),
        ]);
    }

    #[test]
    fn a_server_that_is_away_again_gives_one_more_lease() {
        check(&[
            (0, 10, Some(2_000), Some(2_010)),
            (1_000, 4_000, None, Some(13_000)),
            (12_000, 16_000, None, Some(25_000)),
            (17_000, 17_010, Some(8_000), Some(25_010)),
            (20_000, 30_000, None, Some(39_000)),
        ]);
    }
}
