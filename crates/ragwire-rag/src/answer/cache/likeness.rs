//! Whether two questions mean the same, so that one answer fits both.
//!
//! A similarity score is not enough: questions about one subject are similar in every measure, and
//! a wrong answer is worse than a second search. So questions that cannot have one answer are
//! distinguished by their words first: numbers, negations, opposites, names, question words, and
//! the same words in another order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::Library;
use crate::answer::differ::Traits;
use crate::models::{Embed, Side, dot};
use crate::search::lexical::{Analyzer, MAX_QUERY_BYTES};

/// Default for the least cosine of two embedded questions that mean the same. Usual sentence
/// embedders place paraphrases at 0.85 and above, and different questions about one subject at up
/// to 0.9.
pub(super) const MIN_COSINE: f64 = 0.92;
/// Default for the least cosine of the weighted words without an embedder: all significant words
/// match, except for one of little weight.
pub(super) const MIN_WORDS: f64 = 0.95;
/// How long the embedder may take. After that the question has no vector.
const EMBED_TIMEOUT: Duration = Duration::from_secs(5);

/// How questions are compared.
#[derive(Debug)]
pub(super) enum Likeness {
    /// By the cosine of their vectors.
    Dense {
        embedder: Arc<dyn Embed>,
        analyzer: Analyzer,
    },
    /// By their words, weighted as in the library.
    Words(Arc<Library>),
}

/// A question, prepared for comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    /// The question as it was asked.
    pub(super) question: String,
    /// In lower case with single spaces.
    plain: String,
    /// Its significant words in order, each once, with their weights.
    terms: Vec<(String, f32)>,
    pub(super) vector: Option<Vec<f32>>,
    traits: Traits,
}

impl Likeness {
    /// Prepares a question. If the embedder fails or is slow, only the exact words are compared.
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

    /// Returns the similarity of two questions if they mean the same.
    pub(super) fn same(&self, a: &Key, b: &Key, limits: (f64, f64)) -> Option<f64> {
        if a.plain == b.plain {
            return Some(1.0);
        }
        // The cheapest test comes first: most questions differ, and all are compared under a lock.
        let (least, likeness) = match self {
            Self::Dense { .. } => (limits.0, f64::from(dot(a.vector.as_ref()?, b.vector.as_ref()?))),
            Self::Words(_) => (limits.1, words(a, b)?),
        };
        let same = likeness >= least && !a.traits.contradict(&b.traits) && !reordered(a, b);
        same.then_some(likeness.min(1.0))
    }
}

impl Key {
    /// The size in bytes, for the limit.
    pub(super) fn bytes(&self) -> usize {
        let terms: usize = self.terms.iter().map(|(stem, _)| stem.len() + 32).sum();
        let vector = self
            .vector
            .as_ref()
            .map_or(0, |vector| vector.len() * size_of::<f32>());
        self.question.len() + self.plain.len() + terms + vector
    }
}

/// Returns `true` if two questions consist of the same significant words in a different order: who
/// bites whom. If words differ as well, the similarity decides.
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

/// Returns the cosine of two questions' weighted words if they ask for the same kind of answer and
/// only one of them has words that the other lacks.
fn words(a: &Key, b: &Key) -> Option<f64> {
    if a.terms.is_empty() || b.terms.is_empty() || a.traits.question_words != b.traits.question_words {
        return None;
    }
    let weights = |key: &Key| -> HashMap<String, f64> {
        // A word that occurs in many documents still means something.
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
    // Summed in the order of the words, so that the result is reproducible.
    let square = |key: &Key, of: &HashMap<String, f64>| {
        key.terms.iter().map(|(stem, _)| of[stem].powi(2)).sum::<f64>()
    };
    let product = |(stem, _): &(String, f32)| of_b.get(stem).map(|weight| weight * of_a[stem]);
    let product: f64 = a.terms.iter().filter_map(product).sum();
    let lengths = (square(a, &of_a) * square(b, &of_b)).sqrt();
    (lengths > 0.0).then(|| product / lengths)
}
