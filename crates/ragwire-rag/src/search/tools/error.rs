//! Why a search failed.

use tokio::task::JoinError;

use super::MAX_QUERIES;
use crate::LibraryError;
use crate::models::ModelError;
use crate::search::store::StoreError;

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The embedder's vectors have another length than the store's.
    #[error("the embedder's vectors have {found} dimensions, but the store expects {wanted}")]
    OtherVectors {
        /// The length of the embedder's vectors.
        found: usize,
        /// The length of the store's vectors.
        wanted: usize,
    },
    /// The tool searches by vectors, but there is no embedder, or the store does not keep vectors
    /// of that kind.
    #[error("this search needs vectors, but there is no embedder or the store keeps none")]
    NoVectors,
    /// The call has more than 32 queries.
    #[error("too many queries: {0}, at most {MAX_QUERIES} are allowed")]
    TooManyQueries(usize),
    /// The query could not be embedded.
    #[error("cannot embed the query")]
    Embed(#[from] ModelError),
    /// The store failed.
    #[error("cannot search the store")]
    Store(#[from] StoreError),
    /// The library failed.
    #[error("cannot search the library")]
    Library(#[from] LibraryError),
    /// The search thread panicked or was cancelled.
    #[error("the search thread failed")]
    Lost(#[from] JoinError),
}

impl ToolError {
    /// Returns a stable code for programs, such as `no_vectors`.
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
