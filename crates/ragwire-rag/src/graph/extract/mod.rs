//! From a passage to the triples that it states: the trait [`ExtractGraph`], by patterns
//! ([`Patterns`]) or by a model ([`ModelExtractor`]).
//!
//! Names are extracted as the passage spells them. [`entity`](super::entity) determines which names
//! are one thing.

mod model;
mod patterns;
mod verb;
mod words;

use std::fmt::Debug;

pub use model::ModelExtractor;
pub use patterns::Patterns;

use crate::Chunk;
use crate::models::Boxed;

/// Number of triples of one passage at most. A passage has about ten sentences; more triples come
/// from a list, or from an attack.
pub(super) const MAX_TRIPLES: usize = 32;
/// Length in bytes of the longest predicate.
pub(super) const MAX_PREDICATE_BYTES: usize = 40;
/// The predicate between two names that only occur in the same sentence.
const RELATED_TO: &str = "related_to";

/// A triple as one passage states it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Relation {
    /// The subject, as the passage spells it.
    pub subject: String,
    /// The relation: `is_a`, `uses`, `related_to`, …
    pub predicate: String,
    /// The object, as the passage spells it.
    pub object: String,
    /// The certainty, more than 0 and at most 1.
    pub weight: f32,
}

impl Relation {
    /// Creates a triple. The weight is clamped to the range from 0 (exclusive) to 1.
    pub fn new(
        subject: impl Into<String>,
        predicate: impl Into<String>,
        object: impl Into<String>,
        weight: f32,
    ) -> Self {
        let weight = if weight.is_finite() {
            weight.clamp(f32::MIN_POSITIVE, 1.0)
        } else {
            f32::MIN_POSITIVE
        };
        Self {
            subject: subject.into(),
            predicate: predicate.into(),
            object: object.into(),
            weight,
        }
    }
}

/// The triples of one passage.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Extraction {
    /// The triples, at most 32, surest kinds first.
    pub triples: Vec<Relation>,
    /// Why the patterns were used instead of the model, as a stable code; `None` if the extractor
    /// worked.
    pub fallback: Option<&'static str>,
}

impl Extraction {
    /// The triples that an extractor found; those beyond 32 are dropped.
    pub fn new(mut triples: Vec<Relation>) -> Self {
        triples.truncate(MAX_TRIPLES);
        Self {
            triples,
            fallback: None,
        }
    }

    /// Sets why a fallback was used.
    #[must_use]
    pub fn fallback(mut self, why: &'static str) -> Self {
        self.fallback = Some(why);
        self
    }
}

/// Finds triples in passages.
pub trait ExtractGraph: Debug + Send + Sync + 'static {
    /// The extractor's name. It is stored with the triples: if it changes, the documents are read
    /// again.
    fn name(&self) -> &str;

    /// Extracts the triples of each passage, in order. It does not fail: a passage that cannot be
    /// read has no triples.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the passages that have not been read.
    fn extract(&self, passages: Vec<Chunk>) -> Boxed<'_, Vec<Extraction>>;
}
