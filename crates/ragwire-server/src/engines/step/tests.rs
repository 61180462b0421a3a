//! A store that fails, hangs and recovers. The clock is paused.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ragwire_rag::models::Boxed;
use ragwire_rag::search::store::{Filter, MemoryStore, Point, Search, Store, Vectors};
use ragwire_rag::{Hit, LibraryLimits, ParseLimits, follow, parse};
use tokio::time::timeout;

use super::*;
use crate::engines::{Models, OpenStore};

/// A store in memory that can become unavailable.
#[derive(Debug)]
struct FlakyStore {
    inner: MemoryStore,
    is_down: AtomicBool,
    /// How many upserts succeed before it goes down.
    upserts_left: AtomicUsize,
}

impl FlakyStore {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Vectors::NONE),
            is_down: AtomicBool::new(false),
            upserts_left: AtomicUsize::new(usize::MAX),
        })
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_down.load(Ordering::SeqCst) || self.upserts_left.load(Ordering::SeqCst) == 0 {
            return Err(unavailable());
        }
        Ok(())
    }
}

impl Store for FlakyStore {
    fn name(&self) -> &str {
        "shaky"
    }

    fn vectors(&self) -> Vectors {
        Vectors::NONE
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            if points.iter().any(|point| point.chunk.text.contains("poison")) {
                return Err(StoreError::Failed("poisoned".into()));
            }
            self.upserts_left.fetch_sub(1, Ordering::SeqCst);
            self.inner.upsert(points).await
        })
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        self.inner.search(search)
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.remove_document(document_id).await
        })
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.documents().await
        })
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.count(filter).await
        })
    }
}

fn library(texts: &[(&str, &str)]) -> Arc<Library> {
    let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    for (name, text) in texts {
        add(&library, name, text);
    }
    library
}

/// Adds a document and returns its id.
fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

fn engines(library: &Arc<Library>, store: &Arc<FlakyStore>) -> Engines {
    let (location, models) = (collection(), Models::default());
    let store = OpenStore::new(Arc::clone(store) as _, location, &models, library).unwrap();
    Engines::new(models, store, library)
}

/// Returns the documents of the store, without the marker of the indexer.
async fn documents(store: &FlakyStore) -> BTreeSet<String> {
    let mut documents = store.inner.documents().await.unwrap();
    documents.retain(|id| !id.starts_with("index-"));
    documents
}

fn collection() -> StoreLocation {
    StoreLocation::Collection("ragwire".into())
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("connection refused".into())
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_reported_at_the_start() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A hen."), ("c.md", "A dog.")]);
    let store = FlakyStore::new();
    let engines = engines(&library, &store);
    let message = collection().error(unavailable()).to_string();
    store.set_down(true);
    let error = engines.reconcile().await.unwrap_err();
    assert_eq!(
        (error.to_string(), error.code()),
        (message.clone(), "store_unavailable")
    );
    // The marker and one document are added before the store goes down.
    store.set_down(false);
    store.upserts_left.store(2, Ordering::SeqCst);
    assert_eq!(engines.reconcile().await.unwrap_err().to_string(), message);
    assert_eq!(documents(&store).await.len(), 1);
    store.upserts_left.store(usize::MAX, Ordering::SeqCst);
    engines.reconcile().await.unwrap();
    assert_eq!(documents(&store).await, library.document_ids());
}

#[tokio::test(start_paused = true)]
async fn a_document_that_fails_does_not_affect_the_others() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A poison."), ("c.md", "A dog.")]);
    let store = FlakyStore::new();
    let engines = engines(&library, &store);
    engines.reconcile().await.unwrap();
    let behind = engines.indexer.behind().await;
    assert_eq!(behind.len(), 1);
    assert_eq!(documents(&store).await, &library.document_ids() - &behind);
    let report = LibraryFollower::reconcile(&engines).await.unwrap();
    assert_eq!(report.failed.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_store_follows_uploads_and_removals() {
    let library = library(&[("a.md", "A fox.")]);
    let store = FlakyStore::new();
    let engines = engines(&library, &store);
    let changing = async {
        for step in 0..6 {
            let id = add(&library, "b.md", &format!("A hen of {step} years."));
            if step % 2 == 1 {
                library.remove(&id).unwrap();
            }
            while documents(&store).await != library.document_ids() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        never = follow(&engines, |_| {}) => match never {},
        changed = timeout(std::time::Duration::from_secs(3), changing) => changed.unwrap(),
    }
    assert_eq!(engines.indexer.revision(), library.revision());
}

#[tokio::test(start_paused = true)]
async fn the_default_store_holds_a_limited_number_of_passages() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A hen.")]);
    let store = FlakyStore::new();
    let mut engines = engines(&library, &store);
    (engines.location, engines.max_passages) = (StoreLocation::Memory, 2);
    engines.reconcile().await.unwrap();
    let both = library.document_ids();
    assert_eq!(documents(&store).await, both);
    let id = add(&library, "c.md", "A dog.");
    assert!(LibraryFollower::reconcile(&engines).await.unwrap().is_in_step());
    engines.reconcile().await.unwrap();
    assert_eq!(documents(&store).await, both);
    // The library shrinks, and the store follows again.
    library.remove(&id).unwrap();
    library.remove(both.first().unwrap()).unwrap();
    assert_eq!(LibraryFollower::reconcile(&engines).await.unwrap().removed, 1);
    assert_eq!(documents(&store).await, library.document_ids());
    // A store that the user chose takes everything.
    engines.location = collection();
    for name in ["d.md", "e.md"] {
        add(&library, name, &format!("A bird in {name}."));
    }
    engines.reconcile().await.unwrap();
    assert_eq!(documents(&store).await, library.document_ids());
}
