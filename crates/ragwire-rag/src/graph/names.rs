//! The vectors of entity names, so that a question finds entities that it calls by other words.
//!
//! The vectors are in memory only and are recomputed from the graph: call
//! [`fill`](EntityNames::fill) after every change. A search uses the vectors that exist. This
//! module knows an embedder and names, but no triples.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::store::Graph;
use crate::models::{Embed, ModelError, Side, dot};

/// Number of names embedded in one call.
const BATCH: usize = 64;
/// Least similarity of a name to the question: below it, even the nearest name is unrelated.
const MIN_SIMILARITY: f32 = 0.35;

/// Finds entities by the meaning of their names. Clones share the vectors.
#[derive(Clone, Debug)]
pub struct EntityNames {
    graph: Arc<Graph>,
    embedder: Arc<dyn Embed>,
    vectors: Arc<RwLock<BTreeMap<String, Vec<f32>>>>,
    filling: Arc<tokio::sync::Mutex<()>>,
}

impl EntityNames {
    /// An empty set of vectors; [`fill`](Self::fill) computes them.
    pub fn new(graph: Arc<Graph>, embedder: Arc<dyn Embed>) -> Self {
        Self {
            graph,
            embedder,
            vectors: Arc::default(),
            filling: Arc::default(),
        }
    }

    /// The number of names with a vector. Each takes four bytes per dimension of the embedder.
    pub fn len(&self) -> usize {
        self.vectors.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns `true` if no name has a vector.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Embeds every name of the graph that has no vector, and removes the vectors of names that no
    /// longer exist. Returns the number of new vectors.
    ///
    /// # Cancel safety
    ///
    /// Vectors computed so far are kept.
    ///
    /// # Errors
    ///
    /// The embedder failed; vectors computed so far are kept.
    pub async fn fill(&self) -> Result<usize, ModelError> {
        let _filling = self.filling.lock().await;
        let names = self.graph.names();
        let missing: Vec<(String, String)> = {
            let mut vectors = self.vectors.write().unwrap_or_else(PoisonError::into_inner);
            vectors.retain(|key, _| names.contains_key(key));
            names
                .into_iter()
                .filter(|(key, _)| !vectors.contains_key(key))
                .collect()
        };
        for batch in missing.chunks(BATCH) {
            let texts = batch.iter().map(|(_, name)| name.clone()).collect();
            let embedded = self.embedder.embed(Side::Passage, texts).await?;
            let mut vectors = self.vectors.write().unwrap_or_else(PoisonError::into_inner);
            vectors.extend(batch.iter().map(|(key, _)| key.clone()).zip(embedded));
        }
        Ok(missing.len())
    }

    /// The keys of the entities whose names are most similar to the question, best first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// The embedder failed.
    pub async fn near(&self, question: &str, limit: usize) -> Result<Vec<String>, ModelError> {
        let embedded = self
            .embedder
            .embed(Side::Query, vec![question.to_owned()])
            .await?;
        let Some(query) = embedded.into_iter().next() else {
            return Ok(Vec::new());
        };
        let vectors = Arc::clone(&self.vectors);
        let compare = move || {
            let vectors = vectors.read().unwrap_or_else(PoisonError::into_inner);
            let likeness = |(key, vector): (&String, &Vec<f32>)| (dot(&query, vector), key.clone());
            let mut near: Vec<(f32, String)> = vectors
                .iter()
                .map(likeness)
                .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
                .collect();
            // Equal ones keep the order of their keys.
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            near.truncate(limit);
            near.into_iter().map(|(_, key)| key).collect()
        };
        // Comparing 100,000 names of 384 dimensions takes about 20 ms.
        let compared = tokio::task::spawn_blocking(compare).await;
        compared.map_err(|error| ModelError::Failed(error.into()))
    }
}
