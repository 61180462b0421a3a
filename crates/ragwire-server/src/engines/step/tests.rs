//! A store that fails, hangs and comes back. The clock is paused.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ragwire_rag::models::Boxed;
use ragwire_rag::search::store::{Filter, MemoryStore, Point, Search, Store, Vectors};
use ragwire_rag::{Hit, Library, LibraryLimits, ParseLimits, parse};
use tokio::time::{Instant as At, timeout};

use super::*;
use crate::engines::{Kept, Place, Started};
use std::sync::Arc;

/// A store in memory that can be away.
#[derive(Debug)]
struct Shaky {
    inner: MemoryStore,
    /// Whether nobody answers.
    away: AtomicBool,
    /// Whether nothing is ever answered.
    hangs: AtomicBool,
    /// How many documents were put in before it goes away.
    goes_after: AtomicUsize,
    /// When it was asked what it holds, in seconds since the beginning.
    asked: Mutex<Vec<u64>>,
    begun: At,
}

impl Shaky {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Vectors::NONE),
            away: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            goes_after: AtomicUsize::new(usize::MAX),
            asked: Mutex::default(),
            begun: At::now(),
        })
    }

    fn away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn asked(&self) -> Vec<u64> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    async fn there(&self) -> Result<(), StoreError> {
        if self.hangs.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("nobody answers".into()));
        }
        Ok(())
    }
}

impl Store for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }

    fn vectors(&self) -> Vectors {
        Vectors::NONE
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.there().await?;
            if self.goes_after.load(Ordering::SeqCst) == 0 {
                return Err(StoreError::Unavailable("nobody answers".into()));
            }
            if points.iter().any(|point| point.chunk.text.contains("poison")) {
                return Err(StoreError::Failed("it does not like this one".into()));
            }
            self.goes_after.fetch_sub(1, Ordering::SeqCst);
            self.inner.upsert(points).await
        })
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        self.inner.search(search)
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.there().await?;
            self.inner.remove_document(document_id).await
        })
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(self.begun.elapsed().as_secs());
            self.there().await?;
            self.inner.documents().await
        })
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.there().await?;
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

/// Adds a document, and says its id.
fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

fn engines(library: &Arc<Library>, store: &Arc<Shaky>) -> Engines {
    let (place, started) = (Place::Collection("ragwire".into()), Started::default());
    let kept = Kept::new(Arc::clone(store) as _, place, &started, library).unwrap();
    Engines::new(started, kept, library)
}

/// The documents of the store, without the mark of whoever fills it.
async fn held(store: &Shaky) -> BTreeSet<String> {
    let mut documents = store.inner.documents().await.unwrap();
    documents.retain(|id| !id.starts_with("index-"));
    documents
}

const AWAY: &str = "store qdrant, collection ragwire: the store is unavailable: nobody answers; start Qdrant, or correct --qdrant-url: \
                    its gRPC port is 6334 unless it is told otherwise";

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_at_the_start() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A hen."), ("c.md", "A dog.")]);
    let store = Shaky::new();
    let engines = engines(&library, &store);
    store.away(true);
    let error = engines.reconcile().await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.code()),
        (AWAY, "store_unavailable")
    );
    // The mark and one document are in before it goes.
    store.away(false);
    store.goes_after.store(2, Ordering::SeqCst);
    assert_eq!(engines.reconcile().await.unwrap_err().to_string(), AWAY);
    assert_eq!(held(&store).await.len(), 1);
    store.goes_after.store(usize::MAX, Ordering::SeqCst);
    engines.reconcile().await.unwrap();
    assert_eq!(held(&store).await, library.document_ids());
}

#[tokio::test(start_paused = true)]
async fn a_document_that_fails_alone_holds_up_nothing() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A poison."), ("c.md", "A dog.")]);
    let store = Shaky::new();
    let engines = engines(&library, &store);
    engines.reconcile().await.unwrap();
    let behind = engines.indexer.behind().await;
    assert_eq!(behind.len(), 1);
    assert_eq!(held(&store).await, &library.document_ids() - &behind);
}

