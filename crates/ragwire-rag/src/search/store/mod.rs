//! Where chunks are found: the seam [`Store`], which keeps chunks of all levels with their vectors and searches them.
//!
//! A store is an index and can be made anew: the documents themselves are the [`Library`](crate::Library)'s. What is searched for in words is
//! BM25 over the chunk's text and headings, which every store does itself; dense vectors and token vectors come from an
//! [`Embed`](crate::models::Embed).
//!
//! | store | where | search |
//! |---|---|---|
//! | [`MemoryStore`] | in this process, gone with it | exact |
#![cfg_attr(
    feature = "qdrant-edge",
    doc = "| [`EdgeStore`] | in this process, in a folder | exact, in large ones by a graph |"
)]
#![cfg_attr(
    feature = "qdrant",
    doc = "| [`QdrantStore`] | on a Qdrant server | exact, in large ones by a graph |"
)]
//!
//! It knows no model and no pipeline.

mod blocking;
mod checks;
#[cfg(feature = "qdrant-edge")]
mod edge;
mod error;
mod memory;
#[cfg(feature = "qdrant")]
mod qdrant;
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

/// Candidates that each half of a hybrid search brings to the fusion, for each hit that is wanted.
const CANDIDATES_PER_HIT: usize = 4;
/// Most hits of one search.
pub(crate) const MAX_HITS: usize = 1_000;

/// A chunk as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The chunk, with everything that a citation tells of it.
    pub chunk: Chunk,
    /// Its vector, of length 1 (a store scales what is not); none where there is no embedder.
    pub dense: Option<Vec<f32>>,
    /// The vectors of its tokens, each of length 1; empty where there are none.
    pub tokens: Vec<Vec<f32>>,
}

impl Point {
    /// A chunk that is found by its words.
    pub fn new(chunk: Chunk) -> Self {
        Self {
            chunk,
            dense: None,
            tokens: Vec::new(),
        }
    }

    /// Adds its vector.
    #[must_use]
    pub fn dense(mut self, vector: Vec<f32>) -> Self {
        self.dense = Some(vector);
        self
    }

    /// Adds the vectors of its tokens.
    #[must_use]
    pub fn tokens(mut self, vectors: Vec<Vec<f32>>) -> Self {
        self.tokens = vectors;
        self
    }
}

/// Which chunks count. Empty lists leave a side open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Only these levels.
    pub levels: Vec<Level>,
    /// Only chunks of these documents, by id.
    pub documents: Vec<String>,
}

impl Filter {
    /// Only chunks of `level`.
    pub fn level(level: Level) -> Self {
        Self {
            levels: vec![level],
            documents: Vec::new(),
        }
    }

    /// Only chunks of this document and of those named before.
    #[must_use]
    pub fn document(mut self, document_id: impl Into<String>) -> Self {
        self.documents.push(document_id.into());
        self
    }

    /// Whether `chunk` counts.
    pub fn accepts(&self, chunk: &Chunk) -> bool {
        (self.levels.is_empty() || self.levels.contains(&chunk.level))
            && (self.documents.is_empty() || self.documents.contains(&chunk.document_id))
    }
}

/// What is searched for. Words alone score by BM25, a vector alone by cosine, both by reciprocal rank fusion with k = 60; token vectors then
/// put the best candidates into the order of their MaxSim, which becomes the score, and leave out what has no token vectors.
///
/// Blank words are none, and of words that are longer than [`MAX_QUERY_BYTES`](crate::search::lexical::MAX_QUERY_BYTES) the beginning counts. More
/// hits than [`MAX_HITS`] are never wanted, and 0 are fine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// In words.
    pub text: Option<String>,
    /// As a vector of length 1.
    pub dense: Option<Vec<f32>>,
    /// As vectors of tokens; empty for none.
    pub tokens: Vec<Vec<f32>>,
    /// Which chunks count, for each half.
    pub filter: Filter,
    /// Most hits wanted, up to [`MAX_HITS`].
    pub limit: usize,
}

impl Search {
    /// Searches for words.
    pub fn text(text: impl Into<String>, limit: usize) -> Self {
        Self {
            text: Some(text.into()),
            dense: None,
            tokens: Vec::new(),
            filter: Filter::default(),
            limit,
        }
    }

    /// Searches for a vector.
    pub fn dense(vector: Vec<f32>, limit: usize) -> Self {
        Self {
            text: None,
            dense: Some(vector),
            tokens: Vec::new(),
            filter: Filter::default(),
            limit,
        }
    }

    /// Searches for words and a vector.
    pub fn hybrid(text: impl Into<String>, vector: Vec<f32>, limit: usize) -> Self {
        Self {
            dense: Some(vector),
            ..Self::text(text, limit)
        }
    }

    /// Puts the candidates into the order of their MaxSim.
    #[must_use]
    pub fn tokens(mut self, vectors: Vec<Vec<f32>>) -> Self {
        self.tokens = vectors;
        self
    }

    /// Sets which chunks count.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

/// Which vectors a store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vectors {
    /// Length of each dense vector and of each token's; 0 for a store without vectors.
    pub dimensions: usize,
    /// Whether the vectors of tokens are kept as well.
    pub tokens: bool,
}

impl Vectors {
    /// Words only.
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

    /// Keeps the vectors of tokens as well.
    #[must_use]
    pub fn with_tokens(mut self) -> Self {
        self.tokens = true;
        self
    }
}

/// Keeps chunks and finds them. Calls may overlap; a search sees every call that returned before it began.
pub trait Store: Debug + Send + Sync + 'static {
    /// Its name in events and messages: `memory`, `qdrant-edge`, `qdrant`.
    fn name(&self) -> &str;

    /// Which vectors it keeps.
    fn vectors(&self) -> Vectors;

    /// Puts chunks in; one with the same id is replaced, also among those of one call: the last one stays. Points of a document that are
    /// there already stay.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some of the points in; the same call again repairs that.
    ///
    /// # Errors
    ///
    /// `bad_vector` before anything is changed; `store_unavailable`, `store_failed`.
    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>>;

    /// The best chunks, best first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `bad_search`, `bad_vector`, `store_unavailable`, `store_failed`.
    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>>;

    /// Takes out all chunks of a document; fine where there are none.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some of them in.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>>;

    /// The ids of all documents that it holds chunks of.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>>;

    /// How many chunks it holds that count.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// `store_unavailable`, `store_failed`.
    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>>;
}
