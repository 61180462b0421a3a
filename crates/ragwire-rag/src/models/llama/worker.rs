//! A plain thread that owns a model, and the bounded way to it.
//!
//! A context of llama.cpp borrows its model, may not be shared, and blocks for as long as it computes: so all of it lives on the stack of
//! one thread, and whoever wants something sends a job. What a job is, this file does not know, nor llama.cpp.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot, watch};

use super::backend::LoadError;
use crate::models::ModelError;

/// Stack of a model's thread. Some of llama.cpp's tokenizers split long words by `std::regex`, which recurses once for each character; what
/// is not used costs address space only.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The way to a model's thread. Dropping it ends the thread once its step is done, and does not wait for that: the caller may be a task.
pub(super) struct Worker<J> {
    /// None once it is shut down.
    jobs: Mutex<Option<mpsc::Sender<J>>>,
    /// Closed when the thread has ended.
    ended: watch::Receiver<()>,
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

/// Tells that a model is loaded.
pub(super) struct Opening<T, E> {
    told: Option<oneshot::Sender<Result<T, E>>>,
}

impl<T, E> Opening<T, E> {
    /// From now on the thread serves, and the one who started it goes on with `about`.
    pub(super) fn tell(&mut self, about: T) {
        self.send(Ok(about));
    }

