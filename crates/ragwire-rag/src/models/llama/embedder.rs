//! Embeds texts with a model in this process.
//!
//! This file has the public interface. The vector server fills the batches, and nothing here knows
//! about stores.

use std::sync::Arc;

use llama_cpp_2::context::params::LlamaPoolingType;
use llama_cpp_2::model::LlamaModel;

use super::backend::{Kind, LlamaFile, LoadError, load};
use super::batching_options::{BatchStats, Batching, Counts};
use super::tokenizer::Tokenizer;
use super::vector_server::{Request, VectorKind, VectorServer, Vectors};
use super::worker::Worker;
use crate::models::trained_prefixes::TrainedPrefixes;
use crate::models::{Boxed, Embed, ModelError, Side};

/// How the vectors of a text's tokens are combined into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The mean of all vectors: MiniLM, e5, nomic.
    Mean,
    /// The first vector: bge.
    Cls,
    /// The last vector: decoders such as Qwen3 Embedding.
    Last,
}

impl From<Pooling> for LlamaPoolingType {
    fn from(pooling: Pooling) -> Self {
        match pooling {
            Pooling::Mean => Self::Mean,
            Pooling::Cls => Self::Cls,
            Pooling::Last => Self::Last,
        }
    }
}

/// The options of an embedder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EmbedderOptions {
    /// The model's name; if `None`, the file's.
    pub name: Option<String>,
    /// How the vectors of tokens are combined; if `None`, as the file specifies.
    pub pooling: Option<Pooling>,
    /// Prefix of queries: `query: ` for e5, `search_query: ` for nomic. Default: empty.
    pub query_prefix: String,
    /// Prefix of passages: `passage: ` for e5, `search_document: ` for nomic. Default: empty.
    pub passage_prefix: String,
    /// The sizes of batches and requests.
    pub batching: Batching,
}

impl EmbedderOptions {
    /// The options for a model, with the prefixes that it was trained with if its name, or that of
    /// its file, is known: E5, nomic-embed, mxbai-embed, bge-large-en.
    pub fn for_model(name: &str) -> Self {
        let TrainedPrefixes { query, passage } = TrainedPrefixes::of(name);
        Self::default().query_prefix(query).passage_prefix(passage)
    }

    /// Sets the model's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how the vectors of tokens are combined, and overrides the file.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = Some(pooling);
        self
    }

    /// Sets the prefix of queries.
    #[must_use]
    pub fn query_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.query_prefix = prefix.into();
        self
    }

    /// Sets the prefix of passages.
    #[must_use]
    pub fn passage_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.passage_prefix = prefix.into();
        self
    }

    /// Sets the sizes of batches and requests.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }
}

/// An embedding model on its own thread.
///
/// ```no_run
/// # use ragwire_rag::models::llama::{EmbedderOptions, LlamaEmbedder, LlamaFile};
/// # use ragwire_rag::models::{Embed, Side};
/// # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
/// let file = LlamaFile::new("multilingual-e5-small.gguf");
/// let options = EmbedderOptions::default().query_prefix("query: ").passage_prefix("passage: ");
/// let embedder = LlamaEmbedder::load(file, options).await?;
/// let vectors = embedder.embed(Side::Query, vec!["How does the login work?".to_owned()]).await?;
/// # Ok(()) }
/// ```
///
/// Requests share batches and are served in turn, so a question does not wait for a library that is
/// being embedded. A text that is longer than the model or [`Batching::max_text_tokens`] allows is
/// truncated, and [`stats`](Self::stats) counts it. An empty text has a vector like any other. The
/// names of special tokens in a text (`[SEP]`) are plain characters.
///
/// [`Embed::embed_tokens`] returns only the vectors of the text's own tokens. It leaves out the
/// tokens that the model adds (`[CLS]`, `[SEP]`), because they would match those of any other text,
/// and the tokens of the prefix. An empty text therefore has no vectors. The first call creates a
/// second context, which takes about as much memory as the first.
///
/// [`Batching::max_vector_bytes`] limits the size of a request's result.
///
/// Dropping the embedder ends the thread after the current batch, and does not wait for that.
/// [`shutdown`](Self::shutdown) waits: call it before the process exits if the model is on a GPU,
/// because CUDA aborts a process that exits while a thread still frees its model.
#[derive(Debug)]
pub struct LlamaEmbedder {
    worker: Worker<Request>,
    counts: Arc<Counts>,
    dimensions: usize,
    identity: String,
    options: EmbedderOptions,
}

