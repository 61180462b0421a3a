//! The durable set of documents and the lexical index over it.
//!
//! All functions are synchronous: a server calls them from `tokio::task::spawn_blocking`. Readers
//! and one writer work at the same time. The slow steps of adding a document (cutting, stemming,
//! writing) happen without the readers' lock. The index then takes the lock for a few hundred
//! chunks at a time, and the document becomes visible at once when all of them are in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::chunk::{Piece, chunks};
use super::levels::{Outline, OutlineBuilder, OutlinedDocument};
use crate::search::lexical::{Analyzer, Index, Match, TermVector, indexed_text};
use crate::{Document, Hit, Parsed};
use changes::Changes;
use records::Records;

mod changes;
mod error;
mod records;
mod resolve;

pub use changes::{Change, ChangeKind};
pub use error::LibraryError;

/// The single file in the folder of a library.
const FILE_NAME: &str = "library.redb";
/// The longest name of a document, in bytes: the limit of common file systems.
const MAX_NAME_BYTES: usize = 255;
/// Chunks that are put into the index under one lock: about 10 ms.
const CHUNKS_PER_LOCK: usize = 256;

/// Limits on what a library holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryLimits {
    /// The most documents. Default: 10,000.
    pub max_documents: usize,
    /// The most chunks of all documents; each takes about 2.3 KiB of memory in the index. Default:
    /// 500,000.
    pub max_chunks: usize,
}

impl Default for LibraryLimits {
    fn default() -> Self {
        Self {
            max_documents: 10_000,
            max_chunks: 500_000,
        }
    }
}

/// The progress of adding or indexing documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexingProgress {
    /// Chunks that are done.
    pub done_chunks: usize,
    /// Chunks in total.
    pub total_chunks: usize,
}

/// The searchable documents of one folder.
///
/// Dropping it closes the file; nothing needs to be flushed. Share it in an `Arc`: all functions
/// take `&self`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire_rag::{Library, LibraryLimits, parse};
///
/// let library = Library::in_memory(LibraryLimits::default())?;
/// let parsed = parse("birds.md", b"# Birds\n\nA robin sings at dawn.", &Default::default())?;
/// library.add("birds.md", &parsed)?;
/// let hits = library.search("When do robins sing?", 5)?;
/// assert_eq!(hits[0].chunk.text, "A robin sings at dawn.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Library {
    limits: LibraryLimits,
    records: Records,
    analyzer: Analyzer,
    shared: RwLock<Shared>,
    changes: Changes,
    /// Held while a document is added or removed.
    writer: Mutex<()>,
}

/// The state that readers see. A document is searchable while it is in `documents`, whatever the
/// index contains.
#[derive(Debug, Default)]
struct Shared {
    documents: BTreeMap<u32, Arc<OutlinedDocument>>,
    by_id: HashMap<String, u32>,
    by_name: HashMap<String, u32>,
    index: Index,
}

impl Shared {
    fn publish(&mut self, number: u32, outlined: OutlinedDocument) -> Arc<OutlinedDocument> {
        let outlined = Arc::new(outlined);
        self.by_id.insert(outlined.document.id.clone(), number);
        self.by_name.insert(outlined.document.name.clone(), number);
        self.documents.insert(number, Arc::clone(&outlined));
        outlined
    }

    fn withdraw(&mut self, number: u32) -> Option<Arc<OutlinedDocument>> {
        let outlined = self.documents.remove(&number)?;
        self.by_id.remove(&outlined.document.id);
        self.by_name.remove(&outlined.document.name);
        Some(outlined)
    }
}

impl Library {
    /// Opens the library of a folder, and creates both if they do not exist. The index is rebuilt
    /// in memory: about 50 µs per chunk.
    ///
    /// # Errors
    ///
    /// `library_in_use`, `library_version`, `library_storage`, `library_damaged`.
    pub fn open(folder: &Path, limits: LibraryLimits) -> Result<Self, LibraryError> {
        std::fs::create_dir_all(folder).map_err(LibraryError::Folder)?;
        Self::with_records(Records::open(&folder.join(FILE_NAME))?, limits)
    }

