//! Chunks by their ids, on all three levels, and what holds what.
//!
//! Only passages are stored; what stands above and below them is cut anew ([`levels`](crate::documents::levels)). It searches nothing.

use std::sync::Arc;

use super::{Library, LibraryError};
use crate::Chunk;
use crate::ChunkId;
use crate::documents::levels::{OutlinedDocument, SectionTree};
use ragwire::event::Levels;

impl Library {
    /// A chunk of any level by its id; nothing if its document is gone.
    ///
    /// # Errors
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

    /// The chunk of the level above that holds this one; nothing for a section, and where the document is gone.
    ///
    /// # Errors
    /// `library_storage`, `library_damaged`.
    pub fn parent(&self, chunk: &Chunk) -> Result<Option<Chunk>, LibraryError> {
        if let Some(parent) = &chunk.parent {
            return self.chunk(parent);
        }
        // A chunk that somebody made by hand says its parent by its id only.
        let Some(own) = self.chunk(&chunk.id)? else {
            return Ok(None);
        };
        own.parent
            .as_deref()
            .map_or(Ok(None), |parent| self.chunk(parent))
    }

    /// A section by its place in its document, with all that it holds; nothing behind the last one, and if the document is gone.
    ///
    /// # Errors
    /// `library_storage`, `library_damaged`.
    pub fn section(&self, document_id: &str, ordinal: u32) -> Result<Option<SectionTree>, LibraryError> {
        let Some((number, document)) = self.find(document_id) else {
            return Ok(None);
        };
        let Some(passages) = document.outline.passages(ordinal) else {
            return Ok(None);
        };
        let before = usize::from(passages.start > 0);
        let first = passages.start.saturating_sub(1);
        let keys: Vec<_> = (first..passages.end).map(|passage| (number, passage)).collect();
        // Pieces that are missing were taken out meanwhile, all at once.
        let pieces: Option<Vec<_>> = self.records.pieces(&keys)?.into_iter().collect();
        Ok(pieces.and_then(|pieces| {
            let (before, pieces) = pieces.split_at_checked(before)?;
            document.section(ordinal, before.first(), pieces)
        }))
    }

    /// All passages of a document, in order; nothing if it is gone.
    ///
    /// # Errors
    /// `library_storage`, `library_damaged`.
    pub fn passages(&self, document_id: &str) -> Result<Option<Vec<Chunk>>, LibraryError> {
        let Some((number, document)) = self.find(document_id) else {
            return Ok(None);
        };
        let keys: Vec<_> = (0..document.document.chunks)
            .map(|passage| (number, passage))
            .collect();
        let pieces: Option<Vec<_>> = self.records.pieces(&keys)?.into_iter().collect();
        let passage = |(ordinal, piece)| document.passage(ordinal, piece);
        Ok(pieces.map(|pieces| (0u32..).zip(pieces).map(passage).collect()))
    }

    /// How many chunks of each level a document has; nothing if it is gone.
    pub fn levels(&self, document_id: &str) -> Option<Levels> {
        self.find(document_id)
            .map(|(_, document)| document.outline.counts())
    }

    fn passage(&self, document_id: &str, ordinal: u32) -> Result<Option<Chunk>, LibraryError> {
        let Some((number, document)) = self.find(document_id) else {
            return Ok(None);
        };
        let piece = self.records.pieces(&[(number, ordinal)])?.pop().flatten();
        Ok(piece.map(|piece| document.passage(ordinal, piece)))
    }

    fn sentence(&self, document_id: &str, passage: u32, place: u32) -> Result<Option<Chunk>, LibraryError> {
        let Some((number, document)) = self.find(document_id) else {
            return Ok(None);
        };
        let before = passage.checked_sub(1).map(|before| (number, before));
        let keys: Vec<_> = before.into_iter().chain([(number, passage)]).collect();
        let mut pieces = self.records.pieces(&keys)?.into_iter().rev();
        let (piece, before) = (pieces.next().flatten(), pieces.next().flatten());
        Ok(piece.and_then(|piece| {
            let mut sentences = document.sentences(passage, before.as_ref(), &piece);
            let place = place as usize;
            (place < sentences.len()).then(|| sentences.swap_remove(place))
        }))
    }

    pub(super) fn find(&self, document_id: &str) -> Option<(u32, Arc<OutlinedDocument>)> {
        let shared = self.read();
        let number = *shared.by_id.get(document_id)?;
        Some((number, Arc::clone(shared.documents.get(&number)?)))
    }
}
