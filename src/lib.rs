//! Puts a RAG pipeline on the wire, live.

#[cfg(feature = "rag")]
pub mod rag;
