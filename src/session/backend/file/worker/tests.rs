use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Waker};

use super::*;
use crate::session::SessionLimits;
use crate::session::clock::Clock;

async fn worker(folder: &tempfile::TempDir) -> Worker {
    let path = folder.path().join("sessions.db");
    let open = move || SessionFile::open(&path, SessionLimits::default(), Clock::default());
    Worker::start(open).await.unwrap()
}

/// Keeps the thread busy until the result is dropped.
fn occupy(worker: &Worker) -> Sender<()> {
    let (begun, begins) = channel();
    let (end, ends) = channel::<()>();
    let work: Work = Box::new(move |_| {
        begun.send(()).unwrap();
        let _ = ends.recv();
    });
    worker.queue.as_ref().unwrap().try_send(work).unwrap();
    begins.recv().unwrap();
    end
}

#[tokio::test]
async fn an_operation_that_panics_fails_and_the_next_one_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder).await;
    let failed = worker.run(|_| -> Result<(), _> { panic!("a mistake") }).await;
    assert_eq!(failed.unwrap_err().code(), "sessions_storage");
    assert_eq!(worker.run(|file| Ok(file.count)).await.unwrap(), 0);
}

#[tokio::test]
async fn an_operation_that_is_dropped_while_it_waits_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder).await;
    let end = occupy(&worker);
    let mut dropped = Box::pin(worker.run(|file| {
        file.count = 7;
        Ok(())
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(dropped.as_mut().poll(&mut context).is_pending());
    drop(dropped);
    drop(end);
    assert_eq!(worker.run(|file| Ok(file.count)).await.unwrap(), 0);
}

#[tokio::test]
async fn callers_wait_for_a_place_and_all_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(&folder).await;
    let end = occupy(&worker);
    let callers = 3 * MAX_WAITING;
    let mut waiting: Vec<_> = (0..callers)
        .map(|_| {
            Box::pin(worker.run(|file| {
                file.count += 1;
                Ok(file.count)
            }))
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    for caller in &mut waiting {
        assert!(caller.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(worker.queue.as_ref().unwrap().capacity(), 0);
    drop(end);
    // In the order of the callers.
    let counts: Vec<usize> = futures_util::future::try_join_all(waiting).await.unwrap();
    assert_eq!(counts, (1..=callers).collect::<Vec<_>>());
}
