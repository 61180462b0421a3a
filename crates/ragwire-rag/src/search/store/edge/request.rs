//! Converts chunks, filters and searches into the types of Qdrant Edge. This module does not know
//! any shard.

use qdrant_edge::bm25_embed::EdgeBm25;
use qdrant_edge::external::serde_json::Value;
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{
    Condition, FieldCondition, Fusion, Match, NamedQuery, NamedVectors, PointId, PointStruct,
    PointStructPersisted, Prefetch, QueryEnum, QueryRequest, ScoringQuery, Vector,
};

use super::{failed, field};
use crate::search::store::checks::ValidSearch;
use crate::search::store::schema::{self, DENSE, QDRANT_RRF_K, TOKENS, WORDS};
use crate::search::store::{Filter, Point, StoreError};

pub(super) fn point_id(chunk_id: &str) -> PointId {
    PointId::Uuid(Uuid::from_bytes(schema::point_id(chunk_id)))
}

pub(super) fn point(words: &EdgeBm25, point: &Point) -> Result<PointStructPersisted, StoreError> {
    let terms = words.embed_document(&schema::words(&point.chunk));
    let mut vectors = NamedVectors::default().add_vector(WORDS, terms);
    if let Some(dense) = &point.dense {
        vectors = vectors.add_vector(DENSE, dense.clone());
    }
    if !point.tokens.is_empty() {
        vectors = vectors.add_vector(TOKENS, tokens(point.tokens.clone())?);
    }
    let payload = Value::Object(schema::payload(&point.chunk)?);
    Ok(PointStruct::new(point_id(&point.chunk.id), vectors, payload).into())
}

fn tokens(vectors: Vec<Vec<f32>>) -> Result<Vector, StoreError> {
    Vector::new_multi(vectors).map_err(|error| failed(error.to_string()))
}

/// Returns `None` if all chunks are selected.
pub(super) fn filter(filter: &Filter) -> Option<qdrant_edge::Filter> {
    let must: Vec<Condition> = schema::conditions(filter)
        .map(|(name, values)| Condition::Field(FieldCondition::new_match(field(name), Match::from(values))))
        .collect();
    (!must.is_empty()).then(|| qdrant_edge::Filter {
        must: Some(must),
        should: None,
        min_should: None,
        must_not: None,
    })
}

fn nearest(name: &str, vector: impl Into<Vector>) -> ScoringQuery {
    ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery {
        query: vector.into().0,
        using: Some(name.to_owned()),
    }))
}

/// Returns `None` if nothing can be found: no hits are wanted, or the search contains no term.
///
/// All fused hits are returned, not only the wanted number: equal scores have no order, and cutting
/// among them would give another answer each time.
pub(super) fn query(words: &EdgeBm25, search: ValidSearch) -> Result<Option<QueryRequest>, StoreError> {
    let candidates = search.candidates();
    let hybrid = search.text.is_some() && search.dense.is_some();
    let filter = filter(&search.filter);
    let half = |query| Prefetch {
        prefetches: Vec::new(),
        query: Some(query),
        limit: candidates,
        params: None,
        filter: filter.clone(),
        score_threshold: None,
    };
    let terms = search.text.as_deref().map(|text| words.embed_query(text));
    let mut halves = Vec::new();
    if let Some(terms) = terms.filter(|terms| !terms.indices.is_empty()) {
        halves.push(half(nearest(WORDS, terms)));
    }
    if let Some(dense) = search.dense {
        halves.push(half(nearest(DENSE, dense)));
    }
    if halves.is_empty() || search.limit == 0 {
        return Ok(None);
    }
    let mut all = if hybrid {
        Prefetch {
            limit: halves.len() * candidates,
            query: Some(ScoringQuery::Fusion(Fusion::Rrf {
                k: usize::from(QDRANT_RRF_K),
                weights: None,
            })),
            prefetches: halves,
            params: None,
            filter: None,
            score_threshold: None,
        }
    } else {
        halves.remove(0)
    };
    if !search.tokens.is_empty() {
        all = Prefetch {
            limit: search.limit,
            query: Some(nearest(TOKENS, tokens(search.tokens)?)),
            prefetches: vec![all],
            params: None,
            filter: None,
            score_threshold: None,
        };
    }
    Ok(Some(QueryRequest {
        prefetches: all.prefetches,
        query: all.query,
        filter: all.filter,
        limit: all.limit,
        score_threshold: None,
        offset: 0,
        params: None,
        with_vector: false.into(),
        with_payload: false.into(),
    }))
}
