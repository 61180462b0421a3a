//! The durable set of documents and the lexical index over it.
//!
//! All functions are synchronous: a server calls them from `tokio::task::spawn_blocking`. Readers
//! and one writer work at the same time. The slow steps of adding a document (cutting, stemming,
//! writing) happen without the readers' lock. The index then takes the lock for a few hundred
//! chunks at a time, and the document becomes visible at once when all of them are in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::chunk::{Piece, chunks};
use super::levels::Outline;
use crate::search::analyzer::{self, Analyzer, Language};
use crate::search::follow_up::RecentFollowUps;
use crate::search::lexical::{TermCounter, TermVector};
use crate::{Document, FrontMatter, Parsed};
use changes::Changes;
use database::Database;
use reading::Readers;
use records::StoredDocument;
use segments::Lexicon;
use state::{Held, Shared};

mod changes;
mod claim;
mod compounds;
mod database;
mod error;
mod filter;
mod identity;
mod indexing;
mod languages;
mod owners;
mod query;
mod reading;
mod records;
mod resolve;
mod salvage;
mod segments;
#[cfg(feature = "qdrant")]
mod shared;
mod sources;
mod spelling;
mod state;
mod view;

pub use changes::{Change, ChangeKind};
pub use claim::{Claim, Work};
pub use error::LibraryError;
pub use filter::{DocumentFilter, DocumentPage, FilterError};
pub use owners::DocumentOwner;
pub(crate) use query::phrases;
pub use salvage::{Salvage, SavedDocument};
#[cfg(feature = "qdrant")]
pub use shared::SharedLibraryOptions;
pub use sources::{Source, SourceOutcome, SourceRoot};
pub(crate) use view::LibraryView;

/// The file in the folder of a library. Beside it are its log while it is open, a lock, and a
/// reserve of disk space.
const FILE_NAME: &str = "library.db";
/// The file of format 1, from before the first release, which is not read any more.
const OLD_FILE_NAME: &str = "library.redb";
/// The longest name of a document, in bytes: the limit of common file systems.
const MAX_NAME_BYTES: usize = 255;
/// How often a change is tried again that another host interfered with.
const CHANGE_ATTEMPTS: usize = 4;
/// How much a word counts in the title and in the name of the document, relative to a word of the
/// passage or its headings. All passages of a document share them.
const TITLE_WEIGHT: f32 = 0.5;
const NAME_WEIGHT: f32 = 0.3;
/// How much text decides the language of a document, in bytes.
const LANGUAGE_BYTES: usize = 4_096;

/// Limits on what a library holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryLimits {
    /// The most documents. Default: 10,000.
    pub max_documents: usize,
    /// The most chunks of all documents. The index is on disk: a chunk takes about 2 KiB there, and
    /// 5 bytes of memory. Default: 500,000.
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

/// Where the passages of a library and their words are.
#[derive(Debug)]
enum Shelf {
    /// In a file or in memory of this process.
    Local(Database),
    /// On a server, for any number of hosts.
    #[cfg(feature = "qdrant")]
    Shared(shared::SharedShelf),
}

/// The searchable documents of one folder, or of a server that several hosts share.
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
    shelf: Shelf,
    analyzer: Analyzer,
    shared: RwLock<Shared>,
    changes: Changes,
    /// Held while a document is added or removed.
    writer: Mutex<()>,
    readers: Readers,
    follow_ups: RecentFollowUps,
}

impl Library {
    /// Opens the library of a folder, and creates both if they do not exist. Takes as long as
    /// reading the file once; only the passages that were added last, at most 4,096, are indexed
    /// again.
    ///
    /// # Errors
    ///
    /// `library_in_use`, `library_version`, `library_storage`, `library_no_space`,
    /// `library_damaged`.
    pub fn open(folder: &Path, limits: LibraryLimits) -> Result<Self, LibraryError> {
        std::fs::create_dir_all(folder).map_err(LibraryError::Folder)?;
        let file = folder.join(FILE_NAME);
        // A folder with an older library is not an empty one.
        if !file.exists() && folder.join(OLD_FILE_NAME).exists() {
            return Err(LibraryError::Version {
                found: 1,
                supported: database::VERSION,
            });
        }
        Self::with_database(Database::open(&file)?, limits)
    }

    /// Creates a library in memory. Its documents are lost when it is dropped.
    ///
    /// # Errors
    ///
    /// `library_storage`.
    pub fn in_memory(limits: LibraryLimits) -> Result<Self, LibraryError> {
        Self::with_database(Database::in_memory()?, limits)
    }

