//! The input checks that all stores share. This module does not know any store.

use super::{CANDIDATES_PER_HIT, Filter, MAX_HITS, Point, Search, StoreError, Vectors};
use crate::search::lexical::MAX_QUERY_BYTES;

/// Rejects points that a store cannot keep, before it stores any of them.
pub(super) fn check_points(vectors: Vectors, points: &[Point]) -> Result<(), StoreError> {
    let of_tokens = if vectors.tokens { vectors.dimensions } else { 0 };
    for point in points {
        if let Some(dense) = &point.dense {
            check(dense, vectors.dimensions)?;
        }
        for token in &point.tokens {
            check(token, of_tokens)?;
        }
    }
    Ok(())
}

fn check(vector: &[f32], wanted: usize) -> Result<(), StoreError> {
    let found = vector.len();
    if found != wanted || wanted == 0 {
        return Err(StoreError::BadVector { found, wanted });
    }
    if !vector.iter().all(|value| value.is_finite()) {
        return Err(StoreError::BadVector { found: 0, wanted });
    }
    Ok(())
}

/// A search whose input has been checked.
#[derive(Debug)]
pub(super) struct ValidSearch {
    /// Not blank, and cut to the length that is read of a query.
    pub(super) text: Option<String>,
    pub(super) dense: Option<Vec<f32>>,
    pub(super) tokens: Vec<Vec<f32>>,
    pub(super) filter: Filter,
    /// At most [`MAX_HITS`].
    pub(super) limit: usize,
}

impl ValidSearch {
    /// Rejects a search that cannot be run.
    pub(super) fn new(vectors: Vectors, search: Search) -> Result<Self, StoreError> {
        let Search {
            mut text,
            dense,
            tokens,
            filter,
            limit,
        } = search;
        if dense.is_some() && vectors.dimensions == 0 {
            return Err(StoreError::BadSearch("the store does not keep vectors"));
        }
        if !tokens.is_empty() && !vectors.tokens {
            return Err(StoreError::BadSearch("the store does not keep token vectors"));
        }
        for vector in dense.iter().chain(&tokens) {
            check(vector, vectors.dimensions)?;
        }
        text.take_if(|text| text.trim().is_empty());
        if text.is_none() && dense.is_none() {
            return Err(StoreError::BadSearch("it contains neither words nor a vector"));
        }
        if let Some(text) = &mut text {
            text.truncate(text.floor_char_boundary(MAX_QUERY_BYTES));
        }
        Ok(Self {
            text,
            dense,
            tokens,
            filter,
            limit: limit.min(MAX_HITS),
        })
    }

    /// Returns how many candidates the words and the vector each contribute. Fusion and reranking
    /// need more candidates than the hits that are returned.
    pub(super) fn candidates(&self) -> usize {
        let alone = self.text.is_none() || self.dense.is_none();
        if alone && self.tokens.is_empty() {
            self.limit
        } else {
            self.limit * CANDIDATES_PER_HIT
        }
    }
}
