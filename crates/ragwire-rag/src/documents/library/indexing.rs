//! The lexical index of a library on one host: its part in memory, and when that goes to the disk.

use super::super::chunk::Piece;
use super::database::Database;
use super::segments::{self, TAIL_PASSAGES};
use super::state::Held;
use super::{Library, LibraryError};
use crate::search::lexical::TermVector;

/// Chunks that are put into the index under one lock: about 10 ms.
const CHUNKS_PER_LOCK: usize = 256;

impl Library {
    /// Indexes a document again whose passages are in the file, but not in a segment.
    pub(super) fn index_stored(&self, held: &Held) -> Result<(), LibraryError> {
        let numbers: Vec<u64> = held.passages().collect();
        for (numbers, first) in numbers
            .chunks(CHUNKS_PER_LOCK)
            .zip((0u64..).step_by(CHUNKS_PER_LOCK))
        {
            let pieces = self.pieces(numbers)?;
            let prepare = |piece: Option<Piece>| match piece {
                Some(piece) => self.prepare(&held.document, &piece, held.language),
                None => TermVector::default(),
            };
            let prepared = pieces.into_iter().map(prepare).collect();
            self.fill_index(held.first + first, prepared);
        }
        Ok(())
    }

    /// Puts passages into the index, from this number on.
    pub(super) fn fill_index(&self, first: u64, prepared: Vec<TermVector>) {
        let mut prepared = (first..).zip(prepared).peekable();
        while prepared.peek().is_some() {
            let mut shared = self.write();
            for (number, text) in prepared.by_ref().take(CHUNKS_PER_LOCK) {
                shared.lexicon.tail.insert(number, text);
            }
            drop(shared);
            std::thread::yield_now();
        }
    }

    /// Removes a document that is not live any more from the part of the index in memory.
    pub(super) fn clear_tail(&self, held: &Held) {
        let numbers: Vec<u64> = held.passages().collect();
        for numbers in numbers.chunks(CHUNKS_PER_LOCK) {
            let mut shared = self.write();
            numbers
                .iter()
                .for_each(|number| shared.lexicon.tail.remove(*number));
            drop(shared);
            std::thread::yield_now();
        }
    }

    /// Moves the part of the index in memory to the disk when it is large, and merges what is due.
    /// `next` is the number after the last passage. The caller holds the writer's lock.
    ///
    /// A failure loses nothing: the passages stay in memory, and the next call tries again.
    pub(super) fn flush_if_due(&self, database: &Database, next: u64) {
        if self.read().lexicon.tail.len() >= TAIL_PASSAGES {
            let written = {
                let shared = self.read();
                database.write(|connection| shared.lexicon.write_tail(connection, next))
            };
            match written {
                Ok(segment) => self.write().lexicon.flushed(segment),
                Err(error) => {
                    tracing::warn!(%error, "the index of the last documents stays in memory");
                    return;
                }
            }
        }
        if let Err(error) = self.merge(database) {
            tracing::warn!(%error, "segments of the index were not merged");
        }
    }

    /// Merges segments until none is due.
    pub(super) fn merge(&self, database: &Database) -> Result<(), LibraryError> {
        loop {
            let (range, merged) = {
                let shared = self.read();
                let Some(range) = shared.lexicon.due() else {
                    return Ok(());
                };
                let write = |connection: &rusqlite::Transaction<'_>| {
                    shared.lexicon.write_merged(connection, range.clone())
                };
                let merged = database.write_with_reserve(write)?;
                (range, merged)
            };
            let old = self.write().lexicon.merged(range, merged);
            database.write_with_reserve(|connection| segments::forget(connection, &old))?;
        }
    }
}
