//! The store in step with the library: at the start, after an upload, and after whatever else changes it.
//!
//! What fails at the start is named, and what fails later is logged; the next change, or some time, makes it good. Documents that are not in the
//! store are in the library all the same.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ragwire_rag::search::store::StoreError;
use ragwire_rag::{IndexError, IndexReport};

use super::error::{EnginesError, chain};
use super::progress::Shown;
use super::{Engines, Place};

/// How long an upload waits until its document is found: a short one is embedded by then, and of a long one the client is told that it is taken.
const UPLOAD_WAIT: Duration = Duration::from_secs(10);
/// How long something that failed waits until it is tried again, the first time; then twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// How long at most: by then somebody is called to see to it, and will not wait longer when it is seen to.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Passages whose sections and sentences stand in memory where nobody asked for vectors or for a store: some 200 MB. Without them a question
/// that no passage answers is not searched for in sentences; everything else is as before.
pub(super) const MAX_PASSAGES_IN_MEMORY: usize = 10_000;
/// Documents that are named when they fail; the others are counted.
const NAMED: usize = 8;

impl Engines {
    /// Brings the store in step with the library, and shows how far it is. Documents that fail are named on stderr.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a store that the next call repairs.
    ///
    /// # Errors
    /// Where the store or the library cannot be used, and not only for one document.
    pub async fn reconcile(&self) -> Result<(), EnginesError> {
        if !self.has_room() {
            let (passages, most) = (self.library.chunk_count(), self.room);
            eprintln!(
                "of {passages} passages no sections and sentences are kept in memory, but of {most} at most; a store keeps them"
            );
            return Ok(());
        }
        let started = Instant::now();
        let mut shown = Shown::new();
        let progress = |progress| {
            shown.at(progress);
            ControlFlow::Continue(())
        };
        let reconciled = self.indexer.reconcile(progress).await;
        drop(shown);
        let report = reconciled.map_err(|error| self.unusable(error))?;
        self.flush().await;
        self.name_failures(&report);
        let seconds = started.elapsed().as_secs_f64();
        if report.indexed > 0 && seconds > 1.0 {
            eprintln!("indexing {} documents took {seconds:.1} s", report.indexed);
        }
        match report
            .failed
            .into_iter()
            .map(|failed| failed.error)
            .find(is_of_the_store)
        {
            Some(error) => Err(self.unusable(error)),
            None => Ok(()),
        }
    }

    /// Whether the library fits where it stands. Who asked for a store, or for vectors, has seen to that.
    fn has_room(&self) -> bool {
        let was_asked_for = self.embedder.is_some() || self.place != Place::Memory;
        was_asked_for || self.library.chunk_count() <= self.room
    }

    /// Brings the store in step, and says whether it is.
    async fn step(&self) -> bool {
        if !self.has_room() {
            tracing::debug!("the library outgrew the memory for its sentences");
            return true;
        }
        let report = match self.indexer.reconcile(|_| ControlFlow::Continue(())).await {
            Ok(report) => report,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store is not in step with the library"
                );
                return false;
            }
        };
        if report.indexed + report.removed > 0 {
            self.flush().await;
        }
        for failed in &report.failed {
            tracing::error!(
                document = failed.document_id,
                error = &failed.error as &dyn std::error::Error,
                "a document is not in the store yet"
            );
        }
        if report.untried > 0 {
            tracing::error!(
                documents = report.untried,
                "more documents are not in the store yet"
            );
        }
        report.failed.is_empty() && report.untried == 0
    }

    fn unusable(&self, error: IndexError) -> EnginesError {
        match error {
            IndexError::Store(error) => self.place.failed(error),
            error => error.into(),
        }
    }

    fn name_failures(&self, report: &IndexReport) {
        if report.failed.is_empty() {
            return;
        }
        let documents = self.library.list();
        let names: HashMap<&str, &str> = documents
            .iter()
            .map(|document| (document.id.as_str(), document.name.as_str()))
            .collect();
        for failed in report.failed.iter().take(NAMED) {
            let name = names.get(failed.document_id.as_str()).unwrap_or(&"a document");
            eprintln!("{name}: not indexed yet, {}", chain(&failed.error));
        }
        let more = report.failed.len().saturating_sub(NAMED) + report.untried;
        if more > 0 {
            eprintln!("{more} more documents are not indexed yet");
        }
    }
}

/// Whether no document can be put in or taken out.
fn is_of_the_store(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Store(StoreError::Unavailable(_) | StoreError::InUse | StoreError::Mismatch(_))
    )
}

/// Brings the store in step after an upload, so that whoever is told of it finds it. What takes longer than some seconds, or fails, is left to
/// [`follow`].
pub async fn keep_in_step(engines: Option<&Engines>) {
    let Some(engines) = engines else { return };
    // Dropping it in the middle is fine, and whoever follows goes on.
    let _ = tokio::time::timeout(UPLOAD_WAIT, engines.step()).await;
}

/// Keeps the store in step with whatever changes the library. What fails is tried again with the next change, or after a pause.
///
/// # Cancel safety
/// Dropping the future leaves a store that the next [`Engines::reconcile`] repairs.
pub async fn follow(engines: &Engines) -> Infallible {
    let mut changes = engines.library.changes();
    let mut pause = FIRST_PAUSE;
    loop {
        // Seen before it is done: what changes meanwhile wakes again.
        changes.borrow_and_update();
        let in_step = engines.step().await;
        let again = async {
            if in_step {
                std::future::pending().await
            } else {
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() {
                std::future::pending().await
            },
            () = again => {}
        }
        pause = if in_step {
            FIRST_PAUSE
        } else {
            MAX_PAUSE.min(pause * 2)
        };
    }
}

#[cfg(test)]
mod tests;
