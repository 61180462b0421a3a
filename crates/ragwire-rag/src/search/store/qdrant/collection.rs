//! The collection of a [`QdrantStore`]: created if it does not exist, otherwise checked.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionInfo, CollectionParams, CreateCollection, CreateFieldIndexCollection, Distance, FieldType,
    GetCollectionInfoRequest, HnswConfigDiff, Modifier, MultiVectorComparator, MultiVectorConfig,
    SparseVectorConfig, SparseVectorParams, Value, VectorParams, VectorParamsMap, VectorsConfig,
};

use super::failure::{Failure, NOT_FOUND};
use super::{QdrantOptions, QdrantStore, failed};
use crate::search::store::StoreError;
use crate::search::store::schema::{DENSE, DOCUMENT, LEVEL, TOKENS, WORDS};

/// The key in the collection's metadata for the name of the model that computes the vectors.
const EMBEDDER: &str = "ragwire_embedder";

pub(super) async fn prepare(store: &QdrantStore) -> Result<(), StoreError> {
    let mut info = find(store).await?;
    if info.is_none() {
        let request = create(&store.options);
        let made = store
            .connection
            .send(|| store.connection.client.create_collection(request.clone()))
            .await;
        // Another process may have created it in between, or this very request before its answer
        // was lost. Check what is there now.
        info = find(store).await?;
        if info.is_none() {
            return Err(made
                .err()
                .map_or_else(|| failed("Qdrant did not create the collection"), Into::into));
        }
    }
    let info = info.unwrap_or_default();
    check(&store.options, &info)?;
    for name in [DOCUMENT, LEVEL] {
        if info.payload_schema.contains_key(name) {
            continue;
        }
        let index = CreateFieldIndexCollection {
            collection_name: store.options.collection.clone(),
            wait: Some(true),
            field_name: name.to_owned(),
            field_type: Some(FieldType::Keyword.into()),
            ..CreateFieldIndexCollection::default()
        };
        store
            .connection
            .send(|| store.connection.client.create_field_index(index.clone()))
            .await?;
    }
    Ok(())
}

async fn find(store: &QdrantStore) -> Result<Option<CollectionInfo>, StoreError> {
    let request = GetCollectionInfoRequest {
        collection_name: store.options.collection.clone(),
    };
    match store
        .connection
        .send(|| store.connection.client.collection_info(request.clone()))
        .await
    {
        Ok(found) => Ok(found.result),
        Err(Failure {
            code: Some(NOT_FOUND),
            ..
        }) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn create(options: &QdrantOptions) -> CreateCollection {
    let vector = || VectorParams {
        size: options.vectors.dimensions as u64,
        distance: Distance::Cosine.into(),
        ..VectorParams::default()
    };
    let mut map = HashMap::new();
    if options.vectors.dimensions > 0 {
        map.insert(DENSE.to_owned(), vector());
        if options.vectors.tokens {
            let tokens = VectorParams {
                multivector_config: Some(MultiVectorConfig {
                    comparator: MultiVectorComparator::MaxSim.into(),
                }),
                // Only candidates are compared by their tokens, so a graph of token vectors would
                // never be used.
                hnsw_config: Some(HnswConfigDiff {
                    m: Some(0),
                    ..HnswConfigDiff::default()
                }),
                ..vector()
            };
            map.insert(TOKENS.to_owned(), tokens);
        }
    }
    let words = SparseVectorParams {
        modifier: Some(Modifier::Idf.into()),
        ..SparseVectorParams::default()
    };
    let embedder = options.embedder.iter();
    CreateCollection {
        collection_name: options.collection.clone(),
        vectors_config: Some(VectorsConfig {
            config: Some(Config::ParamsMap(VectorParamsMap { map })),
        }),
        sparse_vectors_config: Some(SparseVectorConfig {
            map: [(WORDS.to_owned(), words)].into(),
        }),
        metadata: embedder
            .map(|name| (EMBEDDER.to_owned(), Value::from(name.clone())))
            .collect(),
        ..CreateCollection::default()
    }
}

/// Checks that an existing collection matches the one that would be created. A server that does not
/// keep metadata does not report the embedder.
fn check(options: &QdrantOptions, info: &CollectionInfo) -> Result<(), StoreError> {
    let config = info.config.clone().unwrap_or_default();
    let params = config.params.unwrap_or_default();
    let wanted = create(options);
    let found = shape(params);
    let wanted = shape(CollectionParams {
        vectors_config: wanted.vectors_config,
        sparse_vectors_config: wanted.sparse_vectors_config,
        ..CollectionParams::default()
    });
    if found != wanted {
        return Err(StoreError::Mismatch(format!("{found:?}, expected {wanted:?}")));
    }
    let embedder = config.metadata.get(EMBEDDER).and_then(Value::as_str);
    match (embedder, &options.embedder) {
        (Some(found), Some(wanted)) if found != wanted => Err(StoreError::Mismatch(format!(
            "embedder {found}, expected {wanted}"
        ))),
        _ => Ok(()),
    }
}

/// Describes the vectors of a collection by name.
fn shape(params: CollectionParams) -> BTreeMap<String, String> {
    let dense = match params.vectors_config.and_then(|vectors| vectors.config) {
        Some(Config::ParamsMap(vectors)) => vectors.map,
        Some(Config::Params(vector)) => [(String::new(), vector)].into(),
        None => HashMap::new(),
    };
    let dense = dense.into_iter().map(|(name, vector)| {
        let distance = vector.distance().as_str_name();
        let many = vector.multivector_config.map_or("", |_| " each");
        (name, format!("{} {distance}{many}", vector.size))
    });
    let sparse = params.sparse_vectors_config.unwrap_or_default().map;
    let sparse = sparse.into_iter().map(|(name, vector)| {
        let modifier = vector.modifier().as_str_name();
        (name, format!("sparse {modifier}"))
    });
    dense.chain(sparse).collect()
}
