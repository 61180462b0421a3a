//! Keeps a [`Store`] in step with a [`Library`]: the chunks of each document on all levels, with
//! their vectors.
//!
//! The library is the source of truth and the store can always be rebuilt from it, so no progress
//! is recorded. Missing chunks are detected by counting: the library determines the chunks of a
//! document, and the IDs of a document never refer to different text. The exception is a store that
//! was filled by another embedder or another way of cutting, which has the same counts. A mark in
//! the store, a chunk of a document that does not exist, therefore names both; a store without the
//! right mark is emptied. **So a store belongs to one library**: everything else in it is removed.
//!
//! A document that is not in the library is never returned, even if the store still holds it: see
//! [`tools`](super::tools). So a removal takes effect at once, and the store may follow later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::documents::LEVELS_VERSION;
use crate::models::{Boxed, Embed, ModelError, Side, StoredVectors};
use crate::search::store::{Filter, Point, Store};
use crate::{
    Chunk, Claim, Document, FollowError, FollowReport, IndexingProgress, Level, Library, LibraryError,
    LibraryFollower, Parsed, Work,
};
use reader::{Batch, Reader};
use report::ProgressCounter;

mod error;
mod reader;
mod report;

pub use error::{AddError, IndexError};
pub use report::{IndexFailure, IndexReport};

/// The most chunks that are embedded and stored at once.
const BATCH_CHUNKS: usize = 64;
/// The most text in them in bytes, about 8,000 tokens: 30 MiB of token vectors with 1,024
/// dimensions. A single chunk may be longer.
const BATCH_BYTES: usize = 32 * 1024;
/// After this many failed documents in a row the rest are not tried: the cause is probably not the
/// documents.
const MAX_FAILURES: usize = 8;
/// The prefix of the mark's document ID. The ID of a document in a library never contains an `x`.
const MARK: &str = "index-";

/// Keeps a vector store in step with a library. Concurrent calls wait for each other.
///
/// ```
/// # async fn start(store: std::sync::Arc<dyn ragwire_rag::search::store::Store>, embedder: std::sync::Arc<dyn ragwire_rag::models::Embed>) -> Result<(), Box<dyn std::error::Error>> {
/// use std::{ops::ControlFlow, sync::Arc};
/// use ragwire_rag::{Indexer, Library, LibraryLimits};
///
/// let library = Arc::new(Library::open("data".as_ref(), LibraryLimits::default())?);
/// let indexer = Indexer::new(library, store, Some(embedder))?;
/// let report = indexer.reconcile(|_| ControlFlow::Continue(())).await?;
/// for failed in &report.failed {
///     eprintln!("{} is not found by its meaning: {}", failed.document_id, failed.error);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Indexer {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    embedder: Option<Arc<dyn Embed>>,
    /// The document ID of the mark.
    mark: String,
    contents: Mutex<StoreContents>,
    /// The library's revision up to which the store is in step.
    revision: AtomicU64,
}

/// The documents in the store, as far as they are known.
#[derive(Debug, Default)]
struct StoreContents {
    /// Whether `documents` matches what the store holds.
    compared: bool,
    documents: BTreeMap<String, DocumentState>,
}

/// Who changes a document in the store of a shared library.
enum Turn {
    /// This host. Without a claim, because the library is not shared.
    Here(Option<Claim>),
    /// No host: another one has done it.
    Done,
    /// Another host.
    Elsewhere,
}

/// How much of a document the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentState {
    Complete,
    /// Between nothing and almost everything: storing was begun.
    Partial,
}

impl StoreContents {
    /// Returns the documents of `live` that the store does not hold completely.
    fn missing<'a>(&self, live: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
        live.iter()
            .filter(|id| self.documents.get(*id) != Some(&DocumentState::Complete))
    }
}

