//! Numbers as events take them: cut off where they do not fit, so that none is wrong by wrapping around.

use std::time::Instant;

/// How many there are.
pub(crate) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// How long it is since then, in milliseconds.
pub(crate) fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
