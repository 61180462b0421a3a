//! Documents: parsing, chunking, and the durable library.

mod chunk;
mod document;
mod follower;
mod levels;
mod library;
mod parse;
mod sentence;

pub use document::{Chunk, ChunkId, Document, DocumentKind, Hit, Level};
pub use follower::{FollowError, FollowFailure, FollowReport, LibraryFollower, follow};
pub use levels::SectionTree;
pub use library::{
    Change, ChangeKind, DocumentFilter, IndexingProgress, Library, LibraryError, LibraryLimits,
};
pub use parse::{Block, BlockKind, FrontMatter, ParseError, ParseLimits, Parsed, parse};

pub(crate) use levels::VERSION as LEVELS_VERSION;
pub(crate) use sentence::{MAX_SENTENCE_BYTES, sentences};
