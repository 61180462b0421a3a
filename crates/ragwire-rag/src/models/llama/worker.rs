//! A plain thread that owns a model, and its bounded queue of jobs.
//!
//! A context of llama.cpp borrows its model, must not be shared, and blocks while it computes.
//! Therefore everything is on the stack of one thread, and callers send jobs to it. This module
//! knows neither the jobs nor llama.cpp.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot, watch};

use super::backend::LoadError;
use crate::models::ModelError;

/// Stack of a model's thread. Some of llama.cpp's tokenizers split long words with `std::regex`,
/// which recurses once per character. Unused stack takes only address space.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The handle of a model's thread. Dropping it ends the thread after its current step and does not
/// wait, because the caller may be an asynchronous task.
pub(super) struct Worker<J> {
    /// `None` once the worker is shut down.
    jobs: Mutex<Option<mpsc::Sender<J>>>,
    /// Closes when the thread has ended.
    ended: watch::Receiver<()>,
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

/// Reports that a model is loaded.
pub(super) struct Opening<T, E> {
    result_sender: Option<oneshot::Sender<Result<T, E>>>,
}

impl<T, E> Opening<T, E> {
    /// Reports that the thread serves from now on; `start` returns `about`.
    pub(super) fn report_started(&mut self, about: T) {
        self.send(Ok(about));
    }

    fn send(&mut self, result: Result<T, E>) {
        // If the caller no longer waits, the channel of jobs is closed as well, which ends the
        // thread.
        let _ = self
            .result_sender
            .take()
            .map(|result_sender| result_sender.send(result));
    }
}

/// Why the thread could not be started.
#[derive(Debug)]
pub(super) enum StartError<E> {
    /// The operating system did not start a thread.
    Thread(io::Error),
    /// The thread panicked before it served.
    Panicked,
    /// The thread could not open its model.
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

/// The model's thread panicked and serves no more jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model's thread panicked")]
pub(super) struct ThreadPanicked;

impl From<ThreadPanicked> for ModelError {
    fn from(error: ThreadPanicked) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread `name` with a queue of `waiting` jobs, and waits until `body` has
    /// [reported](Opening::report_started) that it serves. Returns the error of `body` if it fails before
    /// that. `body` must end when the channel of jobs closes, which happens when the worker is
    /// dropped or shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the channel of jobs, so the thread ends once it serves.
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
        let (result_sender, opened) = oneshot::channel();
        let (ending, ended) = watch::channel(());
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // Dropped after everything that `body` owns, also after a panic.
                let _ending = ending;
                let mut opening = Opening {
                    result_sender: Some(result_sender),
                };
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

    /// Adds a job to the queue. Never blocks.
    ///
    /// # Errors
    ///
    /// [`ModelError::Busy`] if the queue is full, [`ModelError::Closed`] if the worker is shut
    /// down, [`ModelError::Failed`] if the thread panicked.
    pub(super) fn submit(&self, job: J) -> Result<(), ModelError> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or(ModelError::Closed)?;
        jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => ModelError::Busy,
            mpsc::error::TrySendError::Closed(_) => ThreadPanicked.into(),
        })
    }

    /// Adds the job that `job` creates from a reply channel to the queue, and waits for the reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the reply channel, so the thread sees that the answer is no
    /// longer needed.
    ///
    /// # Errors
    ///
    /// Those of [`submit`](Self::submit) and of the job.
    pub(super) async fn ask<R>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<R, ModelError>>) -> J,
    ) -> Result<R, ModelError> {
        let (reply, answer) = oneshot::channel();
        self.submit(job(reply))?;
        answer.await.unwrap_or(Err(ThreadPanicked.into()))
    }

    /// Accepts no more jobs, and waits until the thread has ended. The thread fails the jobs that
    /// are still waiting.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the shutdown.
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
            opening.report_started(());
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
    async fn an_error_while_opening_fails_the_start() {
        let started = Worker::<u32>::start::<(), _>("test", 1, |_, _| Err("no such file")).await;
        assert!(matches!(started, Err(StartError::Open("no such file"))));
    }

    #[tokio::test]
    async fn a_panic_while_opening_fails_the_start() {
        let started = Worker::<u32>::start::<(), ()>("test", 1, |_, _| panic!("asked for by the test")).await;
        assert!(matches!(started, Err(StartError::Panicked)));
    }

    #[tokio::test]
    async fn a_panic_fails_all_waiting_and_later_jobs() {
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
    async fn a_full_queue_rejects_a_job() {
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
    async fn dropping_or_shutting_down_a_worker_ends_its_thread() {
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
