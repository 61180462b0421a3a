//! Retrieval: the trait [`Retrieve`], its lexical implementation, and the fusion of several result
//! lists.
//!
//! The trait returns boxed futures, so that a server can hold an `Arc<dyn Retrieve>` and choose at
//! start. One allocation per search is negligible.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Chunk, DocumentFilter, Hit, Library};

/// The constant of reciprocal rank fusion, from the paper that introduced it (Cormack et al.,
/// 2009).
pub(crate) const RRF_K: u16 = 60;

/// The query of a retrieval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetrieveRequest {
    /// The query.
    pub query: String,
    /// The most hits to return.
    pub limit: usize,
    /// The documents to search. Only for a retriever that [takes filters](Retrieve::takes_filters).
    pub filter: DocumentFilter,
}

impl RetrieveRequest {
    /// Creates a request for the best `limit` hits for `query`.
    pub fn new(query: impl Into<String>, limit: usize) -> Self {
        Self {
            query: query.into(),
            limit,
            filter: DocumentFilter::default(),
        }
    }

    /// Sets the documents to search.
    #[must_use]
    pub fn filter(mut self, filter: DocumentFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// A failed search.
#[derive(Debug, thiserror::Error)]
#[error("the search failed")]
pub struct RetrieveError(#[source] Box<dyn Error + Send + Sync>);

impl RetrieveError {
    /// Wraps the cause.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }

    /// Returns a stable code for programs: `retrieval_failed`.
    pub fn code(&self) -> &'static str {
        "retrieval_failed"
    }
}

/// Finds the chunks that match a query.
pub trait Retrieve: Send + Sync + 'static {
    /// Returns the tool's name in events and citations.
    fn tool(&self) -> &str;

    /// Returns the kind of search for the metadata: `lexical`, `dense` or `hybrid`.
    fn mode(&self) -> &str;

    /// Returns whether [`RetrieveRequest::filter`] is honoured. Default: `false`, a question with a
    /// filter is refused.
    fn takes_filters(&self) -> bool {
        false
    }

    /// Returns the best hits, best first, at most `limit` of the request.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the search, which changes nothing.
    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>>;
}

/// BM25 over a [`Library`]. A search runs on tokio's blocking threads: it reads a file, and takes
/// long over many chunks.
#[derive(Clone, Debug)]
pub struct Lexical {
    library: Arc<Library>,
}

impl Lexical {
    /// Creates a retriever over `library`.
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

