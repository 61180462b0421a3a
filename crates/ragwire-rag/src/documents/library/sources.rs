//! The files that documents were read from.
//!
//! A program that reads folders into a library records here what each file looked like, so that the
//! next run reads only what has changed. The library itself does not open these files. The records can be
//! lost: their files are then read again, and give the same documents.

use std::sync::PoisonError;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::database::{Database, seal, unseal};
use super::{Library, LibraryError, Shelf};

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of its document.
    #[serde(skip)]
    pub name: String,
    /// The folder that it was found in, or the file itself if that was named.
    pub root: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was changed, in nanoseconds since 1970-01-01T00:00:00Z; 0 if that says nothing, so
    /// that the content decides.
    pub modified_ns: u64,
    /// A digest of its content.
    pub digest: String,
    /// What read it, and with which limits. Another reader may get other text from the same file.
    pub reader: String,
    /// What became of it.
    pub outcome: SourceOutcome,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceOutcome {
    /// The document with this ID.
    Document(String),
    /// No document, for this reason.
    Skipped(String),
}

/// A folder that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoot {
    /// Its path.
    pub path: String,
    /// What distinguishes it from another folder at the same path, such as the mount point of a
    /// disk that is missing.
    pub identity: String,
}

impl Library {
    /// Returns all recorded files. Damaged records are left out.
    ///
    /// # Errors
    ///
    /// `library_storage`.
    pub fn sources(&self) -> Result<Vec<Source>, LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => database.read(sources),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.sources(),
        }
    }

    /// Records files and removes the records of others, by the names of their documents.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_no_space`; nothing is recorded then.
    pub fn record_sources(&self, changed: &[Source], removed: &[String]) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => self.record_locally(database, changed, removed),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.record_sources(changed, removed),
        }
    }

    fn record_locally(
        &self,
        database: &Database,
        changed: &[Source],
        removed: &[String],
    ) -> Result<(), LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        database.write(|connection| {
            let mut insert =
                connection.prepare("INSERT OR REPLACE INTO sources (name, value) VALUES (?1, ?2)")?;
            for source in changed {
                insert.execute((&source.name, seal(serde_json::to_vec(source)?)))?;
            }
            let mut delete = connection.prepare("DELETE FROM sources WHERE name = ?1")?;
            for name in removed {
                delete.execute([name])?;
            }
            Ok(())
        })
    }

    /// Returns all recorded folders.
    ///
    /// # Errors
    ///
    /// `library_storage`.
    pub fn source_roots(&self) -> Result<Vec<SourceRoot>, LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => source_roots(database),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.source_roots(),
        }
    }

    /// Records a folder.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_no_space`.
    pub fn record_source_root(&self, root: &SourceRoot) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => self.record_root_locally(database, root),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.record_source_root(root),
        }
    }

    fn record_root_locally(&self, database: &Database, root: &SourceRoot) -> Result<(), LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        database.write(|connection| {
            connection.execute(
                "INSERT OR REPLACE INTO source_roots (path, identity) VALUES (?1, ?2)",
                (&root.path, &root.identity),
            )?;
            Ok(())
        })
    }
}

fn source_roots(database: &Database) -> Result<Vec<SourceRoot>, LibraryError> {
    database.read(|connection| {
        let mut statement = connection.prepare("SELECT path, identity FROM source_roots")?;
        let root = |row: &rusqlite::Row<'_>| {
            Ok(SourceRoot {
                path: row.get(0)?,
                identity: row.get(1)?,
            })
        };
        let roots = statement.query_map([], root)?;
        Ok(roots.collect::<Result<_, _>>()?)
    })
}

fn sources(connection: &Connection) -> Result<Vec<Source>, LibraryError> {
    let mut statement = connection.prepare("SELECT name, value FROM sources")?;
    let mut rows = statement.query([])?;
    let mut sources = Vec::new();
    while let Some(row) = rows.next()? {
        let sealed = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let record = unseal(sealed, "a source").and_then(|value| Ok(serde_json::from_slice(value)?));
        let name: String = row.get(0)?;
        match record {
            Ok(source) => sources.push(Source { name, ..source }),
            Err(error) => tracing::warn!(name, %error, "the file is read again"),
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LibraryLimits;

    #[test]
    fn records_survive_a_restart_and_damaged_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Library::open(folder.path(), LibraryLimits::default()).unwrap();
        let source = |name: &str, outcome| Source {
            name: name.to_owned(),
            root: "/docs".to_owned(),
            bytes: 7,
            modified_ns: 3,
            digest: "ab".to_owned(),
            reader: "1".to_owned(),
            outcome,
        };
        let read = source("a.md", SourceOutcome::Document("1".to_owned()));
        let skipped = source(
            "b.md",
            SourceOutcome::Skipped("the file contains no text".to_owned()),
        );
        let gone = source("c.md", SourceOutcome::Document("3".to_owned()));
        let library = open();
        library
            .record_sources(&[read.clone(), skipped.clone(), gone], &[])
            .unwrap();
        library.record_sources(&[], &["c.md".to_owned()]).unwrap();
        let root = |identity: &str| SourceRoot {
            path: "/docs".to_owned(),
            identity: identity.to_owned(),
        };
        library.record_source_root(&root("1:2")).unwrap();
        library.record_source_root(&root("1:3")).unwrap();
        drop(library);

        let library = open();
        assert_eq!(library.sources().unwrap(), [read, skipped.clone()]);
        assert_eq!(library.source_roots().unwrap(), [root("1:3")]);
        let damage = "UPDATE sources SET value = x'00112233445566' WHERE name = 'a.md'";
        library
            .local()
            .write(|connection| Ok(connection.execute(damage, [])?))
            .unwrap();
        assert_eq!(library.sources().unwrap(), [skipped]);
    }
}
