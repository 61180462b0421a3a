//! A session as JSON, in the form of the session chat.

use std::time::{SystemTime, UNIX_EPOCH};

use ragwire::session;
use serde::Serialize;
use utoipa::ToSchema;

/// The only profile: the pipeline.
pub(crate) const PROFILE: &str = "default";

/// A session. Times are seconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    id: String,
    profile_name: &'static str,
    messages: Vec<SessionMessage>,
    /// `null` until the first question.
    #[schema(required = true)]
    title: Option<String>,
    created_at: f64,
    updated_at: f64,
}

/// One message of a session.
#[derive(Debug, Serialize, ToSchema)]
struct SessionMessage {
    role: Role,
    content: String,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// The user.
    User,
    /// The pipeline, also if the answer is an apology.
    Assistant,
}

impl From<session::Role> for Role {
    fn from(role: session::Role) -> Self {
        match role {
            session::Role::User => Self::User,
            session::Role::Assistant => Self::Assistant,
        }
    }
}

impl From<session::Session> for Session {
    fn from(session: session::Session) -> Self {
        let (created, updated) = (session.created(), session.updated());
        let id = session.id().to_owned();
        let messages = session.messages.into_iter().map(|message| SessionMessage {
            role: message.role.into(),
            content: message.text,
        });
        Self {
            id,
            profile_name: PROFILE,
            messages: messages.collect(),
            title: session.title,
            created_at: seconds(created),
            updated_at: seconds(updated),
        }
    }
}

/// Returns seconds since 1970, exact to the microsecond up to the year 2255.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as f64 / 1e6
}
