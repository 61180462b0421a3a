//! Which parts run, how they describe themselves, and that each does its work.

use std::collections::BTreeSet;

use ragwire_rag::models::{ModelError, Prompt, Side};
use ragwire_rag::search::store::{Filter, Search};
use ragwire_rag::{Level, Library, LibraryFollower};
use ragwire_server::engines::Engines;
use ragwire_server::settings::values::{Count, CountOrZero};

use crate::models::{add, embedder, library, model, ranker, settings, start, within, writer};

const NO_LLM: &str = "llm: none, answers quote sentences (--llm FILE.gguf or --llm-url URL)";
const NO_EMBEDDER: &str = "embedder: none, search is lexical (--embedder FILE.gguf or --embedder-url URL)";
const NO_RERANKER: &str =
    "reranker: none, passages keep the order of the search (--reranker FILE.gguf or --reranker-url URL)";
#[cfg(feature = "qdrant-edge")]
pub(crate) const MEMORY: &str = "store: memory, rebuilt at each start (--store qdrant-edge is persistent)";
#[cfg(all(not(feature = "qdrant-edge"), feature = "qdrant"))]
pub(crate) const MEMORY: &str = "store: memory, rebuilt at each start (--store qdrant is persistent)";
#[cfg(not(any(feature = "qdrant-edge", feature = "qdrant")))]
pub(crate) const MEMORY: &str = "store: memory, rebuilt at each start (--store qdrant-edge is persistent, in builds with --features qdrant-edge)";

/// The number of chunks of all levels, and of the point that marks the store.
fn chunks(library: &Library) -> u64 {
    let of = |id: &String| {
        let counts = library.levels(id).unwrap();
        u64::from(counts.l1) + u64::from(counts.l2) + u64::from(counts.l3)
    };
    library.document_ids().iter().map(of).sum::<u64>() + 1
}

async fn held(engines: &Engines) -> (u64, BTreeSet<String>) {
    let mut documents = engines.store.documents().await.unwrap();
    documents.retain(|id| !id.starts_with("index-"));
    (engines.store.count(Filter::default()).await.unwrap(), documents)
}

