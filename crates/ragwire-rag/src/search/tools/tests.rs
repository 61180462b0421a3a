//! Tests of every tool over a store in memory and an embedder that counts words.

use std::ops::ControlFlow;

use serde_json::json;

use super::*;
use crate::models::Boxed;
use crate::models::test_models::{DIMENSIONS, Words};
use crate::search::meaning::UNRELATED;
use crate::search::store::{MemoryStore, Point, StoreError, Vectors};
use crate::{Chunk, DocumentQuestion, DocumentRag, Extractive, Indexer, LibraryLimits, ParseLimits, parse};
use ragwire::{Status, Turn};

const BIRDS: &str = "# Birds\n\nA robin sings at dawn every day. An owl hunts at night, unseen.\n\n# Fish\n\nA carp eats plants all day long. The carp sings never.";

struct Bench {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    words: Arc<Words>,
    index: Indexer,
    tools: SearchTools,
}

async fn bench(vectors: Vectors, words: Words) -> Bench {
    let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(vectors));
    let words = Arc::new(words);
    let embedder: Arc<dyn Embed> = words.clone();
    let index = Indexer::new(
        Arc::clone(&library),
        Arc::clone(&store),
        Some(Arc::clone(&embedder)),
    )
    .unwrap();
    let tools = SearchTools::new(Arc::clone(&library), Arc::clone(&store), Some(embedder)).unwrap();
    add(&index, "birds.md", BIRDS).await;
    words.calls.lock().unwrap().clear();
    Bench {
        library,
        store,
        words,
        index,
        tools,
    }
}

async fn add(index: &Indexer, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    let document = index
        .add(name, parsed, |_| ControlFlow::Continue(()))
        .await
        .unwrap();
    document.id
}

/// The IDs without the document's, and the texts.
fn plain(hits: &[Hit]) -> Vec<(String, &str)> {
    let plain = |hit: &'_ Hit| {
        hit.chunk
            .id
            .strip_prefix(&hit.chunk.document_id)
            .unwrap()
            .to_owned()
    };
    hits.iter()
        .map(|hit| (plain(hit), hit.chunk.text.as_str()))
        .collect()
}

fn queries(queries: &[&str]) -> Vec<String> {
    queries.iter().map(|query| (*query).to_owned()).collect()
}

const ROBINS: &str = "A robin sings at dawn every day. An owl hunts at night, unseen.";
const CARPS: &str = "A carp eats plants all day long. The carp sings never.";

fn words() -> Words {
    Words::default()
        .synonym("birdsong", "sings")
        .synonym("morning", "dawn")
}

