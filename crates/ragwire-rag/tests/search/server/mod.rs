//! Tests of `QdrantStore` against a test double of a server: the requests it sends, and how it
//! handles any answer.

mod collection;
mod faults;
mod requests;

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CreateCollection, Distance, HnswConfigDiff, Modifier, MultiVectorComparator, MultiVectorConfig,
    SparseVectorConfig, SparseVectorParams, Value, VectorParams, VectorParamsMap, VectorsConfig,
};
use ragwire_rag::search::store::{QdrantOptions, QdrantStore, StoreError, Vectors};

use ragwire_test_support::qdrant::Double;

pub(crate) const KEY: &str = "a-key-that-is-a-secret";

pub(crate) fn options(url: &str) -> QdrantOptions {
    QdrantOptions::new(url, "papers", Vectors::dense(2).with_tokens())
        .embedder("mini")
        .api_key(Some(KEY.to_owned()))
}

pub(crate) async fn started() -> (Double, QdrantStore) {
    let double = Double::start().await;
    let store = QdrantStore::new(options(&double.url)).unwrap();
    (double, store)
}

pub(crate) fn collection() -> CreateCollection {
    let vector = VectorParams {
        size: 2,
        distance: Distance::Cosine.into(),
        ..VectorParams::default()
    };
    let tokens = VectorParams {
        multivector_config: Some(MultiVectorConfig {
            comparator: MultiVectorComparator::MaxSim.into(),
        }),
        hnsw_config: Some(HnswConfigDiff {
            m: Some(0),
            ..HnswConfigDiff::default()
        }),
        ..vector
    };
    let words = SparseVectorParams {
        modifier: Some(Modifier::Idf.into()),
        ..SparseVectorParams::default()
    };
    CreateCollection {
        collection_name: "papers".to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(Config::ParamsMap(VectorParamsMap {
                map: [("dense".to_owned(), vector), ("tokens".to_owned(), tokens)].into(),
            })),
        }),
        sparse_vectors_config: Some(SparseVectorConfig {
            map: [("words".to_owned(), words)].into(),
        }),
        metadata: [("ragwire_embedder".to_owned(), Value::from("mini"))].into(),
        ..CreateCollection::default()
    }
}

pub(crate) fn methods(double: &Double) -> Vec<String> {
    double
        .take_requests()
        .into_iter()
        .map(|request| request.method)
        .collect()
}

/// Returns an error with all its sources, as a log shows it.
pub(crate) fn all_of(error: &StoreError) -> String {
    let mut all = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        all += &format!("\n{error} {error:?}");
        source = error.source();
    }
    all
}
