//! GraphRAG, after TrustGraph's `graph-rag`: answers one question from the graph and reports each
//! step as it happens.
//!
//! 1. `graph_explanation`: the triples that were followed, 100 in each event, under the IDs
//!    `urn:ragwire:exploration:1` and so on.
//! 2. `graph_explanation`: the triples that the answer is written from, best first, under
//!    `urn:ragwire:focus:1` and so on.
//! 3. The passages that state them (`sources`), then the answer: written by a model from the
//!    triples, or quoted from the passages.
//!
//! Subjects, predicates and objects are IRIs ([`entity_iri`](super::entity::entity_iri),
//! [`relation_iri`](super::entity::relation_iri)). This module does not know TrustGraph's messages.

use std::sync::Arc;
use std::time::Instant;

use super::explain::explain;
use super::names::EntityNames;
use super::store::Graph;
use super::traverse::{GraphTraverse, MODE, TOOL, Traversal};
use super::write::FactWriter;
use crate::answer::error::AnswerError;
use crate::answer::fallback::Fallback;
use crate::answer::figures::{count, milliseconds};
use crate::answer::generate::{GenerateError, GenerateRequest};
use crate::answer::steps::{WriteSteps, check_schema, checked, write_answer};
use crate::models::{LanguageModel, Rank};
use crate::search::plan::Plan;
use crate::{DocumentFilter, Extractive, Generate, Library};
use ragwire::event::{Mode, QueryAnalysis, RetrievalResult, RetrievalStart, Search};
use ragwire::orchestrator::GraphLimits;
use ragwire::{Metadata, Sink};
use serde_json::Value;

/// Number of passages that an answer without a model is written from.
const MAX_PASSAGES: usize = 12;

/// A question, and the limits of its search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphQuestion {
    /// The question.
    pub prompt: String,
    /// The limits of the search.
    pub limits: GraphLimits,
    /// The JSON schema of the answer, if it is to be JSON.
    pub schema: Option<Value>,
}

impl GraphQuestion {
    /// A question with the default limits.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            limits: GraphLimits::default(),
            schema: None,
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: GraphLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the JSON schema of the answer, as [`AgentQuestion::schema`](crate::AgentQuestion::schema)
    /// does.
    #[must_use]
    pub fn schema(mut self, schema: Option<Value>) -> Self {
        self.schema = schema;
        self
    }
}

/// Answers from a graph. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ragwire::Turn;
/// use ragwire_rag::graph::{Graph, GraphIndex, GraphQuestion, GraphRag, GraphRoom, Patterns};
/// use ragwire_rag::{Library, LibraryLimits, parse};
///
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// library.add("turns.md", &parse("turns.md", b"A turn uses a bounded queue.", &Default::default())?)?;
/// let graph = Arc::new(Graph::in_memory(GraphRoom::default())?);
/// GraphIndex::new(Arc::clone(&library), Arc::clone(&graph), Arc::new(Patterns::default())).sync().await?;
///
/// let rag = GraphRag::new(graph, library);
/// let question = GraphQuestion::new("What does a turn use?");
/// let answer = Turn::start(|sink| rag.answer(question, sink)).commit().await?.collect().await?;
/// assert_eq!(answer.text, "A turn uses a bounded queue. [1]");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct GraphRag {
    graph: Arc<Graph>,
    traverse: GraphTraverse,
    model: Option<Arc<dyn LanguageModel>>,
    generator: Arc<dyn Generate>,
}

impl std::fmt::Debug for GraphRag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("GraphRag");
        let model = self
            .model
            .as_ref()
            .map_or_else(|| self.generator.model(), |model| model.name());
        debug.field("model", &model).finish_non_exhaustive()
    }
}

impl GraphRag {
    /// Answers from `graph`, which was built from `library`, with sentences of the passages that
    /// state the best triples: no model.
    pub fn new(graph: Arc<Graph>, library: Arc<Library>) -> Self {
        Self {
            traverse: GraphTraverse::new(Arc::clone(&graph), Arc::clone(&library)),
            generator: Arc::new(Extractive::new(library)),
            graph,
            model: None,
        }
    }

