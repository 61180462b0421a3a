//! The file of a graph: the triples of each passage as JSON, in a separate `redb` database.
//!
//! Names are stored as the passages spell them; which names are one entity is determined when the
//! file is opened. The graph has a separate file beside the library's: it is an index that may be
//! deleted and rebuilt, and it must not change the version of the library's format.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use super::extract::Relation;
use super::store::GraphError;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Document number to [`StoredDocument`].
const DOCUMENTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("documents");
/// Document number and ordinal of the chunk to an array of [`StoredTriple`].
const PASSAGES: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("passages");

/// The format version that this program writes and reads.
const VERSION: u64 = 1;
/// Size of the page cache in bytes: small, because the file is read once, at start.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// A document in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredDocument {
    pub(super) id: String,
    pub(super) extractor: String,
}

/// Subject, predicate, object, weight.
type StoredTriple = (String, String, String, f32);

/// The triples of each passage of a document, by ordinal.
pub(super) type Passages = Vec<(u32, Vec<Relation>)>;

#[derive(Debug)]
pub(super) struct Records {
    database: Database,
}

impl Records {
    pub(super) fn open(file: &Path) -> Result<Self, GraphError> {
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .create(file);
        Self::prepare(database.map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => GraphError::InUse,
            other => GraphError::storage(other),
        })?)
    }

    pub(super) fn in_memory() -> Result<Self, GraphError> {
        let memory = redb::backends::InMemoryBackend::new();
        let database = Database::builder().create_with_backend(memory);
        Self::prepare(database.map_err(GraphError::storage)?)
    }

    fn prepare(database: Database) -> Result<Self, GraphError> {
        let write = database.begin_write().map_err(GraphError::storage)?;
        {
            let mut meta = write.open_table(META).map_err(GraphError::storage)?;
            let version = meta
                .get("version")
                .map_err(GraphError::storage)?
                .map(|value| value.value());
            match version {
                None => {
                    meta.insert("version", VERSION).map_err(GraphError::storage)?;
                }
                Some(VERSION) => {}
                Some(found) => {
                    return Err(GraphError::Version {
                        found,
                        supported: VERSION,
                    });
                }
            }
            write.open_table(DOCUMENTS).map_err(GraphError::storage)?;
            write.open_table(PASSAGES).map_err(GraphError::storage)?;
        }
        write.commit().map_err(GraphError::storage)?;
        Ok(Self { database })
    }

    /// All documents in the order of their numbers.
    pub(super) fn documents(&self) -> Result<Vec<(u32, StoredDocument)>, GraphError> {
        let read = self.database.begin_read().map_err(GraphError::storage)?;
        let table = read.open_table(DOCUMENTS).map_err(GraphError::storage)?;
        let mut documents = Vec::new();
        for row in table.iter().map_err(GraphError::storage)? {
            let (number, value) = row.map_err(GraphError::storage)?;
            documents.push((number.value(), serde_json::from_slice(value.value())?));
        }
        Ok(documents)
    }

    /// The triples of a document.
    pub(super) fn passages(&self, number: u32) -> Result<Passages, GraphError> {
        let read = self.database.begin_read().map_err(GraphError::storage)?;
        let table = read.open_table(PASSAGES).map_err(GraphError::storage)?;
        let mut passages = Vec::new();
        for row in table
            .range((number, 0)..=(number, u32::MAX))
            .map_err(GraphError::storage)?
        {
            let (key, value) = row.map_err(GraphError::storage)?;
            let stored: Vec<StoredTriple> = serde_json::from_slice(value.value())?;
            let triples = stored
                .into_iter()
                .map(|(s, p, o, weight)| Relation::new(s, p, o, weight));
            passages.push((key.value().1, triples.collect()));
        }
        Ok(passages)
    }

    /// Writes a document, removes the one that it replaces, and returns its number.
    pub(super) fn replace(
        &self,
        old: Option<u32>,
        document: &StoredDocument,
        passages: &Passages,
    ) -> Result<u32, GraphError> {
        let write = self.database.begin_write().map_err(GraphError::storage)?;
        let number;
        {
            let mut meta = write.open_table(META).map_err(GraphError::storage)?;
            let next = meta
                .get("next_document")
                .map_err(GraphError::storage)?
                .map_or(0, |value| value.value());
            number = u32::try_from(next).map_err(|_| GraphError::Full {
                what: "document numbers",
                limit: u32::MAX as usize,
            })?;
            meta.insert("next_document", next + 1)
                .map_err(GraphError::storage)?;
            let mut documents = write.open_table(DOCUMENTS).map_err(GraphError::storage)?;
            let mut table = write.open_table(PASSAGES).map_err(GraphError::storage)?;
            if let Some(old) = old {
                documents.remove(old).map_err(GraphError::storage)?;
                table
                    .retain_in((old, 0)..=(old, u32::MAX), |_, _| false)
                    .map_err(GraphError::storage)?;
            }
            documents
                .insert(number, serde_json::to_vec(document)?.as_slice())
                .map_err(GraphError::storage)?;
            for (ordinal, triples) in passages {
                let stored: Vec<_> = triples
                    .iter()
                    .map(|one| (&one.subject, &one.predicate, &one.object, one.weight))
                    .collect();
                table
                    .insert((number, *ordinal), serde_json::to_vec(&stored)?.as_slice())
                    .map_err(GraphError::storage)?;
            }
        }
        write.commit().map_err(GraphError::storage)?;
        Ok(number)
    }

    /// Removes a document.
    pub(super) fn remove(&self, number: u32) -> Result<(), GraphError> {
        let write = self.database.begin_write().map_err(GraphError::storage)?;
        {
            let mut documents = write.open_table(DOCUMENTS).map_err(GraphError::storage)?;
            let mut table = write.open_table(PASSAGES).map_err(GraphError::storage)?;
            documents.remove(number).map_err(GraphError::storage)?;
            table
                .retain_in((number, 0)..=(number, u32::MAX), |_, _| false)
                .map_err(GraphError::storage)?;
        }
        write.commit().map_err(GraphError::storage)
    }
}
