//! Writing or extracting answers, citing, judging, verifying and caching.

pub mod cache;
pub(crate) mod cite;
mod dated;
mod differ;
pub(crate) mod document_rag;
pub(crate) mod error;
mod extract;
pub(crate) mod extractive;
pub(crate) mod fallback;
pub(crate) mod fence;
pub(crate) mod figures;
pub(crate) mod generate;
mod items;
pub mod judge;
pub(crate) mod lexicon;
mod notices;
pub(crate) mod rambling;
pub(crate) mod refusal;
mod render;
pub(crate) mod steps;
pub(crate) mod stream;
pub(crate) mod thoughts;
pub(crate) mod welcome;
pub(crate) mod write;

pub use error::{AnswerError, AnswerErrorKind, MAX_QUESTION_BYTES};
pub use fallback::Fallback;
pub use generate::{Fit, NO_ANSWER, NO_DOCUMENTS};
pub use write::{ANSWER_RULES, WriterOptions};
