//! Tests that a store is brought in step from any state, with any failure on the way.

use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::models::Boxed;
use crate::models::test_models::{DIMENSIONS, Words};
use crate::search::store::{Search, StoreError, Vectors};
use crate::{Hit, LibraryLimits, ParseLimits, SectionTree, parse};

/// A store whose points can be inspected. After a given number of calls it fails; upserts and
/// removals then do half of their work.
#[derive(Debug)]
struct Shelf {
    vectors: Vectors,
    points: StdMutex<BTreeMap<String, Point>>,
    calls: StdMutex<Vec<String>>,
    /// Calls that still succeed.
    left: AtomicUsize,
}

impl Shelf {
    fn new(vectors: Vectors) -> Arc<Self> {
        Arc::new(Self {
            vectors,
            points: StdMutex::default(),
            calls: StdMutex::default(),
            left: AtomicUsize::new(usize::MAX),
        })
    }

    fn fail_after(&self, calls: usize) {
        self.left.store(calls, Ordering::Relaxed);
    }

    fn points(&self) -> Vec<Point> {
        self.points.lock().unwrap().values().cloned().collect()
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Records a call, and returns whether it succeeds.
    fn called(&self, call: &str) -> bool {
        self.calls.lock().unwrap().push(call.to_owned());
        let less = |left: usize| Some(left.saturating_sub(1));
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .unwrap()
            > 0
    }
}

fn broken<T: Send + 'static>() -> Boxed<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::Unavailable("cut off".into()))))
}

fn ready<T: Send + 'static>(value: T) -> Boxed<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn vectors(&self) -> Vectors {
        self.vectors
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        let works = self.called("upsert");
        let done = if works { points.len() } else { points.len() / 2 };
        let mut shelf = self.points.lock().unwrap();
        for point in points.into_iter().take(done) {
            shelf.insert(point.chunk.id.clone(), point);
        }
        if works { ready(()) } else { broken() }
    }

    fn search(&self, _: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        broken()
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        let works = self.called("remove");
        let mut shelf = self.points.lock().unwrap();
        let own: Vec<String> = shelf
            .values()
            .filter(|point| point.chunk.document_id == document_id)
            .map(|point| point.chunk.id.clone())
            .collect();
        let done = if works { own.len() } else { own.len() / 2 };
        for id in own.iter().take(done) {
            shelf.remove(id);
        }
        if works { ready(()) } else { broken() }
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        if !self.called("documents") {
            return broken();
        }
        ready(
            self.points()
                .into_iter()
                .map(|point| point.chunk.document_id)
                .collect(),
        )
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        if !self.called("count") {
            return broken();
        }
        ready(
            self.points()
                .iter()
                .filter(|point| filter.accepts(&point.chunk))
                .count() as u64,
        )
    }
}

fn library() -> Arc<Library> {
    Arc::new(Library::in_memory(LibraryLimits::default()).unwrap())
}

fn parsed(text: &str) -> Parsed {
    parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap()
}

/// Three sections of a few passages each.
fn text(word: &str) -> String {
    let section = |n| {
        format!(
            "# {word} {n}\n\n{}\n\n",
            format!("The {word} number {n} is mentioned here. ").repeat(25)
        )
    };
    (0..3).map(section).collect()
}

fn indexer(library: &Arc<Library>, shelf: &Arc<Shelf>, words: Words) -> Indexer {
    let store: Arc<dyn Store> = shelf.clone();
    Indexer::new(Arc::clone(library), store, Some(Arc::new(words))).unwrap()
}

