//! Ranks passages against a query: by late interaction with any embedder, or by the words that they
//! cover.
//!
//! Nothing is searched here. A store with token vectors can rank its own hits
//! ([`SearchTools::late_interaction`](crate::SearchTools::late_interaction)); here the token
//! vectors are computed when they are needed.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::documents::sentences;
use crate::models::{Boxed, Embed, ModelError, Rank, Side, max_sim};
use crate::search::terms::{Term, coverage, question_terms};
use crate::{Library, LibraryView};

/// Passages whose token vectors are in memory at once: 64 passages of 300 tokens with 1,024
/// dimensions take 75 MiB. A typical call has fewer.
pub(crate) const BATCH_PASSAGES: usize = 64;
/// Words of a passage outside its best sentence count this share of words in it.
const AROUND_SHARE: f32 = 0.5;

/// Returns the name of the tool that ranks by this method: `rerank_colbert`.
pub(crate) fn tool(method: &str) -> String {
    format!("rerank_{}", method.replace('-', "_"))
}

/// Ranks by late interaction: MaxSim over the token vectors of an embedder. Events use the names of
/// existing systems, `colbert` for the method and `rerank_colbert` for the tool, after the paper
/// that introduced it (Khattab and Zaharia, 2020). An embedder that was not trained for late
/// interaction also ranks reasonably, but it is not a ColBERT model.
#[derive(Clone, Debug)]
pub struct MaxSimRank {
    embedder: Arc<dyn Embed>,
}

impl MaxSimRank {
    /// Ranks by the token vectors of `embedder`, which has to support them.
    pub fn new(embedder: Arc<dyn Embed>) -> Self {
        Self { embedder }
    }

    async fn scores(&self, query: &str, mut passages: Vec<String>) -> Result<Vec<f32>, ModelError> {
        if passages.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = self
            .embedder
            .embed_tokens(Side::Query, vec![query.to_owned()])
            .await?;
        let query = query.pop().ok_or_else(|| {
            ModelError::Failed("the embedder returned no token vectors for the query".into())
        })?;
        let mut scores = Vec::with_capacity(passages.len());
        while !passages.is_empty() {
            let rest = passages.split_off(passages.len().min(BATCH_PASSAGES));
            let batch = std::mem::replace(&mut passages, rest);
            let wanted = batch.len();
            let tokens = self.embedder.embed_tokens(Side::Passage, batch).await?;
            if tokens.len() != wanted {
                return Err(ModelError::Failed(
                    "the embedder returned another number of vectors than texts".into(),
                ));
            }
            let query = query.clone();
            // Thousands of dot products with hundreds of dimensions take milliseconds.
            let products = move || {
                tokens
                    .iter()
                    .map(|passage| max_sim(&query, passage))
                    .collect::<Vec<f32>>()
            };
            let batch = spawn_blocking(products).await;
            scores.extend(batch.map_err(|error| ModelError::Failed(error.into()))?);
        }
        Ok(scores)
    }
}

impl Rank for MaxSimRank {
    fn method(&self) -> &str {
        "colbert"
    }

    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        Box::pin(self.scores(query, passages))
    }
}

/// Ranks by the share of the query's significant words that a passage covers, weighted by a
/// library: the share in its best sentence, plus half of what the rest adds. Scores range from 0 to
/// 1 and are the same for the same library.
#[derive(Clone, Debug)]
pub struct LexicalRank {
    library: Arc<Library>,
}

impl LexicalRank {
    /// Weights words as `library` does.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }
}

impl Rank for LexicalRank {
    fn method(&self) -> &str {
        "lexical"
    }

    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        let (library, query) = (Arc::clone(&self.library), query.to_owned());
        let scores = move || {
            let terms = question_terms(library.all(), &query);
            let scores = passages
                .iter()
                .map(|passage| covered(library.all(), &terms, passage));
            scores.collect::<Vec<f32>>()
        };
        Box::pin(async move {
            let scores = spawn_blocking(scores).await;
            scores.map_err(|error| ModelError::Failed(error.into()))
        })
    }
}

fn covered(library: LibraryView<'_>, terms: &[Term], passage: &str) -> f32 {
    let share = |text: &str| {
        let stems: HashSet<String> = library.terms(text).into_iter().collect();
        coverage(terms, |term| term.is_in(&stems))
    };
    let all = share(passage);
    if all == 0.0 {
        return 0.0;
    }
    let best = sentences(passage).into_iter().map(share).fold(0.0, f32::max);
    best + AROUND_SHARE * (all - best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::test_models::Words;
    use crate::test_data::library_with_a_rare_word;

    fn passages(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn late_interaction_sums_the_best_token_per_query_token() {
        let rank = MaxSimRank::new(Arc::new(Words::default()));
        assert_eq!(rank.method(), "colbert");
        let texts = ["red fox", "a red red fox runs", "blue fox", "", "green"];
        let scores = rank.rank("red fox", passages(&texts)).await.unwrap();
        let rounded: Vec<f32> = scores.iter().map(|score| score.round()).collect();
        assert_eq!(rounded, [2.0, 2.0, 1.0, 0.0, 0.0]);
        assert_eq!(rank.rank("", passages(&texts)).await.unwrap(), [0.0; 5]);
        assert_eq!(rank.rank("red", Vec::new()).await.unwrap(), [0.0; 0]);
        // More than one batch, in order.
        let many: Vec<String> = (0..BATCH_PASSAGES * 2 + 1)
            .map(|n| "fox ".repeat(n % 2))
            .collect();
        let scores = rank.rank("fox", many).await.unwrap();
        let rounded: Vec<f32> = scores.iter().map(|score| score.round()).collect();
        let wanted: Vec<f32> = (0..BATCH_PASSAGES * 2 + 1).map(|n| (n % 2) as f32).collect();
        assert_eq!(rounded, wanted);
    }

    #[tokio::test]
    async fn an_embedder_that_fails_or_miscounts_is_an_error() {
        for (words, code) in [
            (Words::default().without_tokens(), "model_unsupported"),
            (Words::default().failing_at(0), "model_failed"),
            (Words::default().failing_at(1), "model_failed"),
            (Words::default().losing_one_at(1), "model_failed"),
        ] {
            let rank = MaxSimRank::new(Arc::new(words));
            let error = rank.rank("red fox", passages(&["red", "fox"])).await.unwrap_err();
            assert_eq!(error.code(), code);
        }
    }

    #[tokio::test]
    async fn lexical_ranking_prefers_significant_words() {
        let rank = LexicalRank::new(Arc::new(library_with_a_rare_word()));
        assert_eq!(rank.method(), "lexical");
        let texts = [
            "Nothing of it.",
            "The models are many.",
            "Optimizers.",
            "The optimizer is old. The model is new.",
            "The model has an optimizer.",
            "",
        ];
        let scores = rank
            .rank("Which optimizer does the model use?", passages(&texts))
            .await
            .unwrap();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        assert_eq!(order, [4, 3, 2, 1, 0, 5]);
        assert_eq!((scores[0], scores[5]), (0.0, 0.0));
        assert!(
            scores.iter().all(|score| (0.0..=1.0).contains(score)),
            "{scores:?}"
        );
        assert_eq!(rank.rank("the of and", passages(&texts)).await.unwrap(), [0.0; 6]);
        assert_eq!(rank.rank("model", Vec::new()).await.unwrap(), [0.0; 0]);
    }
}
