//! The knowledge graph beside the chunks: the things that the documents name, and how they are
//! related.
//!
//! ```text
//! passage ─► extract ─► graph (SQLite + memory) ─► search ─► subgraph ─► passages behind it ─► answer
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `entity` | when two names are the same thing, and the IRI of a name |
//! | [`mod@extract`] | from a passage to its triples: [`ExtractGraph`], by patterns or by a model |
//! | `store` | [`Graph`]: the durable graph, each triple with the passages that state it |
//! | `index` | [`GraphIndex`]: keeps a graph in step with a [`Library`](super::Library) |
//! | `names` | [`EntityNames`]: the vectors of entity names, if there is an embedder |
//! | `search` | from a question to the triples near it |
//! | [`traverse`] | the tool `graph_traverse`: the passages that state those triples |
//! | `answer` | [`GraphRag`]: answers one question into a sink |
//!
//! A graph is an index and can be rebuilt: the documents themselves are in the library. Nothing
//! here knows HTTP or TrustGraph's messages.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ragwire_rag::Chunk;
//! use ragwire_rag::graph::{Graph, GraphLimits, GraphRoom, Patterns};
//!
//! let graph = Graph::in_memory(GraphRoom::default())?;
//! let chunk = Chunk::new("d1", "turns.md", 0, "A turn uses a bounded queue.");
//! let triples = Patterns::default().triples(&chunk);
//! graph.put("d1", "patterns", vec![(0, triples)])?;
//! let found = graph.search("What does a turn use?", &GraphLimits::default())?;
//! let edge = &found.edges[0];
//! assert_eq!((&*edge.subject, &*edge.predicate, &*edge.object), ("turn", "uses", "bounded queue"));
//! # Ok(())
//! # }
//! ```

mod answer;
pub mod entity;
mod explain;
pub mod extract;
mod index;
mod names;
mod prompt;
mod records;
pub mod search;
mod store;
pub mod traverse;
mod write;

pub(crate) use explain::explain;

pub use answer::{GraphQuestion, GraphRag};
pub use extract::{ExtractGraph, Extraction, ModelExtractor, Patterns, Relation};
pub use index::{GraphIndex, GraphIndexError, SyncReport};
pub use names::EntityNames;
pub use ragwire::orchestrator::{DocumentLimits, GraphLimits, Limit, LimitError};
pub use search::{FollowedTriple, Subgraph};
pub use store::{Graph, GraphDocument, GraphError, GraphRoom, GraphSize};
pub use traverse::{GraphTraverse, Traversal};