fn proceed(_: IndexingProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Everything that the store should hold, and nothing else.
async fn wanted(library: &Library, words: &Words, vectors: Vectors, mark: &str) -> Vec<Point> {
    let mut points = BTreeMap::new();
    for id in library.document_ids() {
        let trees = (0..).map_while(|section| library.section(&id, section).unwrap());
        for chunk in trees.flat_map(SectionTree::into_chunks) {
            let text = vec![chunk.indexed_text()];
            let tokens = if vectors.tokens && chunk.level == Level::Passage {
                words
                    .embed_tokens(Side::Passage, text.clone())
                    .await
                    .unwrap()
                    .remove(0)
            } else {
                Vec::new()
            };
            let id = chunk.id.clone();
            let mut point = Point::new(chunk).tokens(tokens);
            if vectors.dimensions > 0 {
                point = point.dense(words.embed(Side::Passage, text).await.unwrap().remove(0));
            }
            points.insert(id, point);
        }
    }
    let word = mark.replace('-', "");
    let marking = Point::new(Chunk::new(mark, "index", 0, &word));
    points.insert(marking.chunk.id.clone(), marking);
    points.into_values().collect()
}

async fn assert_in_step(library: &Library, shelf: &Shelf, mark: &str) {
    let wanted = wanted(library, &Words::default(), shelf.vectors, mark).await;
    assert!(shelf.points() == wanted, "the store is not in step");
}

#[tokio::test]
async fn a_store_gets_every_chunk_of_every_level() {
    for vectors in [
        Vectors::NONE,
        Vectors::dense(DIMENSIONS),
        Vectors::dense(DIMENSIONS).with_tokens(),
    ] {
        let (library, shelf) = (library(), Shelf::new(vectors));
        library.add("a.md", &parsed(&text("apple"))).unwrap();
        let index = indexer(&library, &shelf, Words::default());
        assert_eq!(index.behind().await, library.document_ids());
        let mut seen = Vec::new();
        let report = index
            .reconcile(|progress| {
                seen.push((progress.done_chunks, progress.total_chunks));
                ControlFlow::Continue(())
            })
            .await
            .unwrap();
        assert_eq!(
            (
                report.indexed,
                report.removed,
                report.failed.len(),
                report.untried
            ),
            (1, 0, 0, 0)
        );
        assert_in_step(&library, &shelf, &index.mark).await;
        let total = shelf.points().len() - 1;
        assert_eq!(
            (seen.first(), seen.last()),
            (Some(&(0, total)), Some(&(total, total)))
        );
        assert!(seen.len() > 2 && seen.is_sorted(), "in batches: {seen:?}");
        assert!(index.behind().await.is_empty());

        // Documents are added, replaced and removed.
        let second = index.add("b.md", parsed(&text("pear")), proceed).await.unwrap();
        assert_in_step(&library, &shelf, &index.mark).await;
        shelf.take_calls();
        assert_eq!(
            index.add("b.md", parsed(&text("pear")), proceed).await.unwrap(),
            second
        );
        assert_eq!(shelf.take_calls(), [""; 0], "what is there costs nothing");
        let third = index.add("b.md", parsed(&text("plum")), proceed).await.unwrap();
        assert_in_step(&library, &shelf, &index.mark).await;
        assert_eq!(shelf.take_calls()[0], "remove", "the replaced one goes first");
        assert!(index.remove(&third.id).await.unwrap());
        assert!(!index.remove(&third.id).await.unwrap());
        assert_in_step(&library, &shelf, &index.mark).await;

        // A start with nothing to do makes two calls.
        shelf.take_calls();
        let again = indexer(&library, &shelf, Words::default());
        let report = again.reconcile(proceed).await.unwrap();
        assert_eq!((report.indexed, report.removed), (0, 0));
        assert_eq!(shelf.take_calls(), ["documents", "count"]);
    }
}

#[tokio::test]
async fn batches_are_bounded_and_texts_have_their_headings() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    library.add("a.md", &parsed(&text("apple").repeat(5))).unwrap();
    let words = Arc::new(Words::default());
    let store: Arc<dyn Store> = shelf.clone();
    let index = Indexer::new(Arc::clone(&library), store, Some(words.clone())).unwrap();
    let _ = index.reconcile(proceed).await.unwrap();
    let calls = words.calls.lock().unwrap().clone();
    assert!(
        calls.len() > 3
            && calls
                .iter()
                .all(|(side, texts)| *side == Side::Passage && *texts <= BATCH_CHUNKS)
    );
    assert!(calls.iter().any(|(_, texts)| *texts == BATCH_CHUNKS));
    let points = shelf.points();
    let point = points.iter().find(|point| point.chunk.heading.is_some()).unwrap();
    let headed = words
        .embed(Side::Passage, vec![point.chunk.indexed_text()])
        .await
        .unwrap();
    assert_eq!(point.dense.as_ref(), headed.first());
}

