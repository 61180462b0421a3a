//! One message of a session.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person who asks.
    User,
    /// The program that answers, also where the answer is an apology.
    Assistant,
}

/// One message of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text, cut where it is longer than all messages of a session together may be.
    pub text: String,
}

impl Message {
    /// Creates a message.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
        }
    }
}

impl fmt::Debug for Message {
    /// Without the text: questions and answers do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("role", &self.role)
            .field("bytes", &self.text.len())
            .finish()
    }
}
