//! The options of a chat engine.
//!
//! Nothing here loads a model.

use std::sync::Arc;

use llama_cpp_2::context::params::KvCacheType;

use super::LoadError;
use super::backend::LlamaFile;
use super::stats::{Observer, Step};

/// Number of tokens of prompt and answer together, if the options do not set it and the model was
/// trained on more: with more, the cells take more memory than the weights of a small model.
const DEFAULT_CONTEXT_TOKENS: u32 = 8_192;
/// Number of generations at a time: enough to keep an accelerator busy, few enough for a CPU.
const DEFAULT_SLOTS: u32 = 4;
/// Number of generations at a time at most.
pub const MAX_SLOTS: u32 = 64;
/// Number of generations that wait for a slot before the engine is busy: about a minute of work at
/// a few seconds each.
const DEFAULT_WAITING: u32 = 32;
/// Number of waiting generations at most.
pub const MAX_WAITING: u32 = 4_096;
/// Number of finished sequences whose prefixes are kept.
const DEFAULT_PREFIXES: u32 = 8;
/// Number of kept sequences at most. Together with [`MAX_SLOTS`] it is half of the sequences that
/// llama.cpp supports.
pub const MAX_PREFIXES: u32 = 64;
/// Number of tokens of a batch: llama.cpp's default for one computation.
const DEFAULT_STEP_TOKENS: u32 = 512;
/// Number of tokens of a batch at most.
pub const MAX_STEP_TOKENS: u32 = 8_192;
/// Number of prompt tokens in a step that also decodes answers. Such a step takes a few times as
/// long as one without prompts, not a hundred times.
const DEFAULT_SLICE_TOKENS: u32 = 128;

/// The precision of the context's cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cells {
    /// 32 bits per number, without flash attention, which computes in 16 bits. On a CPU the tokens
    /// are the same however many generations run at a time, at some cost in speed. CUDA adds in
    /// another order for other batches, so that drawn tokens may differ there.
    F32,
    /// 16 bits per number, llama.cpp's default.
    #[default]
    F16,
    /// 8.5 bits per number: half the memory. Needs flash attention, and heads whose size is a
    /// multiple of 32.
    Q8,
}

impl Cells {
    pub(super) fn kind(self) -> KvCacheType {
        match self {
            Self::F32 => KvCacheType::F32,
            Self::F16 => KvCacheType::F16,
            Self::Q8 => KvCacheType::Q8_0,
        }
    }

    /// Returns the bytes that so many numbers take.
    pub(super) fn bytes(self, numbers: u64) -> u64 {
        match self {
            Self::F32 => numbers.saturating_mul(4),
            Self::F16 => numbers.saturating_mul(2),
            Self::Q8 => numbers.saturating_mul(34) / 32,
        }
    }
}

/// The options of a [`LlamaEngine`](super::LlamaEngine).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LlamaOptions {
    /// The model's file, and the devices that compute it.
    pub file: LlamaFile,
    /// The model's name in events and usage; if `None`, the file's.
    pub name: Option<String>,
    /// Number of tokens that prompt and answer may have together, at most as many as the model was
    /// trained on. Default: that number, up to 8,192.
    pub context_tokens: Option<u32>,
    /// Number of tokens that all generations may have together. If `None`,
    /// [`context_tokens`](Self::context_tokens) for each slot. A smaller number saves memory, but
    /// generations may have to wait for cells.
    pub cells: Option<u32>,
    /// The precision of the cells.
    pub cell_kind: Cells,
    /// Number of generations at a time, 1 to [`MAX_SLOTS`].
    pub slots: u32,
    /// Number of generations that may wait besides those, up to [`MAX_WAITING`]; one more is
    /// refused as busy.
    pub waiting: u32,
    /// Number of finished sequences whose prefixes later prompts may share, up to [`MAX_PREFIXES`];
    /// 0 disables sharing.
    pub prefixes: u32,
    /// Number of tokens of a batch: more than there are slots, up to [`MAX_STEP_TOKENS`].
    pub step_tokens: u32,
    /// Number of prompt tokens in a step that also decodes answers, at least 1.
    pub slice_tokens: u32,
    /// A chat template to use instead of the model's: a name that llama.cpp knows, such as `chatml`
    /// or `llama3`, or the text of a template.
    pub template: Option<String>,
    pub(super) observer: Option<Observer>,
}

