//! The chunks of a document, of all levels, in batches that an embedder and a store take at once.
//!
//! It holds one batch and one section at most, however long the document is. It blocks, and knows neither of the two that it reads for.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{BATCH_BYTES, BATCH_CHUNKS};
use crate::{Chunk, Library, LibraryError};

/// Reads a document section by section, and gives its chunks in batches.
#[derive(Debug)]
pub(super) struct Reader {
    library: Arc<Library>,
    document_id: String,
    next_section: u32,
    /// Read and not yet given: at most one section more than a batch.
    waits: VecDeque<Chunk>,
}

#[derive(Debug)]
pub(super) enum Batch {
    /// The next chunks.
    Chunks(Vec<Chunk>),
    /// There are no more.
    End,
    /// The document is gone.
    Removed,
}

impl Reader {
    pub(super) fn new(library: Arc<Library>, document_id: &str) -> Self {
        Self {
            library,
            document_id: document_id.to_owned(),
            next_section: 0,
            waits: VecDeque::new(),
        }
    }

    pub(super) fn batch(&mut self) -> Result<Batch, LibraryError> {
        let Some(counts) = self.library.levels(&self.document_id) else {
            return Ok(Batch::Removed);
        };
        while self.waits.len() < BATCH_CHUNKS && self.next_section < counts.l1 {
            let Some(tree) = self.library.section(&self.document_id, self.next_section)? else {
                return Ok(Batch::Removed);
            };
            self.next_section += 1;
            self.waits.extend(tree.into_chunks());
        }
        let mut bytes = 0;
        let fits = |chunk: &&Chunk| {
            let first = bytes == 0;
            bytes += chunk.text.len();
            first || bytes <= BATCH_BYTES
        };
        let count = self.waits.iter().take(BATCH_CHUNKS).take_while(fits).count();
        if count == 0 {
            return Ok(Batch::End);
        }
        Ok(Batch::Chunks(self.waits.drain(..count).collect()))
    }
}
