//! Keeping a [`Store`] in step with a [`Library`]: each document's chunks of all levels, with their vectors.
//!
//! The library is the truth and the store can always be made anew from it, so nothing is written down about what is done. What the store
//! lacks is seen by counting: the chunks of a document follow from the library, and ids of one document never mean other texts. Only a store
//! made by another embedder, or by another way of cutting, looks the same and is not: a mark in it, a chunk of a document that does not
//! exist, names both, and a store without the right mark is emptied. **A store therefore belongs to one library**; what is not of it is taken out.
//!
//! A document that the library has not is never given to anybody, whatever the store still holds: see [`tools`](super::tools). So removing
//! takes effect at once, and the store may follow later.
//!
//! ```
//! # async fn start(store: std::sync::Arc<dyn ragwire_rag::search::store::Store>, embedder: std::sync::Arc<dyn ragwire_rag::models::Embed>) -> Result<(), Box<dyn std::error::Error>> {
//! use std::{ops::ControlFlow, sync::Arc};
//! use ragwire_rag::{Indexer, Library, LibraryLimits};
//!
//! let library = Arc::new(Library::open("data".as_ref(), LibraryLimits::default())?);
//! let indexer = Indexer::new(library, store, Some(embedder))?;
//! let report = indexer.reconcile(|_| ControlFlow::Continue(())).await?;
//! for failed in &report.failed {
//!     eprintln!("{} is not found by its meaning: {}", failed.document_id, failed.error);
//! }
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::documents::LEVELS_VERSION;
use crate::models::{Boxed, Embed, ModelError, Side};
use crate::search::store::{Filter, Point, Store};
use crate::{
    Chunk, Document, FollowError, FollowFailure, FollowReport, IndexingProgress, Level, Library,
    LibraryFollower, Parsed,
};
use reader::{Batch, Reader};

mod error;
mod reader;

pub use error::{AddError, IndexError};

/// Most chunks that are embedded and put in at once.
const BATCH_CHUNKS: usize = 64;
/// Most text of them in bytes, some 8,000 tokens: 30 MiB of token vectors with 1,024 numbers each. One chunk may be longer.
const BATCH_BYTES: usize = 32 * 1024;
/// Documents that fail one after the other before the rest is left alone: by then it is not the documents.
const MAX_FAILURES: usize = 8;
/// What the id of the mark's document begins with; no document of a library has an `x` in its id.
const MARK: &str = "index-";

/// What was done.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use = "documents that failed are told here only"]
pub struct IndexReport {
    /// Documents put in, or repaired.
    pub indexed: usize,
    /// Documents taken out that the library has not.
    pub removed: usize,
    /// Documents that failed; they stay in the library, and the next [`Indexer::reconcile`] tries them again.
    pub failed: Vec<IndexFailure>,
    /// Documents that were not tried, because they would have failed as the last of `failed` did, or [`MAX_FAILURES`] had failed in a row.
    pub untried: usize,
}

/// A document that is not in step.
#[derive(Debug)]
#[non_exhaustive]
pub struct IndexFailure {
    /// The document.
    pub document_id: String,
    /// Why.
    pub error: IndexError,
}

/// Keeps a store in step with a library. Calls wait for each other.
#[derive(Debug)]
pub struct Indexer {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    embedder: Option<Arc<dyn Embed>>,
    /// The document that the mark is a chunk of.
    mark: String,
    known: Mutex<StoreContents>,
    /// The library's revision up to which the store is in step.
    revision: AtomicU64,
}

/// What is known of the store.
#[derive(Debug, Default)]
struct StoreContents {
    /// Whether `documents` says what the store holds.
    compared: bool,
    documents: BTreeMap<String, DocumentState>,
}

/// How much of a document the store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentState {
    Complete,
    /// Something, or nothing: it was begun.
    Partial,
}

impl StoreContents {
    /// Those of the documents that the store does not hold wholly.
    fn missing<'a>(&self, live: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
        live.iter()
            .filter(|id| self.documents.get(*id) != Some(&DocumentState::Complete))
    }
}