    /// Creates a library in memory. Its documents are lost when it is dropped.
    ///
    /// # Errors
    ///
    /// `library_storage`.
    pub fn in_memory(limits: LibraryLimits) -> Result<Self, LibraryError> {
        Self::with_records(Records::in_memory()?, limits)
    }

    fn with_records(records: Records, limits: LibraryLimits) -> Result<Self, LibraryError> {
        let analyzer = Analyzer::default();
        let mut shared = Shared::default();
        let mut outlines: HashMap<u32, OutlineBuilder> = HashMap::new();
        let mut before: Option<(u32, Piece)> = None;
        records.each_piece(|number, ordinal, piece| {
            let text = indexed_text(piece.heading.as_deref(), &piece.text);
            shared.index.insert(key(number, ordinal), analyzer.prepare(&text));
            let last = before.take().filter(|(of, _)| *of == number);
            let outline = outlines.entry(number).or_default();
            outline.add(last.as_ref().map(|(_, last)| last), &piece);
            before = Some((number, piece));
        })?;
        for (number, document) in records.documents()? {
            let outline = outlines.remove(&number).unwrap_or_default().finish();
            shared.publish(number, OutlinedDocument::new(document, outline));
        }
        Ok(Self {
            limits,
            records,
            analyzer,
            shared: RwLock::new(shared),
            changes: Changes::default(),
            writer: Mutex::new(()),
        })
    }

    /// Adds a document. Adding the same content under the same name again changes nothing; other
    /// content under that name replaces the old document. The document is on disk and searchable
    /// when this returns. An error changes nothing.
    ///
    /// `name` has 1 to 255 bytes and no control characters.
    ///
    /// # Errors
    ///
    /// `bad_name`, `empty_document`, `library_full`, `library_storage`.
    pub fn add(&self, name: &str, parsed: &Parsed) -> Result<Document, LibraryError> {
        self.add_with(name, parsed, |_| ControlFlow::Continue(()))
    }

