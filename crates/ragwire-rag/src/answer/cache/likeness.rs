//! Whether two questions mean the same, so that what answered the one answers the other.
//!
//! Likeness alone is not enough: questions of one subject are alike in every measure, and the wrong answer to a question is worse than a second
//! search. So what cannot have one answer is kept apart first, by what is said: numbers, negations, opposites, names, what is asked for, and the same
//! words in another order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::Library;
use crate::answer::differ::Traits;
use crate::models::{Embed, Side, dot};
use crate::search::lexical::{Analyzer, MAX_QUERY_BYTES};

/// From this cosine of two embedded questions on they mean the same. Paraphrases lie at 0.85 and above for the usual sentence embedders,
/// questions of one subject up to 0.9.
pub const MIN_COSINE: f64 = 0.92;
/// From this cosine of their weighed words on, where there is no embedder: all the telling words, but for one that tells little.
pub const MIN_WORDS: f64 = 0.95;
/// How long the embedder may take; then the question has no vector.
const EMBED_TIMEOUT: Duration = Duration::from_secs(5);

/// How questions are compared.
#[derive(Debug)]
pub(super) enum Likeness {
    /// By the cosine of their vectors.
    Dense {
        embedder: Arc<dyn Embed>,
        analyzer: Analyzer,
    },
    /// By their words, as the library weighs them.
    Words(Arc<Library>),
}

/// What a question is compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    /// As it was asked.
    pub(super) question: String,
    /// In lower case with single spaces.
    plain: String,
    /// Its telling words in order, each once, with their weights.
    terms: Vec<(String, f32)>,
    pub(super) vector: Option<Vec<f32>>,
    traits: Traits,
}

impl Likeness {
    /// Reads a question. Where the embedder fails or is slow it is compared by its very words only.
    pub(super) async fn key(&self, question: &str) -> Key {
        let question = question.trim();
        let read = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
        let (stems, vector) = match self {
            Self::Dense { embedder, analyzer } => {
                let embedding = embedder.embed(Side::Query, vec![read.to_owned()]);
                let vector = match timeout(EMBED_TIMEOUT, embedding).await {
                    Ok(Ok(vectors)) => vectors.into_iter().next(),
                    Ok(Err(error)) => {
                        tracing::debug!(code = error.code(), "the question was not embedded");
                        None
                    }
                    Err(_) => None,
                };
                let usable = |vector: &Vec<f32>| {
                    vector.len() == embedder.dimensions() && vector.iter().all(|value| value.is_finite())
                };
                (analyzer.terms(read), vector.filter(usable))
            }
            Self::Words(library) => (library.terms(read), None),
        };
        let weights = match self {
            Self::Dense { .. } => vec![1.0; stems.len()],
            Self::Words(library) => library.weights(&stems),
        };
        let mut terms: Vec<(String, f32)> = Vec::new();
        for (stem, weight) in stems.into_iter().zip(weights) {
            if terms.iter().all(|(known, _)| *known != stem) {
                terms.push((stem, weight));
            }
        }
        let plain = question
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        Key {
            question: question.to_owned(),
            plain,
            terms,
            vector,
            traits: Traits::of(read),
        }
    }

    /// How alike two questions are, if they mean the same.
    pub(super) fn same(&self, a: &Key, b: &Key, limits: (f64, f64)) -> Option<f64> {
        if a.plain == b.plain {
            return Some(1.0);
        }
        // The cheapest first: most questions are nothing alike, and all of them are looked at under a lock.
        let (least, likeness) = match self {
            Self::Dense { .. } => (limits.0, f64::from(dot(a.vector.as_ref()?, b.vector.as_ref()?))),
            Self::Words(_) => (limits.1, words(a, b)?),
        };
        let same = likeness >= least && !a.traits.contradict(&b.traits) && !reordered(a, b);
        same.then_some(likeness.min(1.0))
    }
}

impl Key {
    /// Bytes of it, for a bound.
    pub(super) fn bytes(&self) -> usize {
        let terms: usize = self.terms.iter().map(|(stem, _)| stem.len() + 32).sum();
        let vector = self
            .vector
            .as_ref()
            .map_or(0, |vector| vector.len() * size_of::<f32>());
        self.question.len() + self.plain.len() + terms + vector
    }
}

/// The same telling words, in another order: who bites whom. Where words were exchanged as well, the likeness tells.
fn reordered(a: &Key, b: &Key) -> bool {
    let stems = |key: &Key| key.terms.iter().map(|(stem, _)| stem.clone()).collect::<Vec<_>>();
    let (mut of_a, mut of_b) = (stems(a), stems(b));
    if of_a == of_b {
        return false;
    }
    of_a.sort_unstable();
    of_b.sort_unstable();
    of_a == of_b
}

/// The cosine of two questions' weighed words, if they ask the same and one of them says nothing that the other does not.
fn words(a: &Key, b: &Key) -> Option<f64> {
    if a.terms.is_empty() || b.terms.is_empty() || a.traits.asks != b.traits.asks {
        return None;
    }
    let weights = |key: &Key| -> HashMap<String, f64> {
        // A word of many documents still says something.
        key.terms
            .iter()
            .map(|(stem, weight)| (stem.clone(), f64::from(*weight).max(0.1)))
            .collect()
    };
    let (of_a, of_b) = (weights(a), weights(b));
    let own = |one: &HashMap<String, f64>, other: &HashMap<String, f64>| {
        one.keys().any(|stem| !other.contains_key(stem))
    };
    if own(&of_a, &of_b) && own(&of_b, &of_a) {
        return None;
    }
    // In the order of the words, so that sums come out the same each time.
    let square = |key: &Key, of: &HashMap<String, f64>| {
        key.terms.iter().map(|(stem, _)| of[stem].powi(2)).sum::<f64>()
    };
    let product = |(stem, _): &(String, f32)| of_b.get(stem).map(|weight| weight * of_a[stem]);
    let product: f64 = a.terms.iter().filter_map(product).sum();
    let lengths = (square(a, &of_a) * square(b, &of_b)).sqrt();
    (lengths > 0.0).then(|| product / lengths)
}
