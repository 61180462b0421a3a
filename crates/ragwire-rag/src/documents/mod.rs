//! Documents: parsing, chunking, and the durable library.

pub(crate) mod changes;
pub(crate) mod chunk;
pub(crate) mod document;
pub(crate) mod follower;
pub(crate) mod levels;
pub(crate) mod library;
pub(crate) mod parse;
pub(crate) mod records;
pub(crate) mod sentence;
