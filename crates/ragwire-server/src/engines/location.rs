//! The location of the store, for messages.

use std::fmt;
use std::path::PathBuf;

use ragwire_rag::search::store::StoreError;

use super::error::EnginesError;

/// The location of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreLocation {
    /// In memory.
    Memory,
    /// In a folder.
    Folder(PathBuf),
    /// In a collection of a Qdrant server.
    Collection(String),
}

impl StoreLocation {
    /// Returns the error of the store at this location.
    pub(crate) fn error(&self, source: StoreError) -> EnginesError {
        EnginesError::Store {
            location: self.clone(),
            source,
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Folder(folder) => write!(f, "qdrant-edge in {}", folder.display()),
            Self::Collection(name) => write!(f, "qdrant, collection {name}"),
        }
    }
}
