//! Texts to vectors by a model in this process.
//!
//! What stands here is what is asked and what is answered; batches are [`batches`](super::batches)', and nothing here knows of stores.

use std::sync::Arc;

use llama_cpp_2::context::params::LlamaPoolingType;
use llama_cpp_2::model::LlamaModel;

use super::backend::{Kind, LlamaFile, LoadError, load};
use super::batching_options::{BatchStats, Batching, Counts};
use super::tokenizer::Tokenizer;
use super::vector_server::{Request, VectorServer, Vectors, Wanted};
use super::worker::Worker;
use crate::models::{Boxed, Embed, ModelError, Side};

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// Their mean: MiniLM, e5, nomic.
    Mean,
    /// The first one: bge.
    Cls,
    /// The last one: decoders such as Qwen3 Embedding.
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

/// How a model embeds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EmbedderOptions {
    /// The model's name; none takes the file's.
    pub name: Option<String>,
    /// How vectors of tokens become one; none takes what the file says.
    pub pooling: Option<Pooling>,
    /// What the model wants before a query: `query: ` for e5, `search_query: ` for nomic. Empty by default.
    pub query_prefix: String,
    /// What it wants before a passage: `passage: ` for e5, `search_document: ` for nomic. Empty by default.
    pub passage_prefix: String,
    /// How many texts it is given at once.
    pub batching: Batching,
}

impl EmbedderOptions {
    /// Sets the model's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how vectors of tokens become one, whatever the file says.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = Some(pooling);
        self
    }

    /// Sets what stands before a query.
    #[must_use]
    pub fn query_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.query_prefix = prefix.into();
        self
    }

    /// Sets what stands before a passage.
    #[must_use]
    pub fn passage_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.passage_prefix = prefix.into();
        self
    }

    /// Sets how many texts the model is given at once.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }
}

/// An embedding model on a thread of its own.
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
/// Texts of all requests share batches and requests take turns, so a question is not held up by a library that is being embedded. A text
/// that is longer than the model or [`Batching::max_text_tokens`] allows loses its end, which [`stats`](Self::stats) counts. An empty text
/// has a vector as any other. The names of special tokens in a text (`[SEP]`) are letters like others.
///
/// Vectors of tokens ([`Embed::embed_tokens`]) are those of the text's own: neither those that the model puts around it (`[CLS]`, `[SEP]`),
/// which would match those of any other text, nor those of the prefix. So an empty text has none. The first call makes a second context,
/// which takes about as much memory as the first.
///
/// What a request comes to is bounded by [`Batching::max_vector_bytes`].
///
/// Dropping it ends the thread after the batch that is being computed, and does not wait for that.
#[derive(Debug)]
pub struct LlamaEmbedder {
    worker: Worker<Request>,
    counts: Arc<Counts>,
    dimensions: usize,
    options: EmbedderOptions,
}

impl LlamaEmbedder {
    /// Loads the model. It takes as long as reading the file does.
    ///
    /// # Cancel safety
    /// Dropping the future gives the model up; its thread ends when it is loaded.
    ///
    /// # Errors
    /// Where the file is missing, no GGUF or none for this; [`LoadError::NoPooling`] where neither the file nor the options say how vectors
    /// of tokens become one (a model for chat does not, and with [`EmbedderOptions::pooling`] it embeds); [`LoadError::WrongKind`] for a
    /// reranker.
    pub async fn load(file: impl Into<LlamaFile>, options: EmbedderOptions) -> Result<Self, LoadError> {
        let wanted = options.clone();
        let file = file.into();
        let waiting = options.batching.max_waiting;
        let (worker, (counts, dimensions)) =
            Worker::start("llama-embedder", waiting, move |opening, requests| {
                let loaded = load(&file, Kind::Embedding)?;
                let pooling = wanted.pooling.map_or_else(|| own_pooling(&loaded.model), Ok)?;
                let tokenizer = Tokenizer::new(&loaded.model).ok_or(UNKNOWN_TOKENIZER)?;
                let dimensions = usize::try_from(loaded.model.n_embd_out()).unwrap_or(0);
                if dimensions == 0 {
                    return Err(LoadError::Unsupported("vectors without a dimension"));
                }
                let name = wanted.name.unwrap_or_else(|| loaded.name.clone());
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
                opening.tell((counts, dimensions));
                server.serve(requests);
                Ok(())
            })
            .await?;
        Ok(Self {
            worker,
            counts,
            dimensions,
            options,
        })
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

    fn prefix(&self, side: Side) -> String {
        match side {
            Side::Query => self.options.query_prefix.clone(),
            Side::Passage => self.options.passage_prefix.clone(),
        }
    }

    async fn ask(&self, wanted: Wanted, texts: Vec<String>) -> Result<Vec<Vectors>, ModelError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let request = |reply| Request { wanted, texts, reply };
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

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let wanted = Wanted::Whole(self.prefix(side));
        Box::pin(async move {
            let vectors = self.ask(wanted, texts).await?;
            Ok(vectors.into_iter().flatten().collect())
        })
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        let wanted = Wanted::Each(self.prefix(side));
        Box::pin(self.ask(wanted, texts))
    }
}

/// Nobody could tell where a text of such a model begins and ends.
pub(super) const UNKNOWN_TOKENIZER: LoadError =
    LoadError::Unsupported("a tokenizer that does more with a text than put tokens around it");

/// The pooling that the file asks for.
fn own_pooling(model: &LlamaModel) -> Result<Pooling, LoadError> {
    let architecture = model
        .meta_val_str("general.architecture")
        .map_err(|_| LoadError::Damaged)?;
    // `LLAMA_POOLING_TYPE_*`: 0 is none.
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
