//! Why a question was not answered, whichever way it was to be, and what its readers are told of that.

use std::error::Error;

use crate::LibraryError;
use crate::answer::generate::{GenerateError, NO_DOCUMENTS};
use crate::answer::judge::JudgeError;
use crate::graph::LimitError;
use crate::models::ModelError;
use crate::search::retrieve::RetrieveError;
use crate::search::tools::ToolError;
use ragwire::{Failure, SendError};

/// Longest question, in bytes.
pub const MAX_QUESTION_BYTES: usize = 32 * 1024;

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The question is empty.
    #[error("the question is empty")]
    EmptyQuestion,
    /// The question is longer than [`MAX_QUESTION_BYTES`].
    #[error("the question is longer than {MAX_QUESTION_BYTES} bytes")]
    QuestionTooLong,
    /// There is nothing to answer from.
    #[error("there are no documents")]
    NoDocuments,
    /// A search failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A search of the graph, or of a retriever of one's own, failed.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// A limit of the question's is out of its bounds.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The library failed.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The model that judges is gone.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The order could not be found.
    #[error("the passages could not be put into order")]
    Rank(#[source] ModelError),
    /// The answer was not finished.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The turn is over: nobody reads any more.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A thread was lost.
    #[error("a thread was lost")]
    Lost(#[from] tokio::task::JoinError),
}

impl AnswerError {
    /// A stable name for programs: the seed's codes in small letters where it has one. Forge's wire spells them `NO_DOCUMENTS`,
    /// `VECTOR_DB_ERROR`, `LLM_ERROR`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyQuestion => "empty_question",
            Self::QuestionTooLong | Self::Generate(GenerateError::QuestionTooLong { .. }) => {
                "question_too_long"
            }
            Self::NoDocuments => "no_documents",
            Self::Limit(error) => error.code(),
            Self::Send(_) | Self::Generate(GenerateError::Send(_)) => "turn_over",
            // A tool that is a step of DocumentRAG fails as it does in an agent.
            Self::Retrieve(error) if lacks_a_vector(error) => "llm_error",
            Self::Tool(ToolError::Embed(_)) | Self::Judge(_) | Self::Rank(_) | Self::Generate(_) => {
                "llm_error"
            }
            Self::Tool(_) | Self::Retrieve(_) | Self::Library(_) | Self::Lost(_) => "vector_db_error",
        }
    }

    /// What the turn's readers are told: words and the code, nothing of the source.
    pub fn failure(&self) -> Failure {
        let code = self.code();
        match (self, code) {
            (Self::Limit(limit), _) => {
                Failure::new(code, format!("A limit is out of its bounds: {limit}.")).permanent()
            }
            (_, "empty_question") => Failure::new(code, "The question is empty.").permanent(),
            (_, "question_too_long") => Failure::new(code, "The question is too long.").permanent(),
            (_, "no_documents") => Failure::new(code, NO_DOCUMENTS),
            (_, "llm_error") => Failure::new(code, "The language model failed."),
            (_, "vector_db_error") => Failure::new(code, "The documents could not be searched."),
            _ => Failure::new(code, "The turn is over.").permanent(),
        }
    }
}

/// Whether it was the embedder that failed, and not the search.
fn lacks_a_vector(error: &RetrieveError) -> bool {
    let tool = error
        .source()
        .and_then(|source| source.downcast_ref::<ToolError>());
    matches!(tool, Some(ToolError::Embed(_)))
}
