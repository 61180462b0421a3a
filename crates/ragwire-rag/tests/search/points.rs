//! Chunks and vectors for tests, and the expected results of searches, computed in plain Rust.

use std::collections::{HashMap, HashSet};

use ragwire_rag::search::store::{Point, Search, Store};
use ragwire_rag::{Chunk, Hit, Level};

pub(crate) fn chunk(document: &str, ordinal: u32, text: &str) -> Chunk {
    Chunk::new(document, &format!("{document}.md"), ordinal, text)
}

/// The same words on another level, under a different ID.
pub(crate) fn at(level: Level, mut chunk: Chunk) -> Chunk {
    chunk.id = format!("{}-{}{}", chunk.document_id, level.as_str(), chunk.ordinal);
    chunk.level = level;
    chunk
}

pub(crate) fn point(document: &str, ordinal: u32, text: &str) -> Point {
    Point::new(chunk(document, ordinal, text))
}

/// Pseudo-random numbers that are the same every time (Marsaglia's xorshift).
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub(crate) fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        let mut vector: Vec<f32> = (0..dimensions)
            .map(|_| self.below(2_000_001) as f32 / 1e6 - 1.0)
            .collect();
        ragwire_rag::models::normalize(&mut vector);
        vector
    }
}

pub(crate) async fn find(store: &dyn Store, search: Search) -> Vec<(String, f32)> {
    let hits = store.search(search).await.unwrap();
    assert!(hits.iter().all(|hit| hit.score.is_finite()));
    hits.into_iter().map(|hit| (hit.chunk.id, hit.score)).collect()
}

pub(crate) fn ids<T: AsRef<str>>(found: &[(T, f32)]) -> Vec<&str> {
    found.iter().map(|(id, _)| id.as_ref()).collect()
}

pub(crate) async fn find_ids(store: &dyn Store, search: Search) -> Vec<String> {
    find(store, search).await.into_iter().map(|(id, _)| id).collect()
}

/// The cosines of all points with a vector, best first, in `f64`.
pub(crate) fn by_cosine(points: &[Point], query: &[f32]) -> Vec<(String, f32)> {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let mut found: Vec<_> = points
        .iter()
        .filter_map(|point| Some((point.chunk.id.clone(), point.dense.as_ref()?)))
        .map(|(id, vector)| {
            let lengths = dot(query, query).sqrt() * dot(vector, vector).sqrt();
            (id, (dot(query, vector) / lengths) as f32)
        })
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Fuses two lists by hand: 1 / (60 + rank), with ranks from 1.
pub(crate) fn by_rank(lists: [&[String]; 2]) -> Vec<(String, f32)> {
    let mut scores: HashMap<&String, f64> = HashMap::new();
    for list in lists {
        for (rank, id) in list.iter().enumerate() {
            *scores.entry(id).or_default() += 1.0 / (60.0 + (rank + 1) as f64);
        }
    }
    let mut found: Vec<_> = scores
        .into_iter()
        .map(|(id, score)| (id.clone(), score as f32))
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Checks that `found` are the first `limit` of `wanted` with its scores; equal scores may be in
/// any order.
#[track_caller]
pub(crate) fn assert_first(found: &[(String, f32)], wanted: &[(String, f32)], limit: usize) {
    let close = |a: f32, b: f32| (a - b).abs() < 1e-5;
    assert_eq!(found.len(), wanted.len().min(limit));
    assert_eq!(
        found.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(),
        found.len()
    );
    let scores: HashMap<_, _> = wanted.iter().cloned().collect();
    for (place, ((id, score), (_, wanted))) in found.iter().zip(wanted).enumerate() {
        assert!(close(*score, *wanted), "at {place}: {score}, expected {wanted}");
        assert!(
            scores.get(id).is_some_and(|own| close(*own, *score)),
            "at {place}: {id} has not {score}"
        );
    }
}

/// The whole chunks of hits.
pub(crate) fn chunks(hits: Vec<Hit>) -> Vec<Chunk> {
    hits.into_iter().map(|hit| hit.chunk).collect()
}