    fn with_database(database: Database, limits: LibraryLimits) -> Result<Self, LibraryError> {
        let mut shared = Shared::default();
        let analyzer_version = u64::from(analyzer::VERSION);
        let (segments, documents, indexed) = database.write(|connection| {
            let segments = Lexicon::open(connection, analyzer_version)?;
            let documents = records::documents(connection)?;
            Ok((
                segments,
                documents,
                database::meta(connection, "indexed")?.unwrap_or(0),
            ))
        })?;
        shared.lexicon.set_segments(segments);
        let mut behind = Vec::new();
        for (first, stored) in documents {
            let held = shared.publish(Held::new(first, stored));
            if first >= indexed {
                behind.push(held);
            }
        }
        let shelf = Shelf::Local(database);
        let library = Self {
            limits,
            readers: Readers::of(&shelf),
            shelf,
            analyzer: Analyzer::default(),
            shared: RwLock::new(shared),
            changes: Changes::default(),
            writer: Mutex::new(()),
            follow_ups: RecentFollowUps::default(),
        };
        for held in behind {
            library.index_stored(&held)?;
            match &library.shelf {
                Shelf::Local(database) => library.flush_if_due(database, held.passages().end),
                #[cfg(feature = "qdrant")]
                Shelf::Shared(_) => {}
            }
        }
        Ok(library)
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
        progress: impl FnMut(IndexingProgress) -> ControlFlow<()>,
    ) -> Result<Document, LibraryError> {
        self.add_as(None, name, parsed, progress)
    }

