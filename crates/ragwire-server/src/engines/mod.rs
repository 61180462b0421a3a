//! The models and the store that the settings name, running.
//!
//! They are loaded or reached before any long work starts, kept in step with the library, and shut
//! down with the server.
//!
//! | file | contents |
//! |---|---|
//! | `local` (feature `llama`) | models in this process |
//! | `remote` | models behind servers |
//! | `store`, `location` | the store for chunks, and where it is |
//! | `step` | keeps the store in step with the library |
//! | `progress` | shows the progress of that |
//! | `summary` | what runs, in lines for the user who starts the server |
//! | `part` | flushing and shutting down |
//! | `error` | what failed, and what to do |
//!
//! This module does not depend on routes or the pipeline: the orchestrator takes the parts from
//! here.

mod error;
#[cfg(feature = "llama")]
mod local;
mod location;
mod part;
mod progress;
mod remote;
mod step;
mod store;
mod summary;

use std::sync::Arc;

use ragwire_rag::models::{Embed, LanguageModel, Rank, StoredVectors};
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};
use ragwire_rag::{Indexer, Library, SearchTools};

use crate::settings::Settings;
use crate::settings::engines::JudgeKind;

pub use error::EnginesError;
pub use location::StoreLocation;
use part::Part;
use summary::Summary;

/// The running models and the store.
///
/// # Drop
///
/// The models' threads end after their current step; [`shutdown`](Self::shutdown) waits for that.
#[derive(Debug)]
pub struct Engines {
    /// The language model; `None` means that answers quote sentences.
    pub llm: Option<Arc<dyn LanguageModel>>,
    /// The embedding model; `None` means lexical search only.
    pub embedder: Option<Arc<dyn Embed>>,
    /// Ranks passages: a reranker.
    pub ranker: Option<Arc<dyn Rank>>,
    /// The store for chunks.
    pub store: Arc<dyn Store>,
    /// The search tools over the store.
    pub tools: SearchTools,
    /// Fills the store.
    pub indexer: Arc<Indexer>,
    /// The vectors on disk, for a store in memory.
    vectors: Option<Arc<StoredVectors>>,
    library: Arc<Library>,
    location: StoreLocation,
    /// Whether the language model also judges: searches, evidence and claims.
    pub judges: bool,
    /// The number of passages whose sections and sentences a default store in memory holds.
    max_passages: usize,
    parts: Vec<Arc<dyn Part>>,
    summary: Summary,
}

/// The file of the vectors, beside the library.
const VECTORS_FILE: &str = "vectors.db";

/// The purpose for which the engines are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Answering questions: everything.
    Answering,
    /// Filling the store: the embedder and the store.
    Indexing,
}

/// The models that have been started so far.
#[derive(Debug, Default)]
struct Models {
    llm: Option<Arc<dyn LanguageModel>>,
    embedder: Option<Arc<dyn Embed>>,
    ranker: Option<Arc<dyn Rank>>,
    vectors: Option<Arc<StoredVectors>>,
    parts: Vec<Arc<dyn Part>>,
    summary: Summary,
}

/// The open store with its indexer and search tools.
#[derive(Debug)]
struct OpenStore {
    store: Arc<dyn Store>,
    location: StoreLocation,
    tools: SearchTools,
    indexer: Arc<Indexer>,
}

impl OpenStore {
    fn new(
        store: Arc<dyn Store>,
        location: StoreLocation,
        models: &Models,
        library: &Arc<Library>,
    ) -> Result<Self, EnginesError> {
        let indexer = Indexer::new(Arc::clone(library), Arc::clone(&store), models.embedder.clone())?;
        let tools = SearchTools::new(Arc::clone(library), Arc::clone(&store), models.embedder.clone())?;
        Ok(Self {
            store,
            location,
            tools,
            indexer: Arc::new(indexer),
        })
    }
}

impl Engines {
    /// Downloads and loads the models and opens the store. Cheap steps come first, so that a
    /// mistake is reported before a large model loads.
    ///
    /// The store is not in step yet: call [`reconcile`](Self::reconcile) once the library is
    /// filled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the models; those that are loading end once they are loaded.
    ///
    /// # Errors
    ///
    /// [`EnginesError`], whose message contains the fix. Models that were loaded by then are shut
    /// down.
    pub async fn start(settings: &Settings, library: &Arc<Library>) -> Result<Self, EnginesError> {
        Self::start_for(Purpose::Answering, settings, library).await
    }

