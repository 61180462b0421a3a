//! The signal that stops an engine's threads.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Stops the threads of an engine.
#[derive(Debug, Default)]
pub(super) struct Stop {
    is_set: AtomicBool,
    notify: Notify,
}

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the signal is set.
    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }

    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        // Only the decoding thread waits. If it does not wait yet, it finds this permit.
        self.notify.notify_one();
    }
}
