//! How much is kept of sessions.

use std::time::Duration;

use super::record::{Message, Session};

/// How much a store of sessions keeps, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Most sessions of all owners; the one unchanged for longest goes first.
    pub max_sessions: usize,
    /// Most messages of a session; the oldest go first.
    pub max_messages: usize,
    /// Most bytes of text of a session's messages; the oldest go first. A message that alone has more is cut.
    pub max_bytes: usize,
    /// Most bytes of the application's own state of a session, as JSON. A larger one is refused.
    pub max_state_bytes: usize,
    /// How long an unchanged session is kept.
    pub max_age: Duration,
}

impl SessionLimits {
    /// 1,000: with [`MAX_BYTES`](Self::MAX_BYTES) 64 MiB for all of them.
    pub const MAX_SESSIONS: usize = 1_000;
    /// 50: two dozen questions and their answers, more than a model is shown at once.
    pub const MAX_MESSAGES: usize = 50;
    /// 64 KiB: a dozen long answers; a session is written as a whole whenever it changes.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// 64 KiB: as much again as what was said. It is for places and tokens, not for documents.
    pub const MAX_STATE_BYTES: usize = 64 * 1024;
    /// 24 hours: who asks in the evening goes on in the morning.
    pub const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

    /// Sets how many sessions are kept, at least one.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions.max(1);
        self
    }

    /// Sets how many messages of a session are kept.
    #[must_use]
    pub fn max_messages(mut self, messages: usize) -> Self {
        self.max_messages = messages;
        self
    }

    /// Sets how many bytes of text of a session are kept.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how many bytes the application's own state of a session may have.
    #[must_use]
    pub fn max_state_bytes(mut self, bytes: usize) -> Self {
        self.max_state_bytes = bytes;
        self
    }

    /// Sets how long an unchanged session is kept.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// The newest of some messages, as much as a session may hold: for a client that remembers for itself.
    #[must_use]
    pub fn newest(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut messages = messages;
        Session::shorten(&mut messages, self);
        messages
    }

    /// In microseconds, as stamps count.
    pub(super) fn age(&self) -> u64 {
        u64::try_from(self.max_age.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max_sessions: Self::MAX_SESSIONS,
            max_messages: Self::MAX_MESSAGES,
            max_bytes: Self::MAX_BYTES,
            max_state_bytes: Self::MAX_STATE_BYTES,
            max_age: Self::MAX_AGE,
        }
    }
}
