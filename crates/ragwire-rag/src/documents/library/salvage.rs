//! Checking a library, taking its documents out of it, and putting them into another one: for backups,
//! for other machines, and for what can be saved of a damaged file.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::database::{self, unseal};
use super::records::{self, StoredDocument};
use super::{Library, LibraryError, Shelf, identity, language_of, segments};
use crate::Document;
use crate::documents::chunk::Piece;

/// A document with everything that the library knows of it, but the file that it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedDocument {
    /// The document. It keeps its ID.
    pub document: Document,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Its owner; absent if it is everyone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether its owner shares it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares: bool,
    /// Its passages, in order.
    pub passages: Vec<Piece>,
}

/// What was saved of a damaged library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvage {
    /// Documents that were saved.
    pub saved: usize,
    /// Names of documents that have lost passages, and so were not saved.
    pub lost: Vec<String>,
    /// Whether further documents may be lost whose names cannot be read any more.
    pub is_incomplete: bool,
}

impl Library {
    /// Reads every record and compares the index with its tables. Opening checks only the structure of
    /// the file. Takes some seconds for each 100 MB.
    ///
    /// # Errors
    ///
    /// `library_damaged`, `library_storage`.
    pub fn check(&self) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => database.read(|connection| {
                database::check_all(connection)?;
                segments::check(connection)
            })?,
            // Its server checks its own files.
            #[cfg(feature = "qdrant")]
            Shelf::Shared(_) => {}
        }
        for document in self.list() {
            self.passages(&document.id)?;
        }
        Ok(())
    }

    /// Passes every document to `each`, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// The errors of `each`, `library_damaged`, `library_storage`.
    pub fn export<E: From<LibraryError>>(
        &self,
        mut each: impl FnMut(SavedDocument) -> Result<(), E>,
    ) -> Result<(), E> {
        for document in self.list() {
            let Some(held) = self.find(&document.id) else {
                continue;
            };
            let numbers: Vec<u64> = held.passages().collect();
            let passages: Option<Vec<Piece>> = self.pieces(&numbers)?.into_iter().collect();
            let Some(passages) = passages else {
                // It was removed meanwhile.
                continue;
            };
            each(SavedDocument {
                document,
                tags: held.tags.clone(),
                date: held.date.clone(),
                owner: held.owner.as_ref().map(|owner| owner.name.clone()),
                shares: held.owner.as_ref().is_some_and(|owner| owner.shares),
                passages,
            })?;
        }
        Ok(())
    }

    /// Adds a document that was saved, and replaces one of the same owner and name. Returns `false` if the library
    /// has it.
    ///
    /// # Errors
    ///
    /// `library_full`, `library_no_space`, `library_storage`; `library_damaged` if the document does not
    /// have the number of passages that it says.
    pub fn restore(&self, saved: &SavedDocument) -> Result<bool, LibraryError> {
        let SavedDocument {
            document, passages, ..
        } = saved;
        if passages.is_empty() || document.chunks as usize != passages.len() {
            return Err(LibraryError::Damaged(format!(
                "the document {} says that it has {} passages, and has {}",
                document.name,
                document.chunks,
                passages.len()
            )));
        }
        let _writer = self
            .writer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = identity::key(saved.owner.as_deref(), &document.name);
        let old = self.room_for(&key, &document.id, passages.len())?;
        if self.is_live(&document.id) {
            return Ok(false);
        }
        let text: String = passages.iter().take(8).map(|piece| piece.text.as_str()).collect();
        let mut stored = self.stored(document.clone(), passages, &text, &Default::default());
        stored.tags.clone_from(&saved.tags);
        stored.date.clone_from(&saved.date);
        stored.owner.clone_from(&saved.owner);
        stored.shares = saved.shares;
        let language = language_of(&stored);
        let prepared = passages
            .iter()
            .map(|piece| self.prepare(document, piece, language))
            .collect();
        self.insert(old.as_deref(), stored, passages, prepared)?;
        Ok(true)
    }

    /// Adds every document of a damaged library file that can still be read whole. The file is not
    /// changed.
    ///
    /// # Errors
    ///
    /// Fails if this library cannot be written. Whatever is wrong with the file is not an error.
    pub fn salvage(&self, file: &Path) -> Result<Salvage, LibraryError> {
        let mut salvage = Salvage::default();
        let Ok(connection) = database::connect_damaged(file) else {
            salvage.is_incomplete = true;
            return Ok(salvage);
        };
        let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
        // A damaged page ends one way through the table; the other way reads what is behind it.
        for order in ["ASC", "DESC"] {
            salvage.is_incomplete |= each_row(&connection, order, &mut rows).is_err();
        }
        for (first, sealed) in rows {
            let stored = unseal(&sealed, "a document");
            let stored = stored.and_then(|value| Ok(serde_json::from_slice::<StoredDocument>(value)?));
            let Ok(stored) = stored else {
                salvage.is_incomplete = true;
                continue;
            };
            let end = first as u64 + u64::from(stored.document.chunks);
            let numbers: Vec<u64> = (first as u64..end).collect();
            let passages = records::pieces(&connection, &numbers);
            let passages: Option<Vec<Piece>> = passages.ok().and_then(|all| all.into_iter().collect());
            let Some(passages) = passages else {
                salvage.lost.push(stored.document.name);
                continue;
            };
            self.restore(&SavedDocument {
                document: stored.document,
                tags: stored.tags,
                date: stored.date,
                owner: stored.owner,
                shares: stored.shares,
                passages,
            })?;
            salvage.saved += 1;
        }
        Ok(salvage)
    }
}

