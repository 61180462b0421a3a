//! A clock that is advanced by hand, while sockets keep working.

use std::sync::mpsc;
use std::time::Duration;

use tokio::time::Instant;

/// Time is advanced by hand while this value exists: a blocking task keeps tokio from advancing a
/// paused clock itself.
pub(crate) struct Frozen {
    _held: mpsc::Sender<()>,
}

/// Pauses the clock of this runtime, which must be single-threaded.
pub(crate) fn freeze() -> Frozen {
    tokio::time::pause();
    let (held, released) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || released.recv());
    Frozen { _held: held }
}

/// Lets sockets and tasks make progress, for some milliseconds of real time.
pub(crate) async fn settle() {
    for _ in 0..3 {
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
}

impl Frozen {
    /// Advances the clock by `step` until the work is done, and returns how far it has advanced.
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
