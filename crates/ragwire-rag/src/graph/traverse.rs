//! The tool `graph_traverse`: the passages behind the triples near a question, and the triples.

use std::collections::HashMap;
use std::sync::Arc;

use super::limits::{GraphLimits, LimitError};
use super::names::EntityNames;
use super::search::{Followed, Subgraph};
use super::store::Graph;
use crate::models::{Boxed, Rank};
use crate::{Chunk, Hit, Library, LibraryError, Retrieve, RetrieveError, RetrieveRequest};

/// The tool's name in events and citations.
pub const TOOL: &str = "graph_traverse";
/// How it finds, in the metadata.
pub const MODE: &str = "graph";

/// What was found for a question.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Traversal {
    /// Where the search went.
    pub subgraph: Subgraph,
    /// The triples to answer from, best first, each with its surest passage that is still there.
    pub best: Vec<(Followed, Option<Chunk>)>,
    /// The passages behind them, best first: each is worth what its triples are.
    pub hits: Vec<Hit>,
}

/// Searches a graph, and the library for what is behind it. Clones share both.
#[derive(Debug, Clone)]
pub struct GraphTraverse {
    graph: Arc<Graph>,
    library: Arc<Library>,
    names: Option<EntityNames>,
    ranker: Option<Arc<dyn Rank>>,
    /// Of a search that says none.
    pub(crate) limits: GraphLimits,
}

impl GraphTraverse {
    /// Searches `graph`, which was made from `library`, by words.
    pub fn new(graph: Arc<Graph>, library: Arc<Library>) -> Self {
        Self {
            graph,
            library,
            names: None,
            ranker: None,
            limits: GraphLimits::default(),
        }
    }

    /// Begins at entities whose names are like the question, too. Where the embedder fails, it goes by words alone.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.names = Some(names);
        self
    }

    /// Ranks the best triples before they are cut to `edge-limit`. Where the ranker fails, their order stays as it was.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.ranker = Some(ranker);
        self
    }

    /// Sets the limits of [`retrieve`](Retrieve::retrieve) and of an agent's searches.
    #[must_use]
    pub fn limits(mut self, limits: GraphLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether there is nothing to find yet.
    pub fn is_empty(&self) -> bool {
        self.graph.size().triples == 0
    }

    /// The first step: where the search goes.
    ///
    /// # Cancel safety
    /// Dropping the future gives the search up; it changes nothing.
    ///
    /// # Errors
    /// The search's thread was lost. Limits out of their bounds are an error as well, which [`GraphLimits::check`] tells before.
    pub async fn explore(&self, question: &str, limits: GraphLimits) -> Result<Subgraph, RetrieveError> {
        let near = match &self.names {
            None => Vec::new(),
            Some(names) => names
                .near(question, limits.entity_limit)
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!(code = error.code(), "entities are looked for by words alone");
                    Vec::new()
                }),
        };
        let (graph, question) = (Arc::clone(&self.graph), question.to_owned());
        let search = move || -> Result<Subgraph, LimitError> { graph.search_near(&question, &near, &limits) };
        let found = tokio::task::spawn_blocking(search)
            .await
            .map_err(RetrieveError::new)?;
        found.map_err(RetrieveError::new)
    }

    /// The second: which of its triples to answer from, and the passages behind them, at most so many.
    ///
    /// # Cancel safety
    /// Dropping the future gives it up; it changes nothing.
    ///
    /// # Errors
    /// The library cannot be read.
    pub async fn focus(
        &self,
        question: &str,
        subgraph: Subgraph,
        limits: GraphLimits,
        max_passages: usize,
    ) -> Result<Traversal, RetrieveError> {
        let mut best = subgraph.best(limits.edge_score_limit);
        if let Some(ranker) = &self.ranker {
            best.truncate(limits.max_reranker_input);
            rank(&**ranker, question, &mut best).await;
        }
        best.truncate(limits.edge_limit);
        let library = Arc::clone(&self.library);
        let look_up = move || -> Result<Traversal, LibraryError> {
            let chunks = Chunks::of(&library);
            chunks.behind(subgraph, best, max_passages)
        };
        let found = tokio::task::spawn_blocking(look_up)
            .await
            .map_err(RetrieveError::new)?;
        found.map_err(RetrieveError::new)
    }
}

impl Retrieve for GraphTraverse {
    fn tool(&self) -> &str {
        TOOL
    }

    fn mode(&self) -> &str {
        MODE
    }

    fn retrieve<'a>(&'a self, request: RetrieveRequest) -> Boxed<'a, Result<Vec<Hit>, RetrieveError>> {
        Box::pin(async move {
            let subgraph = self.explore(&request.query, self.limits).await?;
            let found = self
                .focus(&request.query, subgraph, self.limits, request.limit)
                .await?;
            Ok(found.hits)
        })
    }
}

async fn rank(ranker: &dyn Rank, question: &str, edges: &mut Vec<Followed>) {
    let sentences = edges.iter().map(Followed::sentence).collect();
    match ranker.rank(question, sentences).await {
        Ok(scores) if scores.len() == edges.len() => {
            let mut ranked: Vec<_> = scores.into_iter().zip(std::mem::take(edges)).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
            *edges = ranked.into_iter().map(|(_, edge)| edge).collect();
        }
        Ok(_) => tracing::warn!("a ranker gave another number of scores than there were triples"),
        Err(error) => tracing::warn!(code = error.code(), "the triples are not ranked"),
    }
}

/// Chunks of a library, each read once.
struct Chunks<'a> {
    library: &'a Library,
    read: HashMap<String, Option<Chunk>>,
}

impl<'a> Chunks<'a> {
    fn of(library: &'a Library) -> Self {
        Self {
            library,
            read: HashMap::new(),
        }
    }

    /// Nothing for a chunk whose document has gone: the graph follows the library, it does not hold it up.
    fn get(&mut self, id: &str) -> Result<Option<Chunk>, LibraryError> {
        if let Some(known) = self.read.get(id) {
            return Ok(known.clone());
        }
        let chunk = self.library.chunk(id)?;
        self.read.insert(id.to_owned(), chunk.clone());
        Ok(chunk)
    }

    fn behind(
        mut self,
        subgraph: Subgraph,
        edges: Vec<Followed>,
        max_passages: usize,
    ) -> Result<Traversal, LibraryError> {
        // In the order in which they come, so that equal scores have one order.
        let (mut scores, mut places): (Vec<(String, f32)>, HashMap<String, usize>) = Default::default();
        for edge in &edges {
            for said in &edge.said {
                let place = *places.entry(said.chunk_id.clone()).or_insert_with(|| {
                    scores.push((said.chunk_id.clone(), 0.0));
                    scores.len() - 1
                });
                scores[place].1 += edge.score * said.weight;
            }
        }
        scores.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut hits = Vec::new();
        for (id, score) in scores {
            if hits.len() == max_passages {
                break;
            }
            hits.extend(self.get(&id)?.map(|chunk| Hit::new(chunk, score)));
        }
        let mut best = Vec::with_capacity(edges.len());
        for edge in edges {
            let mut surest = None;
            for said in &edge.said {
                surest = self.get(&said.chunk_id)?;
                if surest.is_some() {
                    break;
                }
            }
            best.push((edge, surest));
        }
        Ok(Traversal { subgraph, best, hits })
    }
}
