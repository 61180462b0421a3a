//! The interface between the server and the pipeline: it takes a question, sends events and text
//! into the sink, and returns metadata.
//!
//! To use your own pipeline, implement [`Orchestrator`] and create it in `start.rs`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use ragwire::event::Mode;
use ragwire::session::{self, Message};
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

/// The mode that the routes of ADR 0007 report.
pub const MODE: &str = "hybrid";

/// The search effort for a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// One search.
    None,
    /// Few searches.
    Low,
    /// The default.
    #[default]
    Medium,
    /// Many searches.
    High,
    /// As many searches as possible.
    Xhigh,
}

/// The kind of answer that a route asks for. An orchestrator with only one kind ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// The default: an agent.
    #[default]
    Agent,
    /// From the graph, within these limits.
    GraphRag(GraphLimits),
    /// From chunks, within these limits.
    DocumentRag(DocumentLimits),
}

/// A question, with everything that a pipeline may use to answer it.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question.
    pub prompt: String,
    /// The search effort.
    pub effort: Effort,
    /// Whether the verdict on the evidence is also emitted as a `review` event.
    pub review: bool,
    /// Whether the claims of the finished answer are verified.
    pub verify: bool,
    /// Whether the sources are emitted after the answer instead of before it.
    pub sources_last: bool,
    /// The owner, whose cached answers no other owner gets; empty if anonymous.
    pub owner: String,
    /// How to answer, if the client chose a mode.
    pub mode: Option<Mode>,
    /// The earlier messages of the conversation, oldest first, without this question.
    pub earlier: Vec<Message>,
    /// The kind of answer.
    pub service: Service,
}

impl Question {
    /// Creates an anonymous question without a conversation, whose answer is verified.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            effort: Effort::default(),
            review: false,
            verify: true,
            sources_last: false,
            owner: String::new(),
            mode: None,
            earlier: Vec::new(),
            service: Service::default(),
        }
    }
}

impl From<Question> for AgentQuestion {
    fn from(question: Question) -> Self {
        let mut agent = Self::new(question.prompt)
            .earlier(question.earlier.into_iter().map(chat_message).collect())
            .review(question.review)
            .verify(question.verify)
            .sources_last(question.sources_last)
            .scope(question.owner);
        if let Some(mode) = question.mode {
            agent = agent.mode(mode);
        }
        if let Some(searches) = question.effort.searches() {
            agent = agent.searches(searches);
        }
        agent
    }
}

/// The future of an answer.
pub type Answering = Pin<Box<dyn Future<Output = Result<Metadata, BoxError>> + Send>>;

/// Answers questions.
pub trait Orchestrator: fmt::Debug + Send + Sync {
    /// Answers `question` into `sink`. The returned metadata ends the turn.
    fn answer(&self, question: Question, sink: Sink) -> Answering;
}

/// Returns the metadata in the form of the two routes of ADR 0007: citations with the members of
/// the ADR, mode and tools. Only the figures of the waiting list, which the group adds, come on
/// top. The event `sources` has the heading and the title of each passage before the answer.
pub fn adr_metadata(metadata: Metadata) -> Metadata {
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
    /// Returns the number of searches an agent may make: three can compare two things, and more
    /// than twelve take longer than a patient user waits.
    fn searches(self) -> Option<u32> {
        match self {
            Self::None => Some(1),
            Self::Low => Some(3),
            // The default of the pipeline.
            Self::Medium => None,
            Self::High => Some(9),
            Self::Xhigh => Some(12),
        }
    }
}

/// The agent gives the same kind of answer for every service.
impl Orchestrator for Agent {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        answering(Self::answer(self, question.into(), sink))
    }
}

/// Logs the error of an answer and turns it into the failure for the client.
fn answering(answer: impl Future<Output = Result<Metadata, AnswerError>> + Send + 'static) -> Answering {
    Box::pin(async move {
        answer.await.map_err(|error| {
            // A turn that ended early, because the client disconnected or stopped it, is not an
            // error.
            if error.kind() != AnswerErrorKind::TurnEnded {
                let (code, error) = (error.kind().as_str(), &error as &dyn std::error::Error);
                tracing::warn!(code, error, "a question was not answered");
            }
            error.failure().into()
        })
    })
}

fn chat_message(message: Message) -> ChatMessage {
    let role = match message.role {
        session::Role::User => Role::User,
        session::Role::Assistant => Role::Assistant,
    };
    ChatMessage::new(role, message.text)
}

/// The reference pipelines of this server, one per service.
#[derive(Clone, Debug)]
pub struct Reference {
    agent: Agent,
    documents: DocumentRag,
    graph: Option<GraphRag>,
}

impl Reference {
    /// Creates the pipelines for a library, its graph, if there is one, and the models. Without a
    /// model, the lexical implementations are used.
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
            agent: agent.build(),
            documents,
            graph: rag,
        }
    }
}

/// Creates the cache of answers that a model wrote. Quoted sentences are not cached, because
/// extracting them again is faster than comparing questions.
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
            (Service::Agent, _) => Orchestrator::answer(&self.agent, question, sink),
            (Service::DocumentRag(limits), _) => {
                let question = DocumentQuestion::new(question.prompt).limits(limits);
                answering(self.documents.answer(question, sink))
            }
            (Service::GraphRag(limits), Some(graph)) => {
                let question = GraphQuestion::new(question.prompt).limits(limits);
                answering(graph.answer(question, sink))
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
