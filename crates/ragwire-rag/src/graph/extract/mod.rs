//! From a passage to the triples it states: the seam [`ExtractGraph`], by patterns ([`Patterns`]) or by a model ([`ModelExtractor`]).
//!
//! What is extracted are names as the passage spells them. It knows no graph: which names are one thing is said by
//! [`entity`](super::entity).

mod model;
mod patterns;
mod verb;
mod words;

use std::fmt::Debug;

pub use model::ModelExtractor;
pub use patterns::Patterns;

use crate::Chunk;
use crate::models::Boxed;

/// Most triples of one passage. A passage has about ten sentences; more is a list, or an attack.
pub const MAX_TRIPLES: usize = 32;
/// Longest predicate, in bytes.
pub const MAX_PREDICATE_BYTES: usize = 40;
/// What two things are to each other that only stand in one sentence.
pub const RELATED_TO: &str = "related_to";

/// A triple as one passage states it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Relation {
    /// What is spoken of, as the passage spells it.
    pub subject: String,
    /// What is said of it: `is_a`, `uses`, `related_to`, …
    pub predicate: String,
    /// About what.
    pub object: String,
    /// How sure that is, more than 0 and at most 1.
    pub weight: f32,
}

impl Relation {
    /// A triple of an extractor of one's own. The weight is brought between 0 and 1.
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

/// What one passage gave.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Extraction {
    /// At most [`MAX_TRIPLES`], surest kinds first.
    pub triples: Vec<Relation>,
    /// Why the patterns were used and not the model, as a stable word; nothing where all went as it should.
    pub fallback: Option<&'static str>,
}

impl Extraction {
    /// What an extractor of one's own found.
    pub fn new(mut triples: Vec<Relation>) -> Self {
        triples.truncate(MAX_TRIPLES);
        Self {
            triples,
            fallback: None,
        }
    }

    /// Says why another way than the usual one was taken.
    #[must_use]
    pub fn fallback(mut self, why: &'static str) -> Self {
        self.fallback = Some(why);
        self
    }
}

/// Finds triples in passages.
pub trait ExtractGraph: Debug + Send + Sync + 'static {
    /// Its name. It is kept with what it found: documents of an extractor with another name are read again.
    fn name(&self) -> &str;

    /// One extraction for each passage, in order. It does not fail: a passage that gives nothing has no triples.
    ///
    /// # Cancel safety
    /// Dropping the future gives up what has not begun.
    fn extract(&self, passages: Vec<Chunk>) -> Boxed<'_, Vec<Extraction>>;
}
