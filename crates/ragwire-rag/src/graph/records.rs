//! The file of a graph: the triples of each passage as JSON, in a separate SQLite database.
//!
//! Names are stored as the passages spell them; which names are one entity is determined when the
//! file is opened. The graph has a separate file beside the library's: it is an index that may be
//! deleted and rebuilt, and it must not change the version of the library's format.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction};
use serde::{Deserialize, Serialize};

use super::extract::Relation;
use super::store::GraphError;
use crate::seal::{seal, unseal};

/// The format version that this program writes and reads. 1 was a file of redb.
const VERSION: u64 = 2;
/// Size of the page cache in KiB: small, because the file is read once, at start.
const CACHE_KIB: u32 = 2 * 1024;
/// The log is cut back to this size in bytes after a large change.
const LOG_BYTES: u32 = 4 * 1024 * 1024;

// A number is not used again after its document was removed.
const SCHEMA: &str = "
CREATE TABLE documents (number INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);
CREATE TABLE passages (document INTEGER NOT NULL, ordinal INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (document, ordinal))
    WITHOUT ROWID;
";

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
    connection: Mutex<Connection>,
}

impl Records {
    /// Opens the file for this process alone, and checks its structure.
    pub(super) fn open(file: &Path) -> Result<Self, GraphError> {
        let connection = Connection::open(file)?;
        // Another process keeps the file until it ends.
        connection.busy_timeout(std::time::Duration::ZERO)?;
        connection.execute_batch(&format!(
            "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA journal_size_limit = {LOG_BYTES};"
        ))?;
        let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        match verdict.as_str() {
            "ok" => Self::prepare(connection),
            _ => Err(GraphError::Damaged(verdict)),
        }
    }

    pub(super) fn in_memory() -> Result<Self, GraphError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(connection: Connection) -> Result<Self, GraphError> {
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match u64::try_from(version).unwrap_or(u64::MAX) {
            // A file that was just created, or whose creation was interrupted. Tables of another
            // program fail here.
            0 => connection.execute_batch(&format!(
                "BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT"
            ))?,
            VERSION => {}
            found => {
                return Err(GraphError::Version {
                    found,
                    supported: VERSION,
                });
            }
        }
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// All documents in the order of their numbers.
    pub(super) fn documents(&self) -> Result<Vec<(u32, StoredDocument)>, GraphError> {
        let connection = self.lock();
        let mut select = connection.prepare("SELECT number, value FROM documents ORDER BY number")?;
        let mut rows = select.query([])?;
        let mut documents = Vec::new();
        while let Some(row) = rows.next()? {
            documents.push((row.get(0)?, serde_json::from_slice(opened(row.get_ref(1)?)?)?));
        }
        Ok(documents)
    }

    /// The triples of a document.
    pub(super) fn passages(&self, number: u32) -> Result<Passages, GraphError> {
        let connection = self.lock();
        let mut select =
            connection.prepare("SELECT ordinal, value FROM passages WHERE document = ?1 ORDER BY ordinal")?;
        let mut rows = select.query([number])?;
        let mut passages = Vec::new();
        while let Some(row) = rows.next()? {
            let stored: Vec<StoredTriple> = serde_json::from_slice(opened(row.get_ref(1)?)?)?;
            let triples = stored
                .into_iter()
                .map(|(s, p, o, weight)| Relation::new(s, p, o, weight));
            passages.push((row.get(0)?, triples.collect()));
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
        let mut connection = self.lock();
        let change = connection.transaction()?;
        if let Some(old) = old {
            delete(&change, old)?;
        }
        let value = seal(serde_json::to_vec(document)?);
        change
            .prepare("INSERT INTO documents (value) VALUES (?1)")?
            .execute([value])?;
        let number = u32::try_from(change.last_insert_rowid()).map_err(|_| GraphError::Full {
            what: "document numbers",
            limit: u32::MAX as usize,
        })?;
        {
            let mut insert =
                change.prepare("INSERT INTO passages (document, ordinal, value) VALUES (?1, ?2, ?3)")?;
            for (ordinal, triples) in passages {
                let stored: Vec<_> = triples
                    .iter()
                    .map(|one| (&one.subject, &one.predicate, &one.object, one.weight))
                    .collect();
                insert.execute((number, ordinal, seal(serde_json::to_vec(&stored)?)))?;
            }
        }
        change.commit()?;
        Ok(number)
    }

    /// Removes a document.
    pub(super) fn remove(&self, number: u32) -> Result<(), GraphError> {
        let mut connection = self.lock();
        let change = connection.transaction()?;
        delete(&change, number)?;
        Ok(change.commit()?)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delete(change: &Transaction<'_>, number: u32) -> Result<(), GraphError> {
    change
        .prepare("DELETE FROM documents WHERE number = ?1")?
        .execute([number])?;
    change
        .prepare("DELETE FROM passages WHERE document = ?1")?
        .execute([number])?;
    Ok(())
}

/// Returns the record in a column.
fn opened(column: rusqlite::types::ValueRef<'_>) -> Result<&[u8], GraphError> {
    let sealed = column
        .as_blob()
        .map_err(|error| GraphError::Damaged(error.to_string()))?;
    unseal(sealed).ok_or_else(|| GraphError::Damaged("a record has a wrong checksum".to_owned()))
}
