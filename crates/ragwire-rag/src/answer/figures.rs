//! Numbers as events carry them. A number that does not fit saturates instead of wrapping around.

use std::time::Instant;

/// A number of items.
pub(crate) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// The milliseconds since an instant.
pub(crate) fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
