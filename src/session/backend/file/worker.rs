//! The thread that has a session file for itself. SQLite blocks and runs one operation at a time, so
//! one thread does what a pool of threads would wait for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::SessionFile;
use crate::session::SessionError;

/// The number of operations that wait for the thread; further callers wait for a place. Enough that the
/// thread always finds its next operation.
const MAX_WAITING: usize = 16;

/// One operation, which also sends its result.
type Work = Box<dyn FnOnce(&mut SessionFile) + Send>;

/// Runs operations on a session file, in the order of their callers. Dropping it waits for the operation
/// that runs, then closes the file.
pub(super) struct Worker {
    /// `None` once it is being dropped.
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread, which opens the file.
    pub(super) async fn start(
        open: impl FnOnce() -> Result<SessionFile, SessionError> + Send + 'static,
    ) -> Result<Self, SessionError> {
        let (queue, mut waiting) = mpsc::channel::<Work>(MAX_WAITING);
        let (opened, result) = oneshot::channel();
        let serve = move || {
            let mut file = match open() {
                Ok(file) => file,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            while let Some(work) = waiting.blocking_recv() {
                // A transaction that a panic interrupts is rolled back, and the caller gets an error.
                let _ = catch_unwind(AssertUnwindSafe(|| work(&mut file)));
            }
        };
        let thread = Builder::new()
            .name("ragwire-sessions".to_owned())
            .spawn(serve)
            .map_err(|error| SessionError::Storage(error.into()))?;
        result.await.unwrap_or_else(|_| Err(interrupted()))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Runs `work` on the thread. If the future is dropped before the work begins, it is not done; if it
    /// is dropped later, the work continues.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SessionFile) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (reply, result) = oneshot::channel();
        let work: Work = Box::new(move |file| {
            if !reply.is_closed() {
                // The caller may stop waiting at any moment.
                let _ = reply.send(work(file));
            }
        });
        let queue = self.queue.as_ref().ok_or_else(interrupted)?;
        queue.send(work).await.map_err(|_| interrupted())?;
        result.await.unwrap_or_else(|_| Err(interrupted()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It catches the panics of its operations.
            let _ = thread.join();
        }
    }
}

fn interrupted() -> SessionError {
    SessionError::Storage("the operation on the session file was interrupted".into())
}

#[cfg(test)]
mod tests;
