//! What a chat engine is made with.
//!
//! It loads nothing.

use std::sync::Arc;

use llama_cpp_2::context::params::KvCacheType;

use super::LoadError;
use super::backend::LlamaFile;
use super::stats::{Observer, Step};

/// Tokens of prompt and answer together, where the options do not say and the model was trained on more: beyond that the cells outweigh the
/// weights of a small model.
const DEFAULT_CONTEXT_TOKENS: u32 = 8_192;
/// Generations at once: enough to keep an accelerator busy, few enough for a CPU.
const DEFAULT_SLOTS: u32 = 4;
/// Most generations at once.
pub const MAX_SLOTS: u32 = 64;
/// Generations that wait for a slot before the engine is busy: about a minute's worth at a few seconds each.
const DEFAULT_WAITING: u32 = 32;
/// Most generations that wait.
pub const MAX_WAITING: u32 = 4_096;
/// Finished sequences whose beginnings are kept.
const DEFAULT_PREFIXES: u32 = 8;
/// Most of them. Together with [`MAX_SLOTS`] half of the sequences that llama.cpp has.
pub const MAX_PREFIXES: u32 = 64;
/// Tokens of a batch: what llama.cpp computes at once by default.
const DEFAULT_STEP_TOKENS: u32 = 512;
/// Most tokens of a batch.
pub const MAX_STEP_TOKENS: u32 = 8_192;
/// Prompt tokens in a step that answers share: a step stays a few times as long as one without, not a hundred times.
const DEFAULT_SLICE_TOKENS: u32 = 128;

/// How precisely the context is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cells {
    /// 32 bits a number, and no flash attention, which computes in 16: the same tokens however many run beside, at some cost.
    F32,
    /// 16 bits, llama.cpp's default.
    #[default]
    F16,
    /// 8.5 bits: half the memory. Needs flash attention, and heads of a multiple of 32.
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

    /// Bytes of so many numbers.
    pub(super) fn bytes(self, numbers: u64) -> u64 {
        match self {
            Self::F32 => numbers.saturating_mul(4),
            Self::F16 => numbers.saturating_mul(2),
            Self::Q8 => numbers.saturating_mul(34) / 32,
        }
    }
}

/// What a [`LlamaEngine`](super::LlamaEngine) is made with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LlamaOptions {
    /// The model, and what is to compute it.
    pub file: LlamaFile,
    /// Its name in events and usage; none takes the file's own.
    pub name: Option<String>,
    /// Tokens that prompt and answer may have together, at most as many as the model was trained on.
    /// Default: that number, up to 8,192.
    pub context_tokens: Option<u32>,
    /// Tokens that all generations may have together. None takes [`context_tokens`](Self::context_tokens) for each slot; less saves memory,
    /// and generations wait for cells.
    pub cells: Option<u32>,
    /// How precisely they are kept.
    pub cell_kind: Cells,
    /// Generations at once, 1 to [`MAX_SLOTS`].
    pub slots: u32,
    /// Generations that wait beyond those, up to [`MAX_WAITING`]; one more is refused as busy.
    pub waiting: u32,
    /// Finished sequences whose beginnings later prompts may share, up to [`MAX_PREFIXES`]; 0 shares nothing.
    pub prefixes: u32,
    /// Tokens of a batch, more than there are slots, up to [`MAX_STEP_TOKENS`].
    pub step_tokens: u32,
    /// Prompt tokens in a step that answers share, at least 1.
    pub slice_tokens: u32,
    /// A chat template instead of the model's: a name that llama.cpp knows, such as `chatml` or `llama3`, or the text of one.
    pub template: Option<String>,
    pub(super) observer: Option<Observer>,
}

impl LlamaOptions {
    /// The model in `file`, with the defaults.
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

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the tokens of prompt and answer together.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// Sets the tokens of all generations together.
    #[must_use]
    pub fn cells(mut self, cells: u32) -> Self {
        self.cells = Some(cells);
        self
    }

    /// Sets how precisely the context is kept.
    #[must_use]
    pub fn cell_kind(mut self, kind: Cells) -> Self {
        self.cell_kind = kind;
        self
    }

    /// Sets the generations at once.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Sets how many wait beyond those.
    #[must_use]
    pub fn waiting(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self
    }

    /// Sets how many finished sequences are kept for their beginnings.
    #[must_use]
    pub fn prefixes(mut self, prefixes: u32) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Sets the tokens of a batch.
    #[must_use]
    pub fn step_tokens(mut self, tokens: u32) -> Self {
        self.step_tokens = tokens;
        self
    }

    /// Sets the prompt tokens in a step that answers share.
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

    /// Tells `observer` of every step, on the engine's thread: it holds up all generations for as long as it takes, and a panic of it is one
    /// of the engine's.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer(Arc::new(observer)));
        self
    }

    /// Sequences of the context.
    pub(super) fn sequences(&self) -> u32 {
        self.slots + self.prefixes
    }

    /// What can be told without the model.
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

    /// Tokens of one generation and of all together, for a model trained on `trained`.
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
