//! Why a session is not found or not changed, and why its store does not open.

use std::error::Error;

use super::key::{MAX_ID_BYTES, MAX_OWNER_BYTES};

/// Why an operation on a session had no effect.
///
/// The messages contain no owner, no ID and no text of the conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// This owner has no such session: it never existed, it belongs to another owner, or it has
    /// expired. The error does not say which.
    #[error("no such session")]
    Unknown,
    /// The ID cannot name a session; see [`Sessions::is_id`](super::Sessions::is_id).
    #[error("session ID is not 1 to {MAX_ID_BYTES} letters, digits, `-`, `_` and `.` of ASCII")]
    BadId,
    /// The name of the owner is longer than 1,024 bytes.
    #[error("name of the session's owner is longer than {MAX_OWNER_BYTES} bytes")]
    BadOwner,
    /// The application's own state is larger than a session may hold. Nothing was changed.
    #[error("state of the session is larger than {max_bytes} bytes")]
    StateTooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// Other changes came first each time before this one could be written. Nothing was changed;
    /// it is safe to try again.
    #[error("too many changes to the session at once")]
    Contended,
    /// The operating system returned no random bytes, so no unguessable ID could be generated.
    #[error("operating system returned no random bytes")]
    Random(#[source] getrandom::Error),
    /// The Redis server does not answer. If the operation was a change, it is unknown whether the
    /// change was made.
    #[error("session store on redis is not reachable")]
    Unavailable,
    /// The Redis server cannot be used for sessions.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    #[error(transparent)]
    Redis(crate::redis::RedisError),
    /// Another process, or another [`Sessions`](super::Sessions) of this process, has the file
    /// open.
    #[error("session file is in use")]
    InUse,
    /// The file was written by another version of this library.
    #[error("session file has format {found}, this program reads format {supported}")]
    Version {
        /// The format of the file.
        found: u64,
        /// The format that this version reads.
        supported: u64,
    },
    /// The file belongs to another program, or its content has changed on the disk.
    #[error("session file is damaged, or not a session file")]
    Damaged(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The disk of the session file is full. Nothing was changed; the store works again once there is
    /// room.
    #[error("disk of the session file is full")]
    NoSpace,
    /// The file could not be read or written. If the operation was a change, it is unknown whether
    /// the change was made.
    #[error("session file could not be read or written")]
    Storage(#[source] Box<dyn Error + Send + Sync>),
}

impl SessionError {
    /// Returns the stable, machine-readable name of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_session",
            Self::BadId => "bad_session_id",
            Self::BadOwner => "bad_session_owner",
            Self::StateTooLarge { .. } => "session_state_too_large",
            Self::Contended => "session_contended",
            Self::Random(_) => "no_randomness",
            Self::Unavailable => "unavailable",
            #[cfg(feature = "redis")]
            Self::Redis(error) => error.code(),
            Self::InUse => "sessions_in_use",
            Self::Version { .. } => "sessions_version",
            Self::Damaged(_) => "sessions_damaged",
            Self::NoSpace => "sessions_no_space",
            Self::Storage(_) => "sessions_storage",
        }
    }
}
