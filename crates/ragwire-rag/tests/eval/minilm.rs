//! The real embedder, all-MiniLM-L6-v2 (`scripts/minilm`), if it is available. Its vectors are
//! cached, so that all search methods together run the model once over the library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_rag::models::{Boxed, Embed, ModelError, Side};
use ragwire_test_support::minilm;

/// The number of tokens, with the two special ones, that the model was trained on. It accepts twice
/// as many.
pub(crate) const TRAINED_TOKENS: u32 = 256;

type Cache<T> = Mutex<HashMap<(bool, String), T>>;

#[derive(Debug)]
pub(crate) struct MiniLm {
    /// Two models with one thread each, because threads of one model wait for each other if cores
    /// are busy.
    models: [LlamaEmbedder; 2],
    whole: Cache<Vec<f32>>,
    tokens: Cache<Vec<Vec<f32>>>,
}

impl MiniLm {
    /// Loads the model, or prints a message and returns `None` if it is not available. Longer texts
    /// lose their end.
    pub(crate) async fn load(test: &str, max_text_tokens: u32) -> Option<Arc<Self>> {
        let Some(folder) = minilm::folder() else {
            minilm::report_skipped(test);
            return None;
        };
        let file = LlamaFile::new(folder.join("minilm-f16.gguf")).threads(1);
        let options =
            EmbedderOptions::default().batching(Batching::default().max_text_tokens(max_text_tokens));
        let load = || LlamaEmbedder::load(file.clone(), options.clone());
        Some(Arc::new(Self {
            models: [load().await.unwrap(), load().await.unwrap()],
            whole: Mutex::default(),
            tokens: Mutex::default(),
        }))
    }
}

/// Returns the texts that `cache` has no value for, each once.
fn uncached<T>(cache: &Cache<T>, query: bool, texts: &[String]) -> Vec<String> {
    let cache = cache.lock().unwrap();
    let mut missing: Vec<String> = Vec::new();
    for text in texts {
        if !cache.contains_key(&(query, text.clone())) && !missing.contains(text) {
            missing.push(text.clone());
        }
    }
    missing
}

/// Returns every other text, and the rest.
fn halves(texts: &[String]) -> (Vec<String>, Vec<String>) {
    let every_other = |from| texts.iter().skip(from).step_by(2).cloned().collect();
    (every_other(0), every_other(1))
}

/// Merges the values of the two halves in the original order.
fn joined<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
    let mut other = other.into_iter();
    one.into_iter()
        .flat_map(|found| std::iter::once(found).chain(other.next()))
        .collect()
}

fn remember<T: Clone>(
    cache: &Cache<T>,
    query: bool,
    texts: &[String],
    missing: Vec<String>,
    found: Vec<T>,
) -> Vec<T> {
    let mut cache = cache.lock().unwrap();
    assert_eq!(missing.len(), found.len());
    cache.extend(missing.into_iter().map(|text| (query, text)).zip(found));
    texts
        .iter()
        .map(|text| cache[&(query, text.clone())].clone())
        .collect()
}

impl Embed for MiniLm {
    fn name(&self) -> &str {
        self.models[0].name()
    }

    fn dimensions(&self) -> usize {
        self.models[0].dimensions()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            let query = side == Side::Query;
            let missing = uncached(&self.whole, query, &texts);
            let [a, b] = &self.models;
            let (one, other) = halves(&missing);
            let (one, other) = tokio::try_join!(a.embed(side, one), b.embed(side, other))?;
            let found = joined(one, other);
            Ok(remember(&self.whole, query, &texts, missing, found))
        })
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(async move {
            let query = side == Side::Query;
            let missing = uncached(&self.tokens, query, &texts);
            let [a, b] = &self.models;
            let (one, other) = halves(&missing);
            let (one, other) = tokio::try_join!(a.embed_tokens(side, one), b.embed_tokens(side, other))?;
            let found = joined(one, other);
            Ok(remember(&self.tokens, query, &texts, missing, found))
        })
    }
}
