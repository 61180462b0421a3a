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
//! | module | what it is |
//! |---|---|
//! | [`mod@parse`] | bytes of a file to blocks of text with headings and pages |
//! | [`changes`] | which documents of a library came and went |
//! | [`chunk`] | blocks to chunks of whole sentences |
//! | [`sentence`] | where sentences end |
//! | [`lexical`] | BM25 over chunks |
//! | [`levels`] | sections, passages and sentences of a document |
//! | [`library`] | the durable set of documents and its index |
//! | `llama` | llama.cpp in this process behind the seams of [`model`] (feature `llama`) |
//! | [`mod@store`] | the seam for keeping chunks of all levels with their vectors, and finding them |
//! | [`model`] | the seams to models: what writes, what embeds, what ranks |
//! | [`index`] | a store kept in step with a library |
//! | [`tools`] | the ways of searching a store |
//! | [`rank`] | late interaction, and ranking by words |
//! | [`plan`] | a question to the queries that are searched for |
//! | [`retrieve`] | the seam for finding chunks, and fusing of several lists |
//! | [`terms`] | the telling words of a question and their weights |
//! | [`extract`] | the sentences that answer |
//! | [`generate`] | the seam for writing the answer |
//! | [`write`](mod@write) | the answer of a language model, its citations checked while it streams |
//! | [`cite`] | which brackets in a text are citations, and of what |
//! | [`fence`] | text of strangers in a prompt |
//! | [`judge`] | judging a question, its evidence and its answer, with a model or without one |
//! | [`cache`] | answers to questions that mean the same |
//! | [`mod@graph`] | entities and relations beside the chunks, and GraphRAG |
//! | [`document_rag`] | DocumentRAG: the answer from a given number of chunks |
//! | [`error`] | why a question was not answered |
//! | [`agent`] | all of it for one question: with models where there are any |
//! | `upstream` (feature `upstream`) | models behind any server that speaks OpenAI's protocol |
//!
//! It does not know HTTP. The parsers run where they are called; a server
//! that takes files from strangers calls them in a process of their own, with limits on time and memory.

pub mod agent;
pub mod cache;
pub mod changes;
pub mod chunk;
pub mod cite;
mod differ;
pub mod document;
pub mod document_rag;
pub mod error;
pub mod extract;
pub mod fence;
mod figures;
pub mod generate;
pub mod graph;
pub mod index;
pub mod judge;
pub mod levels;
pub mod lexical;
pub mod library;
#[cfg(feature = "llama")]
pub mod llama;
pub mod model;
pub mod parse;
pub mod plan;
mod quantity;
pub mod rank;
mod records;
pub mod retrieve;
#[cfg(test)]
pub(crate) mod scripted;
pub mod sentence;
mod steps;
pub mod store;
pub mod terms;
#[cfg(test)]
pub(crate) mod test_data;
#[cfg(test)]
pub(crate) mod test_models;
pub mod tools;
#[cfg(feature = "upstream")]
pub mod upstream;
pub mod write;

pub use agent::{Agent, AgentBuilder, AgentQuestion, Budget};
pub use cache::SemanticCache;
pub use changes::{Change, ChangeKind};
pub use document::{Chunk, ChunkId, Document, DocumentKind, Hit, Level};
pub use document_rag::{DocumentQuestion, DocumentRag};
pub use error::AnswerError;
pub use generate::{Extractive, Generate, GenerateError, GenerateRequest, Generated};
pub use index::Indexer;
pub use judge::Judge;
pub use levels::SectionTree;
pub use library::{Library, LibraryError, LibraryLimits};
pub use parse::{Block, BlockKind, ParseError, ParseLimits, Parsed, parse};
pub use rank::{LexicalRank, MaxSimRank};
pub use retrieve::{Lexical, Retrieve, RetrieveError, RetrieveRequest};
pub use tools::{SearchTools, Tool};
pub use write::Writer;
