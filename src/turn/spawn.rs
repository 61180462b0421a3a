//! The only place that spawns tasks.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;

use tracing::Instrument;

/// A task of a turn: its producer, or the recorder of its journal.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the tasks of turns instead of tokio's scheduler, for example on the event loop of another
/// language. [`with_executor`] selects it.
///
/// Tasks use tokio's timers, and with Redis its sockets: poll them where a tokio runtime is entered.
/// A task that is dropped after its first poll ends its turn with a failure; one that is never
/// polled leaves its readers to their time limits.
pub trait Executor: Send + Sync {
    /// Runs `task` to its end.
    fn execute(&self, task: Task);
}

thread_local! {
    static EXECUTOR: RefCell<Option<Arc<dyn Executor>>> = const { RefCell::new(None) };
}

/// Calls `f` and returns its result. Tasks of turns that `f` starts on this thread run on
/// `executor`; without this function they run on the current tokio runtime.
pub fn with_executor<R>(executor: &Arc<dyn Executor>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<dyn Executor>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            EXECUTOR.set(self.0.take());
        }
    }
    let _restore = Restore(EXECUTOR.replace(Some(Arc::clone(executor))));
    f()
}

/// Runs `task` inside `span`. The caller accounts for the task: the producer's publishes an end
/// whenever it is dropped, and the recorder's ends with its log.
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static, span: tracing::Span) {
    let task = task.instrument(span);
    // Cloned, because a task may spawn another one when the executor polls it at once.
    match EXECUTOR.with_borrow(Clone::clone) {
        Some(executor) => executor.execute(Box::pin(task)),
        None => {
            #[expect(
                clippy::disallowed_methods,
                reason = "the only place that spawns; callers account for their tasks"
            )]
            tokio::spawn(task);
        }
    }
}
