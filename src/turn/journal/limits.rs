//! The limits of a journal, and its policy for a turn without readers.

use std::time::Duration;

use tokio::time::Instant;

/// The limits of a journal: how much it stores, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalLimits {
    /// The maximum number of bytes that one turn takes in memory, estimated. Above it, the first
    /// frames are dropped; the newest one always stays. A [`Snapshot`](crate::Snapshot) of the dropped frames counts as
    /// well and is kept as long as it takes at most a quarter of these bytes and at most 1 MiB.
    pub max_turn_bytes: usize,
    /// The maximum number of turns, running and finished. A new turn evicts the one that ended
    /// first; if all are running, it is rejected.
    pub max_turns: usize,
    /// The maximum number of bytes that all turns take in memory, estimated. Above it, turns that have
    /// ended and have no reader are stored as JSON, in about a quarter of the space; after that, finished turns are evicted, the oldest
    /// first; after that, the turn that grows drops its first frames.
    pub max_bytes: usize,
    /// The time for which a turn is stored after its end, also for readers that are still behind.
    pub keep: Duration,
}

impl JournalLimits {
    /// The default [`max_turn_bytes`](Self::max_turn_bytes), 1 MiB: a long answer takes 30 KiB, and
    /// a turn with dozens of large tool results still fits.
    pub const MAX_TURN_BYTES: usize = 1024 * 1024;
    /// The default [`max_turns`](Self::max_turns), 4,096: what a server with two cores answers
    /// within the default [`keep`](Self::keep).
    pub const MAX_TURNS: usize = 4096;
    /// The default [`max_bytes`](Self::max_bytes), 64 MiB: about 5,000 typical turns that have
    /// ended, on the smallest host that one can rent.
    pub const MAX_BYTES: usize = 64 * 1024 * 1024;
    /// The default [`keep`](Self::keep), 5 minutes: enough to reload a page, or for a phone to
    /// leave a tunnel. Store what has to last longer in a session.
    pub const KEEP: Duration = Duration::from_secs(300);

    /// Sets how many bytes of one turn are stored.
    #[must_use]
    pub fn max_turn_bytes(mut self, bytes: usize) -> Self {
        self.max_turn_bytes = bytes;
        self
    }

    /// Sets how many turns are stored.
    #[must_use]
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.max_turns = turns;
        self
    }

    /// Sets how many bytes of all turns are stored.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how long a turn is stored after its end.
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

/// The policy for a journaled turn whose last reader disconnects. To disconnect is not to stop:
/// [`Journal::stop`](super::Journal::stop) does that. A turn that is stopped for lack of readers
/// has an end in the journal, and its sinks report that it has ended.
///
/// While the turn waits for a human ([`Sink::ask`](crate::Sink::ask)), it continues in any case
/// until the question is answered or times out: the user needs time to think, and on some wires the
/// stream ends at the question. A turn whose readers disconnected meanwhile continues for at least
/// 30 seconds after the question has ended, so that the client that answered can resume in another
/// request.
///
/// A turn without a journal is cancelled in any case, since its frames could not be read any more.
///
/// # When a disconnect is noticed
///
/// With hyper 1.12. `tests/disconnects` waits for each of these and asserts no times:
///
/// | the client | HTTP/1 | HTTP/2 | WebSocket |
/// |---|---|---|---|
/// | closes or resets its socket | at once | at once | at once |
/// | closes only its own direction and would read on | at once, unless hyper's `half_close` is set | at once | at once |
/// | sends a byte too many and closes | by the second [keep-alive](crate::turn::Timeouts::keep_alive); before the response has begun not at all | at once | at once |
/// | is cut off silently | when the buffers on the way are full | by hyper's `keep_alive_interval` | by the gateway's ping |
/// | takes nothing, or almost nothing | by the server's time-out for writing | after [`Timeouts::write_stall`](crate::turn::Timeouts::write_stall) | by the gateway's time-outs |
///
/// So an HTTP/1 client that was cut off while the turn is silent counts as a reader until the
/// operating system gives up the connection; the turn's own time-outs bound that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The time for which the turn continues without a reader; `None` for as long as it runs.
    after: Option<Duration>,
}

/// The shortest time for which a turn continues after a question: the client that answered resumes
/// in another request.
const AFTER_QUESTION: Duration = Duration::from_secs(30);

impl Disconnect {
    /// Stops the turn at once. The default.
    pub const fn cancel() -> Self {
        Self::grace(Duration::ZERO)
    }

    /// Stops the turn after this time, unless a reader has been added.
    pub const fn grace(after: Duration) -> Self {
        Self { after: Some(after) }
    }

    /// Lets the turn run to its end or to its time-outs.
    pub const fn run_to_end() -> Self {
        Self { after: None }
    }

    /// Returns when to stop a turn that has had no reader since `alone_since` and whose last
    /// question ended at `asked_until`.
    pub(super) fn due(self, alone_since: Option<Instant>, asked_until: Option<Instant>) -> Option<Instant> {
        let (alone_since, after) = (alone_since?, self.after?);
        match asked_until.filter(|until| *until >= alone_since) {
            Some(until) => until.checked_add(after.max(AFTER_QUESTION)),
            None => alone_since.checked_add(after),
        }
    }
}

impl Default for Disconnect {
    fn default() -> Self {
        Self::cancel()
    }
}
