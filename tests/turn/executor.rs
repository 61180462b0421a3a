//! Turns whose tasks run on an executor of the application.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use ragwire::turn::{Executor, Task, with_executor};
use ragwire::{Metadata, SendError, Sink, Turn};

/// Keeps the tasks until the test polls them.
#[derive(Default)]
struct Waiting(Mutex<Vec<Task>>);

impl Executor for Waiting {
    fn execute(&self, task: Task) {
        self.0.lock().unwrap().push(task);
    }
}

async fn answer(sink: Sink) -> Result<Metadata, SendError> {
    sink.send("Forty-two.").await?;
    Ok(Metadata::default())
}

fn selected() -> (Arc<Waiting>, Arc<dyn Executor>) {
    let waiting = Arc::new(Waiting::default());
    (Arc::clone(&waiting), waiting)
}

#[tokio::test(start_paused = true)]
async fn tasks_run_on_the_selected_executor_and_nowhere_else() {
    let (waiting, executor) = selected();
    let pending = with_executor(&executor, || Turn::start(answer));
    let elsewhere = Turn::start(answer);
    assert_eq!(
        elsewhere.commit().await.unwrap().collect().await.unwrap().text,
        "Forty-two."
    );
    let mut commit = Box::pin(pending.commit());
    assert!(
        commit.as_mut().now_or_never().is_none(),
        "nothing has polled its task"
    );
    let task = waiting.0.lock().unwrap().pop().unwrap();
    let (turn, ()) = tokio::join!(commit, task);
    assert_eq!(turn.unwrap().collect().await.unwrap().text, "Forty-two.");
    assert!(waiting.0.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_dropped_ends_its_turn() {
    let (waiting, executor) = selected();
    let endless = |_: Sink| std::future::pending::<Result<Metadata, SendError>>();
    let pending = with_executor(&executor, || Turn::start(endless));
    let mut task = waiting.0.lock().unwrap().pop().unwrap();
    assert!((&mut task).now_or_never().is_none());
    drop(task);
    assert_eq!(pending.commit().await.unwrap_err().failure.code(), "chat_failed");
}