    fn send(&mut self, result: Result<T, E>) {
        // Where nobody waits any more, the channel of jobs is closed as well, and the thread ends by that.
        let _ = self.told.take().map(|told| told.send(result));
    }
}

/// Why there is no thread.
#[derive(Debug)]
pub(super) enum StartError<E> {
    /// The system gave none.
    Thread(io::Error),
    /// It panicked before it served.
    Panicked,
    /// It could not open what it is to serve.
    Open(E),
}

impl From<StartError<Self>> for LoadError {
    fn from(error: StartError<Self>) -> Self {
        match error {
            StartError::Thread(error) => Self::Thread(Some(error)),
            StartError::Panicked => Self::Thread(None),
            StartError::Open(error) => error,
        }
    }
}

/// The model's thread panicked. It serves nobody any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's thread panicked")]
pub(super) struct Gone;

impl From<Gone> for ModelError {
    fn from(gone: Gone) -> Self {
        Self::Failed(Box::new(gone))
    }
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread `name` with room for `waiting` jobs, and waits until `body` has [told](Opening::tell) that it serves. An error
    /// before that is the error of this call. `body` ends when there can be no more jobs, which is when the worker is dropped or shut down.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the thread without a way to it, so it ends once it serves.
    pub(super) async fn start<T, E>(
        name: &str,
        waiting: usize,
        body: impl FnOnce(&mut Opening<T, E>, mpsc::Receiver<J>) -> Result<(), E> + Send + 'static,
    ) -> Result<(Self, T), StartError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (jobs, receiver) = mpsc::channel(waiting.clamp(1, tokio::sync::Semaphore::MAX_PERMITS));
        let (told, opened) = oneshot::channel();
        let (ending, ended) = watch::channel(());
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // Dropped after all that `body` holds, and also where it panics.
                let _ending = ending;
                let mut opening = Opening { told: Some(told) };
                if let Err(error) = body(&mut opening, receiver) {
                    opening.send(Err(error));
                }
            })
            .map_err(StartError::Thread)?;
        let about = match opened.await {
            Ok(opened) => opened.map_err(StartError::Open)?,
            Err(oneshot::error::RecvError { .. }) => return Err(StartError::Panicked),
        };
        let jobs = Mutex::new(Some(jobs));
        Ok((Self { jobs, ended }, about))
    }

    /// Puts a job in line. It never blocks.
    ///
    /// # Errors
    /// [`ModelError::Busy`] where the line is full, [`ModelError::Closed`] where it is shut down, [`ModelError::Failed`] where the thread
    /// panicked.
    pub(super) fn submit(&self, job: J) -> Result<(), ModelError> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or(ModelError::Closed)?;
        jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => ModelError::Busy,
            mpsc::error::TrySendError::Closed(_) => Gone.into(),
        })
    }

    /// Puts the job in line that `job` makes of a way back, and waits for its answer.
    ///
    /// # Cancel safety
    /// Dropping the future drops the way back, by which the thread sees that nobody wants the answer.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit) and of the job.
    pub(super) async fn ask<R>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<R, ModelError>>) -> J,
    ) -> Result<R, ModelError> {
        let (reply, answer) = oneshot::channel();
        self.submit(job(reply))?;
        answer.await.unwrap_or(Err(Gone.into()))
    }

    /// Takes no more jobs, and waits until the thread has ended. Whoever waits for an answer is told by the thread.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the end.
    pub(super) async fn shutdown(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc as once;
    use std::time::Duration;

    use super::*;

    type Reply = oneshot::Sender<Result<u32, ModelError>>;

    async fn start(
        waiting: usize,
        mut serve: impl FnMut(u32, Reply) + Send + 'static,
    ) -> Worker<(u32, Reply)> {
        Worker::start::<_, ()>("test", waiting, move |opening, mut jobs| {
            opening.tell(());
            while let Some((number, reply)) = jobs.blocking_recv() {
                serve(number, reply);
            }
            Ok(())
        })
        .await
        .unwrap()
        .0
    }

    async fn soon<F: Future>(future: F) -> F::Output {
        tokio::time::timeout(Duration::from_secs(30), future)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_job_is_answered() {
        let worker = start(1, |number, reply| reply.send(Ok(number + 1)).unwrap()).await;
        assert_eq!(soon(worker.ask(|reply| (41, reply))).await.unwrap(), 42);
    }

    #[tokio::test]
    async fn an_error_while_opening_is_the_error_of_the_start() {
        let started = Worker::<u32>::start::<(), _>("test", 1, |_, _| Err("no such file")).await;
        assert!(matches!(started, Err(StartError::Open("no such file"))));
    }

    #[tokio::test]
    async fn a_panic_while_opening_is_an_error() {
        let started = Worker::<u32>::start::<(), ()>("test", 1, |_, _| panic!("asked for by the test")).await;
        assert!(matches!(started, Err(StartError::Panicked)));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_for_all_who_wait_and_for_all_who_come() {
        let (go, gate) = once::channel::<()>();
        let worker = start(2, move |_, _reply| {
            gate.recv().unwrap();
            panic!("asked for by the test");
        })
        .await;
        let (first, second) = (worker.ask(|reply| (1, reply)), worker.ask(|reply| (2, reply)));
        let both = async { tokio::join!(first, second, async { go.send(()).unwrap() }) };
        let (first, second, ()) = soon(both).await;
        assert_eq!(first.unwrap_err().code(), "model_failed");
        assert_eq!(second.unwrap_err().code(), "model_failed");
        assert_eq!(
            soon(worker.ask(|reply| (3, reply))).await.unwrap_err().code(),
            "model_failed"
        );
    }

    #[tokio::test]
    async fn a_full_line_refuses() {
        let (go, gate) = once::channel::<()>();
        let (taken, begun) = once::channel();
        let worker = start(1, move |number, reply| {
            taken.send(()).unwrap();
            gate.recv().unwrap();
            let _ = reply.send(Ok(number));
        })
        .await;
        let mut answers = Vec::new();
        let mut submit = |number| {
            let (reply, answer) = oneshot::channel();
            answers.push(answer);
            worker.submit((number, reply))
        };
        submit(1).unwrap();
        begun.recv().unwrap();
        submit(2).unwrap();
        assert_eq!(submit(3).unwrap_err().code(), "model_busy");
        go.send(()).unwrap();
        go.send(()).unwrap();
        let mut numbers = Vec::new();
        for answer in answers {
            numbers.push(soon(answer).await.ok().map(Result::unwrap));
        }
        assert_eq!(numbers, [Some(1), Some(2), None]);
    }

    #[tokio::test]
    async fn a_worker_that_is_dropped_or_shut_down_ends_its_thread() {
        let held = Arc::new(());
        for end in [false, true] {
            let on_thread = Arc::clone(&held);
            let worker = start(1, move |_, _| drop(Arc::clone(&on_thread))).await;
            assert_eq!(Arc::strong_count(&held), 2);
            let mut ended = worker.ended.clone();
            if end {
                soon(worker.shutdown()).await;
                assert_eq!(Arc::strong_count(&held), 1);
                assert_eq!(
                    soon(worker.ask(|reply| (1, reply))).await.unwrap_err().code(),
                    "model_closed"
                );
                soon(worker.shutdown()).await;
            } else {
                drop(worker);
                assert!(soon(ended.changed()).await.is_err());
                assert_eq!(Arc::strong_count(&held), 1);
            }
        }
    }
}
