//! Why a store failed.

use std::error::Error;

/// Why a store failed. A failed call leaves nothing half done that the same call would not repair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A vector has another length than the store's, or contains a number that is not finite.
    #[error("a vector has {found} finite dimensions, but the store expects {wanted}")]
    BadVector {
        /// The length of the vector, or 0 if a number in it is not finite.
        found: usize,
        /// The length of the store's vectors.
        wanted: usize,
    },
    /// The search has neither words nor a vector, or the store does not keep vectors of that kind.
    #[error("invalid search: {0}")]
    BadSearch(&'static str),
    /// The store was created for other vectors than it is opened with.
    #[error("the store was made for other vectors: {0}")]
    Mismatch(String),
    /// Another process has the store open.
    #[error("the store is in use by another process")]
    InUse,
    /// The store cannot be reached, or did not answer in time. The call may be retried.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The store rejected the request, or failed.
    #[error("the store failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Returns a stable code for programs, such as `store_unavailable`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadVector { .. } => "bad_vector",
            Self::BadSearch(_) => "bad_search",
            Self::Mismatch(_) => "store_mismatch",
            Self::InUse => "store_in_use",
            Self::Unavailable(_) => "store_unavailable",
            Self::Failed(_) => "store_failed",
        }
    }
}
