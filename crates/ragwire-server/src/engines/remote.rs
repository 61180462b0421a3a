//! Models behind servers: which one a server has, and whether it answers.

use std::sync::Arc;

use ragwire_rag::models::upstream::{
    DiscoverError, EmbeddingOptions, Purpose, Upstream, UpstreamEmbedder, UpstreamOptions, UpstreamRanker,
};
use ragwire_rag::models::{Embed, LanguageModel};

use super::Models;
use super::error::EnginesError;
use crate::settings::Settings;

/// Finds the language model, if the settings name its server.
///
/// Without `llm-model` the server must be running and have one obvious model. With it, the server
/// may start later.
pub(super) async fn start_writer(models: &mut Models, settings: &Settings) -> Result<(), EnginesError> {
    let Some(options) = settings.upstream_options()? else {
        return Ok(());
    };
    let versioned = settings.with_version().upstream_options()?;
    let options = found("llm-url", options, versioned, Purpose::Chat).await?;
    let model = Upstream::new(options).map_err(EnginesError::Upstream)?;
    tracing::info!(
        model = model.name(),
        "answers are written by the server of --llm-url"
    );
    models.summary.set_upstream(&model);
    models.llm = Some(Arc::new(model));
    Ok(())
}

/// Connects to the embedder, if the settings name its server. It must be running, because the
/// length of its vectors determines the store.
pub(super) async fn start_embedder(models: &mut Models, settings: &Settings) -> Result<(), EnginesError> {
    let Some(options) = settings.embedder_options()? else {
        return Ok(());
    };
    let setting = "embedder-url";
    let versioned = settings.with_version().embedder_options()?;
    let options = found(setting, options, versioned, Purpose::Embedding).await?;
    let embedding = EmbeddingOptions::for_model(options.model());
    let embedder = UpstreamEmbedder::connect(options, embedding).await;
    let embedder = embedder.map_err(|source| EnginesError::Remote { setting, source })?;
    models.summary.set_remote_embedder(&embedder);
    tracing::info!(
        model = embedder.name(),
        dimensions = embedder.dimensions(),
        "vectors come from the server of --embedder-url"
    );
    models.embedder = Some(Arc::new(embedder));
    Ok(())
}

/// Connects to the reranker, if the settings name its server. It must be running, because the start
/// finds out which requests it understands.
pub(super) async fn start_ranker(models: &mut Models, settings: &Settings) -> Result<(), EnginesError> {
    let Some(options) = settings.reranker_options()? else {
        return Ok(());
    };
    let setting = "reranker-url";
    // Most rerankers have one model and ignore its name; Jina and Cohere need it.
    let options = match options.clone().discover(Purpose::Reranking).await {
        Ok(found) if options.model().is_empty() => options.named(found.model()),
        Ok(_) | Err(_) => options,
    };
    let ranker = UpstreamRanker::connect(options).await;
    let ranker = ranker.map_err(|source| EnginesError::Remote { setting, source })?;
    models.summary.set_remote_ranker(ranker.model());
    models.ranker = Some(Arc::new(ranker));
    Ok(())
}

/// Asks the server for its model. If the settings name one, a server that is not reached or does
/// not list it is only a warning.
///
/// A server without a list at its address is asked below `/v1`: `http://127.0.0.1:11434` then finds
/// Ollama's models.
async fn found(
    setting: &'static str,
    options: UpstreamOptions,
    versioned: Option<UpstreamOptions>,
    purpose: Purpose,
) -> Result<UpstreamOptions, EnginesError> {
    let is_named = !options.model().is_empty();
    let mut asked = options.clone().discover(purpose).await;
    if let (Err(DiscoverError::NoList), Some(versioned)) = (&asked, versioned) {
        match versioned.discover(purpose).await {
            Err(DiscoverError::NoList | DiscoverError::Server(_)) => {}
            below => asked = below,
        }
    }
    match asked {
        Ok(found) => Ok(found),
        // A gateway without a list is used as it is named.
        Err(DiscoverError::NoList) if is_named => Ok(options),
        Err(error) if is_named => {
            let model = options.model();
            tracing::warn!(
                %model,
                error = &error as &dyn std::error::Error,
                "--{setting} is not ready; it is asked again by the first question"
            );
            Ok(options)
        }
        Err(source) => Err(EnginesError::Discover { setting, source }),
    }
}
