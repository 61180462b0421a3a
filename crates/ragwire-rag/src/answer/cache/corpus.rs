//! What an answer was given from, and whether it would be given today: the seam [`Corpus`] and its two implementations.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use crate::Change;
use crate::models::Boxed;
use crate::search::store::{Filter, Search, Store, StoreError};
use crate::{Library, LibraryError};

/// From this cosine of a question and a chunk on, the chunk might have been found for it.
pub const MIN_KIN: f32 = 0.25;

/// The documents behind a cache's answers.
pub trait Corpus: Debug + Send + Sync + 'static {
    /// The revision that a search sees now: every document that came up to it can be found.
    fn revision(&self) -> u64;

    /// What changed after a revision, oldest first, also what no search sees yet; nothing where that is not known any more.
    fn changes_since(&self, revision: u64) -> Option<Vec<Change>>;

    /// Whether a search for a question in this one document would bring anything; true where that cannot be known. `vector` is the
    /// question's, where there is an embedder.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    fn brings<'a>(
        &'a self,
        document_id: &'a str,
        question: &'a str,
        vector: Option<&'a [f32]>,
    ) -> Boxed<'a, bool>;
}

/// A library that is searched by its own words.
#[derive(Debug, Clone)]
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

    /// Whether a passage of the document holds a word of the question. It reads the document, on one of tokio's blocking threads.
    fn brings<'a>(
        &'a self,
        document_id: &'a str,
        question: &'a str,
        _: Option<&'a [f32]>,
    ) -> Boxed<'a, bool> {
        let (library, document_id) = (Arc::clone(&self.library), document_id.to_owned());
        let wanted: HashSet<String> = library.terms(question).into_iter().collect();
        let holds = move || -> Result<bool, LibraryError> {
            let passages = library.passages(&document_id)?.unwrap_or_default();
            Ok(passages.iter().any(|passage| {
                let heading = passage.heading.as_deref().unwrap_or_default();
                let mut held = library
                    .terms(&passage.text)
                    .into_iter()
                    .chain(library.terms(heading));
                held.any(|stem| wanted.contains(&stem))
            }))
        };
        Box::pin(async move {
            let held = tokio::task::spawn_blocking(holds).await;
            held.ok().and_then(Result::ok).unwrap_or(true)
        })
    }
}

/// A library that is searched in a store, which follows it.
pub struct StoreCorpus {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    in_step: Box<dyn Fn() -> u64 + Send + Sync>,
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
    /// `in_step` says the revision of `library` up to which `store` has every change; it is asked often and must not wait.
    pub fn new(
        library: Arc<Library>,
        store: Arc<dyn Store>,
        in_step: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            library,
            store,
            in_step: Box::new(in_step),
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
        (self.in_step)()
    }

    fn changes_since(&self, revision: u64) -> Option<Vec<Change>> {
        self.library.changes_since(revision)
    }

    /// Whether the store finds a word of the question in the document, or a chunk of at least [`MIN_KIN`]: of vectors, some are always nearest.
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
                Ok::<_, StoreError>(nearest.is_some_and(|score| score >= MIN_KIN))
            };
            brings.await.unwrap_or(true)
        })
    }
}