impl LlamaOptions {
    /// Options for the model in `file`, with the defaults.
    pub fn new(file: impl Into<LlamaFile>) -> Self {
        Self {
            file: file.into(),
            name: None,
            context_tokens: None,
            cells: None,
            cell_kind: Cells::default(),
            slots: DEFAULT_SLOTS,
            waiting: DEFAULT_WAITING,
            prefixes: DEFAULT_PREFIXES,
            step_tokens: DEFAULT_STEP_TOKENS,
            slice_tokens: DEFAULT_SLICE_TOKENS,
            template: None,
            observer: None,
        }
    }

    /// Sets the model's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the number of tokens of prompt and answer together.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// Sets the number of tokens of all generations together.
    #[must_use]
    pub fn cells(mut self, cells: u32) -> Self {
        self.cells = Some(cells);
        self
    }

    /// Sets the precision of the cells.
    #[must_use]
    pub fn cell_kind(mut self, kind: Cells) -> Self {
        self.cell_kind = kind;
        self
    }

    /// Sets the number of generations at a time.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the number of generations that may wait besides those.
    #[must_use]
    pub fn waiting(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self
    }

    /// Sets the number of finished sequences whose prefixes are kept.
    #[must_use]
    pub fn prefixes(mut self, prefixes: u32) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Sets the number of tokens of a batch.
    #[must_use]
    pub fn step_tokens(mut self, tokens: u32) -> Self {
        self.step_tokens = tokens;
        self
    }

    /// Sets the number of prompt tokens in a step that also decodes answers.
    #[must_use]
    pub fn slice_tokens(mut self, tokens: u32) -> Self {
        self.slice_tokens = tokens;
        self
    }

    /// Sets the chat template.
    #[must_use]
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Calls `observer` after every step, on the engine's thread. It delays all generations while
    /// it runs, and if it panics, the engine panics.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer(Arc::new(observer)));
        self
    }

    /// Returns the number of sequences of the context.
    pub(super) fn sequences(&self) -> u32 {
        self.slots + self.prefixes
    }

    /// Checks everything that does not depend on the model.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let in_range = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(LoadError::Options(format!("{name} must be {least} to {most}")))
        };
        in_range("slots", self.slots, 1, MAX_SLOTS)?;
        in_range("waiting", self.waiting, 0, MAX_WAITING)?;
        in_range("prefixes", self.prefixes, 0, MAX_PREFIXES)?;
        in_range("step_tokens", self.step_tokens, self.slots + 1, MAX_STEP_TOKENS)?;
        in_range("slice_tokens", self.slice_tokens, 1, MAX_STEP_TOKENS)
    }

    /// Returns the number of tokens of one generation, and of all together, for a model trained on
    /// `trained`.
    pub(super) fn sizes(&self, trained: u32) -> Result<(u32, u32), LoadError> {
        let context = self
            .context_tokens
            .unwrap_or_else(|| trained.min(DEFAULT_CONTEXT_TOKENS));
        if !(2..=trained).contains(&context) {
            return Err(LoadError::Options(format!(
                "context_tokens must be 2 to {trained}"
            )));
        }
        let cells = self.cells.unwrap_or_else(|| context.saturating_mul(self.slots));
        if cells < context || i32::try_from(cells).is_err() {
            return Err(LoadError::Options(
                "cells must be at least context_tokens".to_owned(),
            ));
        }
        Ok((context, cells))
    }
}