impl LlamaEmbedder {
    /// Loads the model. This takes as long as reading the file.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the model; its thread ends once the model is loaded.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the file is missing, is not GGUF, or does not contain an embedding model.
    /// [`LoadError::NoPooling`] if neither the file nor the options say how the vectors of tokens
    /// are combined; a chat model does not, but embeds with [`EmbedderOptions::pooling`].
    /// [`LoadError::WrongKind`] for a reranker.
    pub async fn load(file: impl Into<LlamaFile>, options: EmbedderOptions) -> Result<Self, LoadError> {
        let wanted = options.clone();
        let file = file.into();
        let waiting = options.batching.max_waiting;
        let (worker, (counts, dimensions, identity)) =
            Worker::start("llama-embedder", waiting, move |opening, requests| {
                let loaded = load(&file, Kind::Embedding)?;
                let pooling = wanted.pooling.map_or_else(|| own_pooling(&loaded.model), Ok)?;
                let tokenizer = Tokenizer::new(&loaded.model).ok_or(UNKNOWN_TOKENIZER)?;
                let dimensions = usize::try_from(loaded.model.n_embd_out()).unwrap_or(0);
                if dimensions == 0 {
                    return Err(LoadError::Unsupported("vectors without a dimension"));
                }
                let name = wanted.name.unwrap_or_else(|| loaded.name.clone());
                // Another quantization of a model often has the same name, but not the same size.
                let identity = format!(
                    "{name}\nbytes {}\npooling {pooling:?}\nprefix {:?}\ntokens {:?}",
                    loaded.bytes, wanted.passage_prefix, wanted.batching.max_text_tokens,
                );
                let counts = Arc::new(Counts::new(name, "embed"));
                let threads = file.threads;
                let mut server = VectorServer::open(
                    &loaded,
                    tokenizer,
                    pooling.into(),
                    &wanted.batching,
                    threads,
                    Arc::clone(&counts),
                )?;
                opening.report_started((counts, dimensions, identity));
                server.serve(requests);
                Ok(())
            })
            .await?;
        Ok(Self {
            worker,
            counts,
            dimensions,
            identity,
            options,
        })
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

    fn prefix(&self, side: Side) -> String {
        match side {
            Side::Query => self.options.query_prefix.clone(),
            Side::Passage => self.options.passage_prefix.clone(),
        }
    }

    async fn ask(&self, kind: VectorKind, texts: Vec<String>) -> Result<Vec<Vectors>, ModelError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let request = |reply| Request { kind, texts, reply };
        self.worker.ask(request).await
    }
}

impl Embed for LlamaEmbedder {
    fn name(&self) -> &str {
        self.counts.model()
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let kind = VectorKind::Whole(self.prefix(side));
        Box::pin(async move {
            let vectors = self.ask(kind, texts).await?;
            Ok(vectors.into_iter().flatten().collect())
        })
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        let kind = VectorKind::Each(self.prefix(side));
        Box::pin(self.ask(kind, texts))
    }
}

/// The error for a tokenizer that does not show where a text begins and ends.
pub(super) const UNKNOWN_TOKENIZER: LoadError =
    LoadError::Unsupported("a tokenizer that does more than add tokens around a text");

/// Returns the pooling that the file specifies.
fn own_pooling(model: &LlamaModel) -> Result<Pooling, LoadError> {
    let architecture = model
        .meta_val_str("general.architecture")
        .map_err(|_| LoadError::Damaged)?;
    // `LLAMA_POOLING_TYPE_*`: 0 means no pooling.
    match model
        .meta_val_str(&format!("{architecture}.pooling_type"))
        .as_deref()
    {
        Ok("1") => Ok(Pooling::Mean),
        Ok("2") => Ok(Pooling::Cls),
        Ok("3") => Ok(Pooling::Last),
        Ok("4") => Err(LoadError::WrongKind {
            architecture,
            wanted: "embedding, only ranking",
        }),
        _ => Err(LoadError::NoPooling),
    }
}
