//! Why a library could not do what was asked.

use super::MAX_NAME_BYTES;

/// Why a library did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// A name that is empty, too long, or holds control characters.
    #[error("a document name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    BadName,
    /// The document has no text to index.
    #[error("the document holds no text")]
    EmptyDocument,
    /// One more would pass a limit.
    #[error("the library is full: at most {limit} {what}")]
    Full {
        /// Of what there is too much.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The caller's progress callback said to stop. Nothing was changed.
    #[error("adding the document was cancelled")]
    Cancelled,
    /// Another process has the library open.
    #[error("the library is in use by another process")]
    InUse,
    /// The file was written by another version of this program.
    #[error("the library has format {found}, and this program reads {supported}")]
    Version {
        /// The file's format.
        found: u64,
        /// The format that is read.
        supported: u64,
    },
    /// The file could not be read or written.
    #[error("the library file could not be used")]
    Storage(#[source] Box<redb::Error>),
    /// The folder could not be made.
    #[error("the library folder could not be used")]
    Folder(#[source] std::io::Error),
    /// A record in the file is not what was written.
    #[error("a record of the library is damaged")]
    Damaged(#[from] serde_json::Error),
}

impl LibraryError {
    /// A stable name for programs.
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
