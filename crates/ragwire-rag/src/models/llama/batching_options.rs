//! The batches of a model that computes vectors, and their statistics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of tokens of a batch. On a CPU more tokens gain nothing, and llama.cpp stores a logit of
/// each token for each word of the vocabulary: 62 MB of memory for 512 tokens and MiniLM's 30,522
/// words.
const BATCH_TOKENS: u32 = 512;
/// Number of tokens of a batch on an accelerator: on an H200 with MiniLM, 862 passages per second
/// instead of 618 with 512 tokens. More are slower (586 with 4,096), because llama.cpp computes
/// attention over the whole batch.
const ACCELERATOR_BATCH_TOKENS: u32 = 2_048;
/// Number of texts of a batch.
const BATCH_TEXTS: u32 = 64;
/// Number of tokens of a text, if the model takes more: several times the largest chunk. The memory
/// of a batch grows with it.
const TEXT_TOKENS: u32 = 2_048;
/// Size in bytes of the vectors of one request: 2,000 passages of 80 tokens with a vector for each
/// token in 384 dimensions, or 170,000 passages with one vector each. Larger jobs take several
/// requests.
const VECTOR_BYTES: usize = 256 * 1024 * 1024;
/// Number of requests that wait. A service makes one request for each question, so this is the
/// number of waiting questions.
const WAITING: usize = 64;

/// The sizes of batches and requests of a model that computes vectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Batching {
    /// Most tokens of a batch, up to 65,536; a longer text is a batch by itself. Default: 512.
    pub max_tokens: u32,
    /// Most texts of a batch, 1 to 256. Default: 64.
    pub max_texts: u32,
    /// Most tokens of a text, including those that the model adds; a longer text is truncated. The
    /// model may take less. Default: 2,048.
    pub max_text_tokens: u32,
    /// Most bytes of vectors of one request; a larger request is
    /// [`BadPrompt`](crate::models::ModelError::BadPrompt). Default: 256 MiB.
    pub max_vector_bytes: usize,
    /// Number of requests that may wait besides the 16 being served; one more is
    /// [`Busy`](crate::models::ModelError::Busy). Default: 64.
    pub max_waiting: usize,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            max_tokens: BATCH_TOKENS,
            max_texts: BATCH_TEXTS,
            max_text_tokens: TEXT_TOKENS,
            max_vector_bytes: VECTOR_BYTES,
            max_waiting: WAITING,
        }
    }
}

impl Batching {
    /// The sizes for a model on an accelerator: batches of 2,048 tokens.
    pub fn accelerator() -> Self {
        Self::default().max_tokens(ACCELERATOR_BATCH_TOKENS)
    }

    /// Sets the number of tokens of a batch.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the number of texts of a batch.
    #[must_use]
    pub fn max_texts(mut self, texts: u32) -> Self {
        self.max_texts = texts;
        self
    }

    /// Sets the number of tokens to which a text is truncated.
    #[must_use]
    pub fn max_text_tokens(mut self, tokens: u32) -> Self {
        self.max_text_tokens = tokens;
        self
    }

    /// Sets the size in bytes of the vectors of a request.
    #[must_use]
    pub fn max_vector_bytes(mut self, bytes: usize) -> Self {
        self.max_vector_bytes = bytes;
        self
    }

    /// Sets how many requests may wait.
    #[must_use]
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.max_waiting = requests;
        self
    }
}

/// The statistics of a model since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchStats {
    /// Number of texts, or of pairs of a query and a passage.
    pub texts: u64,
    /// Number of texts that were longer than the model allows and were truncated.
    pub cut: u64,
    /// Number of tokens, including those that the model adds to a text.
    pub tokens: u64,
    /// Number of batches.
    pub batches: u64,
}

/// The counters behind [`BatchStats`] and the metrics.
#[derive(Debug)]
pub(super) struct Counts {
    model: String,
    work: &'static str,
    texts: AtomicU64,
    cut: AtomicU64,
    tokens: AtomicU64,
    batches: AtomicU64,
}

impl Counts {
    pub(super) fn new(model: String, work: &'static str) -> Self {
        Self {
            model,
            work,
            texts: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            batches: AtomicU64::new(0),
        }
    }

    /// The model's name.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Records a computed batch.
    pub(super) fn batch(&self, texts: usize, cut: usize, tokens: usize, took: Duration) {
        let labels = [("model", self.model.clone()), ("work", self.work.to_owned())];
        let count = |own: &AtomicU64, name: &'static str, more: usize| {
            own.fetch_add(more as u64, Ordering::Relaxed);
            metrics::counter!(name, &labels).increment(more as u64);
        };
        count(&self.texts, "ragwire_llama_texts_total", texts);
        count(&self.cut, "ragwire_llama_texts_cut_total", cut);
        count(&self.tokens, "ragwire_llama_text_tokens_total", tokens);
        count(&self.batches, "ragwire_llama_batches_total", 1);
        metrics::histogram!("ragwire_llama_batch_seconds", &labels).record(took);
    }

    pub(super) fn stats(&self) -> BatchStats {
        BatchStats {
            texts: self.texts.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
        }
    }
}
