//! What the engine counts: a snapshot to ask for, a report of every step, and the same in `metrics`.
//!
//! It decides nothing.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{counter, gauge, histogram};

use crate::models::{FinishReason, Finished};

/// What an engine has done and does. Taken after each step, and whenever something begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LlamaStats {
    /// Batches decoded.
    pub steps: u64,
    /// Generations that may have a slot at a time.
    pub slots: u32,
    /// Generations that have a slot now.
    pub running: u32,
    /// Those of them whose reader is behind.
    pub paused: u32,
    /// Generations that wait for a slot or for cells.
    pub waiting: u32,
    /// Cells of the context: tokens that it has room for.
    pub cells: u32,
    /// Cells promised to those that run: prompt and longest answer of each.
    pub cells_reserved: u32,
    /// Cells of what finished ones left behind.
    pub cells_cached: u32,
    /// Prompt tokens decoded.
    pub prompt_tokens: u64,
    /// Prompt tokens that were shared and not decoded.
    pub cached_tokens: u64,
    /// Answer tokens chosen.
    pub answer_tokens: u64,
    /// Generations that came to their end.
    pub finished: u64,
    /// Generations whose reader went away.
    pub cancelled: u64,
    /// Generations that failed after they had got a slot.
    pub failed: u64,
}

/// One batch that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Counted from 1.
    pub number: u64,
    /// Generations that went on by one token.
    pub answer_tokens: u32,
    /// Tokens of prompts.
    pub prompt_tokens: u32,
    /// Generations that have a slot, after the step.
    pub running: u32,
    /// Those of them whose reader is behind.
    pub paused: u32,
}

/// Told of every step, on the engine's thread: it holds up all generations for as long as it takes, and a panic of it is one of the engine's.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<dyn Fn(&Step) + Send + Sync>);

impl Debug for Observer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Where the engine's thread writes and its handles read.
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

/// How a generation ended, in `metrics`.
pub(super) fn outcome(model: &str, outcome: &'static str) {
    counter!("ragwire_llama_generations_total", "model" => model.to_owned(), "outcome" => outcome)
        .increment(1);
}

/// What a finished generation came to, in `metrics`.
pub(super) fn finished(model: &str, finished: &Finished) {
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

/// What changed between two snapshots, in `metrics`.
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
