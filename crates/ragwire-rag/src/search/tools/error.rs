//! Why a search failed.

use tokio::task::JoinError;

use super::MAX_QUERIES;
use crate::LibraryError;
use crate::models::ModelError;
use crate::search::store::StoreError;

/// Why a search found nothing to give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The embedder makes vectors of another length than the store takes.
    #[error("the embedder makes vectors of {found} numbers and the store takes {wanted}")]
    OtherVectors {
        /// The embedder's.
        found: usize,
        /// The store's.
        wanted: usize,
    },
    /// The tool searches by meaning, and there is no embedder, or the store keeps no vectors of that kind.
    #[error("there are no vectors to search")]
    NoVectors,
    /// More queries than [`MAX_QUERIES`].
    #[error("a search has at most {MAX_QUERIES} queries and not {0}")]
    TooManyQueries(usize),
    /// The query could not be embedded.
    #[error("the query could not be embedded")]
    Embed(#[from] ModelError),
    /// The store failed.
    #[error("the store could not be searched")]
    Store(#[from] StoreError),
    /// The library failed.
    #[error("the library could not be searched")]
    Library(#[from] LibraryError),
    /// A thread was lost.
    #[error("a thread was lost while searching")]
    Lost(#[from] JoinError),
}

impl ToolError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OtherVectors { .. } => "other_vectors",
            Self::NoVectors => "no_vectors",
            Self::TooManyQueries(_) => "too_many_queries",
            Self::Embed(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Library(error) => error.code(),
            Self::Lost(_) => "retrieval_failed",
        }
    }
}
