//! Finding chunks: the seam [`Retrieve`], its lexical implementation, and the fusing of several result lists.
//!
//! The trait returns boxed futures, so that a server can hold an `Arc<dyn Retrieve>` and choose at start: one allocation for
//! a search does not show beside the search.

use std::collections::HashMap;
use std::error::Error;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Hit, Library};

/// Constant of reciprocal rank fusion, from the paper that introduced it (Cormack et al., 2009).
pub(crate) const RRF_K: u16 = 60;

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetrieveRequest {
    /// The query.
    pub query: String,
    /// Most hits wanted.
    pub limit: usize,
}

impl RetrieveRequest {
    /// Searches for `query`.
    pub fn new(query: impl Into<String>, limit: usize) -> Self {
        Self {
            query: query.into(),
            limit,
        }
    }
}

/// A search failed.
#[derive(Debug, thiserror::Error)]
#[error("the search failed")]
pub struct RetrieveError(#[source] Box<dyn Error + Send + Sync>);

impl RetrieveError {
    /// Wraps what went wrong.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }

    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        "retrieval_failed"
    }
}

/// Finds chunks.
pub trait Retrieve: Send + Sync + 'static {
    /// The tool's name in events and citations.
    fn tool(&self) -> &str;

    /// How it finds, for the metadata: `lexical`, `dense`, `hybrid`.
    fn mode(&self) -> &str;

    /// The best hits, best first, at most as many as wanted.
    ///
    /// # Cancel safety
    /// Dropping the future gives the search up; it changes nothing.
    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>>;
}

/// BM25 over a [`Library`]. A search runs on tokio's blocking threads: it reads a file, and over many chunks it takes long.
#[derive(Debug, Clone)]
pub struct Lexical {
    library: Arc<Library>,
}

impl Lexical {
    /// Searches `library`.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }
}

impl Retrieve for Lexical {
    fn tool(&self) -> &str {
        "bm25_search"
    }

    fn mode(&self) -> &str {
        "lexical"
    }

    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>> {
        let library = Arc::clone(&self.library);
        Box::pin(async move {
            let search = move || library.search(&request.query, request.limit);
            tokio::task::spawn_blocking(search)
                .await
                .map_err(RetrieveError::new)?
                .map_err(RetrieveError::new)
        })
    }
}

/// Fuses result lists by reciprocal rank: a chunk's score is the sum of `1 / (60 + rank)` over the lists that hold it.
/// Scores of different lists need not be comparable. Equal scores are in the order of first appearance.
pub(crate) fn fuse(lists: &[Vec<Hit>], limit: usize) -> Vec<Hit> {
    let mut first: HashMap<&str, &Hit> = HashMap::new();
    for hit in lists.iter().flatten() {
        first.entry(&hit.chunk.id).or_insert(hit);
    }
    let lists: Vec<Vec<&str>> = lists
        .iter()
        .map(|list| list.iter().map(|hit| hit.chunk.id.as_str()).collect())
        .collect();
    reciprocal_ranks(&lists)
        .into_iter()
        .take(limit)
        .filter_map(|(id, score)| Some(Hit::new(first.get(id)?.chunk.clone(), score)))
        .collect()
}

/// What [`fuse`] does, of any keys: each with its score, best first.
pub(crate) fn reciprocal_ranks<K: Copy + Eq + Hash>(lists: &[Vec<K>]) -> Vec<(K, f32)> {
    let mut fused: Vec<(K, f32)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for list in lists {
        for (rank, key) in (1u32..).zip(list) {
            let place = *places.entry(*key).or_insert_with(|| {
                fused.push((*key, 0.0));
                fused.len() - 1
            });
            fused[place].1 += 1.0 / (f32::from(RRF_K) + rank as f32);
        }
    }
    fused.sort_by(|a, b| b.1.total_cmp(&a.1));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;

    fn hits(ordinals: &[u32]) -> Vec<Hit> {
        ordinals
            .iter()
            .map(|ordinal| Hit::new(Chunk::new("d", "d.md", *ordinal, "x"), 1.0))
            .collect()
    }

    #[test]
    fn what_several_lists_hold_comes_first() {
        let fused = fuse(&[hits(&[1, 2, 3]), hits(&[3, 4]), hits(&[])], 3);
        assert_eq!(
            fused.iter().map(|hit| hit.chunk.ordinal).collect::<Vec<_>>(),
            [3, 1, 2]
        );
        assert!((fused[0].score - (1.0 / 63.0 + 1.0 / 61.0)).abs() < 1e-6);
        assert!(fuse(&[], 3).is_empty());
    }
}
