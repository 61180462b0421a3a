//! Work that blocks, on tokio's blocking threads: it can tell when its caller has gone, and a panic in it is an error of the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::StoreError;

/// Whoever waits for the work.
#[derive(Debug)]
pub(super) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Whether nobody waits any more. Work that changes something stops then, so that it does not undo what is asked for next.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Caller) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let gone = Arc::new(AtomicBool::new(false));
    let caller = Caller(Arc::clone(&gone));
    let _waiting = CancelOnDrop(gone);
    tokio::task::spawn_blocking(move || work(&caller))
        .await
        .map_err(|error| StoreError::Failed(error.into()))?
}
