//! Converts chunks, filters and searches into Qdrant's gRPC messages. This module does not know any
//! connection.

use std::collections::HashMap;

use qdrant_client::Payload;
use qdrant_client::qdrant::{
    Condition, CountPoints, DenseVector, Document, FacetCounts, MultiDenseVector, NamedVectors, PointId,
    PointStruct, PrefetchQuery, Query, QueryPoints, Rrf, Value, Vector, VectorInput, WithPayloadSelector,
    WithVectorsSelector, query, vector, vector_input, with_payload_selector, with_vectors_selector,
};

use crate::search::store::checks::ValidSearch;
use crate::search::store::schema::{
    self, ASCII_FOLDING, AVERAGE_TERMS, DENSE, DOCUMENT, QDRANT_RRF_K, TOKENS, WORDS,
};
use crate::search::store::{Filter, Point, StoreError};

/// The model that turns texts into terms, on the server.
const BM25: &str = "qdrant/bm25";
/// The most documents that are listed: far more than a collection is meant for.
const MAX_DOCUMENTS: u64 = 10_000_000;

pub(crate) fn point_id(chunk_id: &str) -> PointId {
    let hex: String = schema::point_id(chunk_id)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{a}-{b}-{c}-{d}-{e}").into()
}

pub(super) fn point(point: &Point) -> Result<PointStruct, StoreError> {
    let words = document(schema::words(&point.chunk).into_owned());
    let mut vectors: HashMap<String, vector::Vector> =
        [(WORDS.to_owned(), vector::Vector::Document(words))].into();
    if let Some(dense) = &point.dense {
        let data = dense.clone();
        vectors.insert(DENSE.to_owned(), vector::Vector::Dense(DenseVector { data }));
    }
    if !point.tokens.is_empty() {
        let tokens = multi(point.tokens.clone());
        vectors.insert(TOKENS.to_owned(), vector::Vector::MultiDense(tokens));
    }
    let vectors = vectors.into_iter().map(|(name, vector)| {
        let vector = Vector {
            vector: Some(vector),
            ..Vector::default()
        };
        (name, vector)
    });
    Ok(PointStruct {
        id: Some(point_id(&point.chunk.id)),
        payload: Payload::from(schema::payload(&point.chunk)?).into(),
        vectors: Some(
            NamedVectors {
                vectors: vectors.collect(),
            }
            .into(),
        ),
    })
}

fn document(text: String) -> Document {
    Document {
        text,
        model: BM25.to_owned(),
        options: [
            ("avg_len".to_owned(), Value::from(AVERAGE_TERMS)),
            ("ascii_folding".to_owned(), Value::from(ASCII_FOLDING)),
        ]
        .into(),
    }
}

fn multi(vectors: Vec<Vec<f32>>) -> MultiDenseVector {
    MultiDenseVector {
        vectors: vectors.into_iter().map(|data| DenseVector { data }).collect(),
    }
}

pub(super) fn conditions(filter: &Filter) -> qdrant_client::qdrant::Filter {
    qdrant_client::qdrant::Filter::must(
        schema::conditions(filter).map(|(name, values)| Condition::matches(name, values)),
    )
}

/// Returns `None` if all chunks are selected.
fn some_conditions(filter: &Filter) -> Option<qdrant_client::qdrant::Filter> {
    Some(conditions(filter)).filter(|conditions| !conditions.must.is_empty())
}

pub(super) fn count(collection: &str, filter: &Filter) -> CountPoints {
    CountPoints {
        collection_name: collection.to_owned(),
        filter: some_conditions(filter),
        exact: Some(true),
        ..CountPoints::default()
    }
}

pub(super) fn documents(collection: &str) -> FacetCounts {
    FacetCounts {
        collection_name: collection.to_owned(),
        key: DOCUMENT.to_owned(),
        limit: Some(MAX_DOCUMENTS),
        exact: Some(true),
        ..FacetCounts::default()
    }
}

fn nearest(input: vector_input::Variant) -> Query {
    Query {
        variant: Some(query::Variant::Nearest(VectorInput { variant: Some(input) })),
    }
}

pub(super) fn query(collection: &str, search: ValidSearch) -> QueryPoints {
    let candidates = search.candidates() as u64;
    let filter = some_conditions(&search.filter);
    let half = |name: &str, input| PrefetchQuery {
        query: Some(nearest(input)),
        using: Some(name.to_owned()),
        filter: filter.clone(),
        limit: Some(candidates),
        ..PrefetchQuery::default()
    };
    let words = search
        .text
        .map(|text| half(WORDS, vector_input::Variant::Document(document(text))));
    let dense = search
        .dense
        .map(|data| half(DENSE, vector_input::Variant::Dense(DenseVector { data })));
    let mut all = match (words, dense) {
        (Some(words), Some(dense)) => PrefetchQuery {
            prefetch: vec![words, dense],
            query: Some(Query {
                variant: Some(query::Variant::Rrf(Rrf {
                    k: Some(u32::from(QDRANT_RRF_K)),
                    weights: Vec::new(),
                })),
            }),
            limit: Some(2 * candidates),
            ..PrefetchQuery::default()
        },
        (one, other) => one.or(other).unwrap_or_default(),
    };
    if !search.tokens.is_empty() {
        all = PrefetchQuery {
            prefetch: vec![all],
            query: Some(nearest(vector_input::Variant::MultiDense(multi(search.tokens)))),
            using: Some(TOKENS.to_owned()),
            ..PrefetchQuery::default()
        };
    }
    QueryPoints {
        collection_name: collection.to_owned(),
        prefetch: all.prefetch,
        query: all.query,
        using: all.using,
        filter: all.filter,
        limit: Some(search.limit as u64),
        with_payload: Some(WithPayloadSelector {
            selector_options: Some(with_payload_selector::SelectorOptions::Enable(true)),
        }),
        with_vectors: Some(WithVectorsSelector {
            selector_options: Some(with_vectors_selector::SelectorOptions::Enable(false)),
        }),
        ..QueryPoints::default()
    }
}
