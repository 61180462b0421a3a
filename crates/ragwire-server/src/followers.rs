//! Everything that follows the library: the store and the graph.
//!
//! A change of the library never depends on its followers. Their failures are only logged, and the
//! next change, or a pause, repairs them.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ragwire_rag::{FollowError, FollowReport, LibraryFollower};

/// How long a response waits until the store has a changed document. A short document is embedded
/// by then; a longer one follows in the background.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The followers of one library. Clones share them.
#[derive(Clone, Default)]
pub struct Followers(Vec<Arc<dyn LibraryFollower>>);

impl Followers {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a follower.
    #[must_use]
    pub fn with(mut self, follower: Arc<dyn LibraryFollower>) -> Self {
        self.0.push(follower);
        self
    }

    /// Waits until every follower has the current documents, at most 10 seconds. [`run`](Self::run)
    /// does what remains.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves a state that the next call repairs.
    pub async fn reconcile(&self) {
        join_all(self.0.iter().map(|follower| async move {
            let reconciled = tokio::time::timeout(MAX_WAIT, follower.reconcile()).await;
            if let Ok(outcome) = reconciled {
                log(follower.name(), &outcome);
            }
        }))
        .await;
    }

    /// Follows every change of the library, until the future is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves a state that the next [`reconcile`](Self::reconcile) repairs.
    pub async fn run(&self) -> Infallible {
        join_all(self.0.iter().map(|follower| async move {
            let name = follower.name();
            ragwire_rag::follow(follower.as_ref(), |outcome| log(name, outcome)).await
        }))
        .await;
        std::future::pending().await
    }
}

impl fmt::Debug for Followers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|follower| follower.name());
        f.debug_list().entries(names).finish()
    }
}

fn log(follower: &str, outcome: &Result<FollowReport, FollowError>) {
    let report = match outcome {
        Ok(report) => report,
        Err(error) => {
            let error = error.as_ref() as &dyn std::error::Error;
            tracing::error!(follower, error, "cannot compare with the library");
            return;
        }
    };
    for failure in &report.failed {
        let error = failure.error.as_ref() as &dyn std::error::Error;
        let document = failure.document_id.as_str();
        tracing::error!(follower, document, error, "cannot add a document");
    }
    if report.untried > 0 {
        tracing::error!(
            follower,
            documents = report.untried,
            "further documents were not tried"
        );
    }
    if !report.no_room.is_empty() {
        tracing::warn!(
            follower,
            documents = report.no_room.len(),
            "no room for some documents; answers do not use them"
        );
    }
}

#[cfg(test)]
mod tests {
    use ragwire_rag::models::Boxed;
    use ragwire_rag::{Library, LibraryLimits};
    use tokio::time::Instant;

    use super::*;

    /// A follower that never answers.
    struct StalledFollower(Arc<Library>);

    impl LibraryFollower for StalledFollower {
        fn name(&self) -> &str {
            "stalled"
        }

        fn library(&self) -> &Arc<Library> {
            &self.0
        }

        fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_does_not_wait_for_ever() {
        Followers::new().reconcile().await;
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let followers = Followers::new().with(Arc::new(StalledFollower(library)));
        let start = Instant::now();
        followers.reconcile().await;
        assert_eq!(start.elapsed(), MAX_WAIT);
    }
}
