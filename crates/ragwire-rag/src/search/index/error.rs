//! Why a store could not be brought in step with its library.

use tokio::task::JoinError;

use crate::models::ModelError;
use crate::search::store::StoreError;
use crate::{Document, LibraryError};

/// Why a store could not be brought in step with its library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The embedder's vectors have another length than the store's, or than the embedder declared.
    #[error("the embedder's vectors have {found} dimensions, but the store expects {wanted}")]
    OtherVectors {
        /// The length of the embedder's vectors.
        found: usize,
        /// The length of the store's vectors.
        wanted: usize,
    },
    /// The library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The chunks could not be embedded.
    #[error("cannot embed the chunks")]
    Embed(#[from] ModelError),
    /// The store failed.
    #[error("cannot change the store")]
    Store(#[from] StoreError),
    /// The progress callback cancelled the operation.
    #[error("indexing was cancelled")]
    Cancelled,
    /// The thread that read the library panicked or was cancelled.
    #[error("the indexing thread failed")]
    Lost(#[from] JoinError),
}

impl IndexError {
    /// Returns a stable code for programs, such as `other_vectors` or `store_unavailable`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OtherVectors { .. } => "other_vectors",
            Self::Library(error) => error.code(),
            Self::Embed(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Cancelled => "cancelled",
            Self::Lost(_) => "index_failed",
        }
    }

    /// Returns whether the next document would fail in the same way.
    pub(super) fn concerns_all_documents(&self) -> bool {
        match self {
            Self::Embed(error) => !matches!(
                error,
                ModelError::Overflow { .. } | ModelError::BadPrompt(_) | ModelError::Failed(_)
            ),
            Self::Store(error) => !matches!(error, StoreError::BadVector { .. } | StoreError::Failed(_)),
            Self::Library(LibraryError::Damaged(_)) => false,
            Self::OtherVectors { .. } | Self::Library(_) | Self::Cancelled | Self::Lost(_) => true,
        }
    }
}

/// Why a document was not added, or not completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The library rejected it. Nothing was changed.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The document is in the library and lexical search finds it, but the store lacks all or part
    /// of it. The next [`Indexer::reconcile`](super::Indexer::reconcile) tries again.
    #[error("the document was added, but is not in the index yet")]
    Index {
        /// The document.
        document: Box<Document>,
        /// What failed.
        source: IndexError,
    },
    /// The thread that added the document panicked or was cancelled. The document may be in the
    /// library or not.
    #[error("the thread that adds the document failed")]
    Lost(#[source] JoinError),
}

impl AddError {
    /// Returns a stable code for programs: the code of the cause, or `index_failed`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Library(error) => error.code(),
            Self::Index { source, .. } => source.code(),
            Self::Lost(_) => "index_failed",
        }
    }
}
