//! The seam between the server and what answers: a question goes in, events and text go into the sink, metadata comes back.
//!
//! To put your own pipeline behind this server, implement [`Orchestrator`] and name it in `start.rs`.

use std::fmt;
use std::pin::Pin;

use std::sync::Arc;

use ragwire::event::Mode;
use ragwire::rag::graph::{DocumentLimits, Graph, GraphLimits, GraphQuestion, GraphRag};
use ragwire::rag::{DocumentQuestion, DocumentRag, Library, Pipeline};
use ragwire::session::Message;
use ragwire::turn::BoxError;
use ragwire::{Citation, Failure, Metadata, Sink};
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

/// What kind of answer a route is for. An orchestrator that has only one gives that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// The usual one.
    #[default]
    Usual,
    /// From the graph, no further than these limits.
    GraphRag(GraphLimits),
    /// From chunks, within these limits.
    DocumentRag(DocumentLimits),
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
    /// What kind of answer is wanted.
    pub service: Service,
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

/// The reference pipeline behind the seam: its answer is the same for every service.
impl Orchestrator for Pipeline {
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

/// What this server answers with: one pipeline for each service.
#[derive(Clone, Debug)]
pub struct Reference {
    usual: Pipeline,
    documents: DocumentRag,
    graph: Option<GraphRag>,
}

impl Reference {
    /// From a library, and the graph that was made from it, if there is one.
    pub fn new(library: &Arc<Library>, graph: Option<&Arc<Graph>>) -> Self {
        Self {
            usual: Pipeline::lexical(Arc::clone(library)),
            documents: DocumentRag::lexical(Arc::clone(library)),
            graph: graph.map(|graph| GraphRag::new(Arc::clone(graph), Arc::clone(library))),
        }
    }
}

impl Orchestrator for Reference {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match (question.service, &self.graph) {
            (Service::Usual, _) => Orchestrator::answer(&self.usual, question, sink),
            (Service::DocumentRag(limits), _) => {
                let asked = DocumentQuestion::new(question.prompt).limits(limits);
                let answering = self.documents.answer(asked, sink);
                Box::pin(async move { Ok(answering.await?) })
            }
            (Service::GraphRag(limits), Some(graph)) => {
                let answering = graph.answer(GraphQuestion::new(question.prompt).limits(limits), sink);
                Box::pin(async move { Ok(answering.await?) })
            }
            (Service::GraphRag(_), None) => {
                let failure = Failure::new(
                    "no_graph",
                    "This server keeps no graph; it was started with --graph=false.",
                );
                Box::pin(async move { Err(failure.permanent().into()) })
            }
        }
    }
}
