//! Search: the lexical index, vector stores, query planning, ranking and fusion.

mod abbreviations;
pub(crate) mod about;
pub(crate) mod analyzer;
pub(crate) mod asked;
pub(crate) mod asking;
pub(crate) mod beginnings;
pub(crate) mod bounds;
pub(crate) mod compounds;
pub(crate) mod entries;
pub(crate) mod follow_up;
pub(crate) mod holds;
pub(crate) mod identifier;
pub(crate) mod index;
pub(crate) mod labels;
pub(crate) mod lexical;
pub(crate) mod lexicon;
pub(crate) mod lines;
pub(crate) mod meaning;
pub(crate) mod numbered;
pub(crate) mod plan;
pub(crate) mod quantity;
pub(crate) mod rank;
pub(crate) mod reference;
pub(crate) mod relevance;
pub(crate) mod retrieve;
pub(crate) mod secondary;
pub mod store;
mod subject;
pub(crate) mod synonyms;
pub(crate) mod terms;
pub(crate) mod tools;
pub(crate) mod topic;

pub use index::{AddError, IndexError, IndexFailure, IndexReport, Indexer};
pub use rank::{LexicalRank, MaxSimRank};
pub use retrieve::{Lexical, Retrieve, RetrieveError, RetrieveRequest};
pub use tools::{SearchResults, SearchTools, Tool, ToolError, ToolRetriever};