    /// Adds a document like [`add`](Self::add), calls `progress` after every 32 chunks, and stops
    /// if the callback returns `Break`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add`](Self::add), and `cancelled`.
    pub fn add_with(
        &self,
        name: &str,
        parsed: &Parsed,
        mut progress: impl FnMut(IndexingProgress) -> ControlFlow<()>,
    ) -> Result<Document, LibraryError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
            return Err(LibraryError::BadName);
        }
        let id = document_id(name, parsed);
        let pieces = chunks(parsed);
        if pieces.is_empty() {
            return Err(LibraryError::EmptyDocument);
        }
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.room_for(name, &id, pieces.len())?;
        if let Some((_, same)) = old.as_ref().filter(|(_, old)| old.document.id == id) {
            return Ok(same.document.clone());
        }
        let total_chunks = pieces.len();
        let mut prepared = Vec::with_capacity(total_chunks);
        for (done_chunks, piece) in pieces.iter().enumerate() {
            if done_chunks % CHUNKS_PER_PROGRESS == 0
                && progress(IndexingProgress {
                    done_chunks,
                    total_chunks,
                })
                .is_break()
            {
                return Err(LibraryError::Cancelled);
            }
            let text = indexed_text(piece.heading.as_deref(), &piece.text);
            prepared.push(self.analyzer.prepare(&text));
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let document = Document {
            id,
            name: name.to_owned(),
            kind: parsed.kind,
            title: parsed.title.clone(),
            pages: parsed.pages,
            chunks: total_chunks as u32,
            text_bytes: parsed.blocks.iter().map(|block| block.text.len() as u64).sum(),
            added_ms: since_epoch.as_millis() as u64,
        };
        let number = self
            .records
            .replace(old.as_ref().map(|(number, _)| *number), &document, &pieces)?;
        self.fill_index(number, prepared);
        let outlined = OutlinedDocument::new(document, Outline::of(&pieces));
        let mut shared = self.write();
        let withdrawn = old.and_then(|(old, _)| Some((old, shared.withdraw(old)?)));
        let published = shared.publish(number, outlined);
        if let Some((_, old)) = &withdrawn {
            self.changes.record(ChangeKind::Removed, &old.document.id);
        }
        self.changes.record(ChangeKind::Added, &published.document.id);
        drop(shared);
        if let Some((number, old)) = withdrawn {
            self.clear_index(number, old.document.chunks);
        }
        // The document has been added, so the callback can no longer cancel.
        let _ = progress(IndexingProgress {
            done_chunks: total_chunks,
            total_chunks,
        });
        Ok(published.document.clone())
    }

    /// Returns the current document of that name. Fails if a limit does not allow the new one.
    fn room_for(
        &self,
        name: &str,
        id: &str,
        chunks: usize,
    ) -> Result<Option<(u32, Arc<OutlinedDocument>)>, LibraryError> {
        let shared = self.read();
        let old = shared
            .by_name
            .get(name)
            .and_then(|number| Some((*number, Arc::clone(shared.documents.get(number)?))));
        if old.as_ref().is_some_and(|(_, old)| old.document.id == id) {
            return Ok(old);
        }
        if old.is_none() && shared.documents.len() >= self.limits.max_documents {
            return Err(LibraryError::Full {
                what: "documents",
                limit: self.limits.max_documents,
            });
        }
        let replaced = old.as_ref().map_or(0, |(_, old)| old.document.chunks as usize);
        if shared.index.len().saturating_sub(replaced) + chunks > self.limits.max_chunks {
            return Err(LibraryError::Full {
                what: "chunks",
                limit: self.limits.max_chunks,
            });
        }
        Ok(old)
    }

    fn fill_index(&self, number: u32, prepared: Vec<TermVector>) {
        let mut prepared = (0u32..).zip(prepared).peekable();
        while prepared.peek().is_some() {
            let mut shared = self.write();
            for (ordinal, text) in prepared.by_ref().take(CHUNKS_PER_LOCK) {
                shared.index.insert(key(number, ordinal), text);
            }
            drop(shared);
            std::thread::yield_now();
        }
    }

    fn clear_index(&self, number: u32, chunks: u32) {
        for first in (0..chunks).step_by(CHUNKS_PER_LOCK) {
            let mut shared = self.write();
            for ordinal in first..chunks.min(first + CHUNKS_PER_LOCK as u32) {
                shared.index.remove(key(number, ordinal));
            }
            drop(shared);
            std::thread::yield_now();
        }
    }

    /// Removes a document. Returns `false` if no document has that ID.
    ///
    /// # Errors
    ///
    /// `library_storage`; the document is then still in the library.
    pub fn remove(&self, document_id: &str) -> Result<bool, LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = self.read().by_id.get(document_id).copied() else {
            return Ok(false);
        };
        self.records.remove(number)?;
        let mut shared = self.write();
        let withdrawn = shared.withdraw(number);
        if let Some(old) = &withdrawn {
            self.changes.record(ChangeKind::Removed, &old.document.id);
        }
        drop(shared);
        if let Some(old) = withdrawn {
            self.clear_index(number, old.document.chunks);
        }
        Ok(true)
    }

    /// Returns all documents in the order in which they were added.
    pub fn list(&self) -> Vec<Document> {
        self.read()
            .documents
            .values()
            .map(|outlined| outlined.document.clone())
            .collect()
    }

    /// Returns a document by its ID.
    pub fn document(&self, document_id: &str) -> Option<Document> {
        self.find(document_id)
            .map(|(_, outlined)| outlined.document.clone())
    }

    /// Returns the IDs of all documents.
    pub fn document_ids(&self) -> BTreeSet<String> {
        self.read().by_id.keys().cloned().collect()
    }

    /// Returns whether the library holds a document.
    pub fn is_live(&self, document_id: &str) -> bool {
        self.read().by_id.contains_key(document_id)
    }

    /// Returns a number that increases by one with every document added or removed since this
    /// process opened the library. To store something derived from the documents, take the revision
    /// before you read them.
    pub fn revision(&self) -> u64 {
        self.changes.revision()
    }

    /// Returns a receiver that waits for the next [`revision`](Self::revision). A slow receiver
    /// skips revisions but never misses the latest: compare [`document_ids`](Self::document_ids)
    /// when it wakes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the changes after a revision, oldest first. Returns `None` if there were more than
    /// 1,024 changes since then, or if the revision does not belong to this process's library:
    /// anything may have changed.
    pub fn changes_since(&self, revision: u64) -> Option<Vec<Change>> {
        self.changes.since(revision)
    }

    /// Returns the best chunks for a query, best first; equal scores are in the order of adding.
    /// Empty if no document contains a word of the query.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, LibraryError> {
        let (matches, documents): (Vec<_>, Vec<_>) = {
            let shared = self.read();
            let live = |key| shared.documents.contains_key(&number_of(key));
            let matches = shared.index.search(&self.analyzer, query, limit, live);
            let document = |number| shared.documents.get(&number).map(Arc::clone);
            matches
                .into_iter()
                .filter_map(|found| Some((found, document(number_of(found.key))?)))
                .unzip()
        };
        let keys: Vec<_> = matches
            .iter()
            .map(|found| (number_of(found.key), ordinal_of(found.key)))
            .collect();
        let pieces = self.records.pieces(&keys)?;
        // A missing piece belongs to a document that was removed in the meantime.
        let hit = |((found, document), piece): ((&Match, &Arc<OutlinedDocument>), Option<Piece>)| {
            let chunk = document.passage(ordinal_of(found.key), piece?);
            Some(Hit::new(chunk, found.score))
        };
        Ok(matches
            .iter()
            .zip(&documents)
            .zip(pieces)
            .filter_map(hit)
            .collect())
    }

    /// Returns the terms of a text as the index spells them.
    pub fn terms(&self, text: &str) -> Vec<String> {
        self.analyzer.terms(text)
    }

    /// Returns how significant each term is in this library: the inverse document frequency of BM25,
    /// highest for a term that no text contains.
    pub fn weights(&self, terms: &[String]) -> Vec<f32> {
        let shared = self.read();
        terms.iter().map(|term| shared.index.weight(term)).collect()
    }

    /// Returns the weight of a term that no document contains.
    pub fn unseen_weight(&self) -> f32 {
        self.read().index.unseen_weight()
    }

    /// Returns the number of passages of all documents.
    pub fn chunk_count(&self) -> usize {
        self.read()
            .documents
            .values()
            .map(|outlined| outlined.document.chunks as usize)
            .sum()
    }

    // A panic under the lock can leave index entries of a document that was never published. They
    // are invisible.
    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chunks between two calls of the progress callback.
const CHUNKS_PER_PROGRESS: usize = 32;

fn key(number: u32, ordinal: u32) -> u64 {
    u64::from(number) << 32 | u64::from(ordinal)
}

fn number_of(key: u64) -> u32 {
    (key >> 32) as u32
}

fn ordinal_of(key: u64) -> u32 {
    key as u32
}

/// 128 bits of SHA-256 over the name and the parsed content, each part preceded by its length.
fn document_id(name: &str, parsed: &Parsed) -> String {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(name.as_bytes());
    part(parsed.kind.as_str().as_bytes());
    part(parsed.title.as_deref().unwrap_or_default().as_bytes());
    for block in &parsed.blocks {
        part(block.heading.as_deref().unwrap_or_default().as_bytes());
        part(&block.page.unwrap_or(0).to_le_bytes());
        part(block.text.as_bytes());
    }
    hasher.finalize()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
