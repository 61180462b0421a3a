//! The interface of everything that is built from a library and has to follow its changes, such as
//! an index of vectors or a graph.
//!
//! A follower compares itself with the library instead of reading a list of changes, so no change
//! can be lost. This module does not know what a follower builds.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use super::library::Library;
use crate::models::Boxed;

/// How long [`follow`] waits before the first retry; the pause doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause between two retries.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// Why a follower could not compare itself with its library.
pub type FollowError = Box<dyn Error + Send + Sync>;

/// Something that is built from a [`Library`] and has to follow its changes.
///
/// [`Indexer`](crate::Indexer) follows with a vector store,
/// [`GraphIndex`](crate::graph::GraphIndex) with a graph. A server holds all followers in one list:
/// it runs [`follow`] for each of them in the background, and calls [`reconcile`](Self::reconcile)
/// itself where a request should wait until its own change is visible.
///
/// ```
/// use std::sync::Arc;
/// use ragwire_rag::{Indexer, Library, LibraryFollower, LibraryLimits, follow, parse};
/// use ragwire_rag::graph::{Graph, GraphIndex, GraphRoom, Patterns};
/// use ragwire_rag::search::store::{MemoryStore, Vectors};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// let store = Arc::new(MemoryStore::new(Vectors::NONE));
/// let graph = Arc::new(Graph::in_memory(GraphRoom::default())?);
/// let followers: Vec<Arc<dyn LibraryFollower>> = vec![
///     Arc::new(Indexer::new(Arc::clone(&library), store, None)?),
///     Arc::new(GraphIndex::new(Arc::clone(&library), graph, Arc::new(Patterns::default()))),
/// ];
///
/// // In the background: one task per follower.
/// for follower in followers.clone() {
///     tokio::spawn(async move {
///         let name = follower.name();
///         follow(&*follower, |outcome| match outcome {
///             Ok(report) => println!("{name}: {} added, {} removed", report.added, report.removed),
///             Err(error) => eprintln!("{name} does not match the library: {error}"),
///         })
///         .await
///     });
/// }
///
/// // After an upload: wait until every follower has it.
/// library.add("birds.md", &parse("birds.md", b"A robin sings at dawn.", &Default::default())?)?;
/// for follower in &followers {
///     assert!(follower.reconcile().await?.is_in_step());
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
/// ```
pub trait LibraryFollower: Send + Sync + 'static {
    /// A short name for logs: `store`, `graph`.
    fn name(&self) -> &str;

    /// The library that it follows.
    fn library(&self) -> &Arc<Library>;

    /// Compares itself with the library, adds what is missing, and removes what the library does
    /// not hold. Calls wait for each other, so a call that finds nothing to do is cheap.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a state that the next call repairs.
    ///
    /// # Errors
    ///
    /// Fails if no document can be added or removed. A failure that concerns one document is listed
    /// in the report.
    fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>>;
}

/// The outcome of one [`LibraryFollower::reconcile`].
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "documents that failed are listed only here"]
pub struct FollowReport {
    /// Documents added or repaired.
    pub added: usize,
    /// Documents removed because the library does not hold them.
    pub removed: usize,
    /// Documents that failed. They stay in the library, and the next call tries them again.
    pub failed: Vec<FollowFailure>,
    /// Documents that were not tried after the failures before them.
    pub untried: usize,
    /// Documents of a shared library that another host is adding or removing.
    pub elsewhere: usize,
    /// IDs of documents that the follower has no room for. Trying again does not help until another
    /// document is removed.
    pub no_room: Vec<String>,
}

impl FollowReport {
    /// Returns whether nothing is left that a retry could repair.
    pub fn is_in_step(&self) -> bool {
        self.failed.is_empty() && self.untried == 0 && self.elsewhere == 0
    }
}

/// A document that a follower could not add.
#[derive(Debug)]
#[non_exhaustive]
pub struct FollowFailure {
    /// The document's ID.
    pub document_id: String,
    /// What failed.
    pub error: FollowError,
}

impl FollowFailure {
    /// A failure of one document.
    pub fn new(document_id: impl Into<String>, error: impl Into<FollowError>) -> Self {
        Self {
            document_id: document_id.into(),
            error: error.into(),
        }
    }
}

/// Reconciles `follower` now and after every change of its library, and passes each outcome to
/// `report`. After a failure it tries again with the next change or after a pause: 5 seconds at
/// first, doubled with each further failure up to 5 minutes.
///
/// # Cancel safety
/// Dropping the future leaves a state that the next [`LibraryFollower::reconcile`] repairs.
pub async fn follow(
    follower: &dyn LibraryFollower,
    mut report: impl FnMut(&Result<FollowReport, FollowError>),
) -> Infallible {
    let mut changes = follower.library().changes();
    let mut pause = FIRST_PAUSE;
    loop {
        // Marked as seen before the work starts: a change during the work wakes this loop again.
        changes.borrow_and_update();
        let outcome = follower.reconcile().await;
        report(&outcome);
        let in_step = outcome.is_ok_and(|report| report.is_in_step());
        let retry = async {
            if in_step {
                std::future::pending().await
            } else {
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            // The follower holds the library, so the sender of its changes lives as long.
            changed = changes.changed() => if changed.is_err() {
                std::future::pending().await
            },
            () = retry => {}
        }
        pause = if in_step {
            FIRST_PAUSE
        } else {
            MAX_PAUSE.min(pause * 2)
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::Instant;

    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse};

    struct Recorder {
        library: Arc<Library>,
        fails: AtomicBool,
        start: Instant,
        calls: Mutex<Vec<u64>>,
    }

    impl Recorder {
        /// Takes the seconds at which it was called since the previous look.
        fn calls(&self) -> Vec<u64> {
            std::mem::take(&mut self.calls.lock().unwrap())
        }
    }

    impl LibraryFollower for Recorder {
        fn name(&self) -> &str {
            "recorder"
        }

        fn library(&self) -> &Arc<Library> {
            &self.library
        }

        fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
            self.calls.lock().unwrap().push(self.start.elapsed().as_secs());
            let mut report = FollowReport::default();
            if self.fails.load(Ordering::SeqCst) {
                report.failed.push(FollowFailure::new("d", "no answer"));
            }
            Box::pin(std::future::ready(Ok(report)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_retried_after_growing_pauses_and_with_each_change() {
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let recorder = Recorder {
            library: Arc::clone(&library),
            fails: AtomicBool::new(true),
            start: Instant::now(),
            calls: Mutex::default(),
        };
        let add = |name: &str| {
            let parsed = parse(name, b"A fox.", &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        };
        let script = async {
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            assert_eq!(recorder.calls(), [0, 5, 15, 35, 75, 155, 315, 615, 915]);
            add("a.md");
            recorder.fails.store(false, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            assert_eq!(recorder.calls(), [1_000], "a change does not wait for the pause");
            recorder.fails.store(true, Ordering::SeqCst);
            add("b.md");
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(
                recorder.calls(),
                [2_000, 2_005],
                "pauses start again at 5 seconds"
            );
        };
        let mut outcomes = 0;
        tokio::select! {
            never = follow(&recorder, |outcome| { assert!(outcome.is_ok()); outcomes += 1; }) => match never {},
            () = script => {}
        }
        assert_eq!(outcomes, 12);
    }
}