#[tokio::test]
async fn each_tool_searches_its_level() {
    let bench = bench(Vectors::dense(DIMENSIONS), words()).await;
    let wanted = [
        // No word of the query occurs.
        (
            Tool::Semantic,
            "semantic_search",
            "dense",
            "birdsong morning",
            Levels::new(0, 1, 0),
        ),
        (
            Tool::Hybrid,
            "hybrid_search",
            "hybrid",
            "birdsong of carps",
            Levels::new(0, 1, 0),
        ),
        (
            Tool::Proposition,
            "proposition_search",
            "hybrid",
            "sings",
            Levels::new(0, 0, 2),
        ),
        (
            Tool::Section,
            "section_search",
            "hybrid",
            "owl",
            Levels::new(1, 0, 0),
        ),
        (
            Tool::Hyde,
            "hyde_search",
            "dense",
            "Robins give their birdsong each morning.",
            Levels::new(0, 1, 0),
        ),
    ];
    let hits: [&[(&str, &str)]; 5] = [
        &[("-0", ROBINS)],
        &[("-1", CARPS)],
        &[("-1", CARPS), ("-0", ROBINS)],
        &[("-s0", ROBINS)],
        &[("-0", ROBINS)],
    ];
    for ((tool, name, mode, query, levels), wanted) in &wanted.into_iter().zip(hits).collect::<Vec<_>>() {
        assert_eq!((bench.tools.name(*tool), bench.tools.mode(*tool)), (*name, *mode));
        let found = bench
            .tools
            .search(*tool, &queries(&[query]), wanted.len())
            .await
            .unwrap();
        assert_eq!(found.len(), 1);
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(id, text)| ((*id).to_owned(), *text))
            .collect();
        assert_eq!(plain(&found[0].hits), wanted, "{name}");
        assert_eq!(
            (&found[0].levels, found[0].top_score),
            (levels, Some(found[0].hits[0].score)),
            "{name}"
        );
        // Every hit can be looked up in the library by its ID.
        for hit in found[0].hits.iter().chain(&found[0].sentences) {
            assert_eq!(
                bench.library.chunk(&hit.chunk.id).unwrap().as_ref(),
                Some(&hit.chunk)
            );
        }
        let side = if *tool == Tool::Hyde {
            Side::Passage
        } else {
            Side::Query
        };
        let mut calls = vec![(side, 1)];
        if *tool == Tool::Hybrid {
            // What the embedder finds unrelated, once.
            calls.push((Side::Passage, UNRELATED.len()));
        }
        assert_eq!(
            std::mem::take(&mut *bench.words.calls.lock().unwrap()),
            calls,
            "{name}"
        );
    }
    let found = bench
        .tools
        .search(Tool::Proposition, &queries(&["sings"]), 5)
        .await
        .unwrap()
        .remove(0);
    let sentences: Vec<_> = found
        .sentences
        .iter()
        .take(2)
        .map(|hit| hit.chunk.text.as_str())
        .collect();
    assert_eq!(
        sentences,
        ["The carp sings never.", "A robin sings at dawn every day."]
    );
    assert_eq!(found.hits.len(), 2, "each passage once");
    let event = serde_json::to_value(found.event("proposition_search", Duration::from_millis(7))).unwrap();
    let score = f64::from(found.hits[0].score);
    assert_eq!(
        event,
        json!({"tool": "proposition_search", "chunks_found": 2, "duration_ms": 7, "top_score": score, "levels": {"L1": 0, "L2": 0, "L3": 2}})
    );
}

