//! One session: what it holds, how it is shortened to its limits, and how it is written.
//!
//! It knows no store and no clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SessionError, SessionLimits};

/// Longest title: a line in a list.
pub const MAX_TITLE_BYTES: usize = 200;
/// Where a title is made of the first question, it is cut at about a line.
const MADE_TITLE_BYTES: usize = 80;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The one who asks.
    User,
    /// The one who answers, also where the answer is an apology.
    Assistant,
}

/// One thing said.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// The words; cut where they alone are more than a session may hold.
    pub text: String,
}

impl Message {
    /// What somebody said.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
        }
    }
}

impl fmt::Debug for Message {
    /// Without the words: what people ask and are told does not belong into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("role", &self.role)
            .field("bytes", &self.text.len())
            .finish()
    }
}

/// What is remembered of a conversation.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Session {
    id: String,
    created: SystemTime,
    updated: SystemTime,
    /// The title it was given, or else the beginning of its first question; at most [`MAX_TITLE_BYTES`] of it.
    pub title: Option<String>,
    /// What was said, oldest first; the oldest may be gone.
    pub messages: Vec<Message>,
    /// The application's own, `null` at first.
    pub state: Value,
}

impl Session {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            created: UNIX_EPOCH,
            updated: UNIX_EPOCH,
            title: None,
            messages: Vec::new(),
            state: Value::Null,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// When it began.
    pub fn created(&self) -> SystemTime {
        self.created
    }

    /// When it was changed last.
    pub fn updated(&self) -> SystemTime {
        self.updated
    }

    /// Says something after everything that was said before. The first question of a session without a title becomes its title.
    pub fn say(&mut self, role: Role, text: impl Into<String>) {
        let message = Message::new(role, text);
        if self.title.is_none() && role == Role::User {
            self.title = first_line(&message.text);
        }
        self.messages.push(message);
    }

    /// Drops the oldest messages until the others are within the limits.
    pub(super) fn shorten(messages: &mut Vec<Message>, limits: &SessionLimits) {
        let (mut bytes, mut kept) = (0, 0);
        for message in messages.iter_mut().rev() {
            message
                .text
                .truncate(message.text.floor_char_boundary(limits.max_bytes));
            bytes += message.text.len();
            if bytes > limits.max_bytes || kept == limits.max_messages {
                break;
            }
            kept += 1;
        }
        messages.drain(..messages.len() - kept);
    }
}

impl fmt::Debug for Session {
    /// Without what was said, and without the id, which gives access to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("created", &self.created)
            .field("updated", &self.updated)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// A title made of a question; none of one without a letter in its first line.
fn first_line(text: &str) -> Option<String> {
    let line = text.trim().lines().next().unwrap_or_default();
    let line = line[..line.floor_char_boundary(MADE_TITLE_BYTES)].trim_end();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A session as it is written. When it was changed last stands beside it in the store.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Absent until the second writing: the session was created with the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    state: Value,
}

impl Session {
    /// Shortens it to its limits, and writes it.
    pub(super) fn write(mut self, limits: &SessionLimits) -> Result<Vec<u8>, SessionError> {
        Self::shorten(&mut self.messages, limits);
        if let Some(title) = &mut self.title {
            title.truncate(title.floor_char_boundary(MAX_TITLE_BYTES));
        }
        let state_bytes = serde_json::to_vec(&self.state).map_or(usize::MAX, |json| json.len());
        if !self.state.is_null() && state_bytes > limits.max_state_bytes {
            return Err(SessionError::StateTooLarge {
                max_bytes: limits.max_state_bytes,
            });
        }
        let written = Written {
            created: (self.created > UNIX_EPOCH).then(|| stamp(self.created)),
            title: self.title,
            messages: self.messages,
            state: self.state,
        };
        // Strings, numbers and JSON itself always serialise.
        serde_json::to_vec(&written).map_err(|error| SessionError::Damaged(Some(error.into())))
    }

    /// Reads one that was written at the moment `updated`.
    pub(super) fn read(id: &str, updated: u64, bytes: &[u8]) -> Result<Self, SessionError> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|error| SessionError::Damaged(Some(error.into())))?;
        Ok(Self {
            id: id.to_owned(),
            created: time(written.created.unwrap_or(updated)),
            updated: time(updated),
            title: written.title,
            messages: written.messages,
            state: written.state,
        })
    }
}

/// Microseconds since 1970.
pub(super) fn stamp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn time(stamp: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_micros(stamp))
        .unwrap_or(UNIX_EPOCH)
}
