//! Why a session is not found, not changed, or its store not opened.

use std::error::Error;

/// Why nothing was done with a session.
///
/// Its words name no owner, no id and nothing that was said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session for that owner: there never was one, it is somebody else's, or it is kept no longer. Which of these it
    /// is, is nobody's business.
    #[error("no such session")]
    Unknown,
    /// A name that no session can have; see [`Sessions::is_id`](super::Sessions::is_id).
    #[error("a session id has 1 to {max} letters, digits, `-`, `_` and `.`", max = super::MAX_ID_BYTES)]
    BadId,
    /// An owner whose name is too long.
    #[error("the name of a session's owner has at most {max} bytes", max = super::MAX_OWNER_BYTES)]
    BadOwner,
    /// The application's own state is larger than a session may hold. Nothing was changed.
    #[error("the state of a session has at most {max_bytes} bytes")]
    StateTooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// Others changed the session each time before this change could be written. Nothing was changed; trying again is safe.
    #[error("the session is changed by too many at once")]
    Contended,
    /// The system gave no random bits, so there is no id that nobody can guess.
    #[error("no randomness from the system")]
    Random(#[source] getrandom::Error),
    /// The Redis server does not answer. Whether a change was made is not known where this comes from making it.
    #[cfg(feature = "redis")]
    #[error("the sessions' server is not reachable")]
    Unavailable,
    /// The Redis server cannot be used for sessions.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(crate::turn::RedisError),
    /// Another process, or another [`Sessions`](super::Sessions) of this one, has the file open.
    #[error("the session file is in use")]
    InUse,
    /// The file was written by another version of this library.
    #[error("the session file has format {found}, and this program reads {supported}")]
    Version {
        /// The file's format.
        found: u64,
        /// The format that is read.
        supported: u64,
    },
    /// The file is of another program, or not what was written.
    #[error("the session file is damaged, or no session file")]
    Damaged(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The file could not be read or written. Whether a change was made is not known where this comes from making it.
    #[error("the session file could not be used")]
    Storage(#[source] Box<dyn Error + Send + Sync>),
}

impl SessionError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_session",
            Self::BadId => "bad_session_id",
            Self::BadOwner => "bad_session_owner",
            Self::StateTooLarge { .. } => "session_state_too_large",
            Self::Contended => "session_contended",
            Self::Random(_) => "no_randomness",
            #[cfg(feature = "redis")]
            Self::Unavailable => "unavailable",
            #[cfg(feature = "redis")]
            Self::Redis(error) => error.code(),
            Self::InUse => "sessions_in_use",
            Self::Version { .. } => "sessions_version",
            Self::Damaged(_) => "sessions_damaged",
            Self::Storage(_) => "sessions_storage",
        }
    }
}
