//! Stamps (microseconds since 1970) and the clock that they come from.

#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The system's clock, which a restart does not set back to 0. Tests can move it forward.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    #[cfg(test)]
    ahead: Arc<AtomicU64>,
}

impl Clock {
    /// Returns the stamp of this moment.
    pub(super) fn now(&self) -> u64 {
        stamp(SystemTime::now()) + self.ahead()
    }

    /// Returns by how many microseconds a test has moved this clock forward; 0 outside of tests.
    #[cfg(not(test))]
    pub(super) fn ahead(&self) -> u64 {
        0
    }

    #[cfg(test)]
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}

/// Converts a time into microseconds since 1970.
pub(super) fn stamp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Converts a stamp back into a time.
pub(super) fn time(stamp: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_micros(stamp))
        .unwrap_or(UNIX_EPOCH)
}
