//! The seam between the server and what answers: a question goes in, events and text go into the sink, metadata comes back.
//!
//! To put your own pipeline behind this server, implement [`Orchestrator`] and name it in `start.rs`.

use std::fmt;
use std::pin::Pin;

use ragwire::event::Mode;
use ragwire::session::Message;
use ragwire::turn::BoxError;
use ragwire::{Citation, Metadata, Sink};
use serde::Deserialize;
use utoipa::ToSchema;

/// The mode that ADR 0007 names for these routes.
pub const MODE: &str = "hybrid";

/// How much thought a question is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// None.
    None,
    /// Little.
    Low,
    /// The usual.
    #[default]
    Medium,
    /// Much.
    High,
    /// As much as there is.
    Xhigh,
}

/// A question, and what a pipeline may use to answer it.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question.
    pub prompt: String,
    /// How much thought it is worth.
    pub effort: Effort,
    /// Whether the evidence is to be judged before it is used.
    pub review: bool,
    /// How the client wants it answered, where it said so.
    pub mode: Option<Mode>,
    /// What was said before in the session, oldest first, without this question.
    pub earlier: Vec<Message>,
}

/// What an orchestrator does with a question.
pub type Answering = Pin<Box<dyn Future<Output = Result<Metadata, BoxError>> + Send>>;

/// What answers questions.
pub trait Orchestrator: fmt::Debug + Send + Sync {
    /// Answers `question` into `sink`. What it returns closes the turn.
    fn answer(&self, question: Question, sink: Sink) -> Answering;
}

/// What the two routes of ADR 0007 tell at the end: citations with the members of the ADR, mode and tools, nothing else but how
/// the turn waited, which the group adds. The heading and the title of a passage are told by the event `sources`, before the answer.
pub fn as_in_the_adr(metadata: Metadata) -> Metadata {
    let citations = metadata.citations.into_iter().map(|citation| {
        let mut plain = Citation::new(
            citation.document_id,
            citation.chunk_id,
            citation.supporting_quote,
            citation.source_tool,
        );
        plain.page_number = citation.page_number;
        plain.score = citation.score;
        plain
    });
    Metadata::default()
        .citations(citations.collect())
        .mode(MODE)
        .tools_used(metadata.tools_used)
}

/// The reference pipeline behind the seam.
impl Orchestrator for ragwire::rag::Pipeline {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        use ragwire::rag::{Question as Asked, ReviewPolicy};

        let review = if question.review {
            ReviewPolicy::Once
        } else {
            ReviewPolicy::Off
        };
        let answering = Self::answer(self, Asked::new(question.prompt).review(review), sink);
        Box::pin(async move { Ok(answering.await?) })
    }
}