async fn assert_in_step(engines: &Engines, library: &Library) {
    assert_eq!(held(engines).await, (chunks(library), library.document_ids()));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_runs_and_is_described() {
    let (settings, _folder) = settings(|settings| {
        settings.llm = model(writer());
        settings.embedder = model(embedder());
        settings.reranker = model(ranker());
        settings.llm_context = CountOrZero(512);
        settings.llm_slots = Count(2);
    });
    let library = library();
    let engines = start(&settings, &library).await.unwrap();
    assert_eq!(
        engines.summary(),
        [
            "llm: tiny, 2 answers at a time, 512 tokens of context each",
            "embedder: tiny bert, 32 dimensions",
            "reranker: tiny bert",
            MEMORY,
        ]
    );
    within(engines.reconcile()).await.unwrap();
    assert_in_step(&engines, &library).await;

    let llm = engines.llm.as_ref().unwrap();
    assert_eq!((llm.name(), llm.context_tokens()), ("tiny", 512));
    let (_, finished) = within(llm.generate(Prompt::user("?").max_tokens(3)).whole())
        .await
        .unwrap();
    assert_eq!(finished.answer_tokens, Some(3));
    let query = || vec!["how the login works".to_owned()];
    let vectors = engines
        .embedder
        .as_ref()
        .unwrap()
        .embed(Side::Query, query())
        .await
        .unwrap();
    let search = Search::hybrid("login", vectors[0].clone(), 1).filter(Filter::level(Level::Passage));
    let hits = engines.store.search(search).await.unwrap();
    assert_eq!(hits[0].chunk.heading.as_deref(), Some("Login"));
    let rank = engines.ranker.as_ref().unwrap();
    assert_eq!(rank.method(), "cross-encoder");
    assert_eq!(rank.rank("the pump", query()).await.unwrap().len(), 1);

    within(engines.shutdown()).await;
    let closed = llm.generate(Prompt::user("?")).whole().await.unwrap_err();
    assert!(matches!(closed, ModelError::Closed), "{closed}");
    let embedder = engines.embedder.as_ref().unwrap();
    assert_eq!(
        embedder.embed(Side::Query, query()).await.unwrap_err().code(),
        "model_closed"
    );
    assert_eq!(rank.rank("?", query()).await.unwrap_err().code(), "model_closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_subset_runs_and_the_rest_is_described() {
    let library = library();
    let (nothing, _folder) = settings(|_| {});
    let engines = start(&nothing, &library).await.unwrap();
    assert_eq!(engines.summary(), [NO_LLM, NO_EMBEDDER, NO_RERANKER, MEMORY]);
    assert!(engines.llm.is_none() && engines.embedder.is_none() && engines.ranker.is_none());
    assert_eq!(Engines::embedded(&library).summary(), engines.summary());

    let (writes, _folder) = settings(|settings| {
        settings.llm = model(writer());
        settings.llm_slots = Count(1);
    });
    let engines = start(&writes, &library).await.unwrap();
    let llm = "llm: tiny, 1 answer at a time, 4096 tokens of context each";
    assert_eq!(engines.summary(), [llm, NO_EMBEDDER, NO_RERANKER, MEMORY]);
    assert!(engines.embedder.is_none() && engines.ranker.is_none());
    within(engines.shutdown()).await;

    let (embeds, _folder) = settings(|settings| settings.embedder = model(embedder()));
    let engines = start(&embeds, &library).await.unwrap();
    let embedded = "embedder: tiny bert, 32 dimensions";
    assert_eq!(engines.summary(), [NO_LLM, embedded, NO_RERANKER, MEMORY]);
    assert!(engines.ranker.is_none());
    assert_eq!(engines.store.vectors().dimensions, 32);
    within(engines.shutdown()).await;

    let (ranks, _folder) = settings(|settings| settings.reranker = model(ranker()));
    let engines = start(&ranks, &library).await.unwrap();
    assert_eq!(
        engines.summary(),
        [NO_LLM, NO_EMBEDDER, "reranker: tiny bert", MEMORY]
    );
    assert_eq!(engines.store.vectors().dimensions, 0);
    within(engines.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_follow_uploads_and_removals() {
    let (settings, _folder) = settings(|settings| settings.embedder = model(embedder()));
    let library = library();
    let engines = start(&settings, &library).await.unwrap();
    within(engines.reconcile()).await.unwrap();
    let changing = async {
        let id = add(&library, "new.md", "# New\n\nThe water works. The login moves.");
        until_in_step(&engines, &library).await;
        let vectors = engines
            .embedder
            .as_ref()
            .unwrap()
            .embed(Side::Query, vec!["water".into()])
            .await
            .unwrap();
        let search = Search::dense(vectors[0].clone(), 10).filter(Filter::default().document(&id));
        let levels: BTreeSet<Level> = engines
            .store
            .search(search)
            .await
            .unwrap()
            .iter()
            .map(|hit| hit.chunk.level)
            .collect();
        assert_eq!(levels, [Level::Section, Level::Passage, Level::Sentence].into());
        // One document is replaced, and one is removed.
        add(&library, "new.md", "# New\n\nNothing moves.");
        library.remove(&add(&library, "old.md", "Old.")).unwrap();
        until_in_step(&engines, &library).await;
        assert!(!held(&engines).await.1.contains(&id));
    };
    tokio::select! {
        never = ragwire_rag::follow(&engines, |_| {}) => match never {},
        () = within(changing) => {}
    }
    // Without a follower, an upload is in the store when the route responds.
    add(&library, "more.md", "The pump moves the pump.");
    let _ = within(LibraryFollower::reconcile(&engines)).await.unwrap();
    assert_in_step(&engines, &library).await;
    within(engines.shutdown()).await;
    // Without its model a document is found by its words; nothing else is affected.
    add(&library, "late.md", "How late is the query?");
    let _ = within(LibraryFollower::reconcile(&engines)).await.unwrap();
    assert_eq!(engines.indexer.behind().await.len(), 1);
}

async fn until_in_step(engines: &Engines, library: &Library) {
    while held(engines).await != (chunks(library), library.document_ids()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_does_not_wait_for_an_answer() {
    let (settings, _folder) = settings(|settings| settings.llm = model(writer()));
    let engines = start(&settings, &library()).await.unwrap();
    let llm = engines.llm.as_ref().unwrap();
    // It would write for minutes; only the shutdown stops it.
    let mut writing = Vec::new();
    for _ in 0..6 {
        writing.push(llm.generate(Prompt::user("Go on.").max_tokens(4_000)));
    }
    within(writing[0].next()).await.unwrap().unwrap();
    within(engines.shutdown()).await;
    for generation in writing {
        assert_eq!(
            within(generation.whole()).await.unwrap_err().code(),
            "model_closed"
        );
    }
}