impl Indexer {
    /// Keeps `store` in step with `library`. Without an embedder, or in a store without vectors, chunks are found by their words only.
    /// Nothing is read or changed before the first call.
    ///
    /// # Errors
    /// `other_vectors` where embedder and store do not fit.
    pub fn new(
        library: Arc<Library>,
        store: Arc<dyn Store>,
        embedder: Option<Arc<dyn Embed>>,
    ) -> Result<Self, IndexError> {
        let embedder = embedder.filter(|_| store.vectors().dimensions > 0);
        if let Some((found, wanted)) = other_vectors(embedder.as_deref(), store.as_ref()) {
            return Err(IndexError::OtherVectors { found, wanted });
        }
        let mark = mark_of(store.as_ref(), embedder.as_deref());
        Ok(Self {
            library,
            store,
            embedder,
            mark,
            known: Mutex::default(),
            revision: AtomicU64::new(0),
        })
    }

    /// Compares store and library, puts in what is missing or half there, and takes out what the library has not. To be called at start and
    /// whenever something failed; where all is well it costs two calls of the store. `progress` counts the chunks of all levels that are put in.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a store that the next call repairs.
    ///
    /// # Errors
    /// What kept it from comparing, or `cancelled`. A document that fails is in the report.
    pub async fn reconcile(
        &self,
        mut progress: impl FnMut(IndexingProgress) -> ControlFlow<()> + Send,
    ) -> Result<IndexReport, IndexError> {
        let mut known = self.known.lock().await;
        known.compared = false;
        let mut report = IndexReport::default();
        self.compare(&mut known, &mut report).await?;
        let (revision, live) = (self.library.revision(), self.library.document_ids());
        self.take_out(&mut known, &live, &mut report).await?;
        let missing = known.missing(&live).cloned().collect();
        self.put_in(&mut known, missing, &mut report, &mut progress)
            .await?;
        self.reached(&known, revision, &live);
        Ok(report)
    }

    /// Adds a document to the library (as [`Library::add`]), then to the store, and takes the one that it replaces out of the store. `progress`
    /// counts its chunks of all levels while they are put in. A document that is there already changes nothing.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the document in the library or not, and a store that [`reconcile`](Self::reconcile) repairs.
    ///
    /// # Errors
    /// [`AddError`]: the library's own error, or a document that is in the library and not in the store, `cancelled` among them.
    pub async fn add(
        &self,
        name: &str,
        parsed: Parsed,
        mut progress: impl FnMut(IndexingProgress) -> ControlFlow<()> + Send,
    ) -> Result<Document, AddError> {
        let (library, name) = (Arc::clone(&self.library), name.to_owned());
        let document = spawn_blocking(move || library.add(&name, &parsed))
            .await
            .map_err(AddError::Lost)??;
        let followed = self.follow(Some(&document.id), &mut progress).await;
        match followed {
            Ok(()) => Ok(document),
            Err(source) => Err(AddError::Index {
                document: Box::new(document),
                source,
            }),
        }
    }

    /// Takes a document out of the library, from when on nobody finds it, and then out of the store; false if the library has none with
    /// that id.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the document out of the library or in it, and a store that [`reconcile`](Self::reconcile) repairs.
    ///
    /// # Errors
    /// The library's, and the document is then still there; or the store's, and it is gone all the same.
    pub async fn remove(&self, document_id: &str) -> Result<bool, IndexError> {
        let (library, id) = (Arc::clone(&self.library), document_id.to_owned());
        let removed = spawn_blocking(move || library.remove(&id)).await??;
        self.follow(None, &mut |_| ControlFlow::Continue(())).await?;
        Ok(removed)
    }

