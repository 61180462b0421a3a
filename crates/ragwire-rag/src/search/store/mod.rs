//! Stores of chunks: the trait [`Store`], which keeps chunks of all levels with their vectors and
//! searches them.
//!
//! A store is an index and can always be rebuilt from the documents in the
//! [`Library`](crate::Library). Every store searches words itself, by BM25 over the chunks' text
//! and headings. Dense vectors and token vectors come from an [`Embed`](crate::models::Embed).
//!
//! | store | where | search |
//! |---|---|---|
//! | [`MemoryStore`] | in this process, lost with it | exact |
#![cfg_attr(
    feature = "qdrant-edge",
    doc = "| [`EdgeStore`] | in this process, in a folder | exact; approximate (HNSW) in large stores |"
)]
#![cfg_attr(
    feature = "qdrant",
    doc = "| [`QdrantStore`] | on a Qdrant server | exact; approximate (HNSW) in large stores |"
)]
//!
//! This module knows neither models nor the pipeline.

mod blocking;
mod checks;
#[cfg(feature = "qdrant-edge")]
mod edge;
mod error;
mod memory;
#[cfg(feature = "qdrant")]
pub(crate) mod qdrant;
#[cfg(any(feature = "qdrant", feature = "qdrant-edge"))]
mod schema;

#[cfg(feature = "qdrant-edge")]
pub use edge::{EdgeOptions, EdgeStore};
pub use error::StoreError;
pub use memory::MemoryStore;
#[cfg(feature = "qdrant")]
pub use qdrant::{QdrantOptions, QdrantStore};

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::models::Boxed;
use crate::{Chunk, Hit, Level};

/// Candidates that each half of a hybrid search contributes per requested hit.
pub(crate) const CANDIDATES_PER_HIT: usize = 4;
/// The most hits that one search returns.
pub(crate) const MAX_HITS: usize = 1_000;

/// A chunk with its vectors, as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The chunk, with everything that a citation needs.
    pub chunk: Chunk,
    /// Its vector; the store scales it to length 1. `None` without an embedder.
    pub dense: Option<Vec<f32>>,
    /// The vectors of its tokens, which the store scales to length 1. Empty if there are none.
    pub tokens: Vec<Vec<f32>>,
}

impl Point {
    /// Creates a point without vectors, which is found by its words.
    pub fn new(chunk: Chunk) -> Self {
        Self {
            chunk,
            dense: None,
            tokens: Vec::new(),
        }
    }

    /// Sets its vector.
    #[must_use]
    pub fn dense(mut self, vector: Vec<f32>) -> Self {
        self.dense = Some(vector);
        self
    }

    /// Sets the vectors of its tokens.
    #[must_use]
    pub fn tokens(mut self, vectors: Vec<Vec<f32>>) -> Self {
        self.tokens = vectors;
        self
    }
}

/// Selects chunks by level and document. An empty list does not restrict the selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Only these levels.
    pub levels: Vec<Level>,
    /// Only chunks of the documents with these IDs.
    pub documents: Vec<String>,
}

impl Filter {
    /// Selects only chunks of `level`.
    pub fn level(level: Level) -> Self {
        Self {
            levels: vec![level],
            documents: Vec::new(),
        }
    }

    /// Adds a document to those whose chunks are selected.
    #[must_use]
    pub fn document(mut self, document_id: impl Into<String>) -> Self {
        self.documents.push(document_id.into());
        self
    }

    /// Returns whether the filter selects `chunk`.
    pub fn accepts(&self, chunk: &Chunk) -> bool {
        (self.levels.is_empty() || self.levels.contains(&chunk.level))
            && (self.documents.is_empty() || self.documents.contains(&chunk.document_id))
    }
}

