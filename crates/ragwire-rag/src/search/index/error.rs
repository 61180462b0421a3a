//! Why a store could not follow its library.

use tokio::task::JoinError;

use crate::models::ModelError;
use crate::search::store::StoreError;
use crate::{Document, LibraryError};

/// Why the store is not in step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The embedder makes vectors of another length than the store takes, or than it said.
    #[error("the embedder makes vectors of {found} numbers and the store takes {wanted}")]
    OtherVectors {
        /// The embedder's.
        found: usize,
        /// The store's.
        wanted: usize,
    },
    /// The library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The embedder failed.
    #[error("the chunks could not be embedded")]
    Embed(#[from] ModelError),
    /// The store failed.
    #[error("the store could not be changed")]
    Store(#[from] StoreError),
    /// The progress callback said to stop.
    #[error("indexing was cancelled")]
    Cancelled,
    /// A thread was lost.
    #[error("a thread was lost while indexing")]
    Lost(#[from] JoinError),
}

impl IndexError {
    /// A stable name for programs.
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

    /// Whether the next document would fail in the same way.
    pub(super) fn concerns_all_documents(&self) -> bool {
        match self {
            Self::Embed(error) => !matches!(
                error,
                ModelError::Overflow { .. } | ModelError::BadPrompt(_) | ModelError::Failed(_)
            ),
            Self::Store(error) => !matches!(error, StoreError::BadVector { .. } | StoreError::Failed(_)),
            Self::Library(LibraryError::Damaged(_)) => false,
            _ => true,
        }
    }
}

/// Why a document was not added, or not wholly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The library did not take it. Nothing was changed.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It is in the library and found by its words; the store lacks it or a part of it. The next [`Indexer::reconcile`] tries again.
    #[error("the document is added, and is not in the index yet")]
    Index {
        /// The document.
        document: Box<Document>,
        /// What failed.
        source: IndexError,
    },
    /// A thread was lost; the document may be in the library or not.
    #[error("a thread was lost while adding the document")]
    Lost(#[source] JoinError),
}

impl AddError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Library(error) => error.code(),
            Self::Index { source, .. } => source.code(),
            Self::Lost(_) => "index_failed",
        }
    }
}
