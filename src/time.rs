//! Moments and durations as the wires write them. This module never reads a clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// A moment in UTC with microsecond precision, written as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    micros: i64,
}

impl Timestamp {
    /// Microseconds since 1970, up to the last moment that `jiff` supports: 9999-12-30.
    const RANGE: std::ops::RangeInclusive<i64> = 0..=253_402_207_199_999_999;

    /// Creates the moment `micros` microseconds after 1970, clamped to the years 1970 to 9999.
    pub fn from_micros(micros: i64) -> Self {
        Self {
            micros: micros.clamp(*Self::RANGE.start(), *Self::RANGE.end()),
        }
    }

    /// Returns the microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.micros
    }

    /// Parses RFC 3339. Returns `None` for any other text and for years before 1970.
    pub fn parse(text: &str) -> Option<Self> {
        let micros = text.parse::<jiff::Timestamp>().ok()?.as_microsecond();
        Self::RANGE.contains(&micros).then_some(Self { micros })
    }
}

impl From<SystemTime> for Timestamp {
    /// Maps every time before 1970 to 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 0, 3 or 6 digits, as few as possible: parsers in other languages accept exactly these.
        let precision = match self.micros % 1_000_000 {
            0 => 0,
            fraction if fraction % 1_000 == 0 => 3,
            _ => 6,
        };
        match jiff::Timestamp::from_microsecond(self.micros) {
            Ok(timestamp) => write!(f, "{timestamp:.precision$}"),
            Err(_) => f.write_str("1970-01-01T00:00:00Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// When a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The moment of the end.
    pub timestamp: Timestamp,
    /// Milliseconds since the turn began.
    pub elapsed_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_many_digits_as_they_need() {
        for (micros, text) in [
            (1_767_323_045_678_000, "2026-01-02T03:04:05.678Z"),
            (1_767_323_045_678_901, "2026-01-02T03:04:05.678901Z"),
            (1_767_323_045_000_000, "2026-01-02T03:04:05Z"),
            (1_767_323_045_500_000, "2026-01-02T03:04:05.500Z"),
            (-5, "1970-01-01T00:00:00Z"),
        ] {
            let timestamp = Timestamp::from_micros(micros);
            assert_eq!(timestamp.to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(timestamp));
        }
        assert!(Timestamp::from_micros(i64::MAX).to_string().starts_with("9999-"));
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2026-01-02"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
