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

use ragwire::orchestrator::{
    Answering, Effort, FILTER, Passages, SearchRequest, Searcher, Searching, Service,
};
use ragwire::session::{self, Message};
use ragwire::turn::BoxError;
use ragwire::{Metadata, Orchestrator, Question, Sink};
use serde_json::{Map, Value};

use crate::agent::{Agent, AgentQuestion};
use crate::answer::document_rag::{DocumentQuestion, DocumentRag};
use crate::answer::error::{AnswerError, AnswerErrorKind};
use crate::answer::steps::source;
use crate::graph::{GraphQuestion, GraphRag};
use crate::models::{ChatMessage, Role};
use crate::search::retrieve::{Retrieve, RetrieveRequest};
use crate::{DocumentFilter, FilterError};

/// An agent gives the same kind of answer for every service.
impl Orchestrator for Agent {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match filter_of(&question) {
            Ok(filter) => {
                let question = AgentQuestion::from(question).filter(filter);
                answering(Self::answer(self, question, sink))
            }
            Err(error) => answering(async { Err(error.into()) }),
        }
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        Some(checked_filter(filter))
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        Some(Arc::new(self.clone()))
    }

    fn has_structured_results(&self) -> bool {
        Self::has_structured_results(self)
    }
}

/// GraphRAG uses the limits of the service in the question, otherwise their defaults. A question with
/// a filter is refused, because a triple may come from any document; of private documents there are
/// none.
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

/// DocumentRAG uses the limits of the service in the question, otherwise their defaults.
impl Orchestrator for DocumentRag {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match filter_of(&question) {
            Ok(filter) => {
                let question = DocumentQuestion::from(question).filter(filter);
                answering(Self::answer(self, question, sink))
            }
            Err(error) => answering(async { Err(error.into()) }),
        }
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        Some(checked_filter(filter))
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
        let filter = filter(&request.extra).map_err(|error| failure(&error.into()))?;
        let filter = filter.user(request.owner);
        if filter.has_conditions() && !retriever.takes_filters() {
            return Err(failure(&AnswerError::NoFilter));
        }
        let request = RetrieveRequest::new(request.query, limit).filter(filter);
        let hits = retriever.retrieve(request).await;
        let hits = hits.map_err(|error| failure(&error.into()))?;
        Ok(Passages::new(retriever.tool(), hits.iter().map(source).collect()))
    })
}

/// Without the filter of the question, which may be wrong: see [`DocumentFilter::parse`].
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

/// Without the filter of the question, which may be wrong: see [`DocumentFilter::parse`].
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
    let error = match filter(&question.options.extra) {
        Ok(filter) if !filter.has_conditions() => return Ok(()),
        Ok(_) => AnswerError::NoFilter,
        Err(error) => error.into(),
    };
    Err(answering(async { Err(error) }))
}

/// Returns the filter of a question, whose owner does not find private documents of others.
fn filter_of(question: &Question) -> Result<DocumentFilter, FilterError> {
    Ok(filter(&question.options.extra)?.user(question.owner.clone()))
}

/// Returns the filter of a request.
fn filter(extra: &Map<String, Value>) -> Result<DocumentFilter, FilterError> {
    extra
        .get(FILTER)
        .map_or_else(|| Ok(DocumentFilter::default()), DocumentFilter::parse)
}

fn checked_filter(filter: &Value) -> Result<(), String> {
    match DocumentFilter::parse(filter) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("The filter cannot be read: {error}.")),
    }
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
    use serde_json::json;

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
            let ask = async |filter: Value| {
                let mut question = Question::new("When does the robin sing?");
                question.options.extra.insert(FILTER.to_owned(), filter);
                let turn = Turn::start(|sink| orchestrator.answer(question, sink))
                    .commit()
                    .await;
                match turn {
                    Ok(turn) => Ok(turn.collect().await.unwrap().text),
                    Err(rejected) => Err(rejected.failure),
                }
            };
            let code = |answer: &Result<String, Failure>| answer.as_ref().err().map(|f| f.code().to_owned());
            let (markdown, tagged) = (
                ask(json!({"kind": "markdown"})).await,
                ask(json!({"tags": ["web"]})).await,
            );
            if name == "graph" {
                assert_eq!(code(&markdown).as_deref(), Some("unsupported_option"));
                assert_eq!(code(&tagged).as_deref(), Some("unsupported_option"));
            } else {
                assert!(markdown.unwrap().contains("A robin sings at dawn."), "{name}");
                assert!(!tagged.unwrap().contains("A robin sings at dawn."), "{name}");
            }
            let bad = ask(json!({"kind": "word"})).await;
            assert_eq!(code(&bad).as_deref(), Some("bad_filter"), "{name}");
            let message = bad.unwrap_err().message;
            assert!(
                message.contains("`word`") && message.contains("markdown"),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn a_search_honours_a_filter() {
        for (name, orchestrator) in pipelines() {
            let Some(searcher) = orchestrator.searcher() else {
                continue;
            };
            let found = async |filter: Value| {
                let mut request = SearchRequest::new("When does the robin sing?");
                request.extra.insert(FILTER.to_owned(), filter);
                let found = searcher.search(request).await;
                found.map(|found| found.passages.len()).ok()
            };
            assert_eq!(found(json!({"kind": "markdown"})).await, Some(1), "{name}");
            assert_eq!(found(json!({"kind": "pdf"})).await, Some(0), "{name}");
            assert_eq!(found(json!({"kind": "word"})).await, None, "{name}");
        }
    }
}
