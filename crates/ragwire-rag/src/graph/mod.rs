//! The knowledge graph beside the chunks: what the documents speak of, and how those things hang together.
//!
//! ```text
//! passage ─► extract ─► graph (redb + memory) ─► search ─► subgraph ─► passages behind it ─► answer
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`entity`] | when two names are the same thing, and how a name is spelled as an IRI |
//! | [`mod@extract`] | the seam from a passage to its triples, by patterns or by a model |
//! | [`store`] | the durable graph, each triple with the passages that say it |
//! | [`index`] | keeps a graph in step with a [`Library`](super::Library) |
//! | [`names`] | the vectors of entity names, where there is an embedder |
//! | [`limits`] | how far a search may go, under TrustGraph's names |
//! | [`search`] | from a question to the triples near it |
//! | [`traverse`] | the tool `graph_traverse`: the passages behind those triples |
//! | [`answer`] | GraphRAG: the steps of one question into a sink |
//!
//! A graph is an index and can be made anew: the documents themselves are the library's. Nothing here knows HTTP or TrustGraph's messages.
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

pub mod answer;
pub mod entity;
pub mod extract;
pub mod index;
pub mod limits;
pub mod names;
mod prompt;
mod records;
pub mod search;
pub mod store;
pub mod traverse;

pub use answer::{GraphQuestion, GraphRag};
pub use extract::{ExtractGraph, Extraction, ModelExtractor, Patterns, Relation};
pub use index::{GraphIndex, GraphIndexError, Synced};
pub use limits::{DocumentLimits, GraphLimits, LimitError};
pub use names::EntityNames;
pub use search::{Followed, Subgraph};
pub use store::{Graph, GraphDocument, GraphError, GraphRoom, GraphSize};
pub use traverse::{GraphTraverse, Traversal};
