//! Keeps the store in step with the library: at the start, and as a [`LibraryFollower`] afterwards.
//!
//! A failure at the start is reported to the user. Later failures are only logged, and the next
//! change, or a pause, repairs them. A document that is missing in the store is still in the
//! library.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ragwire_rag::models::Boxed;
use ragwire_rag::search::store::StoreError;
use ragwire_rag::{
    FollowError, FollowReport, IndexError, IndexReport, IndexingProgress, Library, LibraryFollower,
};

use super::Engines;
use super::error::{EnginesError, chain};
use super::location::StoreLocation;
use super::progress::ProgressDisplay;

use crate::output::report_line;

/// The largest number of passages whose sections and sentences a default store in memory holds:
/// about 200 MB. Beyond it, a question that no passage answers is not searched in sentences;
/// everything else stays the same.
pub(super) const MAX_PASSAGES_IN_MEMORY: usize = 10_000;
/// How many vectors of removed documents may stay in their file while the server runs: 3 MB with 768
/// dimensions. Finding out which ones they are reads the whole library. The start removes them all.
const SPARE_VECTORS: u64 = 1_000;
/// The number of failed documents that are listed by name; the others are counted.
const MAX_LISTED: usize = 8;

impl Engines {
    /// Brings the store in step with the library and shows the progress. Documents that fail are
    /// listed on stderr.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves a store that the next call repairs.
    ///
    /// # Errors
    ///
    /// Fails if the store or the library cannot be used at all, not if one document fails.
    pub async fn reconcile(&self) -> Result<(), EnginesError> {
        self.reconcile_reporting(|_| {}).await
    }

    /// As [`reconcile`](Self::reconcile), and also calls `report` with the progress.
    ///
    /// # Cancel safety
    ///
    /// As [`reconcile`](Self::reconcile).
    ///
    /// # Errors
    ///
    /// As [`reconcile`](Self::reconcile).
    pub async fn reconcile_reporting(
        &self,
        mut report: impl FnMut(IndexingProgress) + Send,
    ) -> Result<(), EnginesError> {
        if !self.has_room() {
            let (passages, limit) = (self.library.chunk_count(), self.max_passages);
            report_line!(
                "the library has {passages} passages; sections and sentences are kept in memory for at most \
                 {limit}, and a persistent store has no such limit"
            );
            return Ok(());
        }
        let started = Instant::now();
        let mut display = ProgressDisplay::new();
        let progress = |progress| {
            display.update(progress);
            report(progress);
            ControlFlow::Continue(())
        };
        let reconciled = self.indexer.reconcile(progress).await;
        drop(display);
        let indexed = reconciled.map_err(|error| self.store_error(error))?;
        self.flush().await;
        self.sweep(0).await;
        self.list_failures(&indexed);
        let seconds = started.elapsed().as_secs_f64();
        if indexed.indexed > 0 && seconds > 1.0 {
            report_line!("indexing {} documents took {seconds:.1} s", indexed.indexed);
        }
        let mut errors = indexed.failed.into_iter().map(|failure| failure.error);
        match errors.find(concerns_all_documents) {
            Some(error) => Err(self.store_error(error)),
            None => Ok(()),
        }
    }

    /// Removes vectors that no document has from their file, if there are more than `spare`.
    async fn sweep(&self, spare: u64) {
        let Some(vectors) = &self.vectors else { return };
        if let Err(error) = self.indexer.sweep(vectors, spare).await {
            tracing::warn!(error = chain(&error), "unused vectors stay in their file");
        }
    }

    /// Returns whether the library fits into the store. The limit applies only to the default: a
    /// user who chose a store or an embedder accepted its memory.
    fn has_room(&self) -> bool {
        let is_chosen = self.embedder.is_some() || self.location != StoreLocation::Memory;
        is_chosen || self.library.chunk_count() <= self.max_passages
    }

    fn store_error(&self, error: IndexError) -> EnginesError {
        match error {
            IndexError::Store(error) => self.location.error(error),
            error => error.into(),
        }
    }

    fn list_failures(&self, report: &IndexReport) {
        if report.failed.is_empty() {
            return;
        }
        let documents = self.library.list();
        let names: HashMap<&str, &str> = documents
            .iter()
            .map(|document| (document.id.as_str(), document.name.as_str()))
            .collect();
        for failure in report.failed.iter().take(MAX_LISTED) {
            let name = names.get(failure.document_id.as_str()).unwrap_or(&"a document");
            report_line!("{name}: not indexed yet, {}", chain(&failure.error));
        }
        let more = report.failed.len().saturating_sub(MAX_LISTED) + report.untried;
        if more > 0 {
            report_line!("{more} more documents are not indexed yet");
        }
    }
}

impl LibraryFollower for Engines {
    fn name(&self) -> &str {
        "store"
    }

    fn library(&self) -> &Arc<Library> {
        &self.library
    }

    fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
        Box::pin(async move {
            if !self.has_room() {
                tracing::debug!("the library is too large for sentences in memory");
                return Ok(FollowReport::default());
            }
            let report = self.indexer.reconcile(|_| ControlFlow::Continue(())).await?;
            if report.indexed + report.removed > 0 {
                self.flush().await;
            }
            if report.removed > 0 {
                self.sweep(SPARE_VECTORS).await;
            }
            Ok(report.into())
        })
    }
}

/// Returns whether the error keeps every document out of the store.
fn concerns_all_documents(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Store(StoreError::Unavailable(_) | StoreError::InUse | StoreError::Mismatch(_))
    )
}

#[cfg(test)]
mod tests;
