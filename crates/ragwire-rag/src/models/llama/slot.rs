//! A running generation: its sequence, how much of its prompt is decoded, and its answer so far.
//!
//! This module knows neither the context nor the other generations.

use std::time::Instant;

use llama_cpp_2::token::LlamaToken;
use tokio::sync::OwnedSemaphorePermit;

use super::outlet::Outlet;
use super::sampling::{Choice, Chooser};
use super::text::Answer;
use crate::models::{FinishReason, GenerationEnd, ModelError};

/// A prompt that was checked completely and is ready to be decoded.
pub(super) struct PreparedRequest {
    pub(super) tokens: Vec<LlamaToken>,
    pub(super) max_tokens: u32,
    pub(super) chooser: Chooser,
    pub(super) answer: Answer,
    pub(super) outlet: Outlet,
    /// Its permit among the generations that run or wait.
    pub(super) place: OwnedSemaphorePermit,
}

impl PreparedRequest {
    /// Returns the number of cells that the generation takes at most.
    pub(super) fn cells(&self) -> usize {
        self.tokens.len() + self.max_tokens as usize
    }
}

/// Why a generation leaves its slot.
#[derive(Debug)]
pub(super) enum Ending {
    /// The answer is complete.
    Finished(FinishReason),
    /// The reader has disconnected.
    Gone,
    /// The generation failed.
    Failed(ModelError),
}

/// A generation with its own sequence.
pub(super) struct Slot {
    pub(super) sequence: i32,
    /// The tokens of the prompt, followed by those of the answer.
    tokens: Vec<LlamaToken>,
    /// Number of tokens of the prompt.
    prompt: usize,
    /// Number of tokens that are decoded in the sequence.
    decoded: usize,
    /// Number of those that were copied from another sequence.
    shared: usize,
    /// Whether the prompt was compared with the prefixes that others have decoded.
    pub(super) looked: bool,
    max_tokens: u32,
    answered: u32,
    /// Largest number of slots in one batch with it, itself included.
    busy: u32,
    pub(super) chooser: Chooser,
    answer: Answer,
    pub(super) outlet: Outlet,
    began: Option<Instant>,
    first: Option<Instant>,
    last: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl Slot {
    pub(super) fn new(prepared: PreparedRequest, sequence: i32) -> Self {
        Self {
            sequence,
            prompt: prepared.tokens.len(),
            tokens: prepared.tokens,
            decoded: 0,
            shared: 0,
            looked: false,
            max_tokens: prepared.max_tokens,
            answered: 0,
            busy: 0,
            chooser: prepared.chooser,
            answer: prepared.answer,
            outlet: prepared.outlet,
            began: None,
            first: None,
            last: None,
            _place: prepared.place,
        }
    }

    /// Returns the number of cells that are reserved for it.
    pub(super) fn cells(&self) -> usize {
        self.prompt + self.max_tokens as usize
    }

    /// Returns `true` while its prompt is not decoded completely.
    pub(super) fn is_feeding(&self) -> bool {
        self.decoded < self.prompt
    }

    /// Returns the part of the prompt that other generations may share: all but the last token,
    /// whose logits begin the answer.
    pub(super) fn shareable(&self) -> &[LlamaToken] {
        &self.tokens[..self.prompt - 1]
    }

    /// Returns the tokens that are decoded in its sequence.
    pub(super) fn done(&self) -> &[LlamaToken] {
        &self.tokens[..self.decoded]
    }

    /// Returns the tokens that will be in its sequence once its prompt is decoded.
    pub(super) fn coming(&self) -> &[LlamaToken] {
        &self.tokens[..self.decoded.max(self.prompt)]
    }

    /// Records that its first tokens are already in its sequence.
    pub(super) fn share(&mut self, tokens: usize) {
        self.looked = true;
        self.shared = tokens;
        self.decoded = tokens;
    }

    /// Returns at most `most` of the next tokens to decode, the position of the first, and whether
    /// they reach the end, so that the logits of the last one are needed.
    pub(super) fn next(&mut self, most: usize) -> (&[LlamaToken], usize, bool) {
        self.began.get_or_insert_with(Instant::now);
        let end = self.tokens.len().min(self.decoded + most);
        (
            &self.tokens[self.decoded..end],
            self.decoded,
            end == self.tokens.len(),
        )
    }

    /// Records that so many of them were decoded, in a batch of so many slots.
    pub(super) fn advance(&mut self, tokens: usize, busy: u32) {
        self.decoded += tokens;
        self.busy = self.busy.max(busy);
    }

    /// Adds the next token with its bytes. Returns `None` while the answer continues.
    pub(super) fn take(&mut self, choice: Choice, bytes: &[u8]) -> Option<FinishReason> {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        let Choice::Token(token) = choice else {
            return Some(FinishReason::Stop);
        };
        self.answered += 1;
        let out = self.answer.push(bytes);
        self.outlet.send(out.text);
        if out.stopped {
            return Some(FinishReason::Stop);
        }
        if self.answered == self.max_tokens {
            return Some(FinishReason::Length);
        }
        self.tokens.push(token);
        None
    }

    /// Ends the generation, given the engine's number of slots. Returns the tokens that are decoded
    /// in the sequence, and the last message for the reader.
    pub(super) fn end(self, ending: Ending, slots: u32) -> (Vec<LlamaToken>, Option<Farewell>) {
        let ms = |from: Option<Instant>, to: Option<Instant>| {
            Some(to?.saturating_duration_since(from?).as_secs_f64() * 1e3)
        };
        let mut decoded = self.tokens;
        decoded.truncate(self.decoded);
        let (text, end) = match ending {
            Ending::Finished(reason) => {
                let rest = self.answer.finish();
                let mut finished = GenerationEnd::new(if rest.stopped { FinishReason::Stop } else { reason });
                finished.prompt_tokens = u32::try_from(self.prompt).ok();
                finished.cached_tokens = u32::try_from(self.shared).ok();
                finished.answer_tokens = Some(self.answered);
                finished.prompt_ms = ms(self.began, self.first);
                finished.generation_ms = ms(self.first, self.last);
                finished.slots = Some(slots);
                finished.slots_busy = Some(self.busy);
                (rest.text, Ok(finished))
            }
            Ending::Failed(error) => (String::new(), Err(error)),
            Ending::Gone => return (decoded, None),
        };
        let outlet = self.outlet;
        (decoded, Some(Farewell { outlet, text, end }))
    }
}

/// The last message to a reader. It is separate so that all statistics are updated before the
/// reader sees the end.
#[derive(Debug)]
pub(super) struct Farewell {
    outlet: Outlet,
    text: String,
    pub(super) end: Result<GenerationEnd, ModelError>,
}

impl Farewell {
    pub(super) fn send(self) {
        match self.end {
            Ok(finished) => self.outlet.finish(self.text, finished),
            Err(error) => self.outlet.fail(error),
        }
    }
}
