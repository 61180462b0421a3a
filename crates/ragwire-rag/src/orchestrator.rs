//! The three pipelines as orchestrators, so that endpoints can serve them.
//!
//! ```
//! use std::sync::Arc;
//! use ragwire::Orchestrator;
//! use ragwire_rag::{Agent, Library, LibraryLimits};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
//! let orchestrator: Arc<dyn Orchestrator> = Arc::new(Agent::lexical(library));
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use ragwire::orchestrator::{Answering, Effort, Passages, SearchRequest, Searcher, Searching, Service};
use ragwire::session::{self, Message};
use ragwire::turn::BoxError;
use ragwire::{Metadata, Orchestrator, Question, Sink};
use serde_json::{Map, Value};

use crate::DocumentFilter;
use crate::agent::{Agent, AgentQuestion};
use crate::answer::document_rag::{DocumentQuestion, DocumentRag};
use crate::answer::error::{AnswerError, AnswerErrorKind};
use crate::answer::steps::source;
use crate::graph::{GraphQuestion, GraphRag};
use crate::models::{ChatMessage, Role};
use crate::search::retrieve::{Retrieve, RetrieveRequest};

/// An agent gives the same kind of answer for every service.
impl Orchestrator for Agent {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        answering(Self::answer(self, question.into(), sink))
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(self.clone()))
    }

    fn has_structured_results(&self) -> bool {
        Self::has_structured_results(self)
    }
}

/// GraphRAG uses the limits of the service in the question, otherwise their defaults. A question with
/// a filter is refused, because a triple may come from any document.
impl Orchestrator for GraphRag {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        if let Err(refused) = check_filter(&question) {
            return refused;
        }
        answering(Self::answer(self, question.into(), sink))
    }

    fn has_structured_results(&self) -> bool {
        Self::has_structured_results(self)
    }
}

/// DocumentRAG uses the limits of the service in the question, otherwise their defaults. A question
/// with a filter is refused, because its retriever may not know one.
impl Orchestrator for DocumentRag {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        if let Err(refused) = check_filter(&question) {
            return refused;
        }
        answering(Self::answer(self, question.into(), sink))
    }

    fn has_structured_results(&self) -> bool {
        Self::has_structured_results(self)
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(self.clone()))
    }
}

/// Searches for the query itself with words and, with an embedder, vectors. Nothing is judged.
impl Searcher for Agent {
    fn search(&self, request: SearchRequest) -> Searching {
        searching(self.retriever(), request)
    }
}

/// Searches with the retriever for the query itself. Nothing is reranked.
impl Searcher for DocumentRag {
    fn search(&self, request: SearchRequest) -> Searching {
        searching(self.retriever(), request)
    }
}

fn searching(retriever: Arc<dyn Retrieve>, request: SearchRequest) -> Searching {
    Box::pin(async move {
        let limit = request.limit.min(SearchRequest::MAX_LIMIT);
        let hits = retriever
            .retrieve(RetrieveRequest::new(request.query, limit))
            .await;
        let hits = hits.map_err(|error| failure(&error.into()))?;
        Ok(Passages::new(retriever.tool(), hits.iter().map(source).collect()))
    })
}

impl From<Question> for AgentQuestion {
    fn from(question: Question) -> Self {
        let options = question.options;
        let mut agent = Self::new(question.prompt)
            .earlier(question.history.into_iter().map(chat_message).collect())
            .instructions(options.instructions.unwrap_or_default())
            .review(options.review)
            .verify(options.verify)
            .sources_last(options.sources_last)
            .scope(question.owner)
            .filter(filter(&options.extra))
            .schema(options.output_schema);
        if let Some(mode) = question.mode {
            agent = agent.mode(mode);
        }
        if let Some(searches) = searches(question.effort) {
            agent = agent.searches(searches);
        }
        agent
    }
}

impl From<Question> for GraphQuestion {
    fn from(question: Question) -> Self {
        let graph = Self::new(question.prompt).schema(question.options.output_schema);
        match question.options.service {
            Service::GraphRag(limits) => graph.limits(limits),
            _ => graph,
        }
    }
}

impl From<Question> for DocumentQuestion {
    fn from(question: Question) -> Self {
        let documents = Self::new(question.prompt).schema(question.options.output_schema);
        match question.options.service {
            Service::DocumentRag(limits) => documents.limits(limits),
            _ => documents,
        }
    }
}

/// Returns the refusal of a question that selects documents.
fn check_filter(question: &Question) -> Result<(), Answering> {
    if filter(&question.options.extra).is_empty() {
        return Ok(());
    }
    Err(answering(async { Err(AnswerError::NoFilter) }))
}

/// The member of a request's extra fields that selects documents.
const FILTER: &str = "filter";