/// A search by words, by a vector, or by both. Words are scored by BM25, a vector by cosine, and
/// both by reciprocal rank fusion with k = 60. Token vectors rerank the best candidates by MaxSim,
/// which becomes their score; candidates without token vectors are left out.
///
/// Blank text counts as no text, and of longer text only the first 4,096 bytes are used. At most
/// 1,000 hits are returned; a limit of 0 is allowed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// The words to search for.
    pub text: Option<String>,
    /// The vector to search for, of length 1.
    pub dense: Option<Vec<f32>>,
    /// The token vectors to rerank by. Empty for none.
    pub tokens: Vec<Vec<f32>>,
    /// The chunks to search, for words and vector alike.
    pub filter: Filter,
    /// The most hits to return, at most 1,000.
    pub limit: usize,
}

impl Search {
    /// Creates a search for words.
    pub fn text(text: impl Into<String>, limit: usize) -> Self {
        Self {
            text: Some(text.into()),
            dense: None,
            tokens: Vec::new(),
            filter: Filter::default(),
            limit,
        }
    }

    /// Creates a search for a vector.
    pub fn dense(vector: Vec<f32>, limit: usize) -> Self {
        Self {
            text: None,
            dense: Some(vector),
            tokens: Vec::new(),
            filter: Filter::default(),
            limit,
        }
    }

    /// Creates a search for words and a vector.
    pub fn hybrid(text: impl Into<String>, vector: Vec<f32>, limit: usize) -> Self {
        Self {
            dense: Some(vector),
            ..Self::text(text, limit)
        }
    }

    /// Reranks the candidates by MaxSim over these token vectors.
    #[must_use]
    pub fn tokens(mut self, vectors: Vec<Vec<f32>>) -> Self {
        self.tokens = vectors;
        self
    }

    /// Sets which chunks are searched.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

/// The vectors that a store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vectors {
    /// The length of each dense vector and each token vector; 0 for a store without vectors.
    pub dimensions: usize,
    /// Whether the store also keeps token vectors.
    pub tokens: bool,
}

impl Vectors {
    /// No vectors: the store searches only words.
    pub const NONE: Self = Self {
        dimensions: 0,
        tokens: false,
    };

    /// Dense vectors of this length.
    pub fn dense(dimensions: usize) -> Self {
        Self {
            dimensions,
            tokens: false,
        }
    }

    /// Keeps token vectors as well.
    #[must_use]
    pub fn with_tokens(mut self) -> Self {
        self.tokens = true;
        self
    }
}

/// Keeps chunks and searches them. Calls may overlap; a search sees every change whose call
/// returned before it began.
///
/// ```
/// use std::sync::Arc;
/// use ragwire_rag::search::store::{Filter, MemoryStore, Store, StoreError, Vectors};
///
/// /// Removes everything from any store.
/// async fn clear(store: Arc<dyn Store>) -> Result<(), StoreError> {
///     for document_id in store.documents().await? {
///         store.remove_document(&document_id).await?;
///     }
///     assert_eq!(store.count(Filter::default()).await?, 0);
///     Ok(())
/// }
/// # let store = Arc::new(MemoryStore::new(Vectors::NONE));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(clear(store)).unwrap();
/// ```
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns its name for events and messages: `memory`, `qdrant-edge`, `qdrant`.
    fn name(&self) -> &str;

    /// Returns which vectors it keeps.
    fn vectors(&self) -> Vectors;

    /// Adds chunks. A chunk with the same ID is replaced; of several in one call the last one
    /// remains. Other points of the same document are not changed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some of the points stored; repeating the call repairs that.
    ///
    /// # Errors
    ///
    /// `bad_vector` before anything is changed; `store_unavailable`, `store_failed`.
    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>>;

    /// Returns the best chunks, best first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `bad_search`, `bad_vector`, `store_unavailable`, `store_failed`.
    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>>;

    /// Removes all chunks of a document. Removing a document without chunks succeeds.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some of them stored.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>>;

    /// Returns the IDs of all documents that it holds chunks of.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>>;

    /// Returns the number of chunks that `filter` selects.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>>;
}
