//! The embedder in the steps after the search: the gate compares passages with the question by their
//! meaning, and so does the writer that quotes.

use std::sync::Arc;

use super::Run;
use crate::Hit;
use crate::answer::error::AnswerError;
use crate::answer::judge::lexical::with_meaning;
use crate::answer::judge::{Grade, JudgeName, Judgement};
use crate::search::meaning::Meaning;

impl Run<'_> {
    /// Returns what compares texts with the question, or `None` without an embedder, and if it failed.
    /// The caller puts it back if it is still needed.
    pub(super) async fn take_meaning(&mut self) -> Result<Option<Meaning>, AnswerError> {
        if self.searches_words {
            return Ok(None);
        }
        if let Some(meaning) = self.meaning.take() {
            return Ok(Some(meaning));
        }
        let Some(embedder) = self.tools.embedder().map(Arc::clone) else {
            return Ok(None);
        };
        match Meaning::of(embedder, &self.query, self.tools.zero()).await {
            Ok(meaning) => Ok(Some(meaning)),
            Err(error) => {
                self.continue_by_words(&error).await?;
                Ok(None)
            }
        }
    }

    /// Corrects the grades of a judge that compares words. A model has read the passages.
    pub(super) async fn grade_by_meaning(
        &mut self,
        hits: &[Hit],
        grades: &mut Judgement<Vec<Grade>>,
    ) -> Result<(), AnswerError> {
        if hits.is_empty() || grades.by != JudgeName::Lexical {
            return Ok(());
        }
        let Some(meaning) = self.take_meaning().await? else {
            return Ok(());
        };
        let texts = hits.iter().map(|hit| hit.chunk.indexed_text()).collect();
        let near = meaning.nearness(texts).await;
        if let Some(error) = meaning.failure() {
            return self.continue_by_words(error).await;
        }
        for (grade, near) in grades.value.iter_mut().zip(near) {
            if let Some(near) = near {
                *grade = with_meaning(*grade, near);
            }
        }
        self.meaning = Some(meaning);
        Ok(())
    }
}
