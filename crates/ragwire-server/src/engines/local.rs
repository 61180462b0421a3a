//! Models in this process: locates or downloads their files and loads them with the options from
//! the settings. This module does not know the store.

use std::path::PathBuf;
use std::sync::Arc;

use ragwire_rag::models::llama::{
    Batching, EmbedderOptions, LlamaEmbedder, LlamaEngine, LlamaFile, LlamaOptions, LlamaRanker, LoadError,
    RankerOptions,
};
use ragwire_rag::models::{Boxed, Embed, LanguageModel};

use super::error::EnginesError;
use super::part::Part;
use super::{Models, Purpose};
use crate::models::{Hub, ModelFile};
use crate::settings::Settings;
use crate::settings::engines::Model;

/// Whether llama.cpp was built for an accelerator.
const HAS_ACCELERATOR: bool = cfg!(any(feature = "cuda", feature = "metal", feature = "vulkan"));

impl Part for LlamaEngine {
    fn shut_down(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

impl Part for LlamaEmbedder {
    fn shut_down(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

impl Part for LlamaRanker {
    fn shut_down(&self) -> Boxed<'_, ()> {
        Box::pin(self.shutdown())
    }
}

/// A model file on this machine, and the setting that names it.
#[derive(Debug)]
struct LocalFile {
    setting: &'static str,
    name: ModelFile,
    path: PathBuf,
}

impl LocalFile {
    /// Locates the file, and downloads it if it is on the hub.
    async fn locate(setting: &'static str, model: &Model) -> Result<Option<Self>, EnginesError> {
        let Some(name) = model.0.clone() else {
            return Ok(None);
        };
        let path = match &name {
            ModelFile::Path(path) => path.clone(),
            ModelFile::Hub(file) => {
                let failed = |source| EnginesError::Hub { setting, source };
                let hub = Hub::from_environment().map_err(failed)?;
                hub.fetch(file).await.map_err(failed)?
            }
        };
        let file = Self { setting, name, path };
        match tokio::fs::metadata(&file.path).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(file.load_error(LoadError::Missing(file.path.clone())))
            }
            // Other errors are reported when the file is opened.
            _ => Ok(Some(file)),
        }
    }

    fn load_error(&self, source: LoadError) -> EnginesError {
        EnginesError::Model {
            setting: self.setting,
            file: Box::new(self.name.clone()),
            source,
        }
    }

    /// Returns the file with the options that apply to all models.
    fn options(&self, settings: &Settings) -> LlamaFile {
        let mut file = LlamaFile::new(&self.path);
        if let Some(layers) = *settings.llm_gpu_layers {
            file = file.gpu_layers(layers);
        }
        match *settings.llm_threads {
            0 => file,
            threads => file.threads(saturating_u32(threads)),
        }
    }
}

/// The files of all models. All of them are located before the first one loads, since the last one
/// may be missing.
#[derive(Debug)]
pub(super) struct ModelFiles {
    llm: Option<LocalFile>,
    embedder: Option<LocalFile>,
    reranker: Option<LocalFile>,
}

impl ModelFiles {
    /// Locates the files that the purpose needs.
    pub(super) async fn locate(purpose: Purpose, settings: &Settings) -> Result<Self, EnginesError> {
        let embedder = LocalFile::locate("embedder", &settings.embedder).await?;
        let (reranker, llm) = match purpose {
            Purpose::Indexing => (None, None),
            Purpose::Answering => (
                LocalFile::locate("reranker", &settings.reranker).await?,
                LocalFile::locate("llm", &settings.llm).await?,
            ),
        };
        Ok(Self {
            llm,
            embedder,
            reranker,
        })
    }
}

/// Loads the embedder and the reranker.
pub(super) async fn start_embedder_and_ranker(
    models: &mut Models,
    settings: &Settings,
    files: &ModelFiles,
) -> Result<(), EnginesError> {
    if let Some(file) = &files.embedder {
        let name = file.path.file_name().unwrap_or_default();
        let mut options = EmbedderOptions::for_model(&name.to_string_lossy());
        if is_accelerated(settings) {
            options = options.batching(Batching::accelerator());
        }
        let embedder = LlamaEmbedder::load(file.options(settings), options).await;
        let embedder = Arc::new(embedder.map_err(|error| file.load_error(error))?);
        models.parts.push(Arc::clone(&embedder) as _);
        models.summary.set_embedder(embedder.as_ref());
        tracing::info!(model = embedder.name(), "the embedder is loaded");
        models.embedder = Some(embedder);
    }
    if let Some(file) = &files.reranker {
        let mut options = RankerOptions::default();
        if is_accelerated(settings) {
            options = options.batching(Batching::accelerator());
        }
        let ranker = LlamaRanker::load(file.options(settings), options).await;
        let ranker = Arc::new(ranker.map_err(|error| file.load_error(error))?);
        models.parts.push(Arc::clone(&ranker) as _);
        models.summary.set_ranker(ranker.name());
        tracing::info!(model = ranker.name(), "the reranker is loaded");
        models.ranker = Some(ranker);
    }
    Ok(())
}

/// Returns whether layers of the models run on an accelerator.
fn is_accelerated(settings: &Settings) -> bool {
    HAS_ACCELERATOR && *settings.llm_gpu_layers != Some(0)
}

/// Loads the language model.
pub(super) async fn start_writer(
    models: &mut Models,
    settings: &Settings,
    files: &ModelFiles,
) -> Result<(), EnginesError> {
    let Some(file) = &files.llm else {
        return Ok(());
    };
    let slots = saturating_u32(*settings.llm_slots);
    let mut options = LlamaOptions::new(file.options(settings)).slots(slots);
    if *settings.llm_context > 0 {
        options = options.context_tokens(saturating_u32(*settings.llm_context));
    }
    if let Some(template) = &*settings.llm_template {
        options = options.template(template);
    }
    let threads = options.file.threads;
    let engine = LlamaEngine::load(options).await;
    let engine = engine.map_err(|error| file.load_error(error))?;
    let context_tokens = engine.context_tokens();
    let gpu_layers = if HAS_ACCELERATOR {
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
    models.summary.set_writer(&engine, slots);
    models.parts.push(Arc::new(engine.clone()));
    models.llm = Some(Arc::new(engine));
    Ok(())
}

/// Saturates; the loader rejects values that are too large.
fn saturating_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