#[tokio::test(start_paused = true)]
async fn uploads_and_removals_are_followed() {
    let library = library(&[("a.md", "A fox.")]);
    let store = Shaky::new();
    let engines = engines(&library, &store);
    let changing = async {
        for step in 0..6 {
            let id = add(&library, "b.md", &format!("A hen of {step} years."));
            if step % 2 == 1 {
                library.remove(&id).unwrap();
            }
            while held(&store).await != library.document_ids() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        never = follow(&engines) => match never {},
        changed = timeout(Duration::from_secs(3), changing) => changed.unwrap(),
    }
    assert_eq!(engines.indexer.revision(), library.revision());
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_tried_again_ever_later_and_at_once_after_a_change() {
    let library = library(&[("a.md", "A fox.")]);
    let store = Shaky::new();
    let engines = engines(&library, &store);
    store.away(true);
    let watching = async {
        tokio::time::sleep(Duration::from_secs(1_500)).await;
        assert_eq!(store.asked(), [0, 5, 15, 35, 75, 155, 315, 615, 915, 1_215]);
        // A change does not wait, and what it finds is not there either.
        add(&library, "b.md", "A hen.");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(store.asked(), [1_500]);
        // It comes back, and everything is made good by the next attempt.
        store.away(false);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(store.asked(), [1_800]);
        assert_eq!(held(&store).await, library.document_ids());
        // From now on nothing is asked, and pauses begin anew.
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        assert_eq!(store.asked(), [0; 0]);
        store.away(true);
        let now = store.begun.elapsed().as_secs();
        add(&library, "c.md", "A dog.");
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(store.asked(), [now, now + 5, now + 15]);
    };
    tokio::select! {
        never = follow(&engines) => match never {},
        () = watching => {}
    }
}

#[tokio::test(start_paused = true)]
async fn memory_that_nobody_asked_for_holds_no_more_than_its_room() {
    let library = library(&[("a.md", "A fox."), ("b.md", "A hen.")]);
    let store = Shaky::new();
    let mut engines = engines(&library, &store);
    (engines.place, engines.room) = (Place::Memory, 2);
    engines.reconcile().await.unwrap();
    let both = library.document_ids();
    assert_eq!(held(&store).await, both);
    let id = add(&library, "c.md", "A dog.");
    keep_in_step(Some(&engines)).await;
    engines.reconcile().await.unwrap();
    assert_eq!(held(&store).await, both);
    // It shrinks, and is followed again.
    library.remove(&id).unwrap();
    library.remove(both.first().unwrap()).unwrap();
    keep_in_step(Some(&engines)).await;
    assert_eq!(held(&store).await, library.document_ids());
    // A store that was asked for takes everything.
    engines.place = Place::Collection("ragwire".into());
    for name in ["d.md", "e.md"] {
        add(&library, name, &format!("A bird in {name}."));
    }
    engines.reconcile().await.unwrap();
    assert_eq!(held(&store).await, library.document_ids());
}

#[tokio::test(start_paused = true)]
async fn an_upload_waits_for_its_document_and_not_for_ever() {
    let library = library(&[("a.md", "A fox.")]);
    let store = Shaky::new();
    let engines = engines(&library, &store);
    keep_in_step(None).await;
    keep_in_step(Some(&engines)).await;
    assert_eq!(held(&store).await, library.document_ids());
    store.hangs.store(true, Ordering::SeqCst);
    let before = At::now();
    keep_in_step(Some(&engines)).await;
    assert_eq!(before.elapsed().as_secs(), UPLOAD_WAIT.as_secs());
    // Nothing of it holds up the next one.
    store.hangs.store(false, Ordering::SeqCst);
    add(&library, "b.md", "A hen.");
    keep_in_step(Some(&engines)).await;
    assert_eq!(held(&store).await, library.document_ids());
}
