//! Why a library operation failed.

use super::MAX_NAME_BYTES;

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
    /// The file could not be read or written.
    #[error("cannot read or write the library file")]
    Storage(#[source] Box<redb::Error>),
    /// The folder could not be created.
    #[error("cannot create the library folder")]
    Folder(#[source] std::io::Error),
    /// A record in the file does not have the expected form.
    #[error("a record of the library file is damaged")]
    Damaged(#[from] serde_json::Error),
}

impl LibraryError {
    /// Returns a stable code for programs, such as `library_full`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName => "bad_name",
            Self::EmptyDocument => "empty_document",
            Self::Full { .. } => "library_full",
            Self::Cancelled => "cancelled",
            Self::InUse => "library_in_use",
            Self::Version { .. } => "library_version",
            Self::Storage(_) | Self::Folder(_) => "library_storage",
            Self::Damaged(_) => "library_damaged",
        }
    }

    pub(crate) fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(Box::new(error.into()))
    }
}
