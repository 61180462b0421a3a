//! How near texts are to a question by their meaning: the similarity of an embedder's vectors, on a
//! scale that does not depend on the embedder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::OnceCell;

use crate::models::{Embed, ModelError, Side, dot};

/// Texts that are embedded for one question at most, besides the question: the 10 hits of each gate and
/// the sentences of the best passages. A small model embeds so many short texts in well under a second
/// on a processor, and those that an [`Indexer`](crate::Indexer) has stored are read from disk.
pub(crate) const MAX_TEXTS: usize = 96;
/// Texts about nothing in particular. How similar an embedder finds them to a question is its zero:
/// near 0 for some models, 0.7 for others.
pub(crate) const UNRELATED: [&str; 6] = [
    "Yesterday my neighbour painted her old garden fence green.",
    "Bring two onions, a lemon and some bread from the market.",
    "The train to the coast was late because of heavy snow.",
    "He lost his umbrella somewhere between the theatre and home.",
    "Their football team won the match shortly before the end.",
    "Grandmother keeps her letters in a wooden box under the bed.",
];
/// The nearness from which on a text answers, and from which on it may; see docs/decisions/answer.md.
pub(crate) const ANSWERS: f32 = 0.5;
pub(crate) const IS_NEAR: f32 = 0.35;
/// The nearness from which on a sentence is quoted as the answer.
pub(crate) const SENTENCE_ANSWERS: f32 = 0.6;
/// Below this a passage may answer at most, whatever words it has.
pub(crate) const IS_FAR: f32 = 0.05;

/// What an embedder says of texts that have nothing to do with each other. The vectors of the unrelated
/// texts are computed once.
#[derive(Debug, Default)]
pub(crate) struct Zero(OnceCell<Vec<Vec<f32>>>);

impl Zero {
    /// Returns how similar `embedder` finds texts to a question that they have nothing to do with.
    ///
    /// # Errors
    ///
    /// The embedder failed.
    pub(crate) async fn of(&self, embedder: &dyn Embed, question: &[f32]) -> Result<f32, ModelError> {
        let unrelated = self.0.get_or_try_init(|| {
            let texts = UNRELATED.map(str::to_owned).to_vec();
            embedded(embedder, Side::Passage, texts)
        });
        let unrelated = unrelated.await?;
        Ok(unrelated.iter().map(|other| dot(question, other)).sum::<f32>() / unrelated.len() as f32)
    }
}

/// Compares texts with one question.
#[derive(Debug)]
pub(crate) struct Meaning {
    embedder: Arc<dyn Embed>,
    question: Vec<f32>,
    zero: f32,
    known: Mutex<HashMap<String, f32>>,
    failure: OnceLock<ModelError>,
}

impl Meaning {
    /// Embeds a question.
    ///
    /// # Errors
    ///
    /// The embedder failed.
    pub(crate) async fn of(
        embedder: Arc<dyn Embed>,
        question: &str,
        zero: &Zero,
    ) -> Result<Self, ModelError> {
        let mut question = embedded(&*embedder, Side::Query, vec![question.to_owned()]).await?;
        let question = question.pop().unwrap_or_default();
        let zero = zero.of(&*embedder, &question).await?;
        Ok(Self {
            question,
            zero,
            embedder,
            known: Mutex::default(),
            failure: OnceLock::new(),
        })
    }

    /// Returns how near each text is, in order: 0 for a text about something else, 1 for the question
    /// itself. Returns `None` for texts beyond [`MAX_TEXTS`] of a question, and for all of them if the
    /// embedder failed, now or before.
    pub(crate) async fn nearness(&self, texts: Vec<String>) -> Vec<Option<f32>> {
        let new: Vec<String> = {
            let known = self.known();
            let is_new = |at: usize| !known.contains_key(&texts[at]) && !texts[..at].contains(&texts[at]);
            let new = (0..texts.len())
                .filter(|at| is_new(*at))
                .map(|at| texts[at].clone());
            new.take(MAX_TEXTS.saturating_sub(known.len())).collect()
        };
        if !new.is_empty() && self.failure.get().is_none() {
            match embedded(&*self.embedder, Side::Passage, new.clone()).await {
                Ok(vectors) => {
                    let near = vectors
                        .iter()
                        .map(|vector| self.near(dot(&self.question, vector)));
                    self.known().extend(new.into_iter().zip(near));
                }
                // The first error is the one that is reported.
                Err(error) => drop(self.failure.set(error)),
            }
        }
        if self.failure.get().is_some() {
            return vec![None; texts.len()];
        }
        let known = self.known();
        texts.iter().map(|text| known.get(text).copied()).collect()
    }

    /// Returns the error because of which texts are no longer compared.
    pub(crate) fn failure(&self) -> Option<&ModelError> {
        self.failure.get()
    }

    fn near(&self, similarity: f32) -> f32 {
        nearness(similarity, self.zero)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, f32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how near a text is to a question, from 0 to 1, if texts about something else are as similar as
/// `zero`.
pub(crate) fn nearness(similarity: f32, zero: f32) -> f32 {
    let near = (similarity - zero) / (1.0 - zero).max(f32::EPSILON);
    if near.is_finite() {
        near.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

async fn embedded(embedder: &dyn Embed, side: Side, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
    let wanted = texts.len();
    let vectors = embedder.embed(side, texts).await?;
    if vectors.len() != wanted {
        let message = "the embedder returned another number of vectors than texts";
        return Err(ModelError::Failed(message.into()));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::test_models::Words;

    #[tokio::test]
    async fn nearness_is_relative_bounded_and_ends_with_a_failure() {
        let embedder = Arc::new(Words::default().synonym("physician", "doctor"));
        let meaning = Meaning::of(Arc::clone(&embedder) as _, "physician", &Zero::default())
            .await
            .unwrap();
        let texts = ["Doctor", "doctor today", "carp", "carp"]
            .map(str::to_owned)
            .to_vec();
        let near: Vec<f32> = meaning.nearness(texts).await.into_iter().flatten().collect();
        assert!(near[0] > 0.99 && near[1] > ANSWERS && near[1] < 0.99, "{near:?}");
        assert!(near[2] < IS_FAR && near[2] == near[3], "{near:?}");
        let many: Vec<String> = (0..2 * MAX_TEXTS).map(|n| format!("text {n}")).collect();
        let found = meaning.nearness(many).await;
        assert_eq!(found.iter().flatten().count(), MAX_TEXTS - 3);
        let calls: Vec<usize> = embedder
            .calls
            .lock()
            .unwrap()
            .iter()
            .map(|(_, texts)| *texts)
            .collect();
        assert_eq!(calls, [1, UNRELATED.len(), 3, MAX_TEXTS - 3]);

        let failing = Arc::new(Words::default().away_from(3));
        let meaning = Meaning::of(failing, "physician", &Zero::default()).await.unwrap();
        assert!(meaning.nearness(vec!["carp".to_owned()]).await[0].is_some());
        assert_eq!(meaning.nearness(vec!["pike".to_owned()]).await, [None]);
        assert_eq!(meaning.nearness(vec!["carp".to_owned()]).await, [None]);
        assert_eq!(meaning.failure().map(ModelError::code), Some("model_unavailable"));
    }
}
