//! A store on disk: filled once, by the first process, without blocking others.

use std::ops::ControlFlow;

use ragwire_rag::search::store::{EdgeOptions, EdgeStore, Vectors};
use ragwire_server::engines::Engines;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::StoreKind;

use crate::models::{add, embedder, library, model, settings, start, within, writer};

fn edge(settings: &mut Settings) {
    settings.store = StoreKind::QdrantEdge;
    settings.embedder = model(embedder());
}

/// The numbers of documents added and of chunks reported; zero if nothing was embedded.
async fn indexed(engines: &Engines) -> (usize, usize) {
    let mut chunks = 0;
    let report = engines.indexer.reconcile(|progress| {
        chunks = progress.total_chunks;
        ControlFlow::Continue(())
    });
    let report = within(report).await.unwrap();
    assert!(report.failed.is_empty());
    (report.indexed, chunks)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_filled_once() {
    let (settings, folder) = settings(edge);
    let library = library();
    // As `ingest` does: without the parts that answer.
    let mut ingesting = settings.clone();
    ingesting.llm = model(&folder.path().join("nowhere.gguf"));
    ingesting.reranker = ingesting.llm.clone();
    let engines = within(Engines::start_indexing(&ingesting, &library))
        .await
        .unwrap()
        .unwrap();
    assert!(engines.llm.is_none() && engines.ranker.is_none());
    within(engines.reconcile()).await.unwrap();
    within(engines.shutdown()).await;
    drop(engines);

    let engines = start(&settings, &library).await.unwrap();
    let place = std::path::absolute(folder.path().join("qdrant-edge")).unwrap();
    assert_eq!(
        engines.summary()[3],
        format!("store: qdrant-edge in {}", place.display())
    );
    assert_eq!(indexed(&engines).await, (0, 0));
    // Only documents added in between are embedded.
    add(&library, "new.md", "How the pump works.");
    assert_eq!(indexed(&engines).await, (1, 3));
    within(engines.shutdown()).await;
    drop(engines);

    let engines = start(&settings, &library).await.unwrap();
    assert_eq!(indexed(&engines).await, (0, 0));
    within(engines.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_memory_is_not_filled_without_readers() {
    let (settings, folder) = settings(|settings| settings.embedder = model(embedder()));
    let mut settings = settings;
    settings.embedder = model(&folder.path().join("nowhere.gguf"));
    assert!(
        Engines::start_indexing(&settings, &library())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_store() {
    let (settings, folder) = settings(edge);
    let library = library();
    let place = folder.path().join("qdrant-edge");
    let shown = std::path::absolute(&place).unwrap().display().to_string();
    let told = async |settings: &Settings| {
        let error = start(settings, &library).await.expect_err("it starts");
        (error.to_string().replace(&shown, "PLACE"), error.code())
    };

    let other = EdgeStore::open(&place, EdgeOptions::new(Vectors::dense(32)).embedder("tiny bert"))
        .await
        .unwrap();
    let words = "store qdrant-edge in PLACE: the store is in use by another process; stop the other server, or choose another folder \
                 with --data";
    assert_eq!(told(&settings).await, (words.to_owned(), "store_in_use"));
    other.close().await.unwrap();

    // Created with an embedder and opened without one: refused before a large model is loaded.
    let mut without = settings.clone();
    without.embedder = Default::default();
    without.llm = model(writer());
    let words = "store qdrant-edge in PLACE: the store was made for other vectors: format 1, 32 dimensions, without tokens, \
                 embedder tiny bert, expected format 1, 0 dimensions, without tokens, embedder none; use the embedder that it was built \
                 with, or delete the folder to rebuild it";
    assert_eq!(told(&without).await, (words.to_owned(), "store_mismatch"));
    std::fs::remove_dir_all(&place).unwrap();
    let options = EdgeOptions::new(Vectors::dense(32)).embedder("another");
    EdgeStore::open(&place, options)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let (words, code) = told(&settings).await;
    assert!(words.contains("embedder another, expected format 1"), "{words}");
    assert_eq!(code, "store_mismatch");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, "a file").unwrap();
    let (words, code) = told(&settings).await;
    let (begin, end) = (
        "store qdrant-edge in PLACE: the store failed: ",
        "; if it is damaged, delete the folder to rebuild it",
    );
    assert!(words.starts_with(begin) && words.ends_with(end), "{words}");
    assert_eq!(code, "store_failed");
    std::fs::remove_file(&place).unwrap();
    let engines = start(&settings, &library).await.unwrap();
    within(engines.shutdown()).await;
}
