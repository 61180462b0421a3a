//! Reads a library on tokio's blocking threads, a few readers at a time.

use std::num::NonZero;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use super::{Library, Shelf};

/// Readers of a file at the same time, for each core. Searches compute and rarely wait, so that more of them at once
/// would not end sooner. Each needs a thread and a connection, which stay: 64 questions at once left 36 MB behind.
const READERS_PER_CORE: usize = 2;
/// Readers at the same time if the passages are on a server, for which they wait.
#[cfg(feature = "qdrant")]
const READERS_OF_SERVER: usize = 64;

/// The places for readers.
#[derive(Debug)]
pub(super) struct Readers(Arc<Semaphore>);

impl Readers {
    pub(super) fn of(shelf: &Shelf) -> Self {
        let places = match shelf {
            Shelf::Local(_) => {
                READERS_PER_CORE * std::thread::available_parallelism().map_or(1, NonZero::get)
            }
            #[cfg(feature = "qdrant")]
            Shelf::Shared(_) => READERS_OF_SERVER,
        };
        Self(Arc::new(Semaphore::new(places)))
    }
}

impl Library {
    /// Runs work that reads on a blocking thread, once there is a place for it. It must not wait for another
    /// reader.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped while it waits for its place reads nothing. Work that has begun continues, and keeps its
    /// place until it has ended.
    pub(crate) async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // The semaphore is never closed, so this is a place.
        let place = Arc::clone(&self.readers.0).acquire_owned().await;
        let library = Arc::clone(self);
        spawn_blocking(move || {
            let read = work(&library);
            drop(place);
            read
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::LibraryLimits;

    #[tokio::test]
    async fn a_few_read_at_a_time_and_all_of_them_in_the_end() {
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let places = library.readers.0.available_permits();
        let running = Arc::new(AtomicUsize::new(0));
        // Each reader waits until all places are taken.
        let full = Arc::new(Barrier::new(places));
        let reads = (0..places * 4).map(|_| {
            let (running, full) = (Arc::clone(&running), Arc::clone(&full));
            library.reading(move |_| {
                let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
                full.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                at_once
            })
        });
        let reads = futures_util::future::join_all(reads).await;
        let most = reads.into_iter().map(Result::unwrap).max();
        assert_eq!(most, Some(places));
    }

    #[tokio::test]
    async fn a_reader_that_panics_gives_its_place_back() {
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let places = library.readers.0.available_permits();
        let read = library.reading(|_| panic!("it fails")).await;
        assert!(read.unwrap_err().is_panic());
        assert_eq!(library.readers.0.available_permits(), places);
    }

    #[tokio::test]
    async fn a_reader_that_gives_up_keeps_its_place_until_its_work_has_ended() {
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let places = library.readers.0.available_permits();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let mut read = Box::pin(library.reading(move |_| ended.recv()));
        assert!((&mut read).now_or_never().is_none());
        drop(read);
        assert_eq!(library.readers.0.available_permits(), places - 1);
        end.send(()).unwrap();
        while library.readers.0.available_permits() < places {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
