//! The reference pipeline: documents in, streamed answers with citations out, without any model.
//!
//! It is the part that a user replaces. What it shows is how a pipeline speaks through a [`Sink`](crate::Sink): every
//! step is an event while it happens, every figure in an event was measured, and an answer that the documents do not
//! hold is refused in words.
//!
//! ```text
//! bytes ─► parse ─► chunk ─► library (redb + BM25) ─► retrieve ─► review ─► generate ─► sink
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`parse`] | bytes of a file to blocks of text with headings and pages |
//! | [`chunk`] | blocks to chunks of whole sentences |
//! | [`sentence`] | where sentences end |
//! | [`lexical`] | BM25 over chunks |
//! | [`library`] | the durable set of documents and its index |
//!
//! It does not know HTTP, and no other module of this crate imports it. The parsers run where they are called; a server
//! that takes files from strangers calls them in a process of their own, with limits on time and memory.

pub mod chunk;
pub mod document;
pub mod extract;
pub mod lexical;
pub mod library;
pub mod parse;
pub mod plan;
mod quantity;
pub mod sentence;
mod store;
pub mod terms;
#[cfg(test)]
pub(crate) mod test_data;

pub use document::{Chunk, Document, DocumentKind, Hit};
pub use library::{Library, LibraryError, LibraryLimits};
pub use parse::{Block, BlockKind, ParseError, ParseLimits, Parsed, parse};
