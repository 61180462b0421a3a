//! The models and the store that the settings name, running: loaded or reached before anything long begins, kept in step with the library, and
//! ended with the server.
//!
//! | file | what it is |
//! |---|---|
//! | `local` (feature `llama`) | models in this process |
//! | `store` | where chunks are kept |
//! | `step` | the store in step with the library |
//! | `progress` | how far that is |
//! | `told` | what runs, in lines for whoever started the server |
//! | `error` | what is wrong, and what to do |
//!
//! It knows no route and no pipeline: who answers takes the parts from here.

mod error;
#[cfg(feature = "llama")]
mod local;
mod progress;
mod step;
mod store;
mod told;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ragwire_rag::models::upstream::Upstream;
use ragwire_rag::models::{Boxed, Embed, LanguageModel, Rank};
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};
use ragwire_rag::{Indexer, Library, SearchTools};

use crate::settings::Settings;

pub use error::EnginesError;
pub use step::{follow, keep_in_step};
pub use store::Place;
use told::Told;

/// How long the end of a step of a model is waited for: a batch of a large model on a CPU takes seconds.
const LAST_STEP: Duration = Duration::from_secs(10);

/// What models and stores the settings name, running.
///
/// # Drop
/// The models' threads end after the step that they are at; [`shutdown`](Self::shutdown) waits for that.
#[derive(Debug)]
pub struct Engines {
    /// What writes; none leaves it to quoted sentences.
    pub llm: Option<Arc<dyn LanguageModel>>,
    /// What makes vectors; none leaves it to words.
    pub embedder: Option<Arc<dyn Embed>>,
    /// What puts passages into order: a reranker, else late interaction of the embedder.
    pub ranker: Option<Arc<dyn Rank>>,
    /// Where chunks are kept.
    pub store: Arc<dyn Store>,
    /// The ways of searching it.
    pub tools: SearchTools,
    /// What keeps the store in step.
    pub indexer: Arc<Indexer>,
    library: Arc<Library>,
    place: Place,
    /// Passages of which there may be sections and sentences in memory.
    room: usize,
    running: Vec<Arc<dyn Part>>,
    told: Told,
}

/// Something that has to be ended, or written down.
trait Part: Debug + Send + Sync {
    /// Brings to disk what has changed.
    fn flush(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }

    /// Ends it, and waits until it has.
    fn end(&self) -> Boxed<'_, ()>;
}

/// What they are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Everything.
    Answering,
    /// What fills the store.
    Indexing,
}

/// What has been started so far.
#[derive(Debug, Default)]
struct Started {
    llm: Option<Arc<dyn LanguageModel>>,
    embedder: Option<Arc<dyn Embed>>,
    ranker: Option<Arc<dyn Rank>>,
    running: Vec<Arc<dyn Part>>,
    told: Told,
}

/// The store, and what is done with it.
#[derive(Debug)]
struct Kept {
    store: Arc<dyn Store>,
    place: Place,
    tools: SearchTools,
    indexer: Arc<Indexer>,
}

impl Kept {
    fn new(
        store: Arc<dyn Store>,
        place: Place,
        started: &Started,
        library: &Arc<Library>,
    ) -> Result<Self, EnginesError> {
        let parts = || (Arc::clone(library), Arc::clone(&store), started.embedder.clone());
        let (own, kept, embedder) = parts();
        let indexer = Arc::new(Indexer::new(own, kept, embedder)?);
        let (own, kept, embedder) = parts();
        let tools = SearchTools::new(own, kept, embedder)?;
        Ok(Self {
            store,
            place,
            tools,
            indexer,
        })
    }
}

impl Engines {
    /// Fetches and loads the models, and opens the store. What is cheap comes first, so that a mistake is told before a large model is read.
    /// The store is not in step yet: [`reconcile`](Self::reconcile) once the library is filled.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the models; those that are being loaded end once they are.
    ///
    /// # Errors
    /// [`EnginesError`], with what to do. Whatever was loaded by then has ended.
    pub async fn start(settings: &Settings, library: &Arc<Library>) -> Result<Self, EnginesError> {
        Self::start_for(Work::Answering, settings, library).await
    }

    /// The same with only what fills the store; nothing where the store is gone with the process.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_indexing(
        settings: &Settings,
        library: &Arc<Library>,
    ) -> Result<Option<Self>, EnginesError> {
        if store::is_gone_with_the_process(settings) {
            return Ok(None);
        }
        Self::start_for(Work::Indexing, settings, library).await.map(Some)
    }

    /// No model, and words in memory: the default of the settings, for tests too.
    pub fn embedded(library: &Arc<Library>) -> Self {
        let started = Started::default();
        let store = Arc::new(MemoryStore::new(Vectors::NONE));
        match Kept::new(store, Place::Memory, &started, library) {
            Ok(kept) => Self::new(started, kept, library),
            Err(_) => unreachable!("without an embedder nothing has to fit"),
        }
    }

    async fn start_for(
        work: Work,
        settings: &Settings,
        library: &Arc<Library>,
    ) -> Result<Self, EnginesError> {
        settings.check()?;
        let mut started = Started::default();
        let opened = started.start(work, settings).await;
        match opened.and_then(|(store, place)| Kept::new(store, place, &started, library)) {
            Ok(kept) => Ok(Self::new(started, kept, library)),
            Err(error) => {
                end(&started.running).await;
                Err(error)
            }
        }
    }

    fn new(mut started: Started, kept: Kept, library: &Arc<Library>) -> Self {
        started.told.store(&kept.place);
        Self {
            llm: started.llm,
            embedder: started.embedder,
            ranker: started.ranker,
            store: kept.store,
            tools: kept.tools,
            indexer: kept.indexer,
            library: Arc::clone(library),
            place: kept.place,
            room: step::MAX_PASSAGES_IN_MEMORY,
            running: started.running,
            told: started.told,
        }
    }

    /// What runs and what stands in for the rest: a line for each part, for whoever started the server.
    pub fn told(&self) -> [&str; 4] {
        self.told.lines()
    }

    /// Ends the models, whatever they are at, and brings the store to disk. It takes a step of the model, and gives up after 10 seconds.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the end.
    pub async fn shutdown(&self) {
        end(&self.running).await;
    }

    async fn flush(&self) {
        for part in &self.running {
            part.flush().await;
        }
    }
}

async fn end(running: &[Arc<dyn Part>]) {
    let ending = futures_util::future::join_all(running.iter().map(|part| part.end()));
    if tokio::time::timeout(LAST_STEP, ending).await.is_err() {
        tracing::warn!("a model did not end its step in time");
    }
}

impl Started {
    /// The cheap things first. The embedder says which vectors the store keeps, and a language model is what takes longest to load.
    async fn start(
        &mut self,
        work: Work,
        settings: &Settings,
    ) -> Result<(Arc<dyn Store>, Place), EnginesError> {
        if work == Work::Answering
            && let Some(options) = settings.upstream_options()?
        {
            self.written_by(Arc::new(Upstream::new(options)?));
        }
        #[cfg(feature = "llama")]
        let files = local::Files::find(work, settings).await?;
        #[cfg(feature = "llama")]
        local::start_readers(self, settings, &files).await?;
        let (store, place, part) = store::open(settings, self.embedder.as_deref()).await?;
        self.running.extend(part);
        #[cfg(feature = "llama")]
        local::start_writer(self, settings, &files).await?;
        Ok((store, place))
    }

    fn written_by(&mut self, model: Arc<dyn LanguageModel>) {
        self.told.upstream(model.as_ref());
        self.llm = Some(model);
    }
}