#[tokio::test]
async fn a_crash_between_any_two_steps_is_repaired() {
    // The first filling; another library than when the process died; another embedder, which
    // empties the store. Each is interrupted at every call.
    for cut_run in 0..3 {
        let mut cuts = 0;
        for cut in 0.. {
            let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
            let cut_here = |run| shelf.fail_after(if run == cut_run { cut } else { usize::MAX });
            let first = library.add("a.md", &parsed(&text("apple"))).unwrap();
            library.add("b.md", &parsed(&text("pear"))).unwrap();
            cut_here(0);
            let index = indexer(&library, &shelf, Words::default());
            let mut done = is_done(&index.reconcile(proceed).await);
            library.remove(&first.id).unwrap();
            library.add("b.md", &parsed(&text("plum"))).unwrap();
            cut_here(1);
            let index = indexer(&library, &shelf, Words::default());
            done &= is_done(&index.reconcile(proceed).await);
            cut_here(2);
            let other = indexer(&library, &shelf, Words::default().named("other"));
            done &= is_done(&other.reconcile(proceed).await);
            shelf.fail_after(usize::MAX);
            // First the indexer that saw the failure continues, then a new one.
            assert!(is_done(&other.reconcile(proceed).await));
            assert_in_step(&library, &shelf, &other.mark).await;
            let last = indexer(&library, &shelf, Words::default());
            assert!(is_done(&last.reconcile(proceed).await));
            assert_in_step(&library, &shelf, &last.mark).await;
            assert_ne!(last.mark, other.mark);
            if done {
                break;
            }
            cuts += 1;
        }
        assert!((5..30).contains(&cuts), "run {cut_run}: {cuts} cuts");
    }
}

fn is_done(outcome: &Result<IndexReport, IndexError>) -> bool {
    outcome.as_ref().is_ok_and(|report| report.failed.is_empty())
}

#[tokio::test]
async fn a_failure_while_adding_leaves_the_document_and_is_reported() {
    for cut in 0.. {
        let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
        let index = indexer(&library, &shelf, Words::default());
        let old = index.add("a.md", parsed(&text("apple")), proceed).await.unwrap();
        shelf.fail_after(cut);
        let outcome = index.add("a.md", parsed(&text("plum")), proceed).await;
        let document = match outcome {
            Ok(_) => break,
            Err(AddError::Index { document, source }) => {
                assert_eq!(source.code(), "store_unavailable");
                document
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(library.list(), [*document.clone()], "it is in the library");
        assert_eq!(index.behind().await, BTreeSet::from([document.id.clone()]));
        // A removal takes effect even if the store fails.
        assert_eq!(
            index.remove(&document.id).await.unwrap_err().code(),
            "store_unavailable"
        );
        assert!(library.list().is_empty() && index.behind().await.is_empty());
        shelf.fail_after(usize::MAX);
        let again = index.add("a.md", parsed(&text("plum")), proceed).await.unwrap();
        assert_ne!(again.id, old.id);
        let _ = index.reconcile(proceed).await.unwrap();
        assert_in_step(&library, &shelf, &index.mark).await;
        assert!(cut < 50);
    }
}

#[tokio::test]
async fn an_embedder_that_fails_at_any_batch_is_repaired() {
    let mut codes = BTreeSet::new();
    for call in 0..20 {
        for words in [
            Words::default().failing_at(call),
            Words::default().away_from(call),
            Words::default().losing_one_at(call),
        ] {
            let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS).with_tokens()));
            for word in ["apple", "pear", "plum"] {
                library.add(&format!("{word}.md"), &parsed(&text(word))).unwrap();
            }
            let index = indexer(&library, &shelf, words);
            let report = index.reconcile(proceed).await.unwrap();
            let behind = index.behind().await;
            assert_eq!(report.indexed, 3 - behind.len());
            assert_eq!(report.failed.len() + report.untried, behind.len());
            for failed in &report.failed {
                codes.insert(failed.error.code());
                assert!(behind.contains(&failed.document_id));
            }
            let index = indexer(&library, &shelf, Words::default());
            assert!(is_done(&index.reconcile(proceed).await));
            assert_in_step(&library, &shelf, &index.mark).await;
        }
    }
    assert_eq!(codes, BTreeSet::from(["model_failed", "model_unavailable"]));
}

#[tokio::test]
async fn one_bad_document_does_not_block_others_and_many_stop() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    for n in 0..4 {
        library
            .add(&format!("{n}.md"), &parsed(&text(&format!("apple{n}"))))
            .unwrap();
    }
    let index = indexer(&library, &shelf, Words::default().poisoned_by("apple2"));
    let report = index.reconcile(proceed).await.unwrap();
    assert_eq!((report.indexed, report.failed.len(), report.untried), (3, 1, 0));
    let bad = &report.failed[0];
    assert_eq!(
        (bad.error.code(), index.behind().await),
        ("model_failed", BTreeSet::from([bad.document_id.clone()]))
    );
    // The failure does not affect another document.
    index.add("4.md", parsed(&text("apple4")), proceed).await.unwrap();

    let (library, shelf) = (self::library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    for n in 0..20 {
        library
            .add(&format!("{n}.md"), &parsed("Poisoned apples all over."))
            .unwrap();
    }
    let index = indexer(&library, &shelf, Words::default().poisoned_by("apples"));
    let report = index.reconcile(proceed).await.unwrap();
    assert_eq!(
        (report.indexed, report.failed.len(), report.untried),
        (0, MAX_FAILURES, 20 - MAX_FAILURES)
    );
}

