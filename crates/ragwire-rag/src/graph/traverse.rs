//! The tool `graph_traverse`: the triples near a question, and the passages that state them.

use std::collections::HashMap;
use std::sync::Arc;

use super::entity::Normal;
use super::names::EntityNames;
use super::prompt::Fact;
use super::search::{FollowedTriple, Subgraph};
use super::store::Graph;
use crate::models::{Boxed, Rank};
use crate::{Chunk, Hit, Library, LibraryError, Retrieve, RetrieveError, RetrieveRequest};
use ragwire::orchestrator::{GraphLimits, LimitError};

/// The tool's name in events and citations.
pub const TOOL: &str = "graph_traverse";
/// The mode in the metadata.
pub const MODE: &str = "graph";

/// The result of a traversal.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Traversal {
    /// The triples that the search followed.
    pub subgraph: Subgraph,
    /// The triples to answer from, best first, each with the surest passage that is still in the
    /// library.
    pub best: Vec<(FollowedTriple, Option<Chunk>)>,
    /// The passages that state them, best first; the score of a passage is that of its triples.
    pub hits: Vec<Hit>,
}

impl Traversal {
    /// The best triples that still have a passage, with their supporting sentences.
    pub(super) fn facts(&self, normal: &Normal) -> Vec<Fact> {
        let fact = |(edge, chunk): &(FollowedTriple, Option<Chunk>)| {
            let hit = Hit::new(chunk.clone()?, edge.score);
            Some(Fact::new(normal, edge.clone(), hit))
        };
        self.best.iter().filter_map(fact).collect()
    }
}

/// Searches a graph, and a library for the passages that state its triples. Clones share both.
#[derive(Clone, Debug)]
pub struct GraphTraverse {
    graph: Arc<Graph>,
    library: Arc<Library>,
    names: Option<EntityNames>,
    ranker: Option<Arc<dyn Rank>>,
    /// The limits of searches that do not set their own.
    pub(crate) limits: GraphLimits,
}

impl GraphTraverse {
    /// Searches `graph`, which was built from `library`, by words.
    pub fn new(graph: Arc<Graph>, library: Arc<Library>) -> Self {
        Self {
            graph,
            library,
            names: None,
            ranker: None,
            limits: GraphLimits::default(),
        }
    }

    /// Also begins at entities whose names resemble the question. If the embedder fails, only words
    /// are used.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.names = Some(names);
        self
    }

    /// Reranks the best triples before they are cut to `edge-limit`. If the ranker fails, they
    /// keep their order.
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

    /// Returns `true` if the graph has no triples.
    pub fn is_empty(&self) -> bool {
        self.graph.size().triples == 0
    }

    /// The first step: follows the triples near a question.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the search and changes nothing.
    ///
    /// # Errors
    ///
    /// The search's thread panicked, or a limit is out of bounds. Call [`GraphLimits::check`] first
    /// to distinguish the two.
    pub async fn explore(&self, question: &str, limits: GraphLimits) -> Result<Subgraph, RetrieveError> {
        let near = match &self.names {
            None => Vec::new(),
            Some(names) => names
                .near(question, limits.entity_limit)
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!(code = error.code(), "searching entities by words only");
                    Vec::new()
                }),
        };
        let (graph, question) = (Arc::clone(&self.graph), question.to_owned());
        let search = move |_: &Library| -> Result<Subgraph, LimitError> {
            graph.search_near(&question, &near, &limits)
        };
        let found = self.library.reading(search).await.map_err(RetrieveError::new)?;
        found.map_err(RetrieveError::new)
    }

    /// The second step: selects the triples to answer from, and reads the passages that state them,
    /// at most `max_passages`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
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
        let look_up = move |library: &Library| -> Result<Traversal, LibraryError> {
            let chunks = Chunks::of(library);
            chunks.behind(subgraph, best, max_passages)
        };
        let found = self.library.reading(look_up).await.map_err(RetrieveError::new)?;
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

async fn rank(ranker: &dyn Rank, question: &str, edges: &mut Vec<FollowedTriple>) {
    let sentences = edges.iter().map(FollowedTriple::sentence).collect();
    match ranker.rank(question, sentences).await {
        Ok(scores) if scores.len() == edges.len() => {
            let mut ranked: Vec<_> = scores.into_iter().zip(std::mem::take(edges)).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
            *edges = ranked.into_iter().map(|(_, edge)| edge).collect();
        }
        Ok(_) => tracing::warn!("the ranker returned a different number of scores than triples"),
        Err(error) => tracing::warn!(code = error.code(), "the triples were not reranked"),
    }
}

/// The chunks of a library, each read once.
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

    /// Reads a chunk. Returns `None` if its document was removed: the graph follows the library
    /// with a delay.
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
        edges: Vec<FollowedTriple>,
        max_passages: usize,
    ) -> Result<Traversal, LibraryError> {
        // In order of appearance, so that the order of equal scores is reproducible.
        let (mut scores, mut indices): (Vec<(String, f32)>, HashMap<String, usize>) = Default::default();
        for edge in &edges {
            for mention in &edge.mentions {
                let index = *indices.entry(mention.chunk_id.clone()).or_insert_with(|| {
                    scores.push((mention.chunk_id.clone(), 0.0));
                    scores.len() - 1
                });
                scores[index].1 += edge.score * mention.weight;
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
            for mention in &edge.mentions {
                surest = self.get(&mention.chunk_id)?;
                if surest.is_some() {
                    break;
                }
            }
            best.push((edge, surest));
        }
        Ok(Traversal { subgraph, best, hits })
    }
}