    fn takes_filters(&self) -> bool {
        true
    }

    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>> {
        let library = Arc::clone(&self.library);
        Box::pin(async move {
            library
                .reading(move |library| library.search_in(&request.query, request.limit, &request.filter))
                .await
                .map_err(RetrieveError::new)?
                .map_err(RetrieveError::new)
        })
    }
}

/// Adds passages behind hits, with the score of the last one, except those that are hits.
pub(crate) fn with_passages(mut hits: Vec<Hit>, passages: impl IntoIterator<Item = Chunk>) -> Vec<Hit> {
    let least = hits.iter().map(|hit| hit.score).fold(f32::INFINITY, f32::min);
    let mut known: HashSet<String> = hits.iter().map(|hit| hit.chunk.id.clone()).collect();
    let new = passages
        .into_iter()
        .filter(|chunk| known.insert(chunk.id.clone()));
    hits.extend(new.map(|chunk| Hit::new(chunk, least)));
    hits
}

/// Puts hits before others, each once.
pub(crate) fn led_by(leading: Vec<Hit>, others: Vec<Hit>) -> Vec<Hit> {
    let ids: HashSet<String> = leading.iter().map(|hit| hit.chunk.id.clone()).collect();
    let rest = others.into_iter().filter(|hit| !ids.contains(&hit.chunk.id));
    leading.into_iter().chain(rest).collect()
}

/// Fuses result lists by weighted reciprocal rank: a chunk's score is the sum of `weight / (60 +
/// rank)` over the lists that contain it. Scores of different lists need not be comparable. Equal
/// scores are in the order of first appearance. A single list keeps its order.
pub(crate) fn fuse(lists: &[(f32, Vec<Hit>)], limit: usize) -> Vec<Hit> {
    let mut first: HashMap<&str, &Hit> = HashMap::new();
    for hit in lists.iter().flat_map(|(_, list)| list) {
        first.entry(&hit.chunk.id).or_insert(hit);
    }
    let lists: Vec<(f32, Vec<&str>)> = lists
        .iter()
        .map(|(weight, list)| (*weight, list.iter().map(|hit| hit.chunk.id.as_str()).collect()))
        .collect();
    weighted_ranks(&lists)
        .into_iter()
        .take(limit)
        .filter_map(|(id, score)| Some(Hit::new(first.get(id)?.chunk.clone(), score)))
        .collect()
}

/// Does what [`fuse`] does for keys of any type and lists of equal weight, and returns each with its
/// score, best first.
pub(crate) fn reciprocal_ranks<K: Copy + Eq + Hash>(lists: &[Vec<K>]) -> Vec<(K, f32)> {
    let weighted: Vec<_> = lists.iter().map(|list| (1.0, list.clone())).collect();
    weighted_ranks(&weighted)
}

fn weighted_ranks<K: Copy + Eq + Hash>(lists: &[(f32, Vec<K>)]) -> Vec<(K, f32)> {
    let mut fused: Vec<(K, f32)> = Vec::new();
    let mut indices: HashMap<K, usize> = HashMap::new();
    for (weight, list) in lists {
        for (rank, key) in (1u32..).zip(list) {
            let index = *indices.entry(*key).or_insert_with(|| {
                fused.push((*key, 0.0));
                fused.len() - 1
            });
            fused[index].1 += weight / (f32::from(RRF_K) + rank as f32);
        }
    }
    fused.sort_by(|a, b| b.1.total_cmp(&a.1));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(ordinals: &[u32]) -> Vec<Hit> {
        ordinals
            .iter()
            .map(|ordinal| Hit::new(Chunk::new("d", "d.md", *ordinal, "x"), 1.0))
            .collect()
    }

    #[test]
    fn passages_are_added_and_led_by_once() {
        let ids = |hits: Vec<Hit>| -> Vec<(u32, f32)> {
            hits.into_iter()
                .map(|hit| (hit.chunk.ordinal, hit.score))
                .collect()
        };
        let mut two = hits(&[1, 2]);
        two[1].score = 0.5;
        let chunks = hits(&[2, 3, 3]).into_iter().map(|hit| hit.chunk);
        assert_eq!(
            ids(with_passages(two.clone(), chunks)),
            [(1, 1.0), (2, 0.5), (3, 0.5)]
        );
        assert_eq!(ids(led_by(hits(&[3, 2]), two)), [(3, 1.0), (2, 1.0), (1, 1.0)]);
    }

    #[test]
    fn hits_in_several_lists_come_first() {
        let equal = |lists: [&[u32]; 3]| lists.map(|list| (1.0, hits(list)));
        let fused = fuse(&equal([&[1, 2, 3], &[3, 4], &[]]), 3);
        assert_eq!(
            fused.iter().map(|hit| hit.chunk.ordinal).collect::<Vec<_>>(),
            [3, 1, 2]
        );
        assert!((fused[0].score - (1.0 / 63.0 + 1.0 / 61.0)).abs() < 1e-6);
        assert!(fuse(&[], 3).is_empty());
    }

    #[test]
    fn a_list_of_little_weight_adds_hits_behind_the_best() {
        let fused = fuse(&[(1.0, hits(&[1, 2, 3])), (0.01, hits(&[9, 3, 2]))], 9);
        assert_eq!(
            fused.iter().map(|hit| hit.chunk.ordinal).collect::<Vec<_>>(),
            [1, 2, 3, 9]
        );
    }
}