    /// Starts only what fills the store. Returns `None` if the store is lost with the process.
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_indexing(
        settings: &Settings,
        library: &Arc<Library>,
    ) -> Result<Option<Self>, EnginesError> {
        if !store::is_persistent(settings) {
            return Ok(None);
        }
        Self::start_for(Purpose::Indexing, settings, library)
            .await
            .map(Some)
    }

    /// Starts the default: no models, and lexical search in memory. Tests use it too.
    pub fn embedded(library: &Arc<Library>) -> Self {
        let models = Models::default();
        let store = Arc::new(MemoryStore::new(Vectors::NONE));
        match OpenStore::new(store, StoreLocation::Memory, &models, library) {
            Ok(store) => Self::new(models, store, library),
            Err(_) => unreachable!("only an embedder can disagree with the store"),
        }
    }

    async fn start_for(
        purpose: Purpose,
        settings: &Settings,
        library: &Arc<Library>,
    ) -> Result<Self, EnginesError> {
        settings.check()?;
        let mut models = Models::default();
        let opened = models.start(purpose, settings).await;
        match opened.and_then(|(store, location)| OpenStore::new(store, location, &models, library)) {
            Ok(store) => {
                let mut engines = Self::new(models, store, library);
                engines.judges = settings.judge == JudgeKind::Model;
                Ok(engines)
            }
            Err(error) => {
                part::shut_down(&models.parts).await;
                Err(error)
            }
        }
    }

    fn new(mut models: Models, store: OpenStore, library: &Arc<Library>) -> Self {
        models.summary.set_store(&store.location);
        Self {
            llm: models.llm,
            embedder: models.embedder,
            ranker: models.ranker,
            store: store.store,
            tools: store.tools,
            indexer: store.indexer,
            vectors: models.vectors,
            library: Arc::clone(library),
            location: store.location,
            judges: false,
            max_passages: step::MAX_PASSAGES_IN_MEMORY,
            parts: models.parts,
            summary: models.summary,
        }
    }

    /// Returns one line per part for the user who starts the server: what runs, or what replaces
    /// it.
    pub fn summary(&self) -> [&str; 4] {
        self.summary.lines()
    }

    /// Shuts the models down and flushes the store. Waits for the current step of each model, at
    /// most 10 seconds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the shutdown.
    pub async fn shutdown(&self) {
        part::shut_down(&self.parts).await;
    }

    async fn flush(&self) {
        for part in &self.parts {
            part.flush().await;
        }
    }
}

impl Models {
    /// Starts everything. The embedder comes before the store, because it determines the vectors
    /// that the store holds, and the language model comes last, because it takes longest to load.
    async fn start(
        &mut self,
        purpose: Purpose,
        settings: &Settings,
    ) -> Result<(Arc<dyn Store>, StoreLocation), EnginesError> {
        if purpose == Purpose::Answering {
            remote::start_writer(self, settings).await?;
            remote::start_ranker(self, settings).await?;
        }
        remote::start_embedder(self, settings).await?;
        #[cfg(feature = "llama")]
        let files = local::ModelFiles::locate(purpose, settings).await?;
        #[cfg(feature = "llama")]
        local::start_embedder_and_ranker(self, settings, &files).await?;
        self.keep_vectors(settings).await;
        let (store, location, part) = store::open(settings, self.embedder.as_deref()).await?;
        self.parts.extend(part);
        #[cfg(feature = "llama")]
        local::start_writer(self, settings, &files).await?;
        Ok((store, location))
    }

    /// Keeps the embedder's vectors on disk if the store does not.
    async fn keep_vectors(&mut self, settings: &Settings) {
        let Some(embedder) = self.embedder.clone().filter(|_| !store::is_persistent(settings)) else {
            return;
        };
        let file = settings.data.join(VECTORS_FILE);
        let opening = tokio::task::spawn_blocking(move || StoredVectors::open(&file, embedder));
        match opening
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        {
            Ok(stored) => {
                let stored = Arc::new(stored);
                self.embedder = Some(Arc::clone(&stored) as _);
                self.vectors = Some(stored);
            }
            Err(error) => tracing::warn!(%error, "vectors are computed again at every start"),
        }
    }
}
