//! Scores passages against a query with a cross-encoder in this process.
//!
//! This file has the public interface; the vector server fills the batches.

use std::sync::Arc;

use llama_cpp_2::context::params::LlamaPoolingType;
use llama_cpp_2::model::LlamaModel;

use super::backend::{Kind, LlamaFile, LoadError, load};
use super::batching_options::{BatchStats, Batching, Counts};
use super::embedder::UNKNOWN_TOKENIZER;
use super::tokenizer::Tokenizer;
use super::vector_server::{Request, VectorKind, VectorServer};
use super::worker::Worker;
use crate::models::{Boxed, ModelError, Rank};

/// Largest difference between two scores of the same pair, as a share of the largest score.
const SAME: f32 = 1e-3;

/// The options of a ranker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RankerOptions {
    /// The model's name; if `None`, the file's.
    pub name: Option<String>,
    /// The sizes of batches and requests.
    pub batching: Batching,
}

impl RankerOptions {
    /// Sets the model's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the sizes of batches and requests.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }
}

/// A reranker on its own thread.
///
/// A pair is a query and a passage in the form on which the model was trained: with the model's
/// separators (bge-reranker, jina-reranker), or in the template of the file (Qwen3 Reranker). If a
/// pair is too long, its passage is truncated; the query is truncated only if it takes more than
/// half by itself. [`stats`](Self::stats) counts both. llama.cpp gives both halves the first token
/// type, so a BERT that was trained with two types (ms-marco-MiniLM) scores slightly differently
/// than in other programs.
///
/// Scores are what the model computes: usually log odds of any size, for Qwen3 a probability. They
/// are not normalized.
///
/// Dropping the ranker ends the thread after the current batch, and does not wait for that; on a
/// GPU, [`shutdown`](Self::shutdown) before the process exits, as for
/// [`LlamaEmbedder`](super::LlamaEmbedder).
#[derive(Debug)]
pub struct LlamaRanker {
    worker: Worker<Request>,
    counts: Arc<Counts>,
}

impl LlamaRanker {
    /// Loads the model. This takes as long as reading the file.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the model; its thread ends once the model is loaded.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the file is missing, is not GGUF, or does not contain a reranker.
    /// [`LoadError::NotARanker`] for a model without a scoring head.
    pub async fn load(file: impl Into<LlamaFile>, options: RankerOptions) -> Result<Self, LoadError> {
        let file = file.into();
        let waiting = options.batching.max_waiting;
        let (worker, counts) = Worker::start("llama-ranker", waiting, move |opening, requests| {
            let loaded = load(&file, Kind::Ranking)?;
            check_labels(&loaded.model)?;
            let tokenizer = Tokenizer::new(&loaded.model).ok_or(UNKNOWN_TOKENIZER)?;
            let tokenizer = match loaded.model.meta_val_str("tokenizer.chat_template.rerank") {
                Ok(template) => tokenizer.template(&template).ok_or(LoadError::Template)?,
                Err(_) => tokenizer,
            };
            let name = options.name.unwrap_or_else(|| loaded.name.clone());
            let counts = Arc::new(Counts::new(name, "rank"));
            let mut server = VectorServer::open(
                &loaded,
                tokenizer,
                LlamaPoolingType::Rank,
                &options.batching,
                file.threads,
                Arc::clone(&counts),
            )?;
            check_head(&mut server)?;
            opening.report_started(counts);
            server.serve(requests);
            Ok(())
        })
        .await?;
        Ok(Self { worker, counts })
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        self.counts.model()
    }

    /// Accepts no more requests, fails unanswered ones with [`ModelError::Closed`] after the
    /// current batch, and waits until the model's memory is free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the shutdown.
    pub async fn shutdown(&self) {
        self.worker.shutdown().await;
    }

    /// Returns the statistics since the model was loaded.
    pub fn stats(&self) -> BatchStats {
        self.counts.stats()
    }
}

impl Rank for LlamaRanker {
    fn method(&self) -> &str {
        "cross-encoder"
    }

    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        Box::pin(async move {
            if passages.is_empty() {
                return Ok(Vec::new());
            }
            let kind = VectorKind::Score(query.to_owned());
            let request = |reply| Request {
                kind,
                texts: passages,
                reply,
            };
            let scores = self.worker.ask(request).await?;
            // The first label is the relevant one: it is the only label, or Qwen3's `yes`.
            Ok(scores
                .into_iter()
                .flatten()
                .filter_map(|labels| labels.first().copied())
                .collect())
        })
    }
}

/// Rejects a classifier for something other than relevance.
fn check_labels(model: &LlamaModel) -> Result<(), LoadError> {
    let architecture = model
        .meta_val_str("general.architecture")
        .map_err(|_| LoadError::Damaged)?;
    match (model.n_cls_out(), architecture.as_str()) {
        // Qwen3 has `yes` and `no`, of which llama.cpp computes the softmax.
        (1, _) | (2, "qwen3" | "qwen3vl") => Ok(()),
        _ => Err(LoadError::NotARanker),
    }
}

/// Rejects a model without a scoring head, which llama.cpp accepts: it then returns consecutive
/// numbers of the first text's vector as scores. Such a model is recognized because the same pair
/// has a different score each time. The metadata of the file does not help, because converters
/// leave it out.
fn check_head(server: &mut VectorServer<'_>) -> Result<(), LoadError> {
    let scores = server.probe().map_err(|_| LoadError::NotARanker)?;
    let (least, most) = scores.iter().fold((f32::MAX, f32::MIN), |(least, most), &score| {
        (least.min(score), most.max(score))
    });
    if most - least <= SAME * most.abs().max(least.abs()) {
        Ok(())
    } else {
        Err(LoadError::NotARanker)
    }
}
