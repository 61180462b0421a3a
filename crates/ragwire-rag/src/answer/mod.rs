//! Answers: writing or extracting them, citing, judging, verifying and caching.

pub mod cache;
pub(crate) mod cite;
mod differ;
pub(crate) mod document_rag;
pub mod error;
mod extract;
pub(crate) mod fence;
pub(crate) mod figures;
pub mod generate;
pub mod judge;
mod quantity;
pub(crate) mod steps;
pub mod write;
