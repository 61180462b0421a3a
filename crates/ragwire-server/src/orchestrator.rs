//! The seam between the server and what answers: a question goes in, events and text go into the sink, metadata comes back.
//!
//! To put your own pipeline behind this server, implement [`Orchestrator`] and name it in `start.rs`.

use std::fmt;
use std::pin::Pin;

use std::sync::Arc;

use ragwire::event::Mode;
use ragwire::session::{Message, Role as Spoke};
use ragwire::turn::BoxError;
use ragwire::{Citation, Failure, Metadata, Sink};
use ragwire_rag::answer::cache::{CacheLimits, LibraryCorpus, StoreCorpus};
use ragwire_rag::answer::judge::{JudgeOptions, ModelJudge};
use ragwire_rag::graph::{DocumentLimits, GraphIndex, GraphLimits, GraphQuestion, GraphRag, GraphTraverse};
use ragwire_rag::models::{ChatMessage, Role};
use ragwire_rag::{
    Agent, AgentQuestion, AnswerError, AnswerErrorKind, DocumentQuestion, DocumentRag, Extractive, Generate,
    Library, SemanticCache, Tool, Writer,
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::engines::Engines;

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
    /// Whether what is said of the evidence is told as a `review` as well.
    pub review: bool,
    /// Whether the answer is checked claim by claim once it is written.
    pub verify: bool,
    /// Whether the passages are told after the answer and not before.
    pub sources_last: bool,
    /// Who asks: whose stored answers may be said again.
    pub owner: String,
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

impl Effort {
    /// Searches that an agent may make: from the least that can compare two things to what a patient reader waits for.
    fn searches(self) -> Option<u32> {
        match self {
            Self::None => Some(1),
            Self::Low => Some(3),
            // What the pipeline does by itself.
            Self::Medium => None,
            Self::High => Some(9),
            Self::Xhigh => Some(12),
        }
    }
}

/// The reference pipeline behind the seam: its answer is the same for every service.
impl Orchestrator for Agent {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        let searches = question.effort.searches();
        let mut asked = AgentQuestion::new(question.prompt)
            .earlier(question.earlier.into_iter().map(said).collect())
            .review(question.review)
            .verify(question.verify)
            .sources_last(question.sources_last)
            .scope(question.owner);
        if let Some(mode) = question.mode {
            asked = asked.mode(mode);
        }
        if let Some(searches) = searches {
            asked = asked.searches(searches);
        }
        told(Self::answer(self, asked, sink))
    }
}

/// What went wrong in words for the log, and in others for who asked.
fn told(answering: impl Future<Output = Result<Metadata, AnswerError>> + Send + 'static) -> Answering {
    Box::pin(async move {
        answering.await.map_err(|error| {
            // A reader who went is no fault.
            if error.kind() != AnswerErrorKind::TurnEnded {
                let (code, error) = (error.kind().as_str(), &error as &dyn std::error::Error);
                tracing::warn!(code, error, "a question was not answered");
            }
            error.failure().into()
        })
    })
}

/// What was said before, as a model is told it.
fn said(message: Message) -> ChatMessage {
    let role = match message.role {
        Spoke::User => Role::User,
        Spoke::Assistant => Role::Assistant,
    };
    ChatMessage::new(role, message.text)
}

/// What this server answers with: one pipeline for each service.
#[derive(Clone, Debug)]
pub struct Reference {
    usual: Agent,
    documents: DocumentRag,
    graph: Option<GraphRag>,
}

impl Reference {
    /// From a library, the graph that was made from it, if there is one, and the models that there are. What is missing is done by words.
    pub fn new(library: &Arc<Library>, graph: Option<&GraphIndex>, engines: &Engines) -> Self {
        let generator: Arc<dyn Generate> = match &engines.llm {
            Some(llm) => Arc::new(Writer::new(Arc::clone(llm))),
            None => Arc::new(Extractive::new(Arc::clone(library))),
        };
        let mut agent =
            Agent::builder(Arc::clone(library), engines.tools.clone()).generator(Arc::clone(&generator));
        let mut documents = DocumentRag::new(Arc::new(engines.tools.retriever(Tool::Hybrid)), generator);
        let mut rag = graph.map(|index| GraphRag::new(Arc::clone(index.graph()), Arc::clone(library)));
        if let Some(llm) = &engines.llm {
            let judge = ModelJudge::new(Arc::clone(llm), Arc::clone(library), JudgeOptions::default());
            agent = agent
                .judge(Arc::new(judge))
                .cache(Arc::new(cache(library, engines)));
            rag = rag.map(|rag| rag.model(Arc::clone(llm)));
        }
        if let Some(ranker) = &engines.ranker {
            agent = agent.ranker(Arc::clone(ranker));
            documents = documents.ranker(Arc::clone(ranker));
            rag = rag.map(|rag| rag.ranker(Arc::clone(ranker)));
        }
        if let Some(index) = graph {
            let mut traverse = GraphTraverse::new(Arc::clone(index.graph()), Arc::clone(library));
            if let Some(names) = index.entity_names() {
                traverse = traverse.names(names.clone());
                rag = rag.map(|rag| rag.names(names.clone()));
            }
            agent = agent.graph(traverse);
        }
        Self {
            usual: agent.build(),
            documents,
            graph: rag,
        }
    }
}

/// Stored answers: what a model writes twice is paid for twice. Quoted sentences are found anew faster than compared.
fn cache(library: &Arc<Library>, engines: &Engines) -> SemanticCache {
    let limits = CacheLimits::default();
    match &engines.embedder {
        Some(embedder) => {
            let indexer = Arc::clone(&engines.indexer);
            let corpus = StoreCorpus::new(Arc::clone(library), Arc::clone(&engines.store), move || {
                indexer.revision()
            });
            SemanticCache::dense(Arc::clone(embedder), Arc::new(corpus), limits)
        }
        None => {
            let corpus = LibraryCorpus::new(Arc::clone(library));
            SemanticCache::lexical(Arc::clone(library), Arc::new(corpus), limits)
        }
    }
}

impl Orchestrator for Reference {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match (question.service, &self.graph) {
            (Service::Usual, _) => Orchestrator::answer(&self.usual, question, sink),
            (Service::DocumentRag(limits), _) => {
                let asked = DocumentQuestion::new(question.prompt).limits(limits);
                told(self.documents.answer(asked, sink))
            }
            (Service::GraphRag(limits), Some(graph)) => {
                told(graph.answer(GraphQuestion::new(question.prompt).limits(limits), sink))
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
