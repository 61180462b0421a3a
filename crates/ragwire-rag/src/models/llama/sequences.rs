//! One context of llama.cpp through which texts go many at a time, each a sequence of its own.
//!
//! llama.cpp ends the whole process where a batch is larger than its context allows, where a position is asked for that was not computed, or
//! where a context has room for a number of tokens that its sequences do not divide. So nothing else in this folder builds a batch for vectors: [`Sequences::add`] takes only what fits, and what is read is by
//! sequence. It does not know texts, requests or threads.

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

/// Sequences that llama.cpp can tell apart (`LLAMA_MAX_SEQ`).
pub(super) const MAX_SEQUENCES: u32 = 256;

/// How large a context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Most tokens of a batch, and so of a text.
    pub(super) tokens: u32,
    /// Most texts of a batch.
    pub(super) sequences: u32,
    /// Threads that compute.
    pub(super) threads: i32,
}

impl Size {
    /// Bytes that a context of this size has at least: a logit of every token for every word, which llama.cpp keeps although nobody reads
    /// them, and keys and values of 16 bits where the model writes.
    pub(super) fn bytes(self, model: &LlamaModel) -> u64 {
        let words = u64::from(model.n_vocab().unsigned_abs());
        let heads = u64::from(model.n_head_kv()) * 4 * u64::from(model.n_layer());
        let width = u64::from(model.n_embd().unsigned_abs()) / u64::from(model.n_head().max(1));
        u64::from(self.tokens) * (words * 4 + heads * width)
    }
}

/// llama.cpp did not compute a batch, or what it computed is no number.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ComputeError {
    #[error("llama.cpp failed to compute a batch")]
    Decode(#[source] Arc<DecodeError>),
    #[error("llama.cpp gave no vector for a sequence")]
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
    /// Which tokens of the batch are whose.
    ranges: Vec<Range<usize>>,
    max_tokens: usize,
    max_sequences: usize,
}

impl<'m> Sequences<'m> {
    /// A context of that size and pooling. Nothing where llama.cpp cannot make one, which is mostly for want of memory.
    pub(super) fn open(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        pooling: LlamaPoolingType,
        size: Size,
    ) -> Option<Self> {
        let sequences = size.sequences.clamp(1, MAX_SEQUENCES);
        // llama.cpp makes room for as many tokens of each sequence, rounds up where that does not come out even, and then aborts the process
        // since pooling was told the number before.
        let tokens = size.tokens.next_multiple_of(sequences);
        let params = LlamaContextParams::default()
            // A batch is whole and the context is emptied before each, so it needs no more room than that.
            .with_n_ctx(NonZeroU32::new(tokens))
            .with_n_batch(tokens)
            .with_n_ubatch(tokens)
            .with_n_seq_max(sequences)
            // One room for all sequences: a long text may take it whole.
            .with_kv_unified(true)
            .with_embeddings(true)
            .with_pooling_type(pooling)
            .with_n_threads(size.threads)
            .with_n_threads_batch(size.threads);
        let context = model.new_context(backend, params).ok()?;
        // What it became: llama.cpp rounds. A sequence that lay in two micro-batches would be pooled twice, so the smaller one counts.
        let max_tokens = context.n_batch().min(context.n_ubatch()).min(size.tokens) as usize;
        Some(Self {
            batch: LlamaBatch::new(max_tokens, 1),
            context,
            ranges: Vec::new(),
            max_tokens,
            max_sequences: sequences as usize,
        })
    }

    /// Most tokens of one sequence.
    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// How many sequences are in the batch.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// How many tokens are in the batch.
    pub(super) fn tokens(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.ranges.clear();
    }

    /// Adds a sequence if there is room for all of it; else the batch stays as it was. One without tokens never has.
    pub(super) fn add(&mut self, tokens: &[LlamaToken]) -> bool {
        let start = self.tokens();
        let end = start + tokens.len();
        if tokens.is_empty() || end > self.max_tokens || self.len() == self.max_sequences {
            return false;
        }
        let sequence = self.ranges.len() as i32;
        // There is room, and `logits` is true for all: every vector may be asked for.
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

    /// What the model's pooling made of a sequence.
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

    /// The vectors of some tokens of a sequence, which has to be computed without pooling.
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