/// Returns the filter of a request: an object, or its JSON as text for protocols that pass only
/// texts. A filter that cannot be read selects nothing, because selecting everything would show
/// documents that the client wanted to exclude.
fn filter(extra: &Map<String, Value>) -> DocumentFilter {
    let parsed = match extra.get(FILTER) {
        None | Some(Value::Null) => return DocumentFilter::default(),
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(value) => serde_json::from_value(value.clone()),
    };
    parsed.unwrap_or_else(|error| {
        tracing::warn!(%error, "the filter of a question cannot be read");
        DocumentFilter::nothing()
    })
}

/// Returns the number of searches an agent may make: three can compare two things, and more than
/// twelve take longer than a patient user waits.
fn searches(effort: Effort) -> Option<u32> {
    match effort {
        Effort::None => Some(1),
        Effort::Low => Some(3),
        // The default of the pipeline.
        Effort::Medium => None,
        Effort::High => Some(9),
        Effort::Xhigh => Some(12),
    }
}

fn chat_message(message: Message) -> ChatMessage {
    let role = match message.role {
        session::Role::User => Role::User,
        session::Role::Assistant => Role::Assistant,
    };
    ChatMessage::new(role, message.text)
}

fn answering(answer: impl Future<Output = Result<Metadata, AnswerError>> + Send + 'static) -> Answering {
    Box::pin(async move { answer.await.map_err(|error| failure(&error)) })
}

/// Logs the error of an answer or a search, and turns it into the failure for the client.
fn failure(error: &AnswerError) -> BoxError {
    // A turn that ended early, because the client disconnected or stopped it, is not an error.
    if error.kind() != AnswerErrorKind::TurnEnded {
        let (code, error) = (error.kind().as_str(), error as &dyn std::error::Error);
        tracing::warn!(code, error, "a question was not answered");
    }
    error.failure().into()
}

#[cfg(test)]
mod tests {
    use ragwire::{Failure, Turn};

    use super::*;
    use crate::graph::{Graph, GraphRoom};
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    /// All pipelines, without a model.
    fn pipelines() -> [(&'static str, Box<dyn Orchestrator>); 3] {
        let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
        let parsed = parse("birds.md", b"A robin sings at dawn.", &ParseLimits::default()).unwrap();
        library.add("birds.md", &parsed).unwrap();
        let graph = Arc::new(Graph::in_memory(GraphRoom::default()).unwrap());
        [
            ("agent", Box::new(Agent::lexical(Arc::clone(&library)))),
            ("graph", Box::new(GraphRag::new(graph, Arc::clone(&library)))),
            ("documents", Box::new(DocumentRag::lexical(library))),
        ]
    }

    async fn refused(orchestrator: &dyn Orchestrator, question: Question) -> Option<Failure> {
        let turn = Turn::start(|sink| orchestrator.answer(question, sink))
            .commit()
            .await;
        turn.err().map(|rejected| rejected.failure)
    }

    #[tokio::test]
    async fn a_schema_without_a_model_is_refused_before_anything_is_searched() {
        for (name, orchestrator) in pipelines() {
            assert!(!orchestrator.has_structured_results(), "{name}");
            let mut question = Question::new("When does the robin sing?");
            question.options.output_schema = Some(serde_json::json!({"type": "object"}));
            let failure = refused(&*orchestrator, question).await.unwrap();
            assert_eq!(
                (failure.code(), failure.recoverable),
                ("unsupported_option", false),
                "{name}"
            );
            assert!(
                failure.message.contains("a language model"),
                "{name}: {}",
                failure.message
            );
        }
    }

    #[tokio::test]
    async fn a_filter_is_honoured_or_refused() {
        for (name, orchestrator) in pipelines() {
            let mut question = Question::new("When does the robin sing?");
            let filter = serde_json::json!({"tags": ["web"]});
            question.options.extra.insert(FILTER.to_owned(), filter);
            let failure = refused(&*orchestrator, question).await;
            let code = failure.as_ref().map(|failure| failure.code());
            let expected = (name != "agent").then_some("unsupported_option");
            assert_eq!(code, expected, "{name}");
        }
    }

    #[test]
    fn a_filter_is_an_object_or_its_text_and_never_ignored() {
        let read = |value: Value| filter(&Map::from_iter([(FILTER.to_owned(), value)]));
        let tags = read(serde_json::json!({"tags": ["web"]}));
        assert_eq!(tags.tags, ["web"]);
        assert_eq!(read(Value::String(r#"{"tags":["web"]}"#.to_owned())), tags);
        assert!(filter(&Map::new()).is_empty() && read(Value::Null).is_empty());
        for bad in [
            serde_json::json!({"tag": "web"}),
            serde_json::json!("x"),
            serde_json::json!(7),
        ] {
            assert_eq!(read(bad.clone()), DocumentFilter::nothing(), "{bad}");
        }
    }
}