fn each_row(connection: &Connection, order: &str, rows: &mut BTreeMap<i64, Vec<u8>>) -> rusqlite::Result<()> {
    let sql = format!("SELECT first, value FROM documents ORDER BY first {order}");
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let first: i64 = row.get(0)?;
        // The rest is known from the other way.
        if rows.contains_key(&first) {
            break;
        }
        if let Some(value) = row.get::<_, Vec<u8>>(1).optional()? {
            rows.insert(first, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, parse};

    fn filled(folder: &Path, documents: usize) -> Library {
        let library = Library::open(folder, LibraryLimits::default()).unwrap();
        for number in 0..documents {
            let sections: String = (0..6)
                .map(|part| {
                    format!(
                        "# Part {part}\n\nBird {number} of part {part} sings. {}\n\n",
                        "la ".repeat(90)
                    )
                })
                .collect();
            let name = format!("{number}.md");
            let text = format!("---\ntags: [t{number}]\ndate: 2026-01-01\n---\n{sections}");
            let parsed = parse(&name, text.as_bytes(), &Default::default()).unwrap();
            library.add(&name, &parsed).unwrap();
        }
        library
    }

    fn exported(library: &Library) -> Vec<SavedDocument> {
        let mut saved = Vec::new();
        library
            .export(|document| {
                saved.push(document);
                Ok::<_, LibraryError>(())
            })
            .unwrap();
        saved
    }

    #[test]
    fn what_was_saved_is_restored_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let library = filled(folder.path(), 5);
        library.check().unwrap();
        let saved = exported(&library);
        let json = serde_json::to_string(&saved).unwrap();
        let read: Vec<SavedDocument> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, saved);
        let other = Library::in_memory(LibraryLimits::default()).unwrap();
        for document in &read {
            assert!(other.restore(document).unwrap());
            assert!(!other.restore(document).unwrap());
        }
        assert_eq!(exported(&other), saved);
        assert_eq!(other.list(), library.list());
        let found = |library: &Library| library.search("bird sings", 3).unwrap();
        assert_eq!(found(&other), found(&library));
        let mut short = read[0].clone();
        short.passages.pop();
        assert_eq!(other.restore(&short).unwrap_err().code(), "library_damaged");
    }

    #[test]
    fn whole_documents_are_saved_from_a_damaged_file() {
        let folder = tempfile::tempdir().unwrap();
        let library = filled(folder.path(), 60);
        let whole = exported(&library);
        drop(library);
        let file = folder.path().join(super::super::FILE_NAME);
        let bytes = std::fs::read(&file).unwrap();
        let (mut most, mut least) = (0, usize::MAX);
        for step in 1..60 {
            let at = step * bytes.len() / 60;
            let mut damaged = bytes.clone();
            match step % 3 {
                0 => damaged[at] ^= 0xff,
                1 => damaged[at..(at + 5_000).min(bytes.len())].fill(0),
                _ => damaged.truncate(at),
            }
            let copy = folder.path().join("damaged.db");
            std::fs::write(&copy, damaged).unwrap();
            let new = Library::in_memory(LibraryLimits::default()).unwrap();
            let salvage = new.salvage(&copy).unwrap();
            let saved = exported(&new);
            assert!(
                saved.iter().all(|document| whole.contains(document)),
                "step {step}"
            );
            assert_eq!(saved.len(), salvage.saved);
            let told = salvage.is_incomplete || saved.len() + salvage.lost.len() == whole.len();
            assert!(told, "step {step}: {salvage:?}");
            most = most.max(saved.len());
            least = least.min(saved.len());
        }
        println!(
            "between {least} and {most} of {} documents were saved",
            whole.len()
        );
        assert_eq!(most, whole.len());
    }
}