    /// Documents of the library that are not wholly in the store, as far as is known; all of them before the first call. They are found by
    /// their words only.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn behind(&self) -> BTreeSet<String> {
        let known = self.known.lock().await;
        known.missing(&self.library.document_ids()).cloned().collect()
    }

    /// The [`Library::revision`] up to which every change is in the store; 0 before the first call. What was searched for since a revision has
    /// seen all changes up to that one, and nothing else is sure: a document that failed holds it back until it is repaired.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// What the library had at a revision, or at a newer one, was brought in.
    fn reached(&self, known: &StoreContents, revision: u64, live: &BTreeSet<String>) {
        // A document that went meanwhile needs no place in the store.
        if known.missing(live).all(|id| !self.library.is_live(id)) {
            self.revision.fetch_max(revision, Ordering::Release);
        }
    }

    /// Takes out what went, and puts one document in.
    async fn follow(
        &self,
        document_id: Option<&str>,
        progress: &mut (impl FnMut(IndexingProgress) -> ControlFlow<()> + Send),
    ) -> Result<(), IndexError> {
        let mut known = self.known.lock().await;
        let mut report = IndexReport::default();
        self.compare(&mut known, &mut report).await?;
        let (revision, live) = (self.library.revision(), self.library.document_ids());
        self.take_out(&mut known, &live, &mut report).await?;
        let wanted = known.missing(&live).filter(|id| Some(id.as_str()) == document_id);
        let wanted = wanted.cloned().collect();
        self.put_in(&mut known, wanted, &mut report, progress).await?;
        self.reached(&known, revision, &live);
        report.failed.pop().map_or(Ok(()), |failed| Err(failed.error))
    }

    /// Finds out what the store holds, once.
    async fn compare(&self, known: &mut StoreContents, report: &mut IndexReport) -> Result<(), IndexError> {
        if known.compared {
            return Ok(());
        }
        known.documents.clear();
        let mut stored = self.store.documents().await?;
        if !stored.remove(&self.mark) {
            // Another mark goes first: from then on nobody takes what is left for whole.
            let (marks, others): (Vec<_>, Vec<_>) = stored.into_iter().partition(|id| id.starts_with(MARK));
            for id in marks.iter().chain(&others) {
                self.store.remove_document(id).await?;
            }
            report.removed += others.len();
            self.store.upsert(vec![self.marking()]).await?;
            known.compared = true;
            return Ok(());
        }
        let expected = |id: &str| self.library.levels(id).map(|counts| total(&counts));
        let mut wanted = BTreeMap::new();
        for id in stored {
            match expected(&id) {
                Some(chunks) => drop(wanted.insert(id, chunks)),
                None => {
                    self.store.remove_document(&id).await?;
                    report.removed += 1;
                }
            }
        }
        // No document has more chunks than its own, so the sum is right only where each is.
        let all = self.store.count(Filter::default()).await?;
        let whole = all == wanted.values().sum::<u64>() + 1;
        for (id, chunks) in wanted {
            let held = if whole || self.store.count(Filter::default().document(&id)).await? == chunks {
                DocumentState::Complete
            } else {
                DocumentState::Partial
            };
            known.documents.insert(id, held);
        }
        known.compared = true;
        Ok(())
    }

    async fn take_out(
        &self,
        known: &mut StoreContents,
        live: &BTreeSet<String>,
        report: &mut IndexReport,
    ) -> Result<(), IndexError> {
        let gone: Vec<String> = known
            .documents
            .keys()
            .filter(|id| !live.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            self.store.remove_document(&id).await?;
            known.documents.remove(&id);
            report.removed += 1;
        }
        Ok(())
    }

    async fn put_in(
        &self,
        known: &mut StoreContents,
        documents: Vec<String>,
        report: &mut IndexReport,
        progress: &mut (impl FnMut(IndexingProgress) -> ControlFlow<()> + Send),
    ) -> Result<(), IndexError> {
        let chunks = |id: &String| self.library.levels(id).map_or(0, |counts| total(&counts));
        let mut progress = ProgressCounter {
            done: 0,
            total: documents.iter().map(chunks).sum(),
            tell: progress,
        };
        if !documents.is_empty() {
            progress.add(0)?;
        }
        let mut documents = documents.into_iter();
        let mut failures = 0;
        while let Some(document_id) = documents.next() {
            known
                .documents
                .insert(document_id.clone(), DocumentState::Partial);
            match self.put(&document_id, &mut progress).await {
                Ok(true) => {
                    known.documents.insert(document_id, DocumentState::Complete);
                    report.indexed += 1;
                    failures = 0;
                }
                // It was taken out of the library meanwhile.
                Ok(false) => {
                    self.store.remove_document(&document_id).await?;
                    known.documents.remove(&document_id);
                }
                Err(IndexError::Cancelled) => return Err(IndexError::Cancelled),
                Err(error) => {
                    failures += 1;
                    let stop = error.concerns_all_documents() || failures == MAX_FAILURES;
                    report.failed.push(IndexFailure { document_id, error });
                    if stop {
                        report.untried = documents.len();
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts all chunks of a document in, batch by batch; false if the document is gone.
    async fn put<F>(
        &self,
        document_id: &str,
        progress: &mut ProgressCounter<'_, F>,
    ) -> Result<bool, IndexError>
    where
        F: FnMut(IndexingProgress) -> ControlFlow<()> + Send,
    {
        let mut reader = Reader::new(Arc::clone(&self.library), document_id);
        loop {
            let (batch, back) = spawn_blocking(move || (reader.batch(), reader)).await?;
            reader = back;
            match batch? {
                Batch::Removed => return Ok(false),
                Batch::End => return Ok(self.library.is_live(document_id)),
                Batch::Chunks(chunks) => {
                    let count = chunks.len();
                    let points = self.points(chunks).await?;
                    self.store.upsert(points).await?;
                    progress.add(count)?;
                }
            }
        }
    }

    /// The chunks with their vectors.
    async fn points(&self, chunks: Vec<Chunk>) -> Result<Vec<Point>, IndexError> {
        let Some(embedder) = &self.embedder else {
            return Ok(chunks.into_iter().map(Point::new).collect());
        };
        let texts: Vec<String> = chunks.iter().map(Chunk::indexed_text).collect();
        // Passages are what is ranked, so only they are worth hundreds of vectors each.
        let ranked = |chunk: &Chunk| self.store.vectors().tokens && chunk.level == Level::Passage;
        let with_tokens = chunks.iter().zip(&texts).filter(|(chunk, _)| ranked(chunk));
        let with_tokens: Vec<String> = with_tokens.map(|(_, text)| text.clone()).collect();
        let tokens_wanted = with_tokens.len();
        let mut tokens = if tokens_wanted > 0 {
            embedder.embed_tokens(Side::Passage, with_tokens).await?
        } else {
            Vec::new()
        };
        let dense = embedder.embed(Side::Passage, texts).await?;
        if dense.len() != chunks.len() || tokens.len() != tokens_wanted {
            return Err(ModelError::Failed("another number of vectors than texts".into()).into());
        }
        let mut tokens = tokens.drain(..);
        let mut point = |(chunk, vector): (Chunk, Vec<f32>)| {
            let own = if ranked(&chunk) { tokens.next() } else { None };
            Point::new(chunk).dense(vector).tokens(own.unwrap_or_default())
        };
        Ok(chunks.into_iter().zip(dense).map(&mut point).collect())
    }

    /// The chunk that marks the store as made this way. Its only word is nobody's.
    fn marking(&self) -> Point {
        let word = self.mark.replace(['-'], "");
        Point::new(Chunk::new(&self.mark, "index", 0, &word))
    }
}

impl LibraryFollower for Indexer {
    fn name(&self) -> &str {
        "store"
    }

    fn library(&self) -> &Arc<Library> {
        &self.library
    }

    fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
        Box::pin(async move {
            let report = Indexer::reconcile(self, |_| ControlFlow::Continue(())).await?;
            Ok(report.into())
        })
    }
}

impl From<IndexReport> for FollowReport {
    fn from(report: IndexReport) -> Self {
        let failure = |failure: IndexFailure| FollowFailure::new(failure.document_id, failure.error);
        Self {
            added: report.indexed,
            removed: report.removed,
            failed: report.failed.into_iter().map(failure).collect(),
            untried: report.untried,
            no_room: Vec::new(),
        }
    }
}

/// The document that marks a store which is filled in this way: by this embedder, cut like this.
fn mark_of(store: &dyn Store, embedder: Option<&dyn Embed>) -> String {
    let vectors = store.vectors();
    let name = embedder.map_or("", Embed::name);
    let made = format!(
        "levels {}\ndimensions {}\ntokens {}\nembedder {name}",
        LEVELS_VERSION, vectors.dimensions, vectors.tokens
    );
    let digest = Sha256::digest(made.as_bytes());
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK}{hex}")
}

/// The lengths of the embedder's vectors and of the store's, where they differ.
pub(crate) fn other_vectors(embedder: Option<&dyn Embed>, store: &dyn Store) -> Option<(usize, usize)> {
    let wanted = store.vectors().dimensions;
    let found = embedder.map(Embed::dimensions)?;
    (found != wanted).then_some((found, wanted))
}

fn total(counts: &ragwire::event::Levels) -> u64 {
    u64::from(counts.l1) + u64::from(counts.l2) + u64::from(counts.l3)
}

/// Counts for a progress callback.
struct ProgressCounter<'a, F> {
    done: usize,
    total: u64,
    tell: &'a mut F,
}

impl<F: FnMut(IndexingProgress) -> ControlFlow<()>> ProgressCounter<'_, F> {
    fn add(&mut self, chunks: usize) -> Result<(), IndexError> {
        self.done += chunks;
        let progress = IndexingProgress {
            done_chunks: self.done,
            total_chunks: usize::try_from(self.total).unwrap_or(usize::MAX),
        };
        match (self.tell)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            // What is all done is not cancelled.
            ControlFlow::Break(()) if progress.done_chunks == progress.total_chunks => Ok(()),
            ControlFlow::Break(()) => Err(IndexError::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests;
