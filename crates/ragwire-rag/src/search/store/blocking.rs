//! Runs blocking work on tokio's blocking threads. The work can check whether its caller has been
//! dropped, and a panic in it becomes an error of the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::StoreError;

/// The caller that waits for the work.
#[derive(Debug)]
pub(super) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Returns whether the caller was dropped. Work that changes something then stops, so that it
    /// does not undo the next call's changes.
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
