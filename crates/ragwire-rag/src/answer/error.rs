//! The errors of questions that were not answered, and the failures that readers see.

use std::error::Error;

use ragwire::{Failure, SendError};

use crate::answer::generate::{GenerateError, NO_DOCUMENTS};
use crate::answer::judge::JudgeError;
use crate::graph::LimitError;
use crate::models::ModelError;
use crate::search::retrieve::RetrieveError;
use crate::search::tools::ToolError;
use crate::{FilterError, LibraryError};

/// Length in bytes of the longest question.
pub const MAX_QUESTION_BYTES: usize = 32 * 1024;

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The question is empty.
    #[error("the question is empty")]
    EmptyQuestion,
    /// The question is longer than 32 KiB.
    #[error("the question is longer than {MAX_QUESTION_BYTES} bytes")]
    QuestionTooLong,
    /// The library is empty.
    #[error("the library has no documents")]
    NoDocuments,
    /// The question asks for JSON of a schema, and no model writes the answer.
    #[error("an answer in JSON needs a language model, and none writes here")]
    NoStructuredResults,
    /// The question selects documents, and the pipeline searches all of them.
    #[error("this service searches all documents and takes no filter; an agent takes one")]
    NoFilter,
    /// The filter of the question cannot be read.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A search failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A search of the graph, or of a custom retriever, failed.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// A limit of the question is out of bounds.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The library failed.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The judging model was shut down.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The reranker failed.
    #[error("the passages could not be ranked")]
    Rank(#[source] ModelError),
    /// The answer was not completed.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The turn has ended: its events are no longer read.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A background thread panicked.
    #[error("a background thread panicked")]
    Lost(#[from] tokio::task::JoinError),
}

/// The kind of an [`AnswerError`], as programs and readers distinguish it.
///
/// The codes are those of Forge's page in lower case, where it has one: its wire writes them as
/// `NO_DOCUMENTS`, `VECTOR_DB_ERROR` and `LLM_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnswerErrorKind {
    /// The question is empty: `empty_question`.
    EmptyQuestion,
    /// The question is too long, in bytes or for the model: `question_too_long`.
    QuestionTooLong,
    /// The library is empty: `no_documents`.
    NoDocuments,
    /// A limit of the question is out of bounds: `bad_limit`.
    BadLimit,
    /// The question asks for something that the pipeline cannot do: `unsupported_option`.
    UnsupportedOption,
    /// The filter of the question cannot be read: `bad_filter`.
    BadFilter,
    /// A model failed: `llm_error`.
    Model,
    /// The library or a search failed: `vector_db_error`.
    Search,
    /// The turn has ended, so nothing failed: `turn_over`.
    TurnEnded,
}

impl AnswerErrorKind {
    /// Returns the code: a stable name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EmptyQuestion => "empty_question",
            Self::QuestionTooLong => "question_too_long",
            Self::NoDocuments => "no_documents",
            Self::BadLimit => "bad_limit",
            Self::UnsupportedOption => "unsupported_option",
            Self::BadFilter => "bad_filter",
            Self::Model => "llm_error",
            Self::Search => "vector_db_error",
            Self::TurnEnded => "turn_over",
        }
    }
}

impl AnswerError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> AnswerErrorKind {
        match self {
            Self::EmptyQuestion => AnswerErrorKind::EmptyQuestion,
            Self::QuestionTooLong => AnswerErrorKind::QuestionTooLong,
            Self::NoDocuments => AnswerErrorKind::NoDocuments,
            Self::Limit(_) => AnswerErrorKind::BadLimit,
            Self::NoStructuredResults | Self::NoFilter => AnswerErrorKind::UnsupportedOption,
            Self::Filter(_) => AnswerErrorKind::BadFilter,
            Self::Send(_) => AnswerErrorKind::TurnEnded,
            Self::Generate(error) => match error {
                GenerateError::Send(_) => AnswerErrorKind::TurnEnded,
                GenerateError::QuestionTooLong { .. } => AnswerErrorKind::QuestionTooLong,
                GenerateError::Model(_) | GenerateError::Broken { .. } | GenerateError::Failed(_) => {
                    AnswerErrorKind::Model
                }
            },
            Self::Judge(_) | Self::Rank(_) => AnswerErrorKind::Model,
            Self::Tool(error) => tool_kind(error),
            // A tool that is DocumentRAG's retriever fails as it does in an agent.
            Self::Retrieve(error) => match error.source().and_then(<dyn Error>::downcast_ref) {
                Some(error) => tool_kind(error),
                None => AnswerErrorKind::Search,
            },
            Self::Library(_) | Self::Lost(_) => AnswerErrorKind::Search,
        }
    }

    /// Returns the code of the kind: a stable name for programs.
    pub fn code(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Returns the failure that the turn's readers see: the code and a sentence, without the cause.
    pub fn failure(&self) -> Failure {
        let kind = self.kind();
        let code = self.code();
        match kind {
            AnswerErrorKind::EmptyQuestion => Failure::new(code, "The question is empty.").permanent(),
            AnswerErrorKind::QuestionTooLong => Failure::new(code, "The question is too long.").permanent(),
            AnswerErrorKind::NoDocuments => Failure::new(code, NO_DOCUMENTS),
            AnswerErrorKind::BadLimit => {
                Failure::new(code, format!("A limit is out of its bounds: {self}.")).permanent()
            }
            AnswerErrorKind::UnsupportedOption => Failure::new(
                code,
                format!("The question cannot be answered in this way: {self}."),
            )
            .permanent(),
            AnswerErrorKind::BadFilter => {
                Failure::new(code, format!("The filter cannot be read: {self}.")).permanent()
            }
            AnswerErrorKind::Model if self.is_rejected() => {
                Failure::new(code, "The model server rejects this server's requests.").permanent()
            }
            AnswerErrorKind::Model => Failure::new(code, "The language model failed."),
            AnswerErrorKind::Search => Failure::new(code, "The documents could not be searched."),
            AnswerErrorKind::TurnEnded => Failure::new(code, "The turn is over.").permanent(),
        }
    }
}

impl AnswerError {
    /// Returns whether a model server rejects the key or does not know the model, which no retry
    /// changes.
    fn is_rejected(&self) -> bool {
        let model = match self {
            Self::Generate(GenerateError::Model(error) | GenerateError::Broken { source: error, .. })
            | Self::Rank(error) => Some(error),
            Self::Tool(ToolError::Embed(error)) => Some(error),
            _ => None,
        };
        matches!(model, Some(ModelError::Rejected(_)))
    }
}

/// An embedder that fails is a model's failure, anything else in a tool is a search's.
fn tool_kind(error: &ToolError) -> AnswerErrorKind {
    if matches!(error, ToolError::Embed(_)) {
        AnswerErrorKind::Model
    } else {
        AnswerErrorKind::Search
    }
}
