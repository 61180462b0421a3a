//! Why a store failed.

use std::error::Error;

/// Why a store did not do what was asked. Nothing of a failed call is half done that the same call does not repair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A vector has another length than the store's, or a number in it is none.
    #[error("a vector has {found} numbers and the store takes {wanted}, all finite")]
    BadVector {
        /// The length, 0 where a number in it is not finite.
        found: usize,
        /// The store's.
        wanted: usize,
    },
    /// The search has neither words nor a vector, or the store has no vectors of that kind.
    #[error("the search cannot be done: {0}")]
    BadSearch(&'static str),
    /// It was made with other vectors than it is opened with.
    #[error("the store in use was made for other vectors: {0}")]
    Mismatch(String),
    /// Another process has it open.
    #[error("the store is in use by another process")]
    InUse,
    /// It cannot be reached, or did not answer in time. Worth trying again.
    #[error("the store is not there")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// It refused or failed.
    #[error("the store failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// A stable name for programs.
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
