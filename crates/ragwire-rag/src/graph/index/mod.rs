//! Keeps a graph in step with a library: what the library has and the graph has not is read, what it has no more is taken out.
//!
//! There is no list of changes to lose: the two sets of documents are compared, at start as later. Documents that another extractor read are
//! read again. It decides what is read; what is found is the extractor's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::extract::{ExtractGraph, Extraction};
use super::names::EntityNames;
use super::store::{Graph, GraphError};
use crate::models::{Boxed, ModelError};
use crate::{Chunk, FollowError, FollowReport, Library, LibraryError, LibraryFollower};

/// Passages given to an extractor at a time.
const BATCH: usize = 64;

/// A graph could not be brought in step. What was done until then stays, and the next try goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphIndexError {
    /// The library could not be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The graph could not be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The names could not be embedded; the triples are in.
    #[error("the names of entities could not be embedded")]
    Names(#[source] ModelError),
    /// The thread that did it was lost.
    #[error("the thread that reads the library was lost")]
    Lost(#[source] tokio::task::JoinError),
}

impl GraphIndexError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Library(error) => error.code(),
            Self::Graph(error) => error.code(),
            Self::Names(error) => error.code(),
            Self::Lost(_) => "graph_thread_lost",
        }
    }
}

/// What was done to bring a graph in step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncReport {
    /// Documents whose triples were put in.
    pub added: usize,
    /// Documents whose triples were taken out.
    pub removed: usize,
    /// Passages that were read.
    pub passages: usize,
    /// How many passages were read by patterns in a model's place, by why.
    pub fallbacks: BTreeMap<&'static str, usize>,
    /// Documents that the graph has no room for, by id. They are tried again when another one has gone.
    pub no_room: Vec<String>,
}

/// Keeps a graph in step with a library.
#[derive(Debug)]
pub struct GraphIndex {
    library: Arc<Library>,
    graph: Arc<Graph>,
    extractor: Arc<dyn ExtractGraph>,
    names: Option<EntityNames>,
    /// One at a time; who comes second finds most of it done.
    syncing: tokio::sync::Mutex<()>,
    /// Documents that found no room.
    refused: Mutex<BTreeSet<String>>,
}

impl GraphIndex {
    /// What `extractor` finds in `library` is to stand in `graph`. Nothing is done yet.
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

    /// Embeds the names of entities as well.
    #[must_use]
    pub fn names(mut self, names: EntityNames) -> Self {
        self.names = Some(names);
        self
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// What finds its entities by the meaning of their names, where there is an embedder.
    pub fn entity_names(&self) -> Option<&EntityNames> {
        self.names.as_ref()
    }

    /// Brings the graph in step with the library as it is now.
    ///
    /// # Cancel safety
    /// A document is in whole or not at all; the next call goes on.
    ///
    /// # Errors
    /// [`GraphIndexError`]. A graph without room is none: that is told by [`SyncReport::no_room`].
    pub async fn sync(&self) -> Result<SyncReport, GraphIndexError> {
        let _syncing = self.syncing.lock().await;
        let mut synced = SyncReport::default();
        let name = self.extractor.name().to_owned();
        let (gone, missing) = self
            .blocking(move |library, graph| {
                let wanted = library.document_ids();
                let held = graph.documents();
                let gone: Vec<String> = held
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
                (gone, missing)
            })
            .await?;
        for id in gone {
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

    /// Brings the graph in step now and after every change of the library. It ends only when it is dropped.
    ///
    /// # Cancel safety
    /// As [`sync`](Self::sync).
    pub async fn follow(&self, mut told: impl FnMut(Result<SyncReport, GraphIndexError>)) {
        let mut changes = self.library.changes();
        loop {
            // Seen before it is done: what changes meanwhile wakes again.
            changes.borrow_and_update();
            told(self.sync().await);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn add(&self, id: String, synced: &mut SyncReport) -> Result<(), GraphIndexError> {
        let of = id.clone();
        let Some(passages) = self.blocking(move |library, _| library.passages(&of)).await?? else {
            // It went in the meantime, which wakes whoever follows.
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
        let mut report = Self::default();
        report.added = synced.added;
        report.removed = synced.removed;
        report.no_room = synced.no_room;
        report
    }
}

#[cfg(test)]
mod tests;
