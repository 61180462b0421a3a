//! The vectors of entity names, so that a question finds what it calls by another word.
//!
//! They stand in memory only and are made anew from the graph: [`fill`](EntityNames::fill) after every change. A search uses what is there. It
//! knows an embedder and names, nothing of triples.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::store::Graph;
use crate::models::{Embed, ModelError, Side, dot};

/// Names embedded in one call.
const BATCH: usize = 64;
/// Least likeness of a name to the question: below it, a name that is nearest is near only for want of others.
pub const MIN_LIKENESS: f32 = 0.35;

/// Finds entities by what their names mean. Clones share the vectors.
#[derive(Debug, Clone)]
pub struct EntityNames {
    graph: Arc<Graph>,
    embedder: Arc<dyn Embed>,
    vectors: Arc<RwLock<BTreeMap<String, Vec<f32>>>>,
    filling: Arc<tokio::sync::Mutex<()>>,
}

impl EntityNames {
    /// No vectors yet.
    pub fn new(graph: Arc<Graph>, embedder: Arc<dyn Embed>) -> Self {
        Self {
            graph,
            embedder,
            vectors: Arc::default(),
            filling: Arc::default(),
        }
    }

    /// How many names have a vector. Each costs the embedder's dimensions times four bytes.
    pub fn len(&self) -> usize {
        self.vectors.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives every name of the graph a vector, and forgets those of names that are gone. Says how many are new.
    ///
    /// # Cancel safety
    /// What was embedded before stays.
    ///
    /// # Errors
    /// The embedder's; what was embedded before stays.
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

    /// The keys of the entities whose names are most like the question, best first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// The embedder's.
    pub async fn near(&self, question: &str, limit: usize) -> Result<Vec<String>, ModelError> {
        let asked = self
            .embedder
            .embed(Side::Query, vec![question.to_owned()])
            .await?;
        let Some(asked) = asked.into_iter().next() else {
            return Ok(Vec::new());
        };
        let vectors = Arc::clone(&self.vectors);
        let compare = move || {
            let vectors = vectors.read().unwrap_or_else(PoisonError::into_inner);
            let likeness = |(key, vector): (&String, &Vec<f32>)| (dot(&asked, vector), key.clone());
            let mut near: Vec<(f32, String)> = vectors
                .iter()
                .map(likeness)
                .filter(|(likeness, _)| *likeness >= MIN_LIKENESS)
                .collect();
            // Equal ones stay in the order of their keys.
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            near.truncate(limit);
            near.into_iter().map(|(_, key)| key).collect()
        };
        // 100,000 names of 384 numbers take some 20 ms.
        let compared = tokio::task::spawn_blocking(compare).await;
        compared.map_err(|error| ModelError::Failed(error.into()))
    }
}
