//! A graph and its library, with documents added and removed in every order.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::graph::{GraphDocument, GraphRoom, Patterns, Relation};
use crate::models::Boxed;
use crate::{LibraryLimits, ParseLimits, parse};

fn library() -> Arc<Library> {
    Arc::new(Library::in_memory(LibraryLimits::default()).unwrap())
}

fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

fn graph(room: GraphRoom) -> Arc<Graph> {
    Arc::new(Graph::in_memory(room).unwrap())
}

fn ids(graph: &Graph) -> BTreeSet<String> {
    graph.documents().into_iter().map(|one| one.id).collect()
}

fn synced(added: usize, removed: usize, passages: usize) -> SyncReport {
    SyncReport {
        added,
        removed,
        passages,
        ..SyncReport::default()
    }
}

#[tokio::test]
async fn a_graph_follows_its_library() {
    let (library, graph) = (library(), graph(GraphRoom::default()));
    let index = GraphIndex::new(
        Arc::clone(&library),
        Arc::clone(&graph),
        Arc::new(Patterns::default()),
    );
    assert_eq!(index.sync().await.unwrap(), synced(0, 0, 0));
    add(
        &library,
        "a.md",
        "# A\n\nA turn uses a queue.\n\n# B\n\nA queue has a bound.",
    );
    let b = add(&library, "b.md", "A robin is a bird.");
    assert_eq!(index.sync().await.unwrap(), synced(2, 0, 3));
    assert_eq!(
        index.sync().await.unwrap(),
        synced(0, 0, 0),
        "nothing has changed"
    );
    assert_eq!(ids(&graph), library.document_ids());
    // A document with different content is a different document.
    add(&library, "a.md", "A turn uses a journal.");
    library.remove(&b).unwrap();
    assert_eq!(index.sync().await.unwrap(), synced(1, 2, 1));
    assert_eq!(graph.names().into_keys().collect::<Vec<_>>(), ["journal", "turn"]);
    // Removing and adding the same document in between changes nothing.
    let a = library.list()[0].id.clone();
    library.remove(&a).unwrap();
    assert_eq!(add(&library, "a.md", "A turn uses a journal."), a);
    assert_eq!(index.sync().await.unwrap(), synced(0, 0, 0));
    // A graph that was deleted is rebuilt, and a graph with surplus documents is cleaned up.
    let other = Arc::new(Graph::in_memory(GraphRoom::default()).unwrap());
    other
        .put(
            "stranger",
            Patterns::NAME,
            vec![(0, vec![Relation::new("x1", "uses", "y1", 1.0)])],
        )
        .unwrap();
    let index = GraphIndex::new(
        Arc::clone(&library),
        Arc::clone(&other),
        Arc::new(Patterns::default()),
    );
    assert_eq!(index.sync().await.unwrap(), synced(1, 1, 1));
    assert_eq!((other.names(), other.size()), (graph.names(), graph.size()));
}

/// An extractor with its own name, which counts the passages that it reads.
#[derive(Debug)]
struct NamedExtractor(&'static str, AtomicUsize);

impl ExtractGraph for NamedExtractor {
    fn name(&self) -> &str {
        self.0
    }

    fn extract(&self, passages: Vec<Chunk>) -> Boxed<'_, Vec<Extraction>> {
        self.1.fetch_add(passages.len(), Ordering::Relaxed);
        let one =
            |_: &Chunk| Extraction::new(vec![Relation::new("reader", "named", self.0, 1.0)]).fallback("test");
        let all = passages.iter().map(one).collect();
        Box::pin(std::future::ready(all))
    }
}

#[tokio::test]
async fn another_extractor_reads_again() {
    let (library, graph) = (library(), graph(GraphRoom::default()));
    add(&library, "a.md", "A turn uses a queue.");
    for (name, added) in [("one1", 1), ("one1", 0), ("two2", 1)] {
        let extractor = Arc::new(NamedExtractor(name, AtomicUsize::new(0)));
        let index = GraphIndex::new(Arc::clone(&library), Arc::clone(&graph), extractor.clone());
        let done = index.sync().await.unwrap();
        assert_eq!((done.added, done.removed), (added, 0));
        assert_eq!(extractor.1.load(Ordering::Relaxed), added);
        assert_eq!(
            done.fallbacks.get("test").copied().unwrap_or(0),
            added,
            "a fallback is reported"
        );
        let [GraphDocument { extractor, .. }] = &graph.documents()[..] else {
            panic!()
        };
        assert_eq!(extractor, name);
        assert!(graph.names().contains_key(name));
    }
}

#[tokio::test]
async fn a_document_without_room_is_retried_after_a_removal() {
    let library = library();
    let graph = graph(GraphRoom::new(2, 10));
    let index = GraphIndex::new(
        Arc::clone(&library),
        Arc::clone(&graph),
        Arc::new(Patterns::default()),
    );
    let first = add(&library, "a.md", "A turn uses a queue.");
    index.sync().await.unwrap();
    let second = add(&library, "b.md", "A robin is a bird.");
    for _ in 0..2 {
        let done = index.sync().await.unwrap();
        assert_eq!((done.added, done.no_room), (0, vec![second.clone()]));
    }
    library.remove(&first).unwrap();
    assert_eq!(index.sync().await.unwrap(), synced(1, 1, 1));
    assert_eq!(ids(&graph), BTreeSet::from([second]));
}

#[tokio::test]
async fn follow_reports_every_change() {
    let (library, graph) = (library(), graph(GraphRoom::default()));
    let index = GraphIndex::new(
        Arc::clone(&library),
        Arc::clone(&graph),
        Arc::new(Patterns::default()),
    );
    let (reports, mut received) = tokio::sync::mpsc::channel(16);
    let following = index.follow(move |done| {
        let _ = reports.try_send(done.unwrap());
    });
    let changing = async {
        assert_eq!(received.recv().await, Some(synced(0, 0, 0)));
        let id = add(&library, "a.md", "A turn uses a queue.");
        assert_eq!(received.recv().await, Some(synced(1, 0, 1)));
        library.remove(&id).unwrap();
        assert_eq!(received.recv().await, Some(synced(0, 1, 0)));
    };
    let all = async {
        tokio::select! {
            () = following => panic!("following never ends by itself"),
            () = changing => {}
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_graph_on_disk_is_in_step_after_a_restart() {
    let folder = std::env::temp_dir().join(format!("ragwire-graph-index-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut kept = None;
    for (added, removed) in [(1, 0), (0, 0), (1, 1)] {
        let library = Arc::new(Library::open(&folder, LibraryLimits::default()).unwrap());
        let text = if removed == 1 {
            "A wren is a bird."
        } else {
            "A robin is a bird."
        };
        // The library changed while no graph was following it.
        add(&library, "a.md", text);
        let graph = Arc::new(Graph::open(&folder, GraphRoom::default()).unwrap());
        let index = GraphIndex::new(
            Arc::clone(&library),
            Arc::clone(&graph),
            Arc::new(Patterns::default()),
        );
        assert_eq!(index.sync().await.unwrap(), synced(added, removed, added));
        kept = Some(graph.names().into_keys().collect::<Vec<_>>());
    }
    assert_eq!(kept.unwrap(), ["bird", "wren"]);
    std::fs::remove_dir_all(&folder).unwrap();
}
