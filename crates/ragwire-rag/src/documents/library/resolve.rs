//! Looks up chunks by their IDs on all three levels, and their parents and children.
//!
//! Only passages are stored. Sections and sentences are cut from them on demand; see
//! [`levels`](crate::documents::levels).

use std::sync::Arc;

use super::{Held, Library, LibraryError, Shelf, records};
use crate::Chunk;
use crate::ChunkId;
use crate::documents::chunk::Piece;
use crate::documents::levels::SectionTree;
use ragwire::event::Levels;

impl Library {
    /// Returns a chunk of any level by its ID, or `None` if its document is not in the library.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn chunk(&self, chunk_id: &str) -> Result<Option<Chunk>, LibraryError> {
        match ChunkId::parse(chunk_id) {
            Some(ChunkId::Section { document_id, ordinal }) => {
                Ok(self.section(document_id, ordinal)?.map(|tree| tree.section))
            }
            Some(ChunkId::Passage { document_id, ordinal }) => self.passage(document_id, ordinal),
            Some(ChunkId::Sentence {
                document_id,
                passage,
                place,
            }) => self.sentence(document_id, passage, place),
            None => Ok(None),
        }
    }

    /// Returns the chunk one level up that contains this one. Returns `None` for a section, and if
    /// the document is not in the library.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn parent(&self, chunk: &Chunk) -> Result<Option<Chunk>, LibraryError> {
        if let Some(parent) = &chunk.parent {
            return self.chunk(parent);
        }
        // A chunk that was not read from a library has its parent only through its ID.
        let Some(own) = self.chunk(&chunk.id)? else {
            return Ok(None);
        };
        own.parent
            .as_deref()
            .map_or(Ok(None), |parent| self.chunk(parent))
    }

    /// Returns a section by its index in the document, with everything in it. Returns `None` after
    /// the last section, and if the document is not in the library.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn section(&self, document_id: &str, ordinal: u32) -> Result<Option<SectionTree>, LibraryError> {
        let Some(document) = self.find(document_id) else {
            return Ok(None);
        };
        let Some(passages) = document.outline.passages(ordinal) else {
            return Ok(None);
        };
        let before = usize::from(passages.start > 0);
        let first = passages.start.saturating_sub(1);
        let keys: Vec<_> = (first..passages.end)
            .map(|passage| document.number(passage))
            .collect();
        // Missing pieces belong to a document that was removed in the meantime, with all its
        // pieces.
        let pieces: Option<Vec<_>> = self.pieces(&keys)?.into_iter().collect();
        Ok(pieces.and_then(|pieces| {
            let (before, pieces) = pieces.split_at_checked(before)?;
            document.section(ordinal, before.first(), pieces)
        }))
    }

    /// Returns all passages of a document in order, or `None` if it is not in the library.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn passages(&self, document_id: &str) -> Result<Option<Vec<Chunk>>, LibraryError> {
        let Some(document) = self.find(document_id) else {
            return Ok(None);
        };
        let keys: Vec<_> = (0..document.document.chunks)
            .map(|passage| document.number(passage))
            .collect();
        let pieces: Option<Vec<_>> = self.pieces(&keys)?.into_iter().collect();
        let passage = |(ordinal, piece)| document.passage(ordinal, piece);
        Ok(pieces.map(|pieces| (0u32..).zip(pieces).map(passage).collect()))
    }

    /// Returns how many chunks of each level a document has, or `None` if it is not in the library.
    pub fn levels(&self, document_id: &str) -> Option<Levels> {
        self.find(document_id).map(|document| document.outline.counts())
    }

    fn passage(&self, document_id: &str, ordinal: u32) -> Result<Option<Chunk>, LibraryError> {
        let Some(document) = self.find(document_id) else {
            return Ok(None);
        };
        if ordinal >= document.document.chunks {
            return Ok(None);
        }
        let piece = self.pieces(&[document.number(ordinal)])?.pop().flatten();
        Ok(piece.map(|piece| document.passage(ordinal, piece)))
    }

    fn sentence(&self, document_id: &str, passage: u32, place: u32) -> Result<Option<Chunk>, LibraryError> {
        let Some(document) = self.find(document_id) else {
            return Ok(None);
        };
        if passage >= document.document.chunks {
            return Ok(None);
        }
        let before = passage.checked_sub(1);
        let keys = before.into_iter().chain([passage]);
        let keys: Vec<_> = keys.map(|passage| document.number(passage)).collect();
        let mut pieces = self.pieces(&keys)?.into_iter().rev();
        let (piece, before) = (pieces.next().flatten(), pieces.next().flatten());
        Ok(piece.and_then(|piece| {
            let mut sentences = document.sentences(passage, before.as_ref(), &piece);
            let place = place as usize;
            (place < sentences.len()).then(|| sentences.swap_remove(place))
        }))
    }

    pub(super) fn pieces(&self, numbers: &[u64]) -> Result<Vec<Option<Piece>>, LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => database.read(|connection| records::pieces(connection, numbers)),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.pieces(numbers),
        }
    }

    pub(super) fn find(&self, document_id: &str) -> Option<Arc<Held>> {
        let shared = self.read();
        let first = *shared.by_id.get(document_id)?;
        shared.documents.get(&first).map(Arc::clone)
    }
}
