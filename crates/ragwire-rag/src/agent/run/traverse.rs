//! The agent's step `graph_traverse`, reported as a tool call with its result (as Forge's page has
//! it), as a search like the others, and triple by triple.
//!
//! The step adds the passages that state the triples to the evidence. It does not know who chose
//! it.

use std::time::Instant;

use serde_json::{Value, json};

use super::Run;
use crate::Hit;
use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::judge::{Analysis, JudgeName, Judgement, SearchRecord, ToolSpec, lexical};
use crate::graph::traverse::TOOL;
use crate::graph::{GraphTraverse, Traversal, explain};
use ragwire::event::{Levels, Mode, RetrievalResult, RetrievalStart, Search, ToolCall, ToolResult};

/// Number of entities, and of triples, in the tool's result: enough to look over. The explanations
/// list all of them.
const MAX_LISTED: usize = 10;

/// The tool as it is offered to a judge.
pub(super) fn tool_spec() -> ToolSpec {
    let description = "follows what is stated between named things: for how one thing relates to another, and for what leads from one to the next";
    ToolSpec::new(TOOL, description).relating()
}

/// The numbers of the turn's next explanations, so that no two share an ID.
#[derive(Debug)]
pub(super) struct ExplanationIds {
    exploration: usize,
    focus: usize,
}

impl Default for ExplanationIds {
    fn default() -> Self {
        Self {
            exploration: 1,
            focus: 1,
        }
    }
}

impl<'a> Run<'a> {
    /// The graph, if it has any triples.
    pub(super) fn graph(&self) -> Option<&'a GraphTraverse> {
        let graph = self.parts.graph.as_ref().filter(|graph| !graph.is_empty());
        // Its triples do not know which documents they are of.
        graph.filter(|_| !self.question.filter.has_conditions())
    }

    /// How to answer a question that does not say so itself. The lexical judge does not know about
    /// the graph when it chooses a mode, so its choice is corrected here; a model's choice is kept.
    pub(super) fn mode(&self, analysis: &Judgement<Analysis>) -> Mode {
        let words_chose = analysis.by == JudgeName::Lexical;
        // The graph is searched after a first search.
        let has_time = self.searches() > 1;
        if words_chose && has_time && lexical::relates(self.prompt) && self.graph().is_some() {
            Mode::Agentic
        } else {
            analysis.value.mode
        }
    }

    /// Searches the graph and returns the passages that no earlier search had found.
    pub(super) async fn traverse(
        &mut self,
        graph: &GraphTraverse,
        query: &str,
        iteration: u32,
    ) -> Result<Vec<Hit>, AnswerError> {
        let sink = self.sink;
        let call = ToolCall::new(TOOL, json!({ "query": query })).iteration(iteration);
        sink.send(call).await?;
        sink.send(Search::new(TOOL).query(query).page(1u32)).await?;
        sink.send(RetrievalStart::new(TOOL, query, iteration)).await?;
        let start = Instant::now();
        let subgraph = graph.explore(query, graph.limits).await?;
        let number = self.explanation_ids.exploration;
        self.explanation_ids.exploration =
            explain("exploration", number, subgraph.edges.iter(), sink).await?;
        let most = self.parts.budget.hits;
        let found = graph.focus(query, subgraph, graph.limits, most).await?;
        let took = milliseconds(start);
        let chunks = count(found.hits.len());
        let mut result = RetrievalResult::new(TOOL, chunks, took).levels(Levels::new(0, chunks, 0));
        if let Some(best) = found.hits.first() {
            result = result.top_score(f64::from(best.score));
        }
        sink.send(result).await?;
        let best = found.best.iter().map(|(edge, _)| edge);
        self.explanation_ids.focus = explain("focus", self.explanation_ids.focus, best, sink).await?;
        sink.send(ToolResult::new(TOOL, tool_result(&found)).duration_ms(took))
            .await?;
        // Passages on the path between two things may resemble neither, and the gate would reject
        // them. They are what the graph is for, so the gate does not judge them; nor does Forge's.
        self.pool.pass(&found.hits);
        let new = self.pool.add(TOOL, found.hits, 1.0);
        self.searched
            .push(SearchRecord::new(TOOL, query, count(new.len())));
        self.record_tool(TOOL);
        Ok(new)
    }
}

/// Summarizes a traversal as the tool's result.
fn tool_result(found: &Traversal) -> Value {
    let triples = found.best.iter().take(MAX_LISTED).map(
        |(edge, _)| json!({ "subject": edge.subject, "predicate": edge.predicate, "object": edge.object }),
    );
    let entities = found.subgraph.entities.iter().take(MAX_LISTED);
    json!({
        "entities": entities.collect::<Vec<_>>(),
        "triples": triples.collect::<Vec<_>>(),
        "triples_followed": found.subgraph.edges.len(),
        "chunks_found": found.hits.len(),
    })
}
