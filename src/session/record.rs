//! One session: its content, how it is shortened to its limits, and how it is serialized.
//!
//! It knows no store and no clock.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clock::{stamp, time};
use super::message::{Message, Role};
use super::{SessionError, SessionLimits};

/// Longest title of a session, in characters: one line in a list.
pub const MAX_TITLE_CHARS: usize = 200;
/// Longest title taken from the first question: about one line.
const MAX_DERIVED_TITLE_BYTES: usize = 80;

/// A stored conversation.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Session {
    id: String,
    created: SystemTime,
    updated: SystemTime,
    /// The title set by the caller, or else the beginning of the first question; at most
    /// [`MAX_TITLE_CHARS`] characters of it are stored.
    pub title: Option<String>,
    /// The messages, oldest first. The first messages of a long conversation have been dropped.
    pub messages: Vec<Message>,
    /// The application's own state, initially `null`.
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

    /// Returns the ID of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the time at which the session began.
    pub fn created(&self) -> SystemTime {
        self.created
    }

    /// Returns the time of the last change.
    pub fn updated(&self) -> SystemTime {
        self.updated
    }

    /// Appends a message. The first question of a session without a title becomes its title.
    pub fn push(&mut self, role: Role, text: impl Into<String>) {
        let message = Message::new(role, text);
        if self.title.is_none() && role == Role::User {
            self.title = derived_title(&message.text);
        }
        self.messages.push(message);
    }

    /// Shortens the session to its limits and serializes it.
    pub(super) fn write(mut self, limits: &SessionLimits) -> Result<Vec<u8>, SessionError> {
        limits.shorten(&mut self.messages);
        if let Some(title) = &mut self.title
            && let Some((end, _)) = title.char_indices().nth(MAX_TITLE_CHARS)
        {
            title.truncate(end);
        }
        let state_bytes = serde_json::to_vec(&self.state).map_or(usize::MAX, |json| json.len());
        if !self.state.is_null() && state_bytes > limits.max_state_bytes {
            return Err(SessionError::StateTooLarge {
                max_bytes: limits.max_state_bytes,
            });
        }
        let record = SessionRecord {
            created: (self.created > UNIX_EPOCH).then(|| stamp(self.created)),
            title: self.title,
            messages: self.messages,
            state: self.state,
        };
        // Strings, numbers and JSON values always serialize.
        serde_json::to_vec(&record).map_err(|error| SessionError::Damaged(Some(error.into())))
    }

    /// Deserializes a session that was written at the moment `updated`.
    pub(super) fn read(id: &str, updated: u64, bytes: &[u8]) -> Result<Self, SessionError> {
        let record: SessionRecord =
            serde_json::from_slice(bytes).map_err(|error| SessionError::Damaged(Some(error.into())))?;
        Ok(Self {
            id: id.to_owned(),
            created: time(record.created.unwrap_or(updated)),
            updated: time(updated),
            title: record.title,
            messages: record.messages,
            state: record.state,
        })
    }
}

impl fmt::Debug for Session {
    /// Without the text of the conversation, and without the ID, which grants access to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("created", &self.created)
            .field("updated", &self.updated)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// Returns the first line of a question as a title; `None` if that line is empty.
fn derived_title(text: &str) -> Option<String> {
    let line = text.trim().lines().next().unwrap_or_default();
    let line = line[..line.floor_char_boundary(MAX_DERIVED_TITLE_BYTES)].trim_end();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The serialized form of a session. The store keeps the stamp of the last change beside it.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    /// Absent until the session is written a second time: the first write created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    state: Value,
}
