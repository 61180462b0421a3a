//! Tests of a library, its store and the tools together, as a server uses them, across restarts and
//! on each store that runs in this process.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::hashed::HashedWords;
use ragwire_rag::models::{Boxed, Embed, ModelError, Side, StoredVectors};
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};
use ragwire_rag::{Indexer, Library, LibraryLimits, ParseLimits, Parsed, SearchTools, Tool, parse};

fn parsed(name: &str, text: &str) -> Parsed {
    parse(name, text.as_bytes(), &ParseLimits::default()).unwrap()
}

fn library(folder: &Path) -> Arc<Library> {
    Arc::new(Library::open(&folder.join("documents"), LibraryLimits::default()).unwrap())
}

fn vectors() -> Vectors {
    Vectors::dense(HashedWords.dimensions()).with_tokens()
}

async fn reconcile(index: &Indexer) -> (usize, usize) {
    let report = index.reconcile(|_| ControlFlow::Continue(())).await.unwrap();
    assert!(report.failed.is_empty() && report.untried == 0, "{report:?}");
    assert!(index.behind().await.is_empty());
    (report.indexed, report.removed)
}

/// Returns the documents that each tool finds for a query.
async fn finds(library: &Arc<Library>, store: &Arc<dyn Store>, query: &str) -> Vec<Vec<String>> {
    let embedder: Arc<dyn Embed> = Arc::new(HashedWords);
    let tools = SearchTools::new(Arc::clone(library), Arc::clone(store), Some(embedder)).unwrap();
    let late = tools.clone().late_interaction().unwrap();
    let mut all = Vec::new();
    for (tools, tool) in [
        (&tools, Tool::Semantic),
        (&tools, Tool::Hybrid),
        (&late, Tool::Hybrid),
        (&tools, Tool::Proposition),
        (&tools, Tool::Section),
        (&tools, Tool::Hyde),
    ] {
        let found = tools
            .search(tool, &[query.to_owned()], 1)
            .await
            .unwrap()
            .remove(0);
        for hit in &found.hits {
            let opened = library.chunk(&hit.chunk.id).unwrap();
            assert_eq!(
                opened.as_ref(),
                Some(&hit.chunk),
                "a hit equals the library's chunk"
            );
        }
        all.push(
            found
                .hits
                .into_iter()
                .map(|hit| hit.chunk.document_name)
                .collect(),
        );
    }
    all
}

const BIRDS: &str =
    "# Birds\n\nA robin sings at dawn every single morning. An owl hunts at night, unseen by anybody.";
const FISH: &str =
    "# Fish\n\nA carp eats plants all day long. Sharks never sleep, and they hunt seals in winter.";

/// Everything that a server does with a store in a day.
async fn a_day(folder: &Path, store: Arc<dyn Store>) {
    let library = library(folder);
    let birds = library.add("birds.md", &parsed("birds.md", BIRDS)).unwrap();
    let index = Indexer::new(
        Arc::clone(&library),
        Arc::clone(&store),
        Some(Arc::new(HashedWords)),
    )
    .unwrap();
    assert_eq!(reconcile(&index).await, (1, 0));
    let go_on = |_| ControlFlow::Continue(());
    let fish = index
        .add("fish.md", parsed("fish.md", FISH), go_on)
        .await
        .unwrap();
    assert_eq!(
        finds(&library, &store, "robin morning").await,
        vec![["birds.md"]; 6]
    );
    assert_eq!(
        finds(&library, &store, "sharks hunt seals").await,
        vec![["fish.md"]; 6]
    );

    // A document removed from the library disappears from every search before the store is updated.
    library.remove(&fish.id).unwrap();
    assert_eq!(
        finds(&library, &store, "sharks hunt seals").await,
        vec![["birds.md"]; 6]
    );
    let fish = index
        .add(
            "fish.md",
            parsed("fish.md", &FISH.replace("seals", "penguins")),
            go_on,
        )
        .await
        .unwrap();
    assert_eq!(
        finds(&library, &store, "sharks hunt penguins").await,
        vec![["fish.md"]; 6]
    );
    assert!(index.remove(&birds.id).await.unwrap());
    let documents: Vec<String> = store.documents().await.unwrap().into_iter().collect();
    assert_eq!(documents.len(), 2, "the fish and the marker: {documents:?}");
    assert!(documents.contains(&fish.id));
    assert_eq!(index.revision(), library.revision());
}

#[tokio::test]
async fn a_day_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    a_day(folder.path(), Arc::new(MemoryStore::new(vectors()))).await;
}

/// Another embedder with vectors of the same length.
#[derive(Debug)]
struct Other;

impl Embed for Other {
    fn name(&self) -> &str {
        "other"
    }

    fn dimensions(&self) -> usize {
        HashedWords.dimensions()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        HashedWords.embed(side, texts)
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        HashedWords.embed_tokens(side, texts)
    }
}

