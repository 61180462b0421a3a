//! One suite for every store: always in memory and in this process, and on a real Qdrant server if
//! `QDRANT_URL` names one. The module `server` tests the requests to a Qdrant server, `restarts`
//! the library, its store and the tools together.
#![allow(clippy::disallowed_methods, reason = "servers and callers here are tasks")]
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

#[cfg(feature = "qdrant-edge")]
mod folder;
mod hashed;
mod levels;
mod points;
mod restarts;
#[cfg(feature = "qdrant")]
mod server;
#[cfg(feature = "qdrant")]
mod shared;
#[cfg(feature = "qdrant")]
mod shared_requests;
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

/// Runs on a new collection, which is deleted afterwards. Does nothing without a server.
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

/// Runs every behaviour of the suite on every store, each on an empty store that keeps these
/// vectors.
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
    words_match_stems_and_headings_and_rare_words_rank_first: Vectors::NONE;
    vectors_rank_by_cosine: Vectors::dense(4);
    words_and_vectors_are_fused_by_rank: Vectors::dense(8);
    token_vectors_decide_the_order: Vectors::dense(4).with_tokens();
    only_filtered_chunks_are_returned: Vectors::dense(4).with_tokens();
    a_document_is_removed_completely: Vectors::dense(4);
    results_are_limited: Vectors::dense(4);
    bad_vectors_are_rejected_before_anything_changes: Vectors::dense(4).with_tokens();
    vectors_that_a_store_does_not_keep_are_rejected: Vectors::NONE;
    a_search_for_nothing_is_rejected: Vectors::dense(4).with_tokens();
    hostile_texts_and_ids_are_returned_unchanged: Vectors::dense(4);
    a_cancelled_call_has_no_later_effect: Vectors::dense(4);
    readers_continue_during_writes: Vectors::dense(4);
    five_thousand_chunks: Vectors::dense(32);
}