#[tokio::test]
async fn several_queries_are_embedded_at_once() {
    let bench = bench(Vectors::dense(DIMENSIONS), words()).await;
    let found = bench
        .tools
        .search(Tool::Semantic, &queries(&["owl", " ", "carp", ""]), 1)
        .await
        .unwrap();
    let texts: Vec<Vec<_>> = found.iter().map(|found| plain(&found.hits)).collect();
    let none = Vec::new();
    assert_eq!(
        texts,
        [
            vec![("-0".to_owned(), ROBINS)],
            none.clone(),
            vec![("-1".to_owned(), CARPS)],
            none
        ]
    );
    assert_eq!(
        (&found[1].levels, found[1].top_score),
        (&Levels::new(0, 0, 0), None)
    );
    assert_eq!(*bench.words.calls.lock().unwrap(), [(Side::Query, 2)]);

    // Empty queries do not reach the store.
    for (asked, limit) in [(vec![], 5), (queries(&["", "\n"]), 5), (queries(&["owl"]), 0)] {
        let found = bench.tools.search(Tool::Hybrid, &asked, limit).await.unwrap();
        assert_eq!(found.len(), asked.len());
        assert!(found.iter().all(|found| found.hits.is_empty()));
    }
    let many = vec!["owl".to_owned(); MAX_QUERIES + 1];
    assert_eq!(
        bench
            .tools
            .search(Tool::Semantic, &many, 1)
            .await
            .unwrap_err()
            .code(),
        "too_many_queries"
    );
    assert_eq!(bench.words.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn two_copies_of_a_file_are_one_hit() {
    let bench = bench(Vectors::NONE, words()).await;
    add(&bench.index, "copy.md", BIRDS).await;
    let tools = SearchTools::new(Arc::clone(&bench.library), Arc::clone(&bench.store), None).unwrap();
    let query = queries(&["Which birds sing?"]);
    let found = tools.search(Tool::Hybrid, &query, 5).await.unwrap().remove(0);
    let texts: HashSet<&str> = found.hits.iter().map(|hit| hit.chunk.text.as_str()).collect();
    assert_eq!(texts.len(), found.hits.len());
}

#[tokio::test]
async fn without_an_embedder_only_words_are_searched() {
    for vectors in [Vectors::NONE, Vectors::dense(DIMENSIONS)] {
        let bench = bench(vectors, words()).await;
        let tools = SearchTools::new(Arc::clone(&bench.library), Arc::clone(&bench.store), None).unwrap();
        assert_eq!(
            (tools.name(Tool::Hybrid), tools.mode(Tool::Hybrid)),
            ("bm25_search", "lexical")
        );
        let found = tools
            .search(Tool::Hybrid, &queries(&["Which birds sing?"]), 5)
            .await
            .unwrap()
            .remove(0);
        // The scores are those of the order by relevance.
        let chunks = |hits: &[Hit]| hits.iter().map(|hit| hit.chunk.clone()).collect::<Vec<_>>();
        assert_eq!(
            chunks(&found.hits),
            chunks(&bench.library.search("Which birds sing?", 5).unwrap()),
            "as the library finds"
        );
        assert_eq!(found.hits.len(), 2);
        for (tool, wanted) in [
            (Tool::Proposition, vec![("-1".to_owned(), CARPS)]),
            (Tool::Section, vec![("-s1".to_owned(), CARPS)]),
        ] {
            assert_eq!(tools.mode(tool), "lexical");
            let found = tools
                .search(tool, &queries(&["carps never sing"]), 1)
                .await
                .unwrap()
                .remove(0);
            assert_eq!(plain(&found.hits), wanted);
        }
        for tool in [Tool::Semantic, Tool::Hyde] {
            assert!(!tools.has(tool));
            assert_eq!(
                tools
                    .search(tool, &queries(&["owl"]), 1)
                    .await
                    .unwrap_err()
                    .code(),
                "no_vectors"
            );
        }
        assert_eq!(tools.late_interaction().unwrap_err().code(), "no_vectors");
    }
}

#[tokio::test]
async fn removed_documents_are_never_found() {
    let bench = bench(Vectors::dense(DIMENSIONS), words()).await;
    // Many that match better than the one that stays, all of them removed from the library but not
    // from the store.
    let mut gone = Vec::new();
    for n in 0..40 {
        gone.push(
            add(
                &bench.index,
                &format!("{n}.md"),
                "# Birds\n\nAn owl, an owl. Owl owl owl owl owl owl.",
            )
            .await,
        );
    }
    let before = bench
        .tools
        .search(Tool::Semantic, &queries(&["owl"]), 2)
        .await
        .unwrap()
        .remove(0);
    assert!(
        before
            .hits
            .iter()
            .all(|hit| gone.contains(&hit.chunk.document_id))
    );
    for id in &gone {
        bench.library.remove(id).unwrap();
    }
    assert!(bench.store.documents().await.unwrap().len() > 40);
    for tool in [
        Tool::Semantic,
        Tool::Hybrid,
        Tool::Proposition,
        Tool::Section,
        Tool::Hyde,
    ] {
        for limit in [1, 2, 5] {
            let found = bench
                .tools
                .search(tool, &queries(&["owl unseen"]), limit)
                .await
                .unwrap()
                .remove(0);
            assert_eq!(found.hits.len(), limit.min(2), "{tool:?}: as many as there are");
            assert_eq!(found.hits[0].chunk.heading.as_deref(), Some("Birds"));
            assert!(
                found.hits.iter().all(|hit| hit.chunk.document_name == "birds.md"),
                "{tool:?}"
            );
        }
    }
    // The mark is never a hit.
    let mark = bench
        .store
        .documents()
        .await
        .unwrap()
        .into_iter()
        .find(|id| id.starts_with("index-"))
        .unwrap();
    let found = bench
        .tools
        .search(Tool::Hybrid, &queries(&[&mark.replace('-', "")]), 5)
        .await
        .unwrap()
        .remove(0);
    assert!(found.hits.iter().all(|hit| hit.chunk.document_name == "birds.md"));
}

#[tokio::test]
async fn late_interaction_reorders_in_the_store() {
    let bench = bench(Vectors::dense(DIMENSIONS).with_tokens(), words()).await;
    let tools = bench.tools.clone().late_interaction().unwrap();
    let found = tools
        .search(Tool::Hybrid, &queries(&["carp plants owl"]), 2)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        plain(&found.hits),
        [("-1".to_owned(), CARPS), ("-0".to_owned(), ROBINS)]
    );
    let scores: Vec<f32> = found.hits.iter().map(|hit| hit.score.round()).collect();
    assert_eq!(scores, [2.0, 1.0]);
    let dense_only = SearchTools::new(
        Arc::clone(&bench.library),
        Arc::new(MemoryStore::new(Vectors::dense(DIMENSIONS))),
        Some(Arc::new(Words::default())),
    );
    assert_eq!(
        dense_only.unwrap().late_interaction().unwrap_err().code(),
        "no_vectors"
    );
}

#[tokio::test]
async fn a_tool_is_a_retriever() {
    let bench = bench(Vectors::dense(DIMENSIONS), words()).await;
    for (tool, name, mode) in [
        (Tool::Hybrid, "hybrid_search", "hybrid"),
        (Tool::Proposition, "proposition_search", "hybrid"),
        (Tool::Semantic, "semantic_search", "dense"),
    ] {
        let rag = DocumentRag::new(
            Arc::new(bench.tools.retriever(tool)),
            Arc::new(Extractive::new(Arc::clone(&bench.library))),
        );
        let question = DocumentQuestion::new("When does the robin sing?");
        let turn = Turn::start(|sink| rag.answer(question, sink))
            .commit()
            .await
            .unwrap();
        let collected = turn.collect().await.unwrap();
        assert_eq!(collected.end.status, Status::Completed);
        assert_eq!(collected.text, "A robin sings at dawn every day. [1]");
        let metadata = &collected.end.metadata;
        assert_eq!(
            (
                metadata.mode.as_deref(),
                metadata.citations[0].source_tool.as_str()
            ),
            (Some(mode), name)
        );
    }
}

/// A store that always fails.
#[derive(Debug)]
struct Broken;

impl Store for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn vectors(&self) -> Vectors {
        Vectors::dense(DIMENSIONS)
    }

    fn upsert(&self, _: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        unavailable()
    }

    fn search(&self, _: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        unavailable()
    }

    fn remove_document<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        unavailable()
    }

    fn documents(&self) -> Boxed<'_, Result<std::collections::BTreeSet<String>, StoreError>> {
        unavailable()
    }

    fn count(&self, _: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        unavailable()
    }
}

