//! When a request is repeated: how often, after which pause, and what the server itself says about
//! that. It knows no connection.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::error::UpstreamError;

/// How often a request is made, and the pauses between attempts. Requests are repeated only before
/// the first text and only after transient errors: a failed attempt to connect, a broken
/// connection, 408, 429, 500, 502, 503 and 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// Number of attempts in total; 1 disables retries. Default: 3, since transient errors have
    /// mostly passed by then, and a person is waiting.
    pub attempts: u32,
    /// The pause after the first attempt. It doubles with each attempt, and half of it is random,
    /// so that clients that failed together do not retry together. Default: 500 ms, about the time
    /// of a process restart.
    pub pause: Duration,
    /// The longest pause, and the longest `Retry-After` that is respected: if the server asks for
    /// more, the request is not repeated. Default: 8 seconds; few users wait longer without a sign
    /// of progress.
    pub max_pause: Duration,
}

impl Retry {
    /// As [`pause_after`](Self::pause_after), with this random number.
    fn after(
        &self,
        attempt: u32,
        error: &UpstreamError,
        retry_after: Option<Duration>,
        chance: u32,
    ) -> Option<Duration> {
        if attempt + 1 >= self.attempts || !error.is_transient() {
            return None;
        }
        if let Some(requested) = retry_after {
            return (requested <= self.max_pause).then_some(requested);
        }
        let doubled = self.pause.saturating_mul(2_u32.saturating_pow(attempt));
        let half = doubled.min(self.max_pause) / 2;
        Some(half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX)))
    }

    /// Returns the pause after attempt number `attempt`, counted from 0, which failed with `error`;
    /// `None` if the request is not repeated. `retry_after` is how long the server asks to wait.
    /// Without a source of randomness the pause is the longest.
    pub fn pause_after(
        &self,
        attempt: u32,
        error: &UpstreamError,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let chance = getrandom::u32().unwrap_or(u32::MAX);
        self.after(attempt, error, retry_after, chance)
    }

    pub(super) fn pause(&self, attempt: u32, trouble: &Trouble) -> Option<Duration> {
        self.pause_after(attempt, &trouble.error, trouble.retry_after)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(8),
        }
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) error: UpstreamError,
    /// How long the server asks to wait.
    pub(super) retry_after: Option<Duration>,
}

impl From<UpstreamError> for Trouble {
    fn from(error: UpstreamError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

/// Returns how long the server of a response asks to wait.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    read_retry_after(value, Timestamp::now())
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date. A date in the past means at
/// once; `None` for anything else.
fn read_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit means forever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(error: UpstreamError, retry_after: Option<u64>) -> Trouble {
        Trouble {
            error,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn after(retry: &Retry, attempt: u32, trouble: &Trouble, chance: u32) -> Option<Duration> {
        retry.after(attempt, &trouble.error, trouble.retry_after, chance)
    }

    fn broken(retry_after: Option<u64>) -> Trouble {
        trouble(UpstreamError::Broken(None), retry_after)
    }

    #[test]
    fn pauses_double_up_to_their_bound_and_half_is_random() {
        let retry = Retry {
            attempts: 100,
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(10),
        };
        for (attempt, least, most) in [
            (0, 500, 1_000),
            (1, 1_000, 2_000),
            (2, 2_000, 4_000),
            (3, 4_000, 8_000),
            (4, 5_000, 10_000),
            (98, 5_000, 10_000),
        ] {
            let at = |chance| after(&retry, attempt, &broken(None), chance).unwrap();
            assert_eq!(
                (at(0), at(u32::MAX)),
                (Duration::from_millis(least), Duration::from_millis(most))
            );
            assert!((at(0)..=at(u32::MAX)).contains(&retry.pause(attempt, &broken(None)).unwrap()));
        }
        assert_eq!(after(&retry, 99, &broken(None), 0), None);
    }

    #[test]
    fn retry_after_is_respected_within_bounds() {
        let retry = Retry::default();
        for (asked, pause) in [
            (0, Some(0)),
            (3, Some(3)),
            (8, Some(8)),
            (9, None),
            (u64::MAX, None),
        ] {
            assert_eq!(
                after(&retry, 0, &broken(Some(asked)), 7),
                pause.map(Duration::from_secs)
            );
        }
        // A permanent error is not retried, whatever the server says.
        let ended = trouble(UpstreamError::Ended("content_filter".into()), Some(0));
        assert_eq!(after(&retry, 0, &ended, 7), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:30Z".parse().unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            (" 7 ", Some(7)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:29 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(
                read_retry_after(value, now),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
