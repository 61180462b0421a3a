//! Continues a turn without a model of the search that fails: without the embedder, words are
//! searched; without the ranker, the passages keep the order of the searches.

use ragwire::event::Reasoning;

use super::Run;
use crate::answer::error::AnswerError;
use crate::models::ModelError;

/// A part of the pipeline that failed, as the metadata names it in `fallback_parts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailedPart {
    Embedder,
    Reranker,
    LanguageModel,
}

impl FailedPart {
    fn as_str(self) -> &'static str {
        match self {
            Self::Embedder => "embedder",
            Self::Reranker => "reranker",
            Self::LanguageModel => "language_model",
        }
    }
}

/// The parts that failed in this turn, in that order, each with the code of its error.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(FailedPart, &'static str)>);

impl Failures {
    pub(super) fn add(&mut self, part: FailedPart, code: &'static str) {
        self.0.push((part, code));
    }

    /// Returns the code of the first error.
    pub(super) fn code(&self) -> Option<&'static str> {
        self.0.first().map(|(_, code)| *code)
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(part, _)| part.as_str()).collect()
    }
}

impl Run<'_> {
    /// Searches by words for the rest of the turn, and reports that.
    pub(super) async fn continue_by_words(&mut self, error: &ModelError) -> Result<(), AnswerError> {
        self.tools = self.parts.words.clone().within(self.question.filter.clone());
        self.searches_words = true;
        let remark = "The embedding model failed, so the documents are searched by words only.";
        self.continue_without(FailedPart::Embedder, error, remark).await
    }

    /// Keeps the order of the searches, and reports that.
    pub(super) async fn continue_unranked(&mut self, error: &ModelError) -> Result<(), AnswerError> {
        let remark = "The reranker failed, so the passages keep the order of the search.";
        self.continue_without(FailedPart::Reranker, error, remark).await
    }

    async fn continue_without(
        &mut self,
        part: FailedPart,
        error: &ModelError,
        remark: &'static str,
    ) -> Result<(), AnswerError> {
        let code = error.code();
        tracing::warn!(
            code,
            part = part.as_str(),
            error = error as &dyn std::error::Error,
            "a model of the search failed; the turn continues without it"
        );
        self.failures.add(part, code);
        Ok(self.sink.send(Reasoning::new(remark)).await?)
    }
}
