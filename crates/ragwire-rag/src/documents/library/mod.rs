//! The durable set of documents and the index over it.
//!
//! Everything is synchronous: a server calls it from `tokio::task::spawn_blocking`. Readers and one writer go on at the
//! same time. What costs time in adding a document (cutting, stemming, writing) is done without the lock that readers
//! take; the index then takes it for a few hundred chunks at a time, and the document appears at once when all are in.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ragwire_rag::{Library, LibraryLimits, parse};
//!
//! let library = Library::in_memory(LibraryLimits::default())?;
//! let parsed = parse("birds.md", b"# Birds\n\nA robin sings at dawn.", &Default::default())?;
//! library.add("birds.md", &parsed)?;
//! let hits = library.search("When do robins sing?", 5)?;
//! assert_eq!(hits[0].chunk.text, "A robin sings at dawn.");
//! # Ok(())
//! # }
//! ```

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

/// The one file in the folder of a library.
const FILE_NAME: &str = "library.redb";
/// Longest name of a document, in bytes: what file systems allow.
const MAX_NAME_BYTES: usize = 255;
/// Chunks put into the index under one lock: about 10 ms.
const CHUNKS_PER_LOCK: usize = 256;

/// How much a library may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryLimits {
    /// Documents.
    pub max_documents: usize,
    /// Chunks of all documents; each costs about 2.3 KiB of memory in the index.
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

/// How far adding a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexingProgress {
    /// Chunks that are ready.
    pub done_chunks: usize,
    /// Chunks of the document.
    pub total_chunks: usize,
}

/// The documents of one folder, searchable. Dropping it closes the file; there is nothing to flush.
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

/// What readers see. A document is searchable while it is in `documents`, whatever the index holds.
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
    /// Opens the library of a folder, or makes both. The index is rebuilt: about 50 µs for a chunk.
    ///
    /// # Errors
    /// `library_in_use`, `library_version`, `library_storage`, `library_damaged`.
    pub fn open(folder: &Path, limits: LibraryLimits) -> Result<Self, LibraryError> {
        std::fs::create_dir_all(folder).map_err(LibraryError::Folder)?;
        Self::with_records(Records::open(&folder.join(FILE_NAME))?, limits)
    }

    /// A library that is gone when it is dropped.
    ///
    /// # Errors
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

    /// Adds a document. The same content under the same name changes nothing; another content replaces it. The document
    /// is on disk and searchable when this returns, and an error changed nothing.
    ///
    /// # Errors
    /// `bad_name`, `empty_document`, `library_full`, `library_storage`.
    pub fn add(&self, name: &str, parsed: &Parsed) -> Result<Document, LibraryError> {
        self.add_with(name, parsed, |_| ControlFlow::Continue(()))
    }

    /// [`add`](Self::add) that tells how far it is after every few chunks, and stops when told to.
    ///
    /// # Errors
    /// Those of [`add`](Self::add), and `cancelled`.
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
            self.changes.tell(ChangeKind::Removed, &old.document.id);
        }
        self.changes.tell(ChangeKind::Added, &published.document.id);
        drop(shared);
        if let Some((number, old)) = withdrawn {
            self.clear_index(number, old.document.chunks);
        }
        // The document is in, whatever the caller now says.
        let _ = progress(IndexingProgress {
            done_chunks: total_chunks,
            total_chunks,
        });
        Ok(published.document.clone())
    }

    /// The document that has the name now, unless a limit forbids a new one.
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

    /// Takes a document out; false if there is none with that id.
    ///
    /// # Errors
    /// `library_storage`; the document is then still there.
    pub fn remove(&self, document_id: &str) -> Result<bool, LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = self.read().by_id.get(document_id).copied() else {
            return Ok(false);
        };
        self.records.remove(number)?;
        let mut shared = self.write();
        let withdrawn = shared.withdraw(number);
        if let Some(old) = &withdrawn {
            self.changes.tell(ChangeKind::Removed, &old.document.id);
        }
        drop(shared);
        if let Some(old) = withdrawn {
            self.clear_index(number, old.document.chunks);
        }
        Ok(true)
    }

    /// All documents, in the order in which they were added.
    pub fn list(&self) -> Vec<Document> {
        self.read()
            .documents
            .values()
            .map(|outlined| outlined.document.clone())
            .collect()
    }

    /// A document by its id.
    pub fn document(&self, document_id: &str) -> Option<Document> {
        self.find(document_id)
            .map(|(_, outlined)| outlined.document.clone())
    }

    /// The ids of all documents.
    pub fn document_ids(&self) -> BTreeSet<String> {
        self.read().by_id.keys().cloned().collect()
    }

    /// Whether a document is there now.
    pub fn is_live(&self, document_id: &str) -> bool {
        self.read().by_id.contains_key(document_id)
    }

    /// One more with every document that came or went since this process opened the library. Whoever keeps something that hangs on the
    /// documents takes the revision before reading them.
    pub fn revision(&self) -> u64 {
        self.changes.revision()
    }

    /// Waits for the [`revision`](Self::revision). A receiver that is late misses revisions and never the last one: compare
    /// [`document_ids`](Self::document_ids).
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What changed after a revision, oldest first; nothing where that is more than [`MAX_CHANGES`](crate::documents::changes::MAX_CHANGES) changes ago,
    /// or no revision of this process's library: then anything may have changed.
    pub fn changes_since(&self, revision: u64) -> Option<Vec<Change>> {
        self.changes.since(revision)
    }

    /// The best chunks for a query, best first; equal scores in the order of adding. Empty where no word of the query
    /// stands anywhere.
    ///
    /// # Errors
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
        // A piece that is gone by now belongs to a document that was taken out meanwhile.
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

    /// The terms of a text as the index sees them.
    pub fn terms(&self, text: &str) -> Vec<String> {
        self.analyzer.terms(text)
    }

    /// How much each term tells in this library; see [`Index::weight`].
    pub fn weights(&self, terms: &[String]) -> Vec<f32> {
        let shared = self.read();
        terms.iter().map(|term| shared.index.weight(term)).collect()
    }

    /// How much a term tells that stands in no document.
    pub fn unseen_weight(&self) -> f32 {
        self.read().index.unseen_weight()
    }

    /// Chunks of all documents.
    pub fn chunk_count(&self) -> usize {
        self.read()
            .documents
            .values()
            .map(|outlined| outlined.document.chunks as usize)
            .sum()
    }

    // A panic while the lock was held can leave index entries of a document that was never published; they are invisible.
    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Chunks between two calls of a progress callback.
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

/// 128 bits of SHA-256 over the name and all that was parsed, each part with its length before it.
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
