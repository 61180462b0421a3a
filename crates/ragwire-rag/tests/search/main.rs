//! One suite over every store: in memory and in this process always, on a real Qdrant where `QDRANT_URL` names one.
#![allow(clippy::disallowed_methods, reason = "servers and callers here are tasks")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[cfg(feature = "qdrant-edge")]
mod folder;
mod levels;
mod points;
mod restarts;
#[cfg(feature = "qdrant")]
mod server;
mod suite;

use std::pin::Pin;
use std::sync::Arc;

use ragwire_rag::search::store::{MemoryStore, Store, Vectors};

type Behaviour = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

async fn on_memory(vectors: Vectors, behaviour: Behaviour) {
    behaviour(Arc::new(MemoryStore::new(vectors))).await;
}

#[cfg(feature = "qdrant-edge")]
async fn on_edge(vectors: Vectors, behaviour: Behaviour) {
    use ragwire_rag::search::store::{EdgeOptions, EdgeStore};

    let folder = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(folder.path(), EdgeOptions::new(vectors))
        .await
        .unwrap();
    behaviour(Arc::new(store)).await;
}

/// A collection of its own, gone afterwards. Nothing where there is no server to try.
#[cfg(feature = "qdrant")]
async fn on_qdrant(vectors: Vectors, behaviour: Behaviour) {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ragwire_rag::search::store::{QdrantOptions, QdrantStore};

    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Ok(url) = std::env::var("QDRANT_URL") else {
        return;
    };
    let (key, count) = (
        std::env::var("QDRANT_API_KEY").ok(),
        COUNT.fetch_add(1, Ordering::Relaxed),
    );
    let collection = format!("ragwire-test-{}-{count}", std::process::id());
    let options = QdrantOptions::new(&url, &collection, vectors).api_key(key.clone());
    let outcome = tokio::spawn(behaviour(Arc::new(QdrantStore::new(options).unwrap()))).await;
    let client = qdrant_client::Qdrant::from_url(&url)
        .api_key(key)
        .skip_compatibility_check()
        .build();
    client.unwrap().delete_collection(collection).await.unwrap();
    outcome.unwrap();
}

/// Every behaviour of the suite on every store, each on an empty one that keeps these vectors.
macro_rules! suite {
    ($($behaviour:ident: $vectors:expr;)*) => {
        suite!(memory, on_memory: $($behaviour: $vectors;)*);
        #[cfg(feature = "qdrant-edge")]
        suite!(edge, on_edge: $($behaviour: $vectors;)*);
        #[cfg(feature = "qdrant")]
        suite!(qdrant, on_qdrant: $($behaviour: $vectors;)*);
    };
    ($store:ident, $on:ident: $($behaviour:ident: $vectors:expr;)*) => {
        mod $store {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    $on($vectors, |store| Box::pin(suite::$behaviour(store))).await;
                }
            )*
        }
    };
}

suite! {
    a_chunk_with_the_same_id_is_replaced: Vectors::dense(4);
    words_find_stems_headings_and_the_telling_first: Vectors::NONE;
    a_vector_finds_by_cosine: Vectors::dense(4);
    both_are_fused_by_rank: Vectors::dense(8);
    token_vectors_decide_the_order: Vectors::dense(4).with_tokens();
    only_what_the_filter_accepts_counts: Vectors::dense(4).with_tokens();
    a_document_goes_as_a_whole: Vectors::dense(4);
    as_many_as_wanted_and_no_more_than_there_may_be: Vectors::dense(4);
    bad_vectors_are_refused_before_anything_changes: Vectors::dense(4).with_tokens();
    what_a_store_does_not_keep_is_refused: Vectors::NONE;
    a_search_for_nothing_is_refused: Vectors::dense(4).with_tokens();
    hostile_texts_and_ids_come_back_as_they_went_in: Vectors::dense(4);
    a_call_that_is_given_up_does_nothing_later: Vectors::dense(4);
    readers_go_on_beside_a_writer: Vectors::dense(4);
    five_thousand_chunks: Vectors::dense(32);
}
