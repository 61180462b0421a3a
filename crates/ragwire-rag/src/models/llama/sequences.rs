//! A llama.cpp context that processes many texts at a time, each as its own sequence.
//!
//! llama.cpp aborts the process if a batch is larger than its context allows, if a position is read
//! that was not computed, or if the number of tokens of a context is not divisible by the number of
//! its sequences. Therefore nothing else in this folder builds a batch for vectors:
//! [`Sequences::add`] accepts only sequences that fit, and results are read by sequence. This
//! module does not know texts, requests or threads.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use llama_cpp_2::DecodeError;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{LlamaContextParams, LlamaPoolingType};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::models::ModelError;

/// Number of sequences that llama.cpp supports at most (`LLAMA_MAX_SEQ`).
pub(super) const MAX_SEQUENCES: u32 = 256;

/// The size of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Number of tokens of a batch at most, and so of a text.
    pub(super) tokens: u32,
    /// Number of texts of a batch at most.
    pub(super) sequences: u32,
    /// Number of threads that compute.
    pub(super) threads: i32,
}

impl Size {
    /// Returns the least number of bytes that a context of this size takes: for every token a logit
    /// for every word, which llama.cpp stores even though nothing reads them, and 16-bit keys and
    /// values if the model writes.
    pub(super) fn bytes(self, model: &LlamaModel) -> u64 {
        let words = u64::from(model.n_vocab().unsigned_abs());
        let heads = u64::from(model.n_head_kv()) * 4 * u64::from(model.n_layer());
        let width = u64::from(model.n_embd().unsigned_abs()) / u64::from(model.n_head().max(1));
        u64::from(self.tokens) * (words * 4 + heads * width)
    }
}

/// Why a batch has no usable result.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ComputeError {
    #[error("llama.cpp failed to compute a batch")]
    Decode(#[source] Arc<DecodeError>),
    #[error("llama.cpp returned no vector for a sequence")]
    Missing,
    #[error("the model computed something that is no number")]
    NotFinite,
}

impl From<ComputeError> for ModelError {
    fn from(error: ComputeError) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// A context and its batch.
pub(super) struct Sequences<'m> {
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    /// The token range of each sequence in the batch.
    ranges: Vec<Range<usize>>,
    max_tokens: usize,
    max_sequences: usize,
}

impl<'m> Sequences<'m> {
    /// Creates a context of that size and pooling. Returns `None` if llama.cpp cannot create one,
    /// usually because memory is short.
    pub(super) fn open(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        pooling: LlamaPoolingType,
        size: Size,
    ) -> Option<Self> {
        let sequences = size.sequences.clamp(1, MAX_SEQUENCES);
        // llama.cpp reserves the same number of tokens for each sequence and rounds up if that does
        // not divide evenly. It then aborts the process, because pooling was set up with the number
        // before rounding.
        let tokens = size.tokens.next_multiple_of(sequences);
        let params = LlamaContextParams::default()
            // A batch is computed as a whole and the context is cleared before each, so more cells
            // are not needed.
            .with_n_ctx(NonZeroU32::new(tokens))
            .with_n_batch(tokens)
            .with_n_ubatch(tokens)
            .with_n_seq_max(sequences)
            // All sequences share the cells: one long text may take all of them.
            .with_kv_unified(true)
            .with_embeddings(true)
            .with_pooling_type(pooling)
            .with_n_threads(size.threads)
            .with_n_threads_batch(size.threads);
        let context = model.new_context(backend, params).ok()?;
        // Reads the actual size, because llama.cpp rounds. A sequence in two micro-batches would be
        // pooled twice, so the smaller size counts.
        let max_tokens = context.n_batch().min(context.n_ubatch()).min(size.tokens) as usize;
        Some(Self {
            batch: LlamaBatch::new(max_tokens, 1),
            context,
            ranges: Vec::new(),
            max_tokens,
            max_sequences: sequences as usize,
        })
    }

    /// Returns the number of tokens of one sequence at most.
    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Returns the number of sequences in the batch.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of tokens in the batch.
    pub(super) fn tokens(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.ranges.clear();
    }

    /// Adds a sequence if all of it fits; otherwise the batch is unchanged. A sequence without
    /// tokens never fits.
    pub(super) fn add(&mut self, tokens: &[LlamaToken]) -> bool {
        let start = self.tokens();
        let end = start + tokens.len();
        if tokens.is_empty() || end > self.max_tokens || self.len() == self.max_sequences {
            return false;
        }
        let sequence = self.ranges.len() as i32;
        // The sequence fits, and `logits` is true for all tokens, so every vector may be read.
        if self.batch.add_sequence(tokens, sequence, true).is_err() {
            return false;
        }
        self.ranges.push(start..end);
        true
    }

    /// Computes the batch.
    pub(super) fn compute(&mut self) -> Result<(), ComputeError> {
        if self.ranges.is_empty() {
            return Ok(());
        }
        self.context.clear_kv_cache();
        self.context
            .decode(&mut self.batch)
            .map_err(|error| ComputeError::Decode(Arc::new(error)))
    }

    /// Returns the pooled vector of a sequence.
    pub(super) fn pooled(&self, sequence: usize) -> Result<Vec<f32>, ComputeError> {
        if sequence >= self.ranges.len() {
            return Err(ComputeError::Missing);
        }
        let vector = self
            .context
            .embeddings_seq_ith(sequence as i32)
            .map_err(|_| ComputeError::Missing)?;
        finite(vector)
    }

    /// Returns the vectors of some tokens of a sequence. The batch must have been computed without
    /// pooling.
    pub(super) fn each(&self, sequence: usize, words: Range<usize>) -> Result<Vec<Vec<f32>>, ComputeError> {
        let range = self.ranges.get(sequence).ok_or(ComputeError::Missing)?.clone();
        let words = range.start + words.start..(range.start + words.end).min(range.end);
        words
            .map(|index| {
                let vector = self
                    .context
                    .embeddings_ith(index as i32)
                    .map_err(|_| ComputeError::Missing)?;
                finite(vector)
            })
            .collect()
    }
}

fn finite(vector: &[f32]) -> Result<Vec<f32>, ComputeError> {
    if vector.iter().all(|value| value.is_finite()) {
        Ok(vector.to_vec())
    } else {
        Err(ComputeError::NotFinite)
    }
}
