//! What an [`Indexer`](super::Indexer) says of its work: the report at the end, and the progress
//! before.

use std::ops::ControlFlow;

use super::IndexError;
use crate::{FollowFailure, FollowReport, IndexingProgress};

/// The outcome of [`Indexer::reconcile`](super::Indexer::reconcile).
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "documents that failed are listed only here"]
pub struct IndexReport {
    /// Documents added or repaired.
    pub indexed: usize,
    /// Documents removed because the library does not hold them.
    pub removed: usize,
    /// Documents that failed. They stay in the library, and the next [`Indexer::reconcile`](super::Indexer::reconcile) tries
    /// them again.
    pub failed: Vec<IndexFailure>,
    /// Documents that were not tried, because they would have failed for the same reason as the
    /// last of `failed`, or because 8 had failed in a row.
    pub untried: usize,
    /// Documents of a shared library that another host is adding or removing.
    pub elsewhere: usize,
}

/// A document that could not be stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct IndexFailure {
    /// The ID of the document.
    pub document_id: String,
    /// What failed.
    pub error: IndexError,
}

impl From<IndexReport> for FollowReport {
    fn from(report: IndexReport) -> Self {
        let failure = |failure: IndexFailure| FollowFailure::new(failure.document_id, failure.error);
        Self {
            added: report.indexed,
            removed: report.removed,
            failed: report.failed.into_iter().map(failure).collect(),
            untried: report.untried,
            elsewhere: report.elsewhere,
            no_room: Vec::new(),
        }
    }
}

/// Counts chunks for a progress callback.
pub(super) struct ProgressCounter<'a, F> {
    pub(super) done: usize,
    pub(super) total: u64,
    pub(super) callback: &'a mut F,
}

impl<F: FnMut(IndexingProgress) -> ControlFlow<()>> ProgressCounter<'_, F> {
    pub(super) fn add(&mut self, chunks: usize) -> Result<(), IndexError> {
        self.done += chunks;
        let progress = IndexingProgress {
            done_chunks: self.done,
            total_chunks: usize::try_from(self.total).unwrap_or(usize::MAX),
        };
        match (self.callback)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            // Completed work is not cancelled.
            ControlFlow::Break(()) if progress.done_chunks == progress.total_chunks => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Cancelled),
        }
    }
}
