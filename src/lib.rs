//! Puts a RAG pipeline on the wire, live.
