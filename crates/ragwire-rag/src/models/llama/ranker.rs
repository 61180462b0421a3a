//! Passages scored against a query by a cross-encoder in this process.
//!
//! What stands here is what is asked and what is answered; batches are [`batches`](super::batches)'.

use std::sync::Arc;

use llama_cpp_2::context::params::LlamaPoolingType;
use llama_cpp_2::model::LlamaModel;

use super::backend::{Kind, LlamaFile, LoadError, load};
use super::batching_options::{BatchStats, Batching, Counts};
use super::embedder::UNKNOWN_TOKENIZER;
use super::tokenizer::Tokenizer;
use super::vector_server::{Request, VectorServer, Wanted};
use super::worker::Worker;
use crate::models::{Boxed, ModelError, Rank};

/// How far apart the scores of the same pair may be, as a share of the largest.
const SAME: f32 = 1e-3;

/// How a model ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RankerOptions {
    /// The model's name; none takes the file's.
    pub name: Option<String>,
    /// How many pairs it is given at once.
    pub batching: Batching,
}

impl RankerOptions {
    /// Sets the model's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how many pairs the model is given at once.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }
}

/// A reranker on a thread of its own.
///
/// A pair is a query and a passage as the model was trained on them: with its separators between (bge-reranker, jina-reranker), or in the
/// template that the file brings (Qwen3 Reranker). A pair that is too long loses the end of its passage; the query loses its own where it
/// alone takes more than half. [`stats`](Self::stats) counts both. llama.cpp gives both halves the first token type, so a BERT that was
/// trained with two (ms-marco-MiniLM) scores a little differently than elsewhere.
///
/// Scores are what the model computes: mostly log odds of any size, for Qwen3 a probability. They are not squeezed into anything.
///
/// Dropping it ends the thread after the batch that is being computed, and does not wait for that.
#[derive(Debug)]
pub struct LlamaRanker {
    worker: Worker<Request>,
    counts: Arc<Counts>,
}

impl LlamaRanker {
    /// Loads the model. It takes as long as reading the file does.
    ///
    /// # Cancel safety
    /// Dropping the future gives the model up; its thread ends when it is loaded.
    ///
    /// # Errors
    /// Where the file is missing, no GGUF or none for this; [`LoadError::NotARanker`] for a model without a head that scores.
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
            opening.tell(counts);
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

    /// Takes no more requests, fails those that are not answered yet with [`ModelError::Closed`] after the batch that is being computed, and
    /// waits until the model's memory is free.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the end.
    pub async fn shutdown(&self) {
        self.worker.shutdown().await;
    }

    /// What it has computed so far.
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
            let wanted = Wanted::Score(query.to_owned());
            let request = |reply| Request {
                wanted,
                texts: passages,
                reply,
            };
            let scores = self.worker.ask(request).await?;
            // The first label is the one that counts: the only one, or Qwen3's yes.
            Ok(scores
                .into_iter()
                .flatten()
                .filter_map(|labels| labels.first().copied())
                .collect())
        })
    }
}

/// Refuses a classifier of something else than relevance.
fn check_labels(model: &LlamaModel) -> Result<(), LoadError> {
    let architecture = model
        .meta_val_str("general.architecture")
        .map_err(|_| LoadError::Damaged)?;
    match (model.n_cls_out(), architecture.as_str()) {
        // Qwen3 has `yes` and `no`, over which llama.cpp takes the softmax.
        (1, _) | (2, "qwen3" | "qwen3vl") => Ok(()),
        _ => Err(LoadError::NotARanker),
    }
}

/// Refuses a model without a head. llama.cpp does not: it takes one number after the other from the first text's vector for scores. By that
/// it is known, since the same pair then has another score each time. What the file says of itself is no help: converters leave it out.
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
