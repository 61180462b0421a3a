//! The statistics of the engine: a snapshot, a report of every step, and the same figures as
//! `metrics`.
//!
//! This module only records; it decides nothing.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{counter, gauge, histogram};

use crate::models::{FinishReason, GenerationEnd};

/// The state of an engine and its totals so far, updated after each step and whenever a generation
/// begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlamaStats {
    /// Number of batches decoded.
    pub steps: u64,
    /// Number of generations that may have a slot at a time.
    pub slots: u32,
    /// Number of generations that have a slot now.
    pub running: u32,
    /// Number of those whose reader is behind.
    pub paused: u32,
    /// Number of generations that wait for a slot or for cells.
    pub waiting: u32,
    /// Number of cells of the context; each stores one token.
    pub cells: u32,
    /// Number of cells reserved for running generations: prompt and longest answer of each.
    pub cells_reserved: u32,
    /// Number of cells that the prefixes of finished generations take.
    pub cells_cached: u32,
    /// Number of prompt tokens decoded.
    pub prompt_tokens: u64,
    /// Number of prompt tokens that were shared instead of decoded.
    pub cached_tokens: u64,
    /// Number of answer tokens chosen.
    pub answer_tokens: u64,
    /// Number of generations that completed.
    pub finished: u64,
    /// Number of generations whose reader disconnected.
    pub cancelled: u64,
    /// Number of generations that failed after they had a slot.
    pub failed: u64,
}

/// A decoded batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The number of the step, counted from 1.
    pub number: u64,
    /// Number of generations that advanced by one token.
    pub answer_tokens: u32,
    /// Number of prompt tokens.
    pub prompt_tokens: u32,
    /// Number of generations that have a slot after the step.
    pub running: u32,
    /// Number of those whose reader is behind.
    pub paused: u32,
}

/// A function that is called after every step, on the engine's thread. It delays all generations
/// while it runs, and if it panics, the engine panics.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<dyn Fn(&Step) + Send + Sync>);

impl Debug for Observer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// The statistics that the engine's thread writes and its handles read.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<LlamaStats>>);

impl Board {
    pub(super) fn read(&self) -> LlamaStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, stats: LlamaStats) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }
}

/// Records in `metrics` how a generation ended.
pub(super) fn outcome(model: &str, outcome: &'static str) {
    counter!("ragwire_llama_generations_total", "model" => model.to_owned(), "outcome" => outcome)
        .increment(1);
}

/// Records the figures of a finished generation in `metrics`.
pub(super) fn finished(model: &str, finished: &GenerationEnd) {
    outcome(
        model,
        match finished.reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        },
    );
    let model = model.to_owned();
    if let Some(ms) = finished.prompt_ms {
        histogram!("ragwire_llama_prompt_seconds", "model" => model.clone()).record(ms / 1e3);
    }
    if let Some(ms) = finished.generation_ms {
        histogram!("ragwire_llama_generation_seconds", "model" => model.clone()).record(ms / 1e3);
    }
    if let Some(rate) = finished.tokens_per_second() {
        histogram!("ragwire_llama_tokens_per_second", "model" => model).record(rate);
    }
}

/// Records the difference between two snapshots in `metrics`.
pub(super) fn changed(model: &str, before: &LlamaStats, after: &LlamaStats) {
    let count = |name: &'static str, before: u64, after: u64| {
        if after > before {
            counter!(name, "model" => model.to_owned()).increment(after - before);
        }
    };
    count("ragwire_llama_steps_total", before.steps, after.steps);
    count(
        "ragwire_llama_prompt_tokens_total",
        before.prompt_tokens,
        after.prompt_tokens,
    );
    count(
        "ragwire_llama_cached_tokens_total",
        before.cached_tokens,
        after.cached_tokens,
    );
    count(
        "ragwire_llama_answer_tokens_total",
        before.answer_tokens,
        after.answer_tokens,
    );
    let show = |name: &'static str, before: u32, after: u32| {
        if before != after {
            gauge!(name, "model" => model.to_owned()).set(f64::from(after));
        }
    };
    show("ragwire_llama_slots", before.slots, after.slots);
    show("ragwire_llama_running", before.running, after.running);
    show("ragwire_llama_paused", before.paused, after.paused);
    show("ragwire_llama_waiting", before.waiting, after.waiting);
    show(
        "ragwire_llama_cells_reserved",
        before.cells_reserved,
        after.cells_reserved,
    );
    show(
        "ragwire_llama_cells_cached",
        before.cells_cached,
        after.cells_cached,
    );
}

#[cfg(test)]
mod tests;
