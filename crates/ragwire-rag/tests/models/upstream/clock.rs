//! A clock that stands still until it is moved, while sockets go on.

use std::sync::mpsc;
use std::time::Duration;

use tokio::time::Instant;

/// Time moves by hand as long as this lives: a task that blocks keeps tokio from moving a paused clock by itself.
pub(crate) struct Frozen {
    _held: mpsc::Sender<()>,
}

/// Stops the clock of this runtime, which has to be one of a single thread.
pub(crate) fn freeze() -> Frozen {
    tokio::time::pause();
    let (held, released) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || released.recv());
    Frozen { _held: held }
}

/// Lets sockets and tasks do what they can: some milliseconds of real time.
pub(crate) async fn settle() {
    for _ in 0..3 {
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
}

impl Frozen {
    /// Moves the clock by `step` again and again until the work is done, and says how far it has come.
    pub(crate) async fn run<T>(&self, step: Duration, work: impl Future<Output = T>) -> (T, Duration) {
        let began = Instant::now();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return (done, began.elapsed()),
                () = settle() => tokio::time::advance(step).await,
            }
        }
    }
}
