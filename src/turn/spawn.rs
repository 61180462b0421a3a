//! The only place that spawns tasks.

use tracing::Instrument;

/// Runs `task` inside `span`. The caller accounts for the task: the producer's publishes an end
/// whenever it is dropped, and the recorder's ends with its log.
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static, span: tracing::Span) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that spawns; callers account for their tasks"
    )]
    tokio::spawn(task.instrument(span));
}
