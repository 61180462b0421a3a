//! The documents behind cached answers: the trait [`Corpus`] and its two implementations.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use crate::Change;
use crate::models::Boxed;
use crate::search::store::{Filter, Search, Store, StoreError};
use crate::{Library, LibraryError};

/// Least cosine of a question and a chunk that a search might find for it.
const MIN_SIMILARITY: f32 = 0.25;

/// The documents behind a cache's answers.
pub trait Corpus: Debug + Send + Sync + 'static {
    /// The revision that a search sees now: every document added up to it can be found.
    fn revision(&self) -> u64;

    /// The changes after a revision, oldest first, including those that no search sees yet. `None`
    /// if they are no longer known.
    fn changes_since(&self, revision: u64) -> Option<Vec<Change>>;

    /// Whether searching this one document for a question would find anything; `true` if that
    /// cannot be determined. `vector` is the question's vector, if there is an embedder.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    fn brings<'a>(
        &'a self,
        document_id: &'a str,
        question: &'a str,
        vector: Option<&'a [f32]>,
    ) -> Boxed<'a, bool>;
}

/// A library whose own word index is searched.
#[derive(Clone, Debug)]
pub struct LibraryCorpus {
    library: Arc<Library>,
}

impl LibraryCorpus {
    /// The documents of `library`.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }
}

impl Corpus for LibraryCorpus {
    fn revision(&self) -> u64 {
        self.library.revision()
    }

    fn changes_since(&self, revision: u64) -> Option<Vec<Change>> {
        self.library.changes_since(revision)
    }

    /// Returns whether a passage of the document contains a word of the question. Reads the
    /// document on one of tokio's blocking threads.
    fn brings<'a>(
        &'a self,
        document_id: &'a str,
        question: &'a str,
        _: Option<&'a [f32]>,
    ) -> Boxed<'a, bool> {
        let document_id = document_id.to_owned();
        let wanted: HashSet<String> = self.library.terms(question).into_iter().collect();
        let holds = move |library: &Library| -> Result<bool, LibraryError> {
            let passages = library.passages(&document_id)?.unwrap_or_default();
            Ok(passages.iter().any(|passage| {
                let heading = passage.heading.as_deref().unwrap_or_default();
                let mut stems = library
                    .terms(&passage.text)
                    .into_iter()
                    .chain(library.terms(heading));
                stems.any(|stem| wanted.contains(&stem))
            }))
        };
        Box::pin(async move {
            let held = self.library.reading(holds).await;
            held.ok().and_then(Result::ok).unwrap_or(true)
        })
    }
}

/// A library that is searched through a store that follows it.
pub struct StoreCorpus {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    indexed_revision: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Debug for StoreCorpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("StoreCorpus");
        debug
            .field("store", &self.store)
            .field("revision", &self.revision());
        debug.finish_non_exhaustive()
    }
}

impl StoreCorpus {
    /// `indexed_revision` returns the revision of `library` up to which `store` has every change.
    /// It is called often and must not block.
    pub fn new(
        library: Arc<Library>,
        store: Arc<dyn Store>,
        indexed_revision: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            library,
            store,
            indexed_revision: Box::new(indexed_revision),
        }
    }

    async fn search(&self, search: Search, document_id: &str) -> Result<Option<f32>, StoreError> {
        let filter = Filter::default().document(document_id);
        let hits = self.store.search(search.filter(filter)).await?;
        Ok(hits.first().map(|hit| hit.score))
    }
}

impl Corpus for StoreCorpus {
    fn revision(&self) -> u64 {
        (self.indexed_revision)()
    }

    fn changes_since(&self, revision: u64) -> Option<Vec<Change>> {
        self.library.changes_since(revision)
    }

    /// Returns whether the store finds a word of the question in the document, or a chunk with a
    /// cosine of at least 0.25: some vectors are always nearest, however different they are.
    fn brings<'a>(
        &'a self,
        document_id: &'a str,
        question: &'a str,
        vector: Option<&'a [f32]>,
    ) -> Boxed<'a, bool> {
        Box::pin(async move {
            let brings = async {
                if self
                    .search(Search::text(question, 1), document_id)
                    .await?
                    .is_some()
                {
                    return Ok(true);
                }
                let Some(vector) = vector else {
                    return Ok(false);
                };
                let nearest = self
                    .search(Search::dense(vector.to_vec(), 1), document_id)
                    .await?;
                Ok::<_, StoreError>(nearest.is_some_and(|score| score >= MIN_SIMILARITY))
            };
            brings.await.unwrap_or(true)
        })
    }
}
