//! Models in this process: their files found or fetched, and loaded with what the settings say. It knows no store.

use std::path::PathBuf;
use std::sync::Arc;

use ragwire_rag::MaxSimRank;
use ragwire_rag::models::llama::{
    EmbedderOptions, LlamaEmbedder, LlamaEngine, LlamaFile, LlamaOptions, LlamaRanker, LoadError,
    RankerOptions,
};
use ragwire_rag::models::{Boxed, Embed, LanguageModel, ModelError, Side};

use super::error::EnginesError;
use super::{Part, Started, Work};
use crate::models::{Hub, ModelFile};
use crate::settings::Settings;
use crate::settings::engines::Model;

impl Part for LlamaEngine {
    fn end(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

impl Part for LlamaEmbedder {
    fn end(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

impl Part for LlamaRanker {
    fn end(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

/// A file that is on this machine, and the setting that names it.
#[derive(Debug)]
struct Found {
    setting: &'static str,
    named: ModelFile,
    path: PathBuf,
}

impl Found {
    /// Looks for the file, and fetches it where it is one of the hub.
    async fn find(setting: &'static str, model: &Model) -> Result<Option<Self>, EnginesError> {
        let Some(named) = model.0.clone() else {
            return Ok(None);
        };
        let path = match &named {
            ModelFile::Path(path) => path.clone(),
            ModelFile::Hub(file) => {
                let failed = |source| EnginesError::Hub { setting, source };
                let hub = Hub::from_environment().map_err(failed)?;
                hub.fetch(file).await.map_err(failed)?
            }
        };
        let found = Self { setting, named, path };
        match tokio::fs::metadata(&found.path).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(found.failed(LoadError::Missing(found.path.clone())))
            }
            // Whatever else is wrong with it, whoever opens it finds out.
            _ => Ok(Some(found)),
        }
    }

    fn failed(&self, source: LoadError) -> EnginesError {
        EnginesError::Model {
            setting: self.setting,
            file: Box::new(self.named.clone()),
            source,
        }
    }

    /// With what the settings say of all models.
    fn file(&self, settings: &Settings) -> LlamaFile {
        let mut file = LlamaFile::new(&self.path);
        if let Some(layers) = *settings.llm_gpu_layers {
            file = file.gpu_layers(layers);
        }
        match *settings.llm_threads {
            0 => file,
            threads => file.threads(narrow(threads)),
        }
    }
}

/// The files of all models. None is loaded before all are there: what is fetched last may be missing.
#[derive(Debug)]
pub(super) struct Files {
    llm: Option<Found>,
    embedder: Option<Found>,
    reranker: Option<Found>,
}

impl Files {
    /// Those that the work needs.
    pub(super) async fn find(work: Work, settings: &Settings) -> Result<Self, EnginesError> {
        let embedder = Found::find("embedder", &settings.embedder).await?;
        let (reranker, llm) = match work {
            Work::Indexing => (None, None),
            Work::Answering => (
                Found::find("reranker", &settings.reranker).await?,
                Found::find("llm", &settings.llm).await?,
            ),
        };
        Ok(Self {
            llm,
            embedder,
            reranker,
        })
    }
}

/// The embedder and what ranks.
pub(super) async fn start_readers(
    started: &mut Started,
    settings: &Settings,
    files: &Files,
) -> Result<(), EnginesError> {
    if let Some(found) = &files.embedder {
        let embedder = LlamaEmbedder::load(found.file(settings), EmbedderOptions::default()).await;
        let embedder = Arc::new(embedder.map_err(|error| found.failed(error))?);
        started.running.push(Arc::clone(&embedder) as _);
        started.told.embedder(embedder.as_ref());
        tracing::info!(model = embedder.name(), "the embedder is loaded");
        if files.reranker.is_none() && gives_tokens(embedder.as_ref()).await? {
            started.told.late_interaction();
            started.ranker = Some(Arc::new(MaxSimRank::new(Arc::clone(&embedder) as _)));
        }
        started.embedder = Some(embedder);
    }
    if let Some(found) = &files.reranker {
        let ranker = LlamaRanker::load(found.file(settings), RankerOptions::default()).await;
        let ranker = Arc::new(ranker.map_err(|error| found.failed(error))?);
        started.running.push(Arc::clone(&ranker) as _);
        started.told.ranker(ranker.name());
        tracing::info!(model = ranker.name(), "the reranker is loaded");
        started.ranker = Some(ranker);
    }
    Ok(())
}

/// Whether the embedder has vectors of tokens. The first of them take a context of their own, for which there may be no memory: better told now
/// than in the middle of an answer.
async fn gives_tokens(embedder: &dyn Embed) -> Result<bool, EnginesError> {
    match embedder.embed_tokens(Side::Query, vec!["?".to_owned()]).await {
        Ok(_) => Ok(true),
        Err(ModelError::Unsupported(_)) => Ok(false),
        Err(error) => Err(EnginesError::Tokens(error)),
    }
}

/// The language model.
pub(super) async fn start_writer(
    started: &mut Started,
    settings: &Settings,
    files: &Files,
) -> Result<(), EnginesError> {
    let Some(found) = &files.llm else {
        return Ok(());
    };
    let slots = narrow(*settings.llm_slots);
    let mut options = LlamaOptions::new(found.file(settings)).slots(slots);
    if *settings.llm_context > 0 {
        options = options.context_tokens(narrow(*settings.llm_context));
    }
    if let Some(template) = &*settings.llm_template {
        options = options.template(template);
    }
    let threads = options.file.threads;
    let engine = LlamaEngine::load(options).await;
    let engine = engine.map_err(|error| found.failed(error))?;
    let context_tokens = engine.context_tokens();
    let gpu = cfg!(any(feature = "cuda", feature = "metal", feature = "vulkan"));
    let gpu_layers = if gpu {
        settings.llm_gpu_layers.to_string()
    } else {
        "0".to_owned()
    };
    tracing::info!(
        model = engine.name(),
        context_tokens,
        slots,
        threads,
        gpu_layers,
        "the language model is loaded"
    );
    started.told.writer(&engine, slots);
    started.running.push(Arc::new(engine.clone()));
    started.llm = Some(Arc::new(engine));
    Ok(())
}

/// What is too large is refused by whoever takes it.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
