//! Documents and passages in the database of a library, as JSON with checksums.
//!
//! Passages are numbered over the whole library, and no number is ever used again: a reader that
//! still has the number of a removed passage gets nothing, never another passage. A document is
//! known by the number of its first passage; its other passages follow.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::LibraryError;
use super::database::{meta, seal, set_meta, unseal};
use crate::Document;
use crate::documents::chunk::{LineRanges, Piece};
use crate::documents::levels::Outline;
use crate::documents::list::ListLine;

/// The largest number of a passage: numbers are 63 bits on disk.
const MAX_NUMBER: u64 = i64::MAX as u64;

#[derive(Debug, Serialize, Deserialize)]
struct StoredPiece {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heading: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeated: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listings: Option<LineRanges>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ListLine>>,
}

/// A document with what follows from its text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredDocument {
    pub(super) document: Document,
    pub(super) outline: Outline,
    /// ISO 639-1; empty if it has no stemmer here.
    #[serde(default)]
    pub(super) language: String,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) date: Option<String>,
    /// The only owner who may replace or remove it; absent if it is everyone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Whether others find what its owner has added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shares: bool,
}

/// Returns all documents with their first passages, in the order of these.
pub(super) fn documents(connection: &Connection) -> Result<Vec<(u64, StoredDocument)>, LibraryError> {
    let mut statement = connection.prepare("SELECT first, value FROM documents ORDER BY first")?;
    let mut rows = statement.query([])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        let first = row.get::<_, i64>(0)? as u64;
        let sealed = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let value = unseal(sealed, &format!("the document that begins at passage {first}"))?;
        documents.push((first, serde_json::from_slice(value)?));
    }
    Ok(documents)
}

/// Returns the passages with these numbers, in that order; `None` for a removed one.
pub(super) fn pieces(connection: &Connection, numbers: &[u64]) -> Result<Vec<Option<Piece>>, LibraryError> {
    let mut statement = connection.prepare("SELECT value FROM passages WHERE number = ?1")?;
    let mut piece = |number: &u64| -> Result<Option<Piece>, LibraryError> {
        let found: Option<Vec<u8>> = statement
            .query_row([*number as i64], |row| row.get(0))
            .optional()?;
        found.map(|sealed| piece_of(*number, &sealed)).transpose()
    };
    numbers.iter().map(&mut piece).collect()
}

/// Writes a document, removes the one that it replaces, and returns the number of its first passage.
pub(super) fn replace(
    connection: &Connection,
    old: Option<(u64, u32)>,
    stored: &StoredDocument,
    pieces: &[Piece],
) -> Result<u64, LibraryError> {
    let first = meta(connection, "next")?.unwrap_or(0);
    let next = first + pieces.len() as u64;
    if next > MAX_NUMBER {
        return Err(LibraryError::Full {
            what: "passage numbers",
            limit: MAX_NUMBER as usize,
        });
    }
    if let Some((old, chunks)) = old {
        remove(connection, old, chunks)?;
    }
    set_meta(connection, "next", next)?;
    connection.execute(
        "INSERT INTO documents (first, value) VALUES (?1, ?2)",
        (first as i64, seal(serde_json::to_vec(stored)?)),
    )?;
    let mut insert = connection.prepare("INSERT INTO passages (number, value) VALUES (?1, ?2)")?;
    for (number, piece) in (first..).zip(pieces) {
        let stored = StoredPiece {
            heading: piece.heading.clone(),
            page: piece.page,
            text: piece.text.clone(),
            repeated: piece.repeated,
            listings: piece.listings.clone(),
            items: piece.items.clone(),
        };
        insert.execute((number as i64, seal(serde_json::to_vec(&stored)?)))?;
    }
    Ok(first)
}

/// Removes a document with its passages.
pub(super) fn remove(connection: &Connection, first: u64, chunks: u32) -> Result<(), LibraryError> {
    let end = first + u64::from(chunks);
    connection.execute("DELETE FROM documents WHERE first = ?1", [first as i64])?;
    connection.execute(
        "DELETE FROM passages WHERE number >= ?1 AND number < ?2",
        (first as i64, end as i64),
    )?;
    Ok(())
}

fn piece_of(number: u64, sealed: &[u8]) -> Result<Piece, LibraryError> {
    let StoredPiece {
        heading,
        page,
        text,
        repeated,
        listings,
        items,
    } = serde_json::from_slice(unseal(sealed, &format!("passage {number}"))?)?;
    Ok(Piece {
        heading,
        page,
        text,
        repeated,
        listings,
        items,
    })
}