fn unavailable<T: Send + 'static>() -> Boxed<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::Unavailable("gone".into()))))
}

#[tokio::test]
async fn failures_have_codes_by_kind() {
    let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    let tools = |words: Words| {
        SearchTools::new(Arc::clone(&library), Arc::new(Broken), Some(Arc::new(words))).unwrap()
    };
    for (words, code) in [
        (Words::default(), "store_unavailable"),
        (Words::default().failing_at(0), "model_failed"),
        (Words::default().losing_one_at(0), "model_failed"),
        (Words::default().away_from(0), "model_unavailable"),
    ] {
        let tools = tools(words);
        let error = tools
            .search(Tool::Semantic, &queries(&["owl"]), 1)
            .await
            .unwrap_err();
        assert_eq!(error.code(), code);
        assert!(std::error::Error::source(&error).is_some());
    }
    let retriever = tools(Words::default()).retriever(Tool::Hybrid);
    let error = retriever
        .retrieve(RetrieveRequest::new("owl", 1))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "retrieval_failed");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Vectors::dense(3)));
    let other = SearchTools::new(Arc::clone(&library), store, Some(Arc::new(Words::default()))).unwrap_err();
    assert_eq!(other.code(), "other_vectors");
    let by_hand = Hit::new(Chunk::new("d", "d.md", 0, "x"), 1.0);
    assert_eq!(parent_of(&by_hand), "d-0", "a chunk without a parent is its own");
}
