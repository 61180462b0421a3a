//! Reads the chunks of a document on all levels, in batches of the size that an embedder and a
//! store take at once.
//!
//! At most one batch and one section are in memory, however long the document is. Reading blocks.
//! This module knows neither the embedder nor the store.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{BATCH_BYTES, BATCH_CHUNKS};
use crate::{Chunk, Library, LibraryError};

/// Reads a document section by section and returns its chunks in batches.
#[derive(Debug)]
pub(super) struct Reader {
    library: Arc<Library>,
    document_id: String,
    next_section: u32,
    /// Chunks that were read but not returned yet: at most one section more than a batch.
    pending: VecDeque<Chunk>,
}

#[derive(Debug)]
pub(super) enum Batch {
    /// The next chunks.
    Chunks(Vec<Chunk>),
    /// There are no more chunks.
    End,
    /// The document was removed from the library.
    Removed,
}

impl Reader {
    pub(super) fn new(library: Arc<Library>, document_id: &str) -> Self {
        Self {
            library,
            document_id: document_id.to_owned(),
            next_section: 0,
            pending: VecDeque::new(),
        }
    }

    pub(super) fn batch(&mut self) -> Result<Batch, LibraryError> {
        let Some(counts) = self.library.levels(&self.document_id) else {
            return Ok(Batch::Removed);
        };
        while self.pending.len() < BATCH_CHUNKS && self.next_section < counts.l1 {
            let Some(tree) = self.library.section(&self.document_id, self.next_section)? else {
                return Ok(Batch::Removed);
            };
            self.next_section += 1;
            self.pending.extend(tree.into_chunks());
        }
        let mut bytes = 0;
        let fits = |chunk: &&Chunk| {
            let first = bytes == 0;
            bytes += chunk.text.len();
            first || bytes <= BATCH_BYTES
        };
        let count = self.pending.iter().take(BATCH_CHUNKS).take_while(fits).count();
        if count == 0 {
            return Ok(Batch::End);
        }
        Ok(Batch::Chunks(self.pending.drain(..count).collect()))
    }
}
