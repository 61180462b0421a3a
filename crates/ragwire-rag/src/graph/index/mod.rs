//! Keeps a graph in step with a library: reads documents that the graph does not have, and removes
//! documents that the library no longer has. Private documents are left out, because a triple does not
//! know who may find it.
//!
//! No change can be missed, because the index does not rely on a list of changes: it compares the
//! two sets of documents, at start and later. Documents that a different extractor read are read
//! again. This module decides which documents are read; the extractor finds the triples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::extract::{ExtractGraph, Extraction};
use super::names::EntityNames;
use super::store::{Graph, GraphError};
use crate::models::{Boxed, ModelError};
use crate::{Chunk, FollowError, FollowReport, Library, LibraryError, LibraryFollower};

/// Number of passages that an extractor gets at a time.
const BATCH: usize = 64;

/// Why a graph could not be brought in step with its library. Documents that were already processed
/// stay, and the next attempt continues from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphIndexError {
    /// The library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The graph could not be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The names could not be embedded; the triples are stored.
    #[error("the names of entities could not be embedded")]
    Names(#[source] ModelError),
    /// The thread that reads the library panicked or was cancelled.
    #[error("the thread that reads the library panicked or was cancelled")]
    Lost(#[source] tokio::task::JoinError),
}

impl GraphIndexError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Library(error) => error.code(),
            Self::Graph(error) => error.code(),
            Self::Names(error) => error.code(),
            Self::Lost(_) => "graph_thread_lost",
        }
    }
}

/// The changes that brought a graph in step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncReport {
    /// Number of documents whose triples were added.
    pub added: usize,
    /// Number of documents whose triples were removed.
    pub removed: usize,
    /// Number of passages that were read.
    pub passages: usize,
    /// Number of passages that patterns read as a fallback for a model, by reason.
    pub fallbacks: BTreeMap<&'static str, usize>,
    /// IDs of documents for which the graph has no room. They are tried again after another
    /// document was removed.
    pub no_room: Vec<String>,
}

/// Keeps a graph in step with a library.
#[derive(Debug)]
pub struct GraphIndex {
    library: Arc<Library>,
    graph: Arc<Graph>,
    extractor: Arc<dyn ExtractGraph>,
    names: Option<EntityNames>,
    /// Allows one run at a time; a second one then finds little to do.
    syncing: tokio::sync::Mutex<()>,
    /// Documents for which there was no room.
    refused: Mutex<BTreeSet<String>>,
}

impl GraphIndex {
    /// An index that stores in `graph` what `extractor` finds in `library`. Does nothing until
    /// [`sync`](Self::sync) is called.
    pub fn new(library: Arc<Library>, graph: Arc<Graph>, extractor: Arc<dyn ExtractGraph>) -> Self {
        Self {
            library,
            graph,
            extractor,
            names: None,
            syncing: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Also embeds the names of entities.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.names = Some(names);
        self
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The index of entity names, if there is an embedder.
    pub fn entity_names(&self) -> Option<&EntityNames> {
        self.names.as_ref()
    }

    /// Brings the graph in step with the current library.
    ///
    /// # Cancel safety
    ///
    /// Each document is stored completely or not at all; the next call continues.
    ///
    /// # Errors
    ///
    /// [`GraphIndexError`]. A graph without room is not an error: [`SyncReport::no_room`] lists the
    /// documents.
    pub async fn sync(&self) -> Result<SyncReport, GraphIndexError> {
        let _syncing = self.syncing.lock().await;
        let mut synced = SyncReport::default();
        let name = self.extractor.name().to_owned();
        let (removed, missing) = self
            .blocking(move |library, graph| {
                let wanted = library.ids_found_by_all();
                let held = graph.documents();
                let removed: Vec<String> = held
                    .iter()
                    .filter(|one| !wanted.contains(&one.id))
                    .map(|one| one.id.clone())
                    .collect();
                let done: BTreeSet<String> = held
                    .into_iter()
                    .filter(|one| one.extractor == name)
                    .map(|one| one.id)
                    .collect();
                let missing: Vec<String> = wanted.difference(&done).cloned().collect();
                (removed, missing)
            })
            .await?;
        for id in removed {
            synced.removed += usize::from(self.blocking(move |_, graph| graph.remove(&id)).await??);
        }
        {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.retain(|id| missing.contains(id));
            if synced.removed > 0 {
                refused.clear();
            }
        }
        for id in missing {
            if self.is_refused(&id) {
                synced.no_room.push(id);
                continue;
            }
            self.add(id, &mut synced).await?;
        }
        if let Some(names) = &self.names
            && (synced.added > 0 || synced.removed > 0 || names.is_empty())
        {
            names.fill().await.map_err(GraphIndexError::Names)?;
        }
        Ok(synced)
    }

    /// Brings the graph in step now and after every change of the library, and passes each result
    /// to the callback. The future ends only when it is dropped.
    ///
    /// # Cancel safety
    ///
    /// As for [`sync`](Self::sync).
    pub async fn follow(&self, mut report: impl FnMut(Result<SyncReport, GraphIndexError>)) {
        let mut changes = self.library.changes();
        loop {
            // Marked as seen before the run, so that a change during the run starts another one.
            changes.borrow_and_update();
            report(self.sync().await);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn add(&self, id: String, synced: &mut SyncReport) -> Result<(), GraphIndexError> {
        let of = id.clone();
        let Some(passages) = self.blocking(move |library, _| library.passages(&of)).await?? else {
            // The document was removed in the meantime, and that change starts another run.
            return Ok(());
        };
        let mut triples = Vec::new();
        for batch in passages.chunks(BATCH) {
            let ordinals: Vec<u32> = batch.iter().map(|chunk: &Chunk| chunk.ordinal).collect();
            let found = self.extractor.extract(batch.to_vec()).await;
            for (
                ordinal,
                Extraction {
                    triples: found,
                    fallback,
                    ..
                },
            ) in ordinals.into_iter().zip(found)
            {
                if let Some(why) = fallback {
                    *synced.fallbacks.entry(why).or_default() += 1;
                }
                triples.push((ordinal, found));
            }
        }
        let (of, by) = (id.clone(), self.extractor.name().to_owned());
        match self
            .blocking(move |_, graph| graph.put(&of, &by, triples))
            .await?
        {
            Ok(()) => {
                synced.added += 1;
                synced.passages += passages.len();
                Ok(())
            }
            Err(GraphError::Full { .. }) => {
                self.refused
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(id.clone());
                synced.no_room.push(id);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn is_refused(&self, id: &str) -> bool {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Library, &Graph) -> T + Send + 'static,
    ) -> Result<T, GraphIndexError> {
        let (library, graph) = (Arc::clone(&self.library), Arc::clone(&self.graph));
        let working = tokio::task::spawn_blocking(move || work(&library, &graph));
        working.await.map_err(GraphIndexError::Lost)
    }
}

impl LibraryFollower for GraphIndex {
    fn name(&self) -> &str {
        "graph"
    }

    fn library(&self) -> &Arc<Library> {
        &self.library
    }

    fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
        Box::pin(async move { Ok(self.sync().await?.into()) })
    }
}

impl From<SyncReport> for FollowReport {
    fn from(synced: SyncReport) -> Self {
        Self {
            added: synced.added,
            removed: synced.removed,
            no_room: synced.no_room,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
