//! GraphRAG: one question through the graph, each step reported while it happens. TrustGraph's `graph-rag`.
//!
//! 1. `graph_explanation`: the triples that were followed, in parts of [`EXPLAINED`], under ids `urn:ragwire:exploration:1` and so on.
//! 2. `graph_explanation`: those that the answer is written from, best first, under `urn:ragwire:focus:1` and so on.
//! 3. The passages behind them (`sources`), and the answer: a model's, from the triples, or sentences of those passages.
//!
//! Subjects, predicates and objects are IRIs ([`entity_iri`], [`relation_iri`]). It does not know TrustGraph's messages.

use std::sync::Arc;
use std::time::Instant;

use super::entity::{entity_iri, relation_iri};
use super::limits::GraphLimits;
use super::names::EntityNames;
use super::prompt::{Fact, fitting, prompt as prompt_of};
use super::search::Followed;
use super::store::Graph;
use super::traverse::{GraphTraverse, MODE, TOOL, Traversal};
use crate::answer::cite::CitationFilter;
use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::generate::{GenerateError, NO_ANSWER, citation};
use crate::answer::steps::{answer_from, checked, source};
use crate::answer::write::MAX_ANSWER_BYTES;
use crate::models::{LanguageModel, ModelError, Rank};
use crate::search::plan::Plan;
use crate::{Extractive, Generate, Hit, Library};
use ragwire::event::{
    GenerationStart, GraphExplanation, Mode, QueryAnalysis, RetrievalResult, RetrievalStart, Search, Sources,
    Triple,
};
use ragwire::{Metadata, SendError, Sink};

/// The graph that explanations name: TrustGraph's, of what a retrieval did.
pub const GRAPH: &str = "urn:graph:retrieval";
/// Triples of one explanation: some 20 KiB, far below what a wire takes for one event.
pub const EXPLAINED: usize = 100;
/// Passages that an answer without a model is written from.
const MAX_PASSAGES: usize = 12;

/// A question, and how far it may go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphQuestion {
    /// What is asked.
    pub prompt: String,
    /// How far the search goes.
    pub limits: GraphLimits,
}

impl GraphQuestion {
    /// A question with the usual limits.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            limits: GraphLimits::default(),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: GraphLimits) -> Self {
        self.limits = limits;
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
    /// Answers from `graph`, which was made from `library`, with sentences of the passages behind the best triples: no model.
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

    /// Finds entities by what their names mean, too.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.traverse = self.traverse.names(names);
        self
    }

    /// Ranks the best triples before they are cut to `edge-limit`.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.traverse = self.traverse.ranker(ranker);
        self
    }

    /// Answers a question into a sink. The future owns all it needs.
    ///
    /// # Back-pressure
    /// It waits with the sink.
    ///
    /// # Cancel safety
    /// Dropping the future ends the answer; nothing else changes.
    ///
    /// # Errors
    /// Only what went wrong. A graph without an answer is no error: the text says so, `citations` is empty, and the metadata's member
    /// `answered` is false. Where a model did not see all triples, `trimmed_triples` says how many it missed; where it cited what is not
    /// there, `unknown_citations` how often.
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
        match &self.model {
            Some(model) if !found.best.is_empty() => self.write(&**model, prompt, found, sink).await,
            _ => answer_from(prompt, &found.hits, TOOL, MODE, &*self.generator, sink).await,
        }
    }

    /// Has the model write.
    async fn write(
        &self,
        model: &dyn LanguageModel,
        prompt: &str,
        found: Traversal,
        sink: &Sink,
    ) -> Result<Metadata, AnswerError> {
        let fact = |(edge, chunk): (Followed, Option<_>)| {
            let hit = Hit::new(chunk?, edge.score);
            Some(Fact::new(&self.graph.normal, edge, hit))
        };
        let facts: Vec<Fact> = found.best.into_iter().filter_map(fact).collect();
        if facts.is_empty() {
            return answer_from(prompt, &[], TOOL, MODE, &*self.generator, sink).await;
        }
        let (written, mut shown) = fitting(model, prompt, &facts)
            .await
            .map_err(GenerateError::Model)?;
        let tokens = model.count_tokens(&written).await.map_err(GenerateError::Model)?;
        sink.send(Sources::new(found.hits.iter().map(source).collect()))
            .await?;
        sink.send(GenerationStart::new(count(shown), tokens, model.name()))
            .await?;
        let mut generation = model.generate(written);
        let mut next = generation.next().await;
        // Counted too low: nothing was said yet, so one more is left out.
        while shown > 1 && matches!(next, Some(Err(ModelError::Overflow { .. }))) {
            shown -= 1;
            generation = model.generate(prompt_of(prompt, &facts[..shown]));
            next = generation.next().await;
        }
        let trimmed = facts.len() - shown;
        let facts = &facts[..shown];
        let mut filter = CitationFilter::new(shown);
        while let Some(piece) = next {
            let text = filter.push(&piece.map_err(GenerateError::Model)?);
            if !text.is_empty() {
                sink.send(text).await?;
            }
            if filter.text().len() >= MAX_ANSWER_BYTES {
                break;
            }
            next = generation.next().await;
        }
        let rest = filter.finish();
        if !rest.is_empty() {
            sink.send(rest).await?;
        }
        let cited = filter.cited();
        let cited = cited.iter().filter_map(|one| facts.get(*one));
        let citations: Vec<_> = cited
            .map(|fact| citation(&fact.hit, fact.quote.clone(), TOOL))
            .collect();
        let answered = !filter.text().trim().is_empty() && filter.text().trim() != NO_ANSWER;
        let mut metadata = Metadata::default()
            .citations(citations)
            .mode(MODE)
            .tools_used([TOOL])
            .with("answered", answered);
        if trimmed > 0 {
            metadata = metadata.with("trimmed_triples", trimmed);
        }
        if filter.unknown() > 0 {
            metadata = metadata.with("unknown_citations", filter.unknown());
        }
        if let Some(finished) = generation.finished() {
            metadata = metadata.usage(finished.usage(model.name()));
        }
        Ok(metadata)
    }
}

/// Tells which triples were followed, under ids that are counted on from `number`. The next number.
pub(crate) async fn explain<'a>(
    what: &str,
    mut number: usize,
    edges: impl Iterator<Item = &'a Followed>,
    sink: &Sink,
) -> Result<usize, SendError> {
    let triple = |edge: &Followed| {
        let (subject, object) = (entity_iri(&edge.subject), entity_iri(&edge.object));
        Triple::new(subject, relation_iri(&edge.predicate), object)
    };
    let triples: Vec<Triple> = edges.map(triple).collect();
    for part in triples.chunks(EXPLAINED) {
        let id = format!("urn:ragwire:{what}:{number}");
        sink.send(GraphExplanation::new(id, GRAPH, part.to_vec())).await?;
        number += 1;
    }
    Ok(number)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
