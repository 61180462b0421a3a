//! Why a library operation failed.

use super::MAX_NAME_BYTES;
use crate::search::store::StoreError;

/// Why a library operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The name is empty, too long, or contains control characters.
    #[error("a document name needs 1 to {MAX_NAME_BYTES} bytes without control characters")]
    BadName,
    /// The document has no text to index.
    #[error("the document contains no text")]
    EmptyDocument,
    /// The operation would exceed a limit.
    #[error("the library is full: it holds at most {limit} {what}")]
    Full {
        /// What the limit counts: `documents` or `chunks`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The document is shared, or belongs to another owner. Nothing was changed.
    #[error("the document is shared or belongs to another user, so it cannot be removed")]
    NotOwner,
    /// Another host changed the same document again and again. Nothing was changed.
    #[error("another host changed this document at the same time; try again")]
    Conflict,
    /// The server of a shared library cannot be reached, or refused a request.
    #[error("the shared library cannot be used: {0}")]
    Shared(#[source] StoreError),
    /// The progress callback cancelled the operation. Nothing was changed.
    #[error("adding the document was cancelled")]
    Cancelled,
    /// Another process has the library open.
    #[error("the library is in use by another process")]
    InUse,
    /// The file was written by another version of this program.
    #[error("the library has format {found}, but this program reads format {supported}")]
    Version {
        /// The format of the file.
        found: u64,
        /// The format that this program reads.
        supported: u64,
    },
    /// The disk is full. Nothing was changed; removals still work, and so does everything once there
    /// is room.
    #[error("the disk is full: remove documents or make room, then try again")]
    NoSpace,
    /// The file could not be read or written.
    #[error("cannot read or write the library file: {0}")]
    Storage(#[source] Box<rusqlite::Error>),
    /// The folder or a file in it could not be created.
    #[error("cannot create the library folder: {0}")]
    Folder(#[source] std::io::Error),
    /// The file, or a record in it, does not have the expected form.
    #[error("the library file is damaged: {0}")]
    Damaged(String),
}

impl LibraryError {
    /// Returns a stable code for programs, such as `library_full`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName => "bad_name",
            Self::EmptyDocument => "empty_document",
            Self::Full { .. } => "library_full",
            Self::NotOwner => "not_owner",
            Self::Conflict => "library_conflict",
            Self::Shared(StoreError::Unavailable(_)) => "library_unavailable",
            Self::Shared(_) => "library_storage",
            Self::Cancelled => "cancelled",
            Self::InUse => "library_in_use",
            Self::Version { .. } => "library_version",
            Self::NoSpace => "library_no_space",
            Self::Storage(_) | Self::Folder(_) => "library_storage",
            Self::Damaged(_) => "library_damaged",
        }
    }
}

impl From<StoreError> for LibraryError {
    fn from(error: StoreError) -> Self {
        Self::Shared(error)
    }
}

impl From<serde_json::Error> for LibraryError {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
