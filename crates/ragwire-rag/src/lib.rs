//! The reference pipeline: documents in, streamed answers with citations out, with or without
//! models.
//!
//! Replace any part of it, or all of it. It shows how a pipeline reports its work through a
//! [`Sink`](ragwire::Sink): every step is an event while it happens, every figure in an event is
//! measured, and a question that the documents do not answer gets a refusal in plain words.
//!
//! ```text
//! bytes ─► parse ─► chunk ─► library (SQLite + BM25) ─► retrieve ─► judge ─► generate ─► sink
//! ```
//!
//! From the bytes of a file to a streamed answer, without a model:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use futures_util::StreamExt;
//! use ragwire::{Sse, Turn};
//! use ragwire_rag::{Agent, AgentQuestion, Library, LibraryLimits, ParseLimits, parse};
//!
//! let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
//! let bytes = b"# Birds\n\nA robin sings at dawn. An owl hunts at night.";
//! library.add("birds.md", &parse("birds.md", bytes, &ParseLimits::default())?)?;
//!
//! let agent = Agent::lexical(library);
//! let question = AgentQuestion::new("When does the robin sing?");
//! let turn = Turn::start(|sink| agent.answer(question, sink)).commit().await?;
//!
//! // Each item is a piece of a body that any EventSource reads. `turn.respond(Sse::default())`
//! // makes an HTTP response of it.
//! let mut stream = turn.stream(&Sse::default());
//! let mut body = Vec::new();
//! while let Some(bytes) = stream.next().await {
//!     body.extend_from_slice(&bytes);
//! }
//! assert!(String::from_utf8(body)?.contains("robin"));
//! # Ok(())
//! # }
//! ```
//!
//! | start with | to |
//! |---|---|
//! | [`parse`], [`Library`] | read files, store their passages, and search them by words |
//! | [`Indexer`], [`SearchTools`] | search by vectors as well, in a store of [`search::store`] |
//! | [`models`] | use llama.cpp in this process, or an OpenAI-compatible server |
//! | [`Agent`] | answer a question with the whole pipeline |
//! | [`answer`] | replace the judge, the generator or the cache |
//! | [`graph`] | extract entities and relations, and answer with GraphRAG |
//! | [`ragwire::Orchestrator`] | serve an [`Agent`], a [`graph::GraphRag`] or a [`DocumentRag`] with `ragwire-endpoints` |
//! | [`LibraryFollower`] | keep an index or a graph in step with a library |
//!
//! This crate knows nothing about HTTP. Parsers run in the calling process; a server that accepts
//! files from strangers runs them in a separate process, with limits on time and memory.

pub mod agent;
pub mod answer;
mod documents;
pub mod graph;
pub mod models;
mod orchestrator;
mod seal;
pub mod search;
#[cfg(test)]
pub(crate) mod test_data;
mod trace;

pub use agent::{Agent, AgentBuilder, AgentQuestion, Budget};
pub use answer::cache::SemanticCache;
pub use answer::document_rag::{DocumentQuestion, DocumentRag};
pub use answer::error::{AnswerError, AnswerErrorKind};
pub use answer::extractive::Extractive;
pub use answer::generate::{Generate, GenerateError, GenerateRequest, GeneratedAnswer};
pub use answer::judge::Judge;
pub use answer::write::Writer;
pub(crate) use documents::LibraryView;
#[cfg(feature = "qdrant")]
pub use documents::SharedLibraryOptions;
pub use documents::{
    Block, BlockKind, Change, ChangeKind, Chunk, ChunkId, Claim, Document, DocumentFilter, DocumentKind,
    DocumentOwner, DocumentPage, EXTENSIONS, FilterError, FollowError, FollowFailure, FollowReport,
    FrontMatter, Hit, IndexingProgress, Level, Library, LibraryError, LibraryFollower, LibraryLimits,
    ListItem, ListLine, PARSER_VERSION, ParseError, ParseErrorKind, ParseLimits, Parsed, Piece, Salvage,
    SavedDocument, SectionTree, Source, SourceOutcome, SourceRoot, Work, follow, parse,
};
pub use search::{
    AddError, IndexError, IndexFailure, IndexReport, Indexer, Lexical, LexicalRank, MaxSimRank, Retrieve,
    RetrieveError, RetrieveRequest, SearchResults, SearchTools, Tool, ToolError, ToolRetriever,
};
pub use trace::TraceContext;
