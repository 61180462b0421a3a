//! One generation while it runs: its sequence, how far its prompt is fed, and what it has answered.
//!
//! It knows neither the context nor the other generations.

use std::time::Instant;

use llama_cpp_2::token::LlamaToken;
use tokio::sync::OwnedSemaphorePermit;

use super::outlet::Outlet;
use super::sampling::{Choice, Chooser};
use super::text::Answer;
use crate::models::{FinishReason, Finished, ModelError};

/// A prompt made ready: everything that can be wrong with it has been looked at.
pub(super) struct Prepared {
    pub(super) tokens: Vec<LlamaToken>,
    pub(super) max_tokens: u32,
    pub(super) chooser: Chooser,
    pub(super) answer: Answer,
    pub(super) outlet: Outlet,
    /// Its place among those that run or wait.
    pub(super) place: OwnedSemaphorePermit,
}

impl Prepared {
    /// Cells that it takes at most.
    pub(super) fn cells(&self) -> usize {
        self.tokens.len() + self.max_tokens as usize
    }
}

/// Why a generation leaves its slot.
#[derive(Debug)]
pub(super) enum Ending {
    /// It is written.
    Finished(FinishReason),
    /// Nobody reads it.
    Gone,
    /// It broke off.
    Failed(ModelError),
}

/// A generation with a sequence of its own.
pub(super) struct Slot {
    pub(super) sequence: i32,
    /// The prompt and, after it, the answer.
    tokens: Vec<LlamaToken>,
    /// How many of them are the prompt.
    prompt: usize,
    /// How many of them lie decoded in the sequence.
    decoded: usize,
    /// How many of those came from another sequence.
    shared: usize,
    /// Whether its prompt was compared with what others decoded.
    pub(super) looked: bool,
    max_tokens: u32,
    answered: u32,
    /// Most slots that were in one batch with it, itself included.
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
    pub(super) fn new(prepared: Prepared, sequence: i32) -> Self {
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

    /// Cells promised to it.
    pub(super) fn cells(&self) -> usize {
        self.prompt + self.max_tokens as usize
    }

    /// Whether its prompt is not decoded yet.
    pub(super) fn is_feeding(&self) -> bool {
        self.decoded < self.prompt
    }

    /// What of its prompt another may share: nothing of the last token, whose logits begin the answer.
    pub(super) fn shareable(&self) -> &[LlamaToken] {
        &self.tokens[..self.prompt - 1]
    }

    /// What lies decoded in its sequence.
    pub(super) fn done(&self) -> &[LlamaToken] {
        &self.tokens[..self.decoded]
    }

    /// What will lie decoded in its sequence once its prompt is fed.
    pub(super) fn coming(&self) -> &[LlamaToken] {
        &self.tokens[..self.decoded.max(self.prompt)]
    }

    /// Notes that its first tokens are in its sequence already.
    pub(super) fn share(&mut self, tokens: usize) {
        self.looked = true;
        self.shared = tokens;
        self.decoded = tokens;
    }

    /// The next tokens to decode and the position of the first, at most `most` of them; and whether they reach the end, so that the logits
    /// of the last one are wanted.
    pub(super) fn next(&mut self, most: usize) -> (&[LlamaToken], usize, bool) {
        self.began.get_or_insert_with(Instant::now);
        let end = self.tokens.len().min(self.decoded + most);
        (
            &self.tokens[self.decoded..end],
            self.decoded,
            end == self.tokens.len(),
        )
    }

    /// Notes that so many of them were decoded, in a batch of so many slots.
    pub(super) fn advance(&mut self, tokens: usize, busy: u32) {
        self.decoded += tokens;
        self.busy = self.busy.max(busy);
    }

    /// Takes the next token with its bytes; `None` while the answer goes on.
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

    /// Ends it, of so many slots that there are: what lies decoded in the sequence, and what its reader is still to be told.
    pub(super) fn end(self, ending: Ending, slots: u32) -> (Vec<LlamaToken>, Option<Farewell>) {
        let ms = |from: Option<Instant>, to: Option<Instant>| {
            Some(to?.saturating_duration_since(from?).as_secs_f64() * 1e3)
        };
        let mut decoded = self.tokens;
        decoded.truncate(self.decoded);
        let (text, end) = match ending {
            Ending::Finished(reason) => {
                let rest = self.answer.finish();
                let mut finished = Finished::new(if rest.stopped { FinishReason::Stop } else { reason });
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

/// The last that a reader is told. Apart from the rest, so that all accounts are settled when it reads the end.
#[derive(Debug)]
pub(super) struct Farewell {
    outlet: Outlet,
    text: String,
    pub(super) end: Result<Finished, ModelError>,
}

impl Farewell {
    pub(super) fn send(self) {
        match self.end {
            Ok(finished) => self.outlet.finish(self.text, finished),
            Err(error) => self.outlet.fail(error),
        }
    }
}
