//! Documents: parsing, chunking, and the durable library.

pub(crate) mod chunk;
mod document;
mod follower;
mod levels;
mod library;
pub(crate) mod list;
mod parse;
mod sentence;

pub use chunk::Piece;
pub use document::{Chunk, ChunkId, Document, DocumentKind, Hit, Level};
pub use follower::{FollowError, FollowFailure, FollowReport, LibraryFollower, follow};
pub use levels::SectionTree;
#[cfg(feature = "qdrant")]
pub use library::SharedLibraryOptions;
pub use library::{
    Change, ChangeKind, Claim, DocumentFilter, DocumentOwner, DocumentPage, FilterError, IndexingProgress,
    Library, LibraryError, LibraryLimits, Salvage, SavedDocument, Source, SourceOutcome, SourceRoot, Work,
};
pub use list::{ListItem, ListLine};
pub use parse::{
    Block, BlockKind, EXTENSIONS, FrontMatter, PARSER_VERSION, ParseError, ParseErrorKind, ParseLimits,
    Parsed, parse,
};

pub(crate) use levels::VERSION as LEVELS_VERSION;
pub(crate) use library::{LibraryView, phrases};
pub(crate) use parse::defined_name;
pub(crate) use sentence::{MAX_SENTENCE_BYTES, sentences};