impl Indexer {
    /// Creates an indexer that keeps `store` in step with `library`. Without an embedder, or with a
    /// store without vectors, search finds chunks only by their words. Nothing is read or changed
    /// before the first call.
    ///
    /// # Errors
    ///
    /// `other_vectors` if the embedder's vectors do not have the store's length.
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
            contents: Mutex::default(),
            revision: AtomicU64::new(0),
        })
    }

    /// Compares store and library, adds missing and incomplete documents, and removes those that
    /// the library does not hold. Call it at start and after a failure; if nothing has changed it
    /// makes two calls to the store. `progress` counts the stored chunks of all levels.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a store that the next call repairs.
    ///
    /// # Errors
    ///
    /// The error that prevented the comparison, or `cancelled`. A document that fails is listed in
    /// the report.
    pub async fn reconcile(
        &self,
        mut progress: impl FnMut(IndexingProgress) -> ControlFlow<()> + Send,
    ) -> Result<IndexReport, IndexError> {
        let mut known = self.contents.lock().await;
        known.compared = false;
        let mut report = IndexReport::default();
        self.compare(&mut known, &mut report).await?;
        let (revision, live) = (self.library.revision(), self.library.document_ids());
        self.remove_documents(&mut known, &live, &mut report).await?;
        let missing = known.missing(&live).cloned().collect();
        self.add_documents(&mut known, missing, &mut report, &mut progress)
            .await?;
        self.record_revision(&known, revision, &live);
        Ok(report)
    }

    /// Adds a document to the library (see [`Library::add`]), then to the store, and removes the
    /// document that it replaces from the store. `progress` counts its stored chunks of all levels.
    /// Adding a document that is already there changes nothing.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the document in the library or not, and a store that
    /// [`reconcile`](Self::reconcile) repairs.
    ///
    /// # Errors
    ///
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
        let updated = self.update(Some(&document.id), &mut progress).await;
        match updated {
            Ok(()) => Ok(document),
            Err(source) => Err(AddError::Index {
                document: Box::new(document),
                source,
            }),
        }
    }

    /// Removes a document from the library, so that searches no longer return it, and then from the
    /// store. Returns `false` if the library has no document with that ID.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the document in the library or not, and a store that
    /// [`reconcile`](Self::reconcile) repairs.
    ///
    /// # Errors
    ///
    /// The library's errors, in which case the document is still there; or the store's, in which
    /// case it is removed from the library all the same.
    pub async fn remove(&self, document_id: &str) -> Result<bool, IndexError> {
        let (library, id) = (Arc::clone(&self.library), document_id.to_owned());
        let removed = spawn_blocking(move || library.remove(&id)).await??;
        self.update(None, &mut |_| ControlFlow::Continue(())).await?;
        Ok(removed)
    }

    /// Removes the vectors of removed documents from their file, if it has more than `spare` vectors
    /// beyond those of the library's chunks. Equal chunks share one vector, so as many removed ones as
    /// there are equal chunks may stay as well.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// The library's errors; nothing is removed then.
    pub async fn sweep(&self, vectors: &StoredVectors, spare: u64) -> Result<(), IndexError> {
        // While nothing is added or removed.
        let _contents = self.contents.lock().await;
        let live = self.library.document_ids();
        let chunks = live.iter().filter_map(|id| self.library.levels(id));
        let allowed = chunks.map(|counts| total(&counts)).sum::<u64>() + spare;
        let library = Arc::clone(&self.library);
        let texts = move |pass: &mut dyn FnMut(&str)| {
            for id in live {
                let mut reader = Reader::new(Arc::clone(&library), &id);
                while let Batch::Chunks(chunks) = reader.batch()? {
                    chunks.iter().for_each(|chunk| pass(&chunk.indexed_text()));
                }
            }
            Ok::<_, LibraryError>(())
        };
        Ok(vectors.sweep(allowed, texts).await?)
    }

    /// Returns the documents of the library that are not completely in the store, as far as is
    /// known; before the first call, all of them. Search finds them only by their words.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn behind(&self) -> BTreeSet<String> {
        let known = self.contents.lock().await;
        known.missing(&self.library.document_ids()).cloned().collect()
    }

    /// Returns the [`Library::revision`] up to which every change is in the store; 0 before the
    /// first call. A search that starts after this revision was reached sees all changes up to it;
    /// later changes may or may not be visible. A document that failed holds the revision back
    /// until it is repaired.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Records that the store has all documents of this revision.
    fn record_revision(&self, known: &StoreContents, revision: u64, live: &BTreeSet<String>) {
        // A document removed in the meantime does not have to be in the store.
        if known.missing(live).all(|id| !self.library.is_live(id)) {
            self.revision.fetch_max(revision, Ordering::Release);
        }
    }

    /// Removes what the library does not hold, and adds one document.
    async fn update(
        &self,
        document_id: Option<&str>,
        progress: &mut (impl FnMut(IndexingProgress) -> ControlFlow<()> + Send),
    ) -> Result<(), IndexError> {
        let mut known = self.contents.lock().await;
        let mut report = IndexReport::default();
        self.compare(&mut known, &mut report).await?;
        let (revision, live) = (self.library.revision(), self.library.document_ids());
        self.remove_documents(&mut known, &live, &mut report).await?;
        let wanted = known.missing(&live).filter(|id| Some(id.as_str()) == document_id);
        let wanted = wanted.cloned().collect();
        self.add_documents(&mut known, wanted, &mut report, progress)
            .await?;
        self.record_revision(&known, revision, &live);
        report.failed.pop().map_or(Ok(()), |failed| Err(failed.error))
    }

    /// Reads what the store holds, unless it is known.
    async fn compare(&self, known: &mut StoreContents, report: &mut IndexReport) -> Result<(), IndexError> {
        if known.compared {
            return Ok(());
        }
        known.documents.clear();
        let mut stored = self.store.documents().await?;
        // After that: a document of another host is in the library before it is in the store.
        let library = Arc::clone(&self.library);
        spawn_blocking(move || library.refresh()).await??;
        if !stored.remove(&self.mark) {
            // Remove the other mark first: from then on, an interrupted run is not mistaken for a
            // complete store.
            let (marks, others): (Vec<_>, Vec<_>) = stored.into_iter().partition(|id| id.starts_with(MARK));
            for id in marks.iter().chain(&others) {
                self.store.remove_document(id).await?;
            }
            report.removed += others.len();
            self.store.upsert(vec![self.mark_point()]).await?;
            known.compared = true;
            return Ok(());
        }
        let expected = |id: &str| self.library.levels(id).map(|counts| total(&counts));
        let mut wanted = BTreeMap::new();
        for id in stored {
            match expected(&id) {
                Some(chunks) => drop(wanted.insert(id, chunks)),
                None => {
                    self.remove_document(&id, report).await?;
                }
            }
        }
        // No document has more chunks than the library gives it, so the sum is right only if each
        // count is.
        let all = self.store.count(Filter::default()).await?;
        let whole = all == wanted.values().sum::<u64>() + 1;
        for (id, chunks) in wanted {
            let state = if whole || self.store.count(Filter::default().document(&id)).await? == chunks {
                DocumentState::Complete
            } else {
                DocumentState::Partial
            };
            known.documents.insert(id, state);
        }
        known.compared = true;
        Ok(())
    }

    async fn remove_documents(
        &self,
        known: &mut StoreContents,
        live: &BTreeSet<String>,
        report: &mut IndexReport,
    ) -> Result<(), IndexError> {
        let obsolete: Vec<String> = known
            .documents
            .keys()
            .filter(|id| !live.contains(*id))
            .cloned()
            .collect();
        for id in obsolete {
            if self.remove_document(&id, report).await? {
                known.documents.remove(&id);
            }
        }
        Ok(())
    }

    /// Removes a document from the store that is not in the library. Returns `false` if another host is
    /// changing it.
    async fn remove_document(&self, id: &str, report: &mut IndexReport) -> Result<bool, IndexError> {
        let _claim = match self.turn(id, 0).await? {
            Turn::Here(claim) => claim,
            Turn::Done => return Ok(true),
            Turn::Elsewhere => {
                report.elsewhere += 1;
                return Ok(false);
            }
        };
        // Another host may have added it again. It then finds that the store has it.
        if !self.library.is_shared() || !self.library.is_live(id) {
            self.store.remove_document(id).await?;
            report.removed += 1;
        }
        Ok(true)
    }

    /// Decides who brings a document to this number of chunks. Hosts that share a library share its
    /// store too, and one of them does the work.
    async fn turn(&self, id: &str, chunks: u64) -> Result<Turn, IndexError> {
        if !self.library.is_shared() {
            return Ok(Turn::Here(None));
        }
        let filter = Filter::default().document(id);
        if self.store.count(filter.clone()).await? == chunks {
            return Ok(Turn::Done);
        }
        let (library, work) = (Arc::clone(&self.library), Work::Document(id.to_owned()));
        let claimed = spawn_blocking(move || {
            let claim = library.claim(&work)?;
            library.refresh()?;
            Ok::<_, LibraryError>(claim)
        });
        let Some(claim) = claimed.await?? else {
            return Ok(Turn::Elsewhere);
        };
        if self.store.count(filter).await? == chunks {
            return Ok(Turn::Done);
        }
        Ok(Turn::Here(Some(claim)))
    }

    async fn add_documents(
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
            callback: progress,
        };
        if !documents.is_empty() {
            progress.add(0)?;
        }
        let mut documents = documents.into_iter();
        let mut failures = 0;
        while let Some(document_id) = documents.next() {
            let _claim = match self.turn(&document_id, chunks(&document_id)).await? {
                Turn::Here(claim) => claim,
                Turn::Done => {
                    known.documents.insert(document_id, DocumentState::Complete);
                    continue;
                }
                Turn::Elsewhere => {
                    report.elsewhere += 1;
                    continue;
                }
            };
            known
                .documents
                .insert(document_id.clone(), DocumentState::Partial);
            match self.store_document(&document_id, &mut progress).await {
                Ok(true) => {
                    known.documents.insert(document_id, DocumentState::Complete);
                    report.indexed += 1;
                    failures = 0;
                }
                // The document was removed from the library in the meantime.
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

    /// Stores all chunks of a document in batches. Returns `false` if the document was removed.
    async fn store_document<F>(
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

    /// Adds the vectors to the chunks.
    async fn points(&self, chunks: Vec<Chunk>) -> Result<Vec<Point>, IndexError> {
        let Some(embedder) = &self.embedder else {
            return Ok(chunks.into_iter().map(Point::new).collect());
        };
        let texts: Vec<String> = chunks.iter().map(Chunk::indexed_text).collect();
        // Only passages are reranked, so only they are worth hundreds of vectors each.
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
            return Err(ModelError::Failed(
                "the embedder returned another number of vectors than texts".into(),
            )
            .into());
        }
        let mut tokens = tokens.drain(..);
        let mut point = |(chunk, vector): (Chunk, Vec<f32>)| {
            let tokens_of_chunk = if ranked(&chunk) { tokens.next() } else { None };
            Point::new(chunk)
                .dense(vector)
                .tokens(tokens_of_chunk.unwrap_or_default())
        };
        Ok(chunks.into_iter().zip(dense).map(&mut point).collect())
    }

    /// The chunk that marks how the store was filled. Its only word matches no query.
    fn mark_point(&self) -> Point {
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
            let report = Self::reconcile(self, |_| ControlFlow::Continue(())).await?;
            Ok(report.into())
        })
    }
}

/// Returns the document ID that marks a store filled by this embedder and this way of cutting.
fn mark_of(store: &dyn Store, embedder: Option<&dyn Embed>) -> String {
    let vectors = store.vectors();
    let name = embedder.map_or_else(String::new, Embed::identity);
    let made = format!(
        "levels {}\ndimensions {}\ntokens {}\nembedder {name}",
        LEVELS_VERSION, vectors.dimensions, vectors.tokens
    );
    let digest = Sha256::digest(made.as_bytes());
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK}{hex}")
}

/// Returns the lengths of the embedder's and the store's vectors if they differ.
pub(crate) fn other_vectors(embedder: Option<&dyn Embed>, store: &dyn Store) -> Option<(usize, usize)> {
    let wanted = store.vectors().dimensions;
    let found = embedder.map(Embed::dimensions)?;
    (found != wanted).then_some((found, wanted))
}

fn total(counts: &ragwire::event::Levels) -> u64 {
    u64::from(counts.l1) + u64::from(counts.l2) + u64::from(counts.l3)
}

#[cfg(test)]
mod tests;
