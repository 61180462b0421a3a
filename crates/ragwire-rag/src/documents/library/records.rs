//! The file of a library: documents and chunks in one `redb` database, as JSON values under numeric
//! keys.
//!
//! The number of a document is never used again, so a reader that still has the number of a removed
//! document gets nothing, never another document. Every change is one transaction and is applied
//! completely or not at all.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use super::LibraryError;
use crate::Document;
use crate::documents::chunk::Piece;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Maps a document number to a [`Document`].
const DOCUMENTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("documents");
/// Maps a document number and an ordinal to a [`StoredPiece`].
const CHUNKS: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("chunks");

/// The format that this program writes and reads.
const VERSION: u64 = 1;
/// Size of redb's page cache in bytes. redb's own default is 1 GiB.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct StoredPiece {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heading: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeated: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Records {
    database: Database,
}

impl Records {
    pub(crate) fn open(file: &Path) -> Result<Self, LibraryError> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(file);
        Self::prepare(database.map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => LibraryError::InUse,
            other => LibraryError::storage(other),
        })?)
    }

    pub(crate) fn in_memory() -> Result<Self, LibraryError> {
        let memory = redb::backends::InMemoryBackend::new();
        Self::prepare(
            Database::builder()
                .create_with_backend(memory)
                .map_err(LibraryError::storage)?,
        )
    }

    fn prepare(database: Database) -> Result<Self, LibraryError> {
        let write = database.begin_write().map_err(LibraryError::storage)?;
        {
            let mut meta = write.open_table(META).map_err(LibraryError::storage)?;
            let version = meta
                .get("version")
                .map_err(LibraryError::storage)?
                .map(|value| value.value());
            match version {
                None => {
                    meta.insert("version", VERSION).map_err(LibraryError::storage)?;
                }
                Some(VERSION) => {}
                Some(found) => {
                    return Err(LibraryError::Version {
                        found,
                        supported: VERSION,
                    });
                }
            }
            write.open_table(DOCUMENTS).map_err(LibraryError::storage)?;
            write.open_table(CHUNKS).map_err(LibraryError::storage)?;
        }
        write.commit().map_err(LibraryError::storage)?;
        Ok(Self { database })
    }

    /// Returns all documents, ordered by number.
    pub(crate) fn documents(&self) -> Result<Vec<(u32, Document)>, LibraryError> {
        let read = self.database.begin_read().map_err(LibraryError::storage)?;
        let table = read.open_table(DOCUMENTS).map_err(LibraryError::storage)?;
        let mut documents = Vec::new();
        for row in table.iter().map_err(LibraryError::storage)? {
            let (number, value) = row.map_err(LibraryError::storage)?;
            documents.push((number.value(), serde_json::from_slice(value.value())?));
        }
        Ok(documents)
    }

    /// Calls `each` with every chunk, its document number and its ordinal.
    pub(crate) fn each_piece(&self, mut each: impl FnMut(u32, u32, Piece)) -> Result<(), LibraryError> {
        let read = self.database.begin_read().map_err(LibraryError::storage)?;
        let table = read.open_table(CHUNKS).map_err(LibraryError::storage)?;
        for row in table.iter().map_err(LibraryError::storage)? {
            let (key, value) = row.map_err(LibraryError::storage)?;
            let (number, ordinal) = key.value();
            each(number, ordinal, piece_of(value.value())?);
        }
        Ok(())
    }

    /// Returns the chunks at the given document numbers and ordinals, in that order; `None` for a
    /// removed chunk.
    pub(crate) fn pieces(&self, keys: &[(u32, u32)]) -> Result<Vec<Option<Piece>>, LibraryError> {
        let read = self.database.begin_read().map_err(LibraryError::storage)?;
        let table = read.open_table(CHUNKS).map_err(LibraryError::storage)?;
        let piece = |key: &(u32, u32)| {
            let value = table.get(*key).map_err(LibraryError::storage)?;
            value.map(|value| piece_of(value.value())).transpose()
        };
        keys.iter().map(piece).collect()
    }

    /// Writes a document, removes the one that it replaces, and returns the number of the new one.
    pub(crate) fn replace(
        &self,
        old: Option<u32>,
        document: &Document,
        pieces: &[Piece],
    ) -> Result<u32, LibraryError> {
        let write = self.database.begin_write().map_err(LibraryError::storage)?;
        let number;
        {
            let mut meta = write.open_table(META).map_err(LibraryError::storage)?;
            let next = meta
                .get("next_document")
                .map_err(LibraryError::storage)?
                .map_or(0, |value| value.value());
            number = u32::try_from(next).map_err(|_| LibraryError::Full {
                what: "document numbers",
                limit: u32::MAX as usize,
            })?;
            meta.insert("next_document", next + 1)
                .map_err(LibraryError::storage)?;
            let mut documents = write.open_table(DOCUMENTS).map_err(LibraryError::storage)?;
            let mut chunks = write.open_table(CHUNKS).map_err(LibraryError::storage)?;
            if let Some(old) = old {
                documents.remove(old).map_err(LibraryError::storage)?;
                chunks
                    .retain_in((old, 0)..=(old, u32::MAX), |_, _| false)
                    .map_err(LibraryError::storage)?;
            }
            documents
                .insert(number, serde_json::to_vec(document)?.as_slice())
                .map_err(LibraryError::storage)?;
            for (ordinal, piece) in (0u32..).zip(pieces) {
                let stored = StoredPiece {
                    heading: piece.heading.clone(),
                    page: piece.page,
                    text: piece.text.clone(),
                    repeated: piece.repeated,
                };
                chunks
                    .insert((number, ordinal), serde_json::to_vec(&stored)?.as_slice())
                    .map_err(LibraryError::storage)?;
            }
        }
        write.commit().map_err(LibraryError::storage)?;
        Ok(number)
    }

    /// Removes a document.
    pub(crate) fn remove(&self, number: u32) -> Result<(), LibraryError> {
        let write = self.database.begin_write().map_err(LibraryError::storage)?;
        {
            let mut documents = write.open_table(DOCUMENTS).map_err(LibraryError::storage)?;
            let mut chunks = write.open_table(CHUNKS).map_err(LibraryError::storage)?;
            documents.remove(number).map_err(LibraryError::storage)?;
            chunks
                .retain_in((number, 0)..=(number, u32::MAX), |_, _| false)
                .map_err(LibraryError::storage)?;
        }
        write.commit().map_err(LibraryError::storage)
    }
}

fn piece_of(value: &[u8]) -> Result<Piece, LibraryError> {
    let StoredPiece {
        heading,
        page,
        text,
        repeated,
    } = serde_json::from_slice(value)?;
    Ok(Piece {
        heading,
        page,
        text,
        repeated,
    })
}