    /// Has a model write the answer from the triples.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn LanguageModel>) -> Self {
        self.model = Some(model);
        self
    }

    /// Also finds entities by the meaning of their names.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.traverse = self.traverse.names(names);
        self
    }

    /// Reranks the best triples before they are cut to `edge-limit`.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.traverse = self.traverse.ranker(ranker);
        self
    }

    /// Whether a question's [`schema`](GraphQuestion::schema) is honoured: a model writes the answer.
    pub fn has_structured_results(&self) -> bool {
        self.model.is_some()
    }

    /// Answers a question into a sink. The future owns everything that it needs.
    ///
    /// # Back-pressure
    ///
    /// The future waits while the sink is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the answer; nothing else changes.
    ///
    /// # Errors
    ///
    /// Failures only. A graph that does not answer the question is not an error: the text says so,
    /// `citations` is empty, and `answered` is false in the metadata. `trimmed_triples` in the
    /// metadata is the number of triples that did not fit the model; `unknown_citations` is the
    /// number of citations that the model invented.
    pub fn answer(
        &self,
        question: GraphQuestion,
        sink: Sink,
    ) -> impl Future<Output = Result<Metadata, AnswerError>> + Send + use<> {
        let rag = self.clone();
        async move { rag.run(&question, &sink).await }
    }

    async fn run(&self, question: &GraphQuestion, sink: &Sink) -> Result<Metadata, AnswerError> {
        let prompt = checked(&question.prompt)?;
        question.limits.check()?;
        let schema = question.schema.as_ref();
        check_schema(schema, self.has_structured_results())?;
        let plan = Plan::of(prompt);
        let analysis = QueryAnalysis::new(prompt, plan.complexity(), plan.parts.len() > 1, Mode::Direct);
        sink.send(analysis).await?;
        sink.send(Search::new(TOOL).query(prompt).page(1u32)).await?;
        sink.send(RetrievalStart::new(TOOL, prompt, 1u32)).await?;
        let start = Instant::now();
        let subgraph = self.traverse.explore(prompt, question.limits).await?;
        explain("exploration", 1, subgraph.edges.iter(), sink).await?;
        let passages = if self.model.is_some() {
            question.limits.edge_limit
        } else {
            MAX_PASSAGES
        };
        let found = self
            .traverse
            .focus(prompt, subgraph, question.limits, passages)
            .await?;
        let mut result = RetrievalResult::new(TOOL, count(found.hits.len()), milliseconds(start));
        if let Some(best) = found.hits.first() {
            result = result.top_score(f64::from(best.score));
        }
        sink.send(result).await?;
        explain("focus", 1, found.best.iter().map(|(edge, _)| edge), sink).await?;
        let writer = match &self.model {
            Some(model) => self.fact_writer(Arc::clone(model), question, &found).await?,
            None => None,
        };
        // The graph has no private documents.
        let everyones = DocumentFilter::default().user("");
        let request = GenerateRequest::new(prompt, &found.hits, TOOL)
            .filter(&everyones)
            .schema(schema);
        let written = match writer {
            Some(writer) => {
                let writer = Fallback::new(Arc::new(writer), Arc::clone(&self.generator));
                write_answer(request, WriteSteps::new(&writer).all_sources(), sink).await?
            }
            None => {
                // Quotes are not JSON: without a fact the text says that there is no answer.
                let hits = if schema.is_none() { &*found.hits } else { &[] };
                let request = GenerateRequest::new(prompt, hits, TOOL).filter(&everyones);
                write_answer(request, WriteSteps::new(&*self.generator), sink).await?
            }
        };
        Ok(written.metadata(MODE, [TOOL], None))
    }

    /// The writer of an answer from the triples; `None` if no triple has a passage that is still in
    /// the library.
    async fn fact_writer(
        &self,
        model: Arc<dyn LanguageModel>,
        question: &GraphQuestion,
        found: &Traversal,
    ) -> Result<Option<FactWriter>, AnswerError> {
        let facts = found.facts(&self.graph.normal);
        if facts.is_empty() {
            return Ok(None);
        }
        let writer = FactWriter::new(model, question, facts).await;
        Ok(Some(writer.map_err(GenerateError::Model)?))
    }
}

#[cfg(test)]
mod tests;