#[cfg(feature = "qdrant-edge")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_in_a_folder() {
    use ragwire_rag::search::store::{EdgeOptions, EdgeStore};

    let folder = tempfile::tempdir().unwrap();
    let open = async || {
        let options = EdgeOptions::new(vectors());
        let store = EdgeStore::open(folder.path().join("vectors"), options).await;
        Arc::new(store.unwrap()) as Arc<dyn Store>
    };
    a_day(folder.path(), open().await).await;

    // The next day everything is there.
    let (library, store) = (library(folder.path()), open().await);
    let index = |embedder: Arc<dyn Embed>| {
        Indexer::new(Arc::clone(&library), Arc::clone(&store), Some(embedder)).unwrap()
    };
    assert_eq!(reconcile(&index(Arc::new(HashedWords))).await, (0, 0));
    assert_eq!(
        finds(&library, &store, "sharks hunt penguins").await,
        vec![["fish.md"]; 6]
    );
    // Changes made while the store was closed are applied.
    let fish = library.list().remove(0);
    library.remove(&fish.id).unwrap();
    library.add("birds.md", &parsed("birds.md", BIRDS)).unwrap();
    assert_eq!(reconcile(&index(Arc::new(HashedWords))).await, (1, 1));
    assert_eq!(
        finds(&library, &store, "robin morning").await,
        vec![["birds.md"]; 6]
    );
    // Vectors of another embedder are replaced, although they have the same length.
    assert_eq!(reconcile(&index(Arc::new(Other))).await, (1, 1));
    assert_eq!(reconcile(&index(Arc::new(Other))).await, (0, 0));
}

#[tokio::test]
async fn another_embedder_rebuilds_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(vectors()));
    let library = library(folder.path());
    library.add("birds.md", &parsed("birds.md", BIRDS)).unwrap();
    let index = |embedder: Arc<dyn Embed>| {
        Indexer::new(Arc::clone(&library), Arc::clone(&store), Some(embedder)).unwrap()
    };
    assert_eq!(reconcile(&index(Arc::new(HashedWords))).await, (1, 0));
    assert_eq!(reconcile(&index(Arc::new(HashedWords))).await, (0, 0));
    assert_eq!(reconcile(&index(Arc::new(Other))).await, (1, 1));
    assert_eq!(store.documents().await.unwrap().len(), 2);
}

/// An embedder that counts the texts that it embeds.
#[derive(Debug)]
struct Counted {
    identity: &'static str,
    texts: AtomicUsize,
}

impl Embed for Counted {
    fn name(&self) -> &str {
        HashedWords.name()
    }

    fn dimensions(&self) -> usize {
        HashedWords.dimensions()
    }

    fn identity(&self) -> String {
        self.identity.to_owned()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        HashedWords.embed(side, texts)
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        HashedWords.embed_tokens(side, texts)
    }
}

/// Starts with a store in memory, as the default server does, and returns how many texts are embedded
/// and how long the file of the vectors is afterwards.
async fn start(folder: &Path, identity: &'static str) -> (usize, u64) {
    let library = library(folder);
    let embedder = Arc::new(Counted {
        identity,
        texts: AtomicUsize::default(),
    });
    let file = folder.join("vectors.db");
    let vectors = Arc::new(StoredVectors::open(&file, Arc::clone(&embedder) as _).unwrap());
    let store = Arc::new(MemoryStore::new(Vectors::dense(HashedWords.dimensions())));
    let index = Indexer::new(
        Arc::clone(&library),
        Arc::clone(&store) as _,
        Some(Arc::clone(&vectors) as _),
    );
    let index = index.unwrap();
    assert_eq!(reconcile(&index).await, (library.document_count(), 0));
    index.sweep(&vectors, 0).await.unwrap();
    let tools = SearchTools::new(library, store, Some(Arc::new(HashedWords))).unwrap();
    let query = ["robins in the morning".to_owned()];
    let found = tools.search(Tool::Semantic, &query, 1).await.unwrap();
    assert_eq!(found[0].hits[0].chunk.document_name, "birds.md");
    // The last one that closes the file writes its log back.
    drop((index, vectors));
    let bytes = std::fs::metadata(&file).unwrap().len();
    (embedder.texts.load(Ordering::SeqCst), bytes)
}

#[tokio::test]
async fn a_restart_computes_only_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let change = |name: &str, text: &str| {
        let added = library(folder.path()).add(name, &parsed(name, text)).unwrap();
        added.id
    };
    change("birds.md", BIRDS);
    let (all, small) = start(folder.path(), "mean").await;
    assert!(all >= 3, "a section, a passage and sentences");
    assert_eq!(start(folder.path(), "mean").await, (0, small));
    let long: String = (0..300)
        .map(|n| format!("Fish number {n} swims far away from here. "))
        .collect();
    let fish = change("fish.md", &long);
    let (more, large) = start(folder.path(), "mean").await;
    assert!(
        more >= 300 && large > 2 * small,
        "{more} texts, {small} to {large} bytes"
    );
    assert_eq!(start(folder.path(), "mean").await, (0, large));
    assert!(library(folder.path()).remove(&fish).unwrap());
    let (none, swept) = start(folder.path(), "mean").await;
    assert!(
        none == 0 && swept < large / 2,
        "{none} texts, {large} to {swept} bytes"
    );
    // The same model with another pooling.
    assert_eq!(start(folder.path(), "first token").await.0, all);
    assert_eq!(start(folder.path(), "first token").await.0, 0);
}
