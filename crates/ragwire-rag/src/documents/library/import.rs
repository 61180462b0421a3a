//! Reads the library file of earlier versions, a `redb` database, once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use serde::Deserialize;

use super::LibraryError;
use crate::Document;
use crate::documents::chunk::Piece;

const DOCUMENTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("documents");
const CHUNKS: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("chunks");

#[derive(Debug, Deserialize)]
struct OldPiece {
    heading: Option<String>,
    page: Option<u32>,
    text: String,
    repeated: Option<u32>,
}

/// Calls `each` with every document of the old file and its passages.
pub(super) fn each_document(
    file: &Path,
    each: impl FnMut(&Document, &[Piece]) -> Result<(), LibraryError>,
) -> Result<(), LibraryError> {
    // redb panics at some damages.
    let read = catch_unwind(AssertUnwindSafe(|| read(file, each)));
    read.unwrap_or_else(|_| Err(LibraryError::Import("the file is damaged".to_owned())))
}

fn read(
    file: &Path,
    mut each: impl FnMut(&Document, &[Piece]) -> Result<(), LibraryError>,
) -> Result<(), LibraryError> {
    let database = redb::Database::open(file).map_err(failed)?;
    let read = database.begin_read().map_err(failed)?;
    let documents = read.open_table(DOCUMENTS).map_err(failed)?;
    let chunks = read.open_table(CHUNKS).map_err(failed)?;
    for row in documents.iter().map_err(failed)? {
        let (number, value) = row.map_err(failed)?;
        let document: Document = serde_json::from_slice(value.value())?;
        let mut pieces = Vec::new();
        let numbers = (number.value(), 0)..=(number.value(), u32::MAX);
        for row in chunks.range(numbers).map_err(failed)? {
            let (_, value) = row.map_err(failed)?;
            let OldPiece {
                heading,
                page,
                text,
                repeated,
            } = serde_json::from_slice(value.value())?;
            pieces.push(Piece {
                heading,
                page,
                text,
                repeated,
            });
        }
        each(&document, &pieces)?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> LibraryError {
    LibraryError::Import(error.to_string())
}
