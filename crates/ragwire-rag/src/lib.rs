//! The reference pipeline: documents in, streamed answers with citations out, with models where there are any and without.
//!
//! It is the part that a user replaces. What it shows is how a pipeline speaks through a [`Sink`](ragwire::Sink): every
//! step is an event while it happens, every figure in an event was measured, and an answer that the documents do not
//! hold is refused in words.
//!
//! ```text
//! bytes ─► parse ─► chunk ─► library (redb + BM25) ─► retrieve ─► judge ─► generate ─► sink
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `documents` | parsing, chunks, the levels of a document, the durable [`Library`] |
//! | [`search`] | the lexical index, stores, query planning, ranking, fusion, [`SearchTools`] |
//! | [`models`] | the traits for models, llama.cpp in this process and OpenAI-compatible servers |
//! | [`answer`] | extracting or writing an answer, citations, judging, verification, caching |
//! | [`graph`] | entities and relations beside the chunks, and GraphRAG |
//! | [`agent`] | the whole pipeline for one question |
//!
//! It does not know HTTP. The parsers run where they are called; a server that accepts files from strangers calls them in a
//! process of its own, with limits on time and memory.

pub mod agent;
pub mod answer;
mod documents;
pub mod graph;
pub mod models;
pub mod search;
#[cfg(test)]
pub(crate) mod test_data;

pub use agent::{Agent, AgentBuilder, AgentQuestion, Budget};
pub use answer::cache::SemanticCache;
pub use answer::document_rag::{DocumentQuestion, DocumentRag};
pub use answer::error::{AnswerError, AnswerErrorKind};
pub use answer::generate::{Extractive, Generate, GenerateError, GenerateRequest, Generated};
pub use answer::judge::Judge;
pub use answer::write::Writer;
pub use documents::{
    Block, BlockKind, Change, ChangeKind, Chunk, ChunkId, Document, DocumentKind, FollowError, FollowFailure,
    FollowReport, Hit, IndexingProgress, Level, Library, LibraryError, LibraryFollower, LibraryLimits,
    ParseError, ParseLimits, Parsed, SectionTree, follow, parse,
};
pub use search::{
    AddError, IndexError, IndexFailure, IndexReport, Indexer, Lexical, LexicalRank, MaxSimRank, Retrieve,
    RetrieveError, RetrieveRequest, SearchResults, SearchTools, Tool, ToolError, ToolRetriever,
};