#[tokio::test]
async fn cancelling_stops_after_a_batch_and_is_repaired() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    let index = indexer(&library, &shelf, Words::default());
    let stop = |progress: IndexingProgress| {
        if progress.done_chunks > 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let Err(AddError::Index { document, source }) = index.add("a.md", parsed(&text("apple")), stop).await
    else {
        panic!("it was cancelled");
    };
    assert_eq!(
        (source.code(), shelf.points().len()),
        ("cancelled", 1 + BATCH_CHUNKS)
    );
    assert_eq!(index.behind().await, BTreeSet::from([document.id.clone()]));
    let never = |_| ControlFlow::Break(());
    assert_eq!(index.reconcile(never).await.unwrap_err().code(), "cancelled");
    // Cancelling at the last chunk is too late.
    let last = |progress: IndexingProgress| {
        if progress.done_chunks == progress.total_chunks {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    assert!(is_done(&index.reconcile(last).await));
    assert_in_step(&library, &shelf, &index.mark).await;
    // A document that the library rejects changes nothing.
    let refused = index.add("", parsed("Apples."), proceed).await.unwrap_err();
    assert_eq!(refused.code(), "bad_name");
    assert_in_step(&library, &shelf, &index.mark).await;
}

#[tokio::test]
async fn a_document_removed_while_it_is_stored_leaves_nothing_behind() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    let document = library.add("a.md", &parsed(&text("apple"))).unwrap();
    library.add("b.md", &parsed(&text("pear"))).unwrap();
    let index = indexer(&library, &shelf, Words::default());
    for at in [0, 1] {
        let mut calls = 0;
        let take_out = |_| {
            if calls == at {
                library.remove(&document.id).unwrap();
            }
            calls += 1;
            ControlFlow::Continue(())
        };
        let _ = index.reconcile(take_out).await.unwrap();
        assert_in_step(&library, &shelf, &index.mark).await;
        library.add("a.md", &parsed(&text("apple"))).unwrap();
    }
}

#[tokio::test]
async fn calls_at_once_do_not_undo_each_other() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    let index = Arc::new(indexer(&library, &shelf, Words::default()));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let index = Arc::clone(&index);
        tasks.spawn(async move {
            let name = format!("{}.md", n % 4);
            let document = index
                .add(&name, parsed(&text(&format!("word{n}"))), proceed)
                .await
                .unwrap();
            if n % 3 == 0 {
                index.remove(&document.id).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let _ = index.reconcile(proceed).await.unwrap();
    assert_in_step(&library, &shelf, &index.mark).await;
}

#[tokio::test]
async fn a_revision_is_reached_when_all_its_documents_are_stored() {
    let (library, shelf) = (library(), Shelf::new(Vectors::dense(DIMENSIONS)));
    library.add("a.md", &parsed("Apples are red.")).unwrap();
    let index = indexer(&library, &shelf, Words::default().poisoned_by("pears"));
    assert_eq!(index.revision(), 0);
    assert!(is_done(&index.reconcile(proceed).await));
    assert_eq!((library.revision(), index.revision()), (1, 1));
    let pears = library.add("b.md", &parsed("The pears are green.")).unwrap();
    assert_eq!((library.revision(), index.revision()), (2, 1));
    assert!(!is_done(&index.reconcile(proceed).await));
    index
        .add("c.md", parsed("Plums are blue."), proceed)
        .await
        .unwrap();
    assert_eq!(
        (library.revision(), index.revision()),
        (3, 1),
        "one document is missing"
    );
    index.remove(&pears.id).await.unwrap();
    assert_eq!((library.revision(), index.revision()), (4, 4));
}

#[test]
fn embedder_and_store_must_match() {
    let store: Arc<dyn Store> = Shelf::new(Vectors::dense(3));
    let error = Indexer::new(library(), store, Some(Arc::new(Words::default()))).unwrap_err();
    assert_eq!(error.code(), "other_vectors");
    assert_eq!(
        error.to_string(),
        format!("the embedder's vectors have {DIMENSIONS} dimensions, but the store expects 3")
    );
}
