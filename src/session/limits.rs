//! How much of the sessions is stored, and for how long.

use std::time::Duration;

use super::message::Message;

/// How many sessions a store holds, how large each of them may be, and how long it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Most sessions of all owners together; the one unchanged for longest is evicted first.
    /// Default: 1,000, with the default of [`max_bytes`](Self::max_bytes) 64 MiB for all of them.
    pub max_sessions: usize,
    /// Most messages of a session; the oldest are dropped first. Default: 50, two dozen questions
    /// and their answers, more than a model is shown at once.
    pub max_messages: usize,
    /// Most bytes of text in the messages of a session; the oldest messages are dropped first. A
    /// single message above the limit is cut. Default: 64 KiB, a dozen long answers; a session is
    /// written as a whole whenever it changes.
    pub max_bytes: usize,
    /// Most bytes of the application's own state of a session, as JSON. A larger state is refused.
    /// Default: 64 KiB, as much again as the messages. It is meant for cursors and tokens, not for
    /// documents.
    pub max_state_bytes: usize,
    /// How long an unchanged session is stored. Default: 24 hours, so that a conversation of the
    /// evening continues in the morning.
    pub max_age: Duration,
}

impl SessionLimits {
    /// Sets how many sessions are stored, at least one.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions.max(1);
        self
    }

    /// Sets how many messages of a session are stored.
    #[must_use]
    pub fn max_messages(mut self, messages: usize) -> Self {
        self.max_messages = messages;
        self
    }

    /// Sets how many bytes of text a session stores.
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

    /// Sets how long an unchanged session is stored.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Returns the newest of `messages`, as many as a session may hold. For a client that stores
    /// its conversation itself and sends it with each question.
    #[must_use]
    pub fn newest(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut messages = messages;
        self.shorten(&mut messages);
        messages
    }

    /// Drops the oldest messages until the others are within the limits.
    pub(super) fn shorten(&self, messages: &mut Vec<Message>) {
        let (mut bytes, mut count) = (0, 0);
        for message in messages.iter_mut().rev() {
            message
                .text
                .truncate(message.text.floor_char_boundary(self.max_bytes));
            bytes += message.text.len();
            if bytes > self.max_bytes || count == self.max_messages {
                break;
            }
            count += 1;
        }
        messages.drain(..messages.len() - count);
    }

    /// Returns the stamp before which a session has expired at the moment `now`.
    pub(super) fn oldest(&self, now: u64) -> u64 {
        now.saturating_sub(self.age())
    }

    /// Returns the maximum age in microseconds, the unit of stamps.
    pub(super) fn age(&self) -> u64 {
        u64::try_from(self.max_age.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max_sessions: 1_000,
            max_messages: 50,
            max_bytes: 64 * 1024,
            max_state_bytes: 64 * 1024,
            max_age: Duration::from_secs(24 * 3600),
        }
    }
}
