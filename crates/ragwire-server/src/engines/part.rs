//! A running model or store, as far as its shutdown is concerned.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ragwire_rag::models::Boxed;

/// How long [`shut_down`] waits for the last step of the models: a batch of a large model on a CPU
/// takes seconds.
const MAX_LAST_STEP: Duration = Duration::from_secs(10);

/// A part that has to be flushed or shut down.
pub(super) trait Part: Debug + Send + Sync {
    /// Writes changes to disk.
    fn flush(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }

    /// Shuts the part down and waits until that is done.
    fn shut_down(&self) -> Boxed<'_, ()>;
}

/// Shuts down all parts at once.
pub(super) async fn shut_down(parts: &[Arc<dyn Part>]) {
    let stopping = join_all(parts.iter().map(|part| part.shut_down()));
    if tokio::time::timeout(MAX_LAST_STEP, stopping).await.is_err() {
        tracing::warn!("a model did not finish its last step in time");
    }
}
