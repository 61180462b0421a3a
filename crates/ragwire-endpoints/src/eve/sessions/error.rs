//! Errors of Eve's sessions.

use ragwire::session::SessionError;
use ragwire::turn::{AnswerError, TurnId};

/// An Eve session that cannot be read or continued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EveError {
    /// The owner has no such session.
    #[error("unknown session")]
    Unknown,
    /// The last message is still being answered.
    #[error("the session is still active")]
    Active,
    /// The session failed and cannot continue.
    #[error("the session has failed")]
    Failed,
    /// The token is not the session's.
    #[error("stale or missing continuation token")]
    Token,
    /// Requested lines have been dropped.
    #[error("the lines are no longer available")]
    Truncated {
        /// The first index that is still available, if it is known.
        base: Option<u64>,
    },
    /// The state of the turns cannot be determined.
    #[error("the turns of the session are not reachable")]
    Unavailable,
    /// The session store failed.
    #[error("the session could not be used")]
    Store(#[source] SessionError),
    /// The stored state is not an Eve session.
    #[error("the state of the session is damaged")]
    Damaged(#[from] serde_json::Error),
}

impl From<SessionError> for EveError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Unknown => Self::Unknown,
            other => Self::Store(other),
        }
    }
}

/// An answer of a human that was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerRefused {
    /// The session is unknown or not reachable.
    #[error(transparent)]
    Session(#[from] EveError),
    /// The turn refused the answer.
    #[error("the turn refused the answer")]
    Answer(TurnId, #[source] AnswerError),
}
