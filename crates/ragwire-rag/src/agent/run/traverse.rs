//! The step `graph_traverse` of an agent: told as a call with its result, as the seed has it, as a search like the others, and triple by triple.
//!
//! What it adds to the evidence are the passages that state the triples. It does not know who chose it.

use std::time::Instant;

use serde_json::{Value, json};

use super::Run;
use crate::Hit;
use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::judge::{Analysis, Judged, Searched, ToolSpec, lexical};
use crate::graph::answer::explain;
use crate::graph::traverse::TOOL;
use crate::graph::{GraphTraverse, Traversal};
use ragwire::event::{Levels, Mode, RetrievalResult, RetrievalStart, Search, ToolCall, ToolResult};

/// Entities, and triples, in the tool's result: what a reader looks over. The explanations have all of them.
const MAX_TOLD: usize = 10;

/// What a judge is told of it.
pub(super) fn choice() -> ToolSpec {
    let what = "follows what is stated between named things: for how one thing relates to another, and for what leads from one to the next";
    ToolSpec::new(TOOL, what).relating()
}

/// The numbers that the next explanations of a turn have: no two are named alike.
#[derive(Debug)]
pub(super) struct Explained {
    exploration: usize,
    focus: usize,
}

impl Default for Explained {
    fn default() -> Self {
        Self {
            exploration: 1,
            focus: 1,
        }
    }
}

impl<'a> Run<'a> {
    /// The graph, where there is something in it.
    pub(super) fn graph(&self) -> Option<&'a GraphTraverse> {
        self.parts.graph.as_ref().filter(|graph| !graph.is_empty())
    }

    /// How to answer where the question does not say. Words do not know of the graph when they choose; a model's choice stands.
    pub(super) fn mode(&self, analysis: &Judged<Analysis>) -> Mode {
        let words_chose = analysis.by == lexical::NAME;
        // The graph comes after a first search.
        let has_time = self.searches() > 1;
        if words_chose && has_time && lexical::relates(self.prompt) && self.graph().is_some() {
            Mode::Agentic
        } else {
            analysis.value.mode
        }
    }

    /// Searches the graph, and gives the passages that are new.
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
        let number = self.explained.exploration;
        self.explained.exploration = explain("exploration", number, subgraph.edges.iter(), sink).await?;
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
        self.explained.focus = explain("focus", self.explained.focus, best, sink).await?;
        sink.send(ToolResult::new(TOOL, told(&found)).duration_ms(took))
            .await?;
        // On the way from one thing to another stand passages that are like neither, which the gate would refuse: they are what the graph is
        // for. In the seed it has no say here either.
        self.pool.pass(&found.hits);
        let new = self.pool.add(TOOL, found.hits);
        self.searched.push(Searched::new(TOOL, query, count(new.len())));
        self.used(TOOL);
        Ok(new)
    }
}

/// What was found, in brief.
fn told(found: &Traversal) -> Value {
    let triples = found.best.iter().take(MAX_TOLD).map(
        |(edge, _)| json!({ "subject": edge.subject, "predicate": edge.predicate, "object": edge.object }),
    );
    let entities = found.subgraph.entities.iter().take(MAX_TOLD);
    json!({
        "entities": entities.collect::<Vec<_>>(),
        "triples": triples.collect::<Vec<_>>(),
        "triples_followed": found.subgraph.edges.len(),
        "chunks_found": found.hits.len(),
    })
}
