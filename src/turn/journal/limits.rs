//! How much a journal keeps, and what becomes of a turn that nobody reads.

use std::time::Duration;

use tokio::time::Instant;

/// How much a journal keeps, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalLimits {
    /// Most bytes of one turn, as JSON. When there are more, its first frames are dropped; the newest one always stays. What they came to
    /// is kept within the same bytes, as long as it takes no more than a quarter of them (and 1 MiB): see [`Snapshot`](crate::Snapshot).
    pub max_turn_bytes: usize,
    /// Most turns, running and over. A new one takes the place of the one that ended first; where all are running it is refused.
    pub max_turns: usize,
    /// Most bytes of all turns. When there are more, turns that are over are dropped, the oldest first; then the turn that grows drops
    /// its first frames.
    pub max_bytes: usize,
    /// How long a turn is kept after its end; also for a reader that is still behind then.
    pub keep: Duration,
}

impl JournalLimits {
    /// 1 MiB: a long answer takes 30 KiB, a turn with dozens of large tool results still fits.
    pub const MAX_TURN_BYTES: usize = 1024 * 1024;
    /// 4,096 turns: what a server of two cores answers within the five minutes below.
    pub const MAX_TURNS: usize = 4096;
    /// 64 MiB: about 2,000 turns of the usual size, on the smallest host that one rents.
    pub const MAX_BYTES: usize = 64 * 1024 * 1024;
    /// 5 minutes: a page is loaded again, a phone leaves the tunnel. What has to last longer belongs into a session.
    pub const KEEP: Duration = Duration::from_secs(300);

    /// Sets how many bytes of one turn are kept.
    #[must_use]
    pub fn max_turn_bytes(mut self, bytes: usize) -> Self {
        self.max_turn_bytes = bytes;
        self
    }

    /// Sets how many turns are kept.
    #[must_use]
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.max_turns = turns;
        self
    }

    /// Sets how many bytes of all turns are kept.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how long a turn is kept after its end.
    #[must_use]
    pub fn keep(mut self, after: Duration) -> Self {
        self.keep = after;
        self
    }
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            max_turn_bytes: Self::MAX_TURN_BYTES,
            max_turns: Self::MAX_TURNS,
            max_bytes: Self::MAX_BYTES,
            keep: Self::KEEP,
        }
    }
}

/// What becomes of a journaled turn when its last reader goes away. Disconnecting is not stopping: for that there is
/// [`Journal::stop`](super::Journal::stop). The turn that is stopped so has its end in the journal, and its sinks say that it has ended.
///
/// While the turn waits for a human ([`Sink::ask`](crate::Sink::ask)) it goes on in any case, as long as the question waits: the reader
/// went away to think, and on some wires its stream ends at the question. A turn that lost its readers meanwhile has at least
/// [`AFTER_QUESTION`](Self::AFTER_QUESTION) from the answer on, or from when the question is over.
///
/// A turn without a journal is cancelled in any case, since nobody could ever read what it would send.
///
/// # When a reader is gone
///
/// With hyper 1.12; `tests/disconnects` waits for each of these and times none:
///
/// | the client | HTTP/1 | HTTP/2 | WebSocket |
/// |---|---|---|---|
/// | closes or resets its socket | at once | at once | at once |
/// | closes only its own direction, and would read on | at once, unless hyper's `half_close` is set | at once | at once |
/// | sends a byte too many and closes | by the second [keep-alive](crate::turn::Timeouts::keep_alive); before the response has begun not at all | at once | at once |
/// | is cut off without a word | when it has to take more than the buffers on the way hold | by hyper's `keep_alive_interval` | by the gateway's ping |
/// | takes nothing, or next to it | by the server's time-out for writing | after [`Timeouts::write_stall`](crate::turn::Timeouts::write_stall) | by the gateway's time-outs |
///
/// So a client of HTTP/1 that was cut off while the turn is silent is a reader until the system gives the connection up; the turn's own
/// time-outs bound that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// How long it goes on without a reader; `None` to its end.
    after: Option<Duration>,
}

impl Disconnect {
    /// 30 seconds: whoever answered comes back to read, in a request of its own.
    pub const AFTER_QUESTION: Duration = Duration::from_secs(30);

    /// It is stopped at once. The default.
    pub const fn cancel() -> Self {
        Self::grace(Duration::ZERO)
    }

    /// It goes on for this time, and is stopped then unless a reader has come.
    pub const fn grace(after: Duration) -> Self {
        Self { after: Some(after) }
    }

    /// It goes on to its end, or to its time-outs.
    pub const fn go_on() -> Self {
        Self { after: None }
    }

    /// When a turn is stopped that has been alone since then, and asked nothing any more since `asked_until`.
    pub(super) fn due(self, alone_since: Option<Instant>, asked_until: Option<Instant>) -> Option<Instant> {
        let (alone_since, after) = (alone_since?, self.after?);
        match asked_until.filter(|until| *until >= alone_since) {
            Some(until) => until.checked_add(after.max(Self::AFTER_QUESTION)),
            None => alone_since.checked_add(after),
        }
    }
}

impl Default for Disconnect {
    fn default() -> Self {
        Self::cancel()
    }
}