    /// Adds a document of `owner`, or one of everyone's.
    fn add_as(
        &self,
        owner: Option<&DocumentOwner>,
        name: &str,
        parsed: &Parsed,
        mut progress: impl FnMut(IndexingProgress) -> ControlFlow<()>,
    ) -> Result<Document, LibraryError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
            return Err(LibraryError::BadName);
        }
        let id = identity::document_id(owner, name, parsed);
        let pieces = chunks(parsed);
        if pieces.is_empty() {
            return Err(LibraryError::EmptyDocument);
        }
        for _ in 0..CHANGE_ATTEMPTS {
            match self.try_add(owner, name, &id, parsed, &pieces, &mut progress) {
                Err(LibraryError::Conflict) => {}
                done => return done,
            }
        }
        Err(LibraryError::Conflict)
    }

    /// Adds a document. Another host that changes it at the same time is a conflict.
    fn try_add(
        &self,
        owner: Option<&DocumentOwner>,
        name: &str,
        id: &str,
        parsed: &Parsed,
        pieces: &[Piece],
        progress: &mut impl FnMut(IndexingProgress) -> ControlFlow<()>,
    ) -> Result<Document, LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let key = identity::key(owner.map(|owner| &*owner.name), name);
        self.refresh_key(&key)?;
        let old = self.room_for(&key, id, pieces.len())?;
        // The same content again may change who finds it.
        if let Some(old) = &old
            && old.document.id == id
            && old.owner.as_ref() == owner
        {
            return Ok(old.document.clone());
        }
        let total_chunks = pieces.len();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let document = Document {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: parsed.kind,
            title: parsed.title.clone(),
            pages: parsed.pages,
            chunks: total_chunks as u32,
            text_bytes: parsed.blocks.iter().map(|block| block.text.len() as u64).sum(),
            added_ms: since_epoch.as_millis() as u64,
        };
        let mut text = String::new();
        for block in &parsed.blocks {
            if text.len() < LANGUAGE_BYTES {
                text.push_str(&block.text);
                text.push('\n');
            }
        }
        let mut stored = self.stored(document.clone(), pieces, &text, &parsed.front_matter);
        stored.owner = owner.map(|owner| owner.name.clone());
        stored.shares = owner.is_some_and(|owner| owner.shares);
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
            prepared.push(self.prepare(&stored.document, piece, language_of(&stored)));
        }
        self.insert(old.as_deref(), stored, pieces, prepared)?;
        // The document has been added, so the callback can no longer cancel.
        let _ = progress(IndexingProgress {
            done_chunks: total_chunks,
            total_chunks,
        });
        Ok(document)
    }

    fn stored(
        &self,
        document: Document,
        pieces: &[Piece],
        text: &str,
        front_matter: &FrontMatter,
    ) -> StoredDocument {
        let text = &text[..text.floor_char_boundary(LANGUAGE_BYTES)];
        let language = self.analyzer.language(text).unwrap_or_default();
        StoredDocument {
            document,
            outline: Outline::of(pieces),
            language: language.code().to_owned(),
            tags: front_matter.tags.clone(),
            date: front_matter.date.clone(),
            owner: None,
            shares: false,
        }
    }

    /// Splits a passage into weighted terms: its text, its headings, and the title and name of its
    /// document.
    fn prepare(&self, document: &Document, piece: &Piece, language: Language) -> TermVector {
        let mut counter = TermCounter::default();
        let mut add = |text: &str, weight| counter.add(&self.analyzer, text, language, weight);
        add(&piece.text, 1.0);
        add(piece.heading.as_deref().unwrap_or_default(), 1.0);
        add(document.title.as_deref().unwrap_or_default(), TITLE_WEIGHT);
        add(&words_of_name(&document.name), NAME_WEIGHT);
        counter.finish()
    }

    /// Returns the title and the name of a document as words.
    pub(crate) fn name_text(&self, document_id: &str, name: &str) -> String {
        let held = self.find(document_id);
        let title = held.as_ref().and_then(|held| held.document.title.as_deref());
        format!("{} {}", title.unwrap_or_default(), words_of_name(name))
    }

    /// Stores a document, makes it searchable, and withdraws the one that it replaces.
    fn insert(
        &self,
        old: Option<&Held>,
        stored: StoredDocument,
        pieces: &[Piece],
        prepared: Vec<TermVector>,
    ) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(database) => self.insert_local(database, old, stored, pieces, prepared),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.insert_shared(shelf, stored, pieces, prepared),
        }
    }

    fn insert_local(
        &self,
        database: &Database,
        old: Option<&Held>,
        stored: StoredDocument,
        pieces: &[Piece],
        prepared: Vec<TermVector>,
    ) -> Result<(), LibraryError> {
        let replaced = old.map(|old| (old.first, old.document.chunks));
        let first = database.write(|connection| records::replace(connection, replaced, &stored, pieces))?;
        self.fill_index(first, prepared);
        let mut shared = self.write();
        let withdrawn = old.and_then(|old| shared.withdraw(old.first));
        let published = shared.publish(Held::new(first, stored));
        if let Some(old) = &withdrawn {
            self.changes.record(ChangeKind::Removed, &old.document.id);
        }
        self.changes.record(ChangeKind::Added, &published.document.id);
        drop(shared);
        if let Some(old) = withdrawn {
            self.clear_tail(&old);
        }
        self.flush_if_due(database, published.passages().end);
        Ok(())
    }

    /// Checks whether a document of everyone's with that name could be added, before it is read. A new
    /// name needs room for a document; how many chunks it needs is not known yet.
    ///
    /// # Errors
    ///
    /// `library_full`.
    pub fn check_room_for(&self, name: &str) -> Result<(), LibraryError> {
        self.room_for(&identity::key(None, name), "", 0).map(drop)
    }

    /// Returns the current document of that key. Fails if a limit does not allow the new one.
    fn room_for(&self, key: &str, id: &str, chunks: usize) -> Result<Option<Arc<Held>>, LibraryError> {
        let shared = self.read();
        let old = shared
            .by_key
            .get(key)
            .and_then(|first| shared.documents.get(first));
        if old.is_some_and(|old| old.document.id == id) {
            return Ok(old.map(Arc::clone));
        }
        if old.is_none() && shared.documents.len() >= self.limits.max_documents {
            return Err(LibraryError::Full {
                what: "documents",
                limit: self.limits.max_documents,
            });
        }
        let replaced = old.map_or(0, |old| old.document.chunks as usize);
        if shared.lexicon.passages - replaced + chunks > self.limits.max_chunks {
            return Err(LibraryError::Full {
                what: "chunks",
                limit: self.limits.max_chunks,
            });
        }
        Ok(old.map(Arc::clone))
    }

    /// Returns all documents in the order in which they were added.
    pub fn list(&self) -> Vec<Document> {
        self.read()
            .documents
            .values()
            .map(|held| held.document.clone())
            .collect()
    }

    /// Returns a document by its ID.
    pub fn document(&self, document_id: &str) -> Option<Document> {
        self.find(document_id).map(|held| held.document.clone())
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

    pub(crate) fn recent_follow_ups(&self) -> &RecentFollowUps {
        &self.follow_ups
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

    /// Makes changes of other hosts visible now. A library of one process has none.
    ///
    /// # Errors
    ///
    /// `library_unavailable`, `library_storage`.
    pub fn refresh(&self) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(_) => Ok(()),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.refresh_shared(shelf),
        }
    }

    fn refresh_key(&self, key: &str) -> Result<(), LibraryError> {
        match &self.shelf {
            Shelf::Local(_) => {
                let _ = key;
                Ok(())
            }
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.refresh_key_shared(shelf, key),
        }
    }

    /// Returns whether other hosts may change this library.
    pub fn is_shared(&self) -> bool {
        match &self.shelf {
            Shelf::Local(_) => false,
            #[cfg(feature = "qdrant")]
            Shelf::Shared(_) => true,
        }
    }

    /// Returns the number of passages of all documents.
    pub fn chunk_count(&self) -> usize {
        self.read().lexicon.passages
    }

    /// The file of a library of one process.
    #[cfg(test)]
    fn local(&self) -> &Database {
        match &self.shelf {
            Shelf::Local(database) => database,
            #[cfg(feature = "qdrant")]
            Shelf::Shared(_) => panic!("a shared library has no file"),
        }
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

/// Returns the words of the path of a document without its extension, which says nothing about the
/// content.
fn words_of_name(name: &str) -> String {
    name.rsplit_once('.')
        .map_or(name, |(stem, _)| stem)
        .replace('/', " ")
}

fn language_of(stored: &StoredDocument) -> Language {
    Language::of_code(&stored.language).unwrap_or_default()
}

#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod query_tests;
#[cfg(test)]
mod tests;
