//! Continuous batching: many generations, one batch per step.
//!
//! Each step decodes one token for every answer whose reader keeps up, and a slice of the prompts
//! that are not decoded yet. Between two steps new generations join and stopped ones leave.
//!
//! A generation is admitted once there are cells for its prompt and its longest answer, so the
//! context cannot run out while several generations run. The prefixes of finished generations are
//! evicted, least recently used first, as far as a new one needs their cells. Admission is in order
//! of arrival: a generation that needs many cells is not overtaken.
//!
//! llama.cpp aborts the process on a batch that is larger than its context allows and on logits
//! that were not requested. Only this module builds batches for generations and requests their
//! logits.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;
use tokio::sync::mpsc;

use super::prefixes::{self, MIN_SHARED_TOKENS, Prefixes};
use super::sampling::{Choice, Fault, Never};
use super::slot::{Ending, Farewell, PreparedRequest, Slot};
use super::stats::{self, Board, LlamaStats, Observer, Step};
use super::stop::Stop;
use crate::models::ModelError;

/// The parts of a scheduler.
pub(super) struct Parts<'model> {
    pub(super) model: &'model LlamaModel,
    pub(super) name: String,
    pub(super) context: LlamaContext<'model>,
    pub(super) slots: usize,
    pub(super) prefixes: usize,
    /// Number of tokens of a batch at most.
    pub(super) step: usize,
    /// Number of prompt tokens in a step that also decodes answers.
    pub(super) slice: usize,
    pub(super) ready: mpsc::Receiver<PreparedRequest>,
    pub(super) stop: Arc<Stop>,
    pub(super) board: Board,
    pub(super) observer: Option<Observer>,
}

/// The generations and their shared context.
pub(super) struct Scheduler<'model> {
    parts: Parts<'model>,
    batch: LlamaBatch<'static>,
    /// Number of tokens of a batch at most, limited to what the context actually supports.
    batch_tokens: usize,
    cells: usize,
    never: Never,
    candidates: LlamaTokenDataArray,
    /// The running generations, oldest first.
    slots: Vec<Slot>,
    waiting: VecDeque<PreparedRequest>,
    /// Sequences that no slot uses; their cells are free.
    free: Vec<i32>,
    prefixes: Prefixes,
    /// Whether more generations can arrive.
    is_open: bool,
    stats: LlamaStats,
}

/// The part of the batch that belongs to one slot.
struct BatchPart {
    slot: usize,
    tokens: usize,
    /// The index of its logits in the batch.
    logits: Option<i32>,
}

/// The result of looking for a shared prefix.
enum PrefixSearch {
    /// The prefix is shared now, or none is long enough.
    Done,
    /// Another slot is decoding a longer prefix right now.
    SoonMore,
}

impl<'model> Scheduler<'model> {
    pub(super) fn new(parts: Parts<'model>) -> Self {
        let batch_tokens = parts.step.min(parts.context.n_batch() as usize);
        let cells = parts.context.n_ctx();
        let sequences = i32::try_from(parts.slots + parts.prefixes).unwrap_or(i32::MAX);
        // A recurrent state cannot be cut, so such a model shares nothing.
        let cannot_share = parts.model.is_recurrent() || parts.model.is_hybrid();
        Self {
            batch: LlamaBatch::new(batch_tokens, 1),
            batch_tokens,
            cells: cells as usize,
            never: Never::new(parts.model),
            candidates: LlamaTokenDataArray::new(Vec::new(), false),
            slots: Vec::new(),
            waiting: VecDeque::new(),
            free: (0..sequences).rev().collect(),
            prefixes: Prefixes::new(if cannot_share { 0 } else { parts.prefixes }),
            is_open: true,
            stats: LlamaStats {
                slots: u32::try_from(parts.slots).unwrap_or(u32::MAX),
                cells,
                ..LlamaStats::default()
            },
            parts,
        }
    }

    /// Works until nothing is left and nothing more can arrive, or until the engine is stopped.
    /// `wait` blocks the thread on a future.
    pub(super) fn serve(&mut self, wait: impl Fn(Pin<&mut dyn Future<Output = ()>>)) {
        while !self.parts.stop.is_set() {
            self.receive();
            self.sweep();
            self.admit();
            let planned = self.plan();
            self.publish();
            if !planned.is_empty() {
                self.step(&planned);
            } else if self.is_open || !self.slots.is_empty() {
                wait(pin!(self.woken()));
            } else {
                return;
            }
        }
    }

    /// Fails every generation that runs or waits, each with its own error.
    pub(super) fn end_all(&mut self, error: impl Fn() -> ModelError) {
        let mut farewells = Vec::new();
        for slot in std::mem::take(&mut self.slots) {
            farewells.extend(slot.end(Ending::Failed(error()), self.stats.slots).1);
            self.stats.failed += 1;
        }
        self.parts.ready.close();
        while let Ok(prepared) = self.parts.ready.try_recv() {
            self.waiting.push_back(prepared);
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.publish();
        farewells.into_iter().for_each(Farewell::send);
        for prepared in waiting {
            prepared.outlet.fail(error());
        }
    }

    fn receive(&mut self) {
        while self.is_open {
            match self.parts.ready.try_recv() {
                Ok(prepared) => self.waiting.push_back(prepared),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.is_open = false,
            }
        }
    }

    /// Waits for a new generation, for a reader that caught up or disconnected, or for the stop.
    async fn woken(&mut self) {
        let mut stopped = pin!(self.parts.stop.notified());
        let mut readers: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for slot in &self.slots {
            readers.push(Box::pin(slot.outlet.ready()));
        }
        for prepared in &self.waiting {
            readers.push(Box::pin(prepared.outlet.disconnected()));
        }
        let ready = &mut self.parts.ready;
        let is_open = &mut self.is_open;
        let come = std::future::poll_fn(|cx| {
            if *is_open && let Poll::Ready(come) = ready.poll_recv(cx) {
                *is_open = come.is_some();
                return Poll::Ready(come);
            }
            let is_reader = readers
                .iter_mut()
                .any(|reader| reader.as_mut().poll(cx).is_ready());
            if is_reader || stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await;
        drop(readers);
        self.waiting.extend(come);
    }

    /// Removes generations whose reader has disconnected.
    fn sweep(&mut self) {
        for index in (0..self.slots.len()).rev() {
            if self.slots[index].outlet.is_gone() {
                self.end(index, Ending::Gone);
            }
        }
        self.waiting.retain(|prepared| !prepared.outlet.is_gone());
    }

    fn reserved(&self) -> usize {
        self.slots.iter().map(Slot::cells).sum()
    }

    /// Gives slots to waiting generations, in order, as long as there are slots and cells.
    fn admit(&mut self) {
        while self.slots.len() < self.parts.slots {
            let Some(first) = self.waiting.front() else { return };
            let room = self.cells.saturating_sub(self.reserved() + first.cells());
            if self.reserved() + first.cells() > self.cells {
                return;
            }
            let shareable = &first.tokens[..first.tokens.len() - 1];
            let like = self.prefixes.longest(shareable);
            if let Some((sequence, _)) = like {
                self.prefixes.touch(sequence);
            }
            // The kept prefix that this prompt shares is evicted last, and its sequence is then
            // reused.
            let mut own = None;
            while self.prefixes.cells() > room {
                let Some(oldest) = self.prefixes.forget_oldest() else {
                    break;
                };
                match like {
                    Some((sequence, shared))
                        if sequence == oldest.sequence && self.reaches(sequence, shared) =>
                    {
                        own = self.cut(sequence, shared).then_some((sequence, shared));
                        if own.is_none() {
                            self.release(sequence);
                        }
                    }
                    _ => self.release(oldest.sequence),
                }
            }
            let sequence = own.map(|(sequence, _)| sequence).or_else(|| self.free.pop());
            let (Some(sequence), Some(prepared)) = (sequence, self.waiting.pop_front()) else {
                return;
            };
            let mut slot = Slot::new(prepared, sequence);
            if let Some((_, shared)) = own {
                slot.share(shared);
                self.stats.cached_tokens += shared as u64;
            }
            self.slots.push(slot);
        }
    }

    /// Returns `true` if a sequence still has all of its first `tokens`: a sliding window may have
    /// dropped some.
    fn reaches(&self, sequence: i32, tokens: usize) -> bool {
        let context = &self.parts.context;
        let last = usize::try_from(context.kv_cache_seq_pos_max(sequence));
        context.kv_cache_seq_pos_min(sequence) == 0 && last.is_ok_and(|last| last + 1 >= tokens)
    }

    /// Removes everything after the first `tokens` from a sequence.
    fn cut(&mut self, sequence: i32, tokens: usize) -> bool {
        let from = u32::try_from(tokens).ok();
        self.parts.context.kv_cache_seq_rm(sequence, from, None).is_ok()
    }

    /// Frees a sequence and its cells.
    fn release(&mut self, sequence: i32) {
        // Removing a whole sequence always succeeds.
        let _ = self.parts.context.kv_cache_seq_rm(sequence, None, None);
        self.free.push(sequence);
    }

    /// Shares the longest prefix that another sequence has decoded.
    fn look(&mut self, index: usize) -> PrefixSearch {
        let slot = &self.slots[index];
        let wanted = slot.shareable();
        let mut best = self.prefixes.longest(wanted).unwrap_or((slot.sequence, 0));
        if self.prefixes_are_kept() {
            for (other, running) in self.slots.iter().enumerate().filter(|&(other, _)| other != index) {
                let now = prefixes::shared(running.done(), wanted);
                if now > best.1 && now >= MIN_SHARED_TOKENS {
                    best = (running.sequence, now);
                }
                let soon = prefixes::shared(running.coming(), wanted);
                if other < index && running.is_feeding() && soon >= best.1 + MIN_SHARED_TOKENS {
                    return PrefixSearch::SoonMore;
                }
            }
        }
        let (source, shared) = best;
        let sequence = slot.sequence;
        let is_shared = shared > 0 && self.reaches(source, shared) && {
            let to = u32::try_from(shared).ok();
            self.parts
                .context
                .kv_cache_seq_cp(source, sequence, Some(0), to)
                .is_ok()
        };
        if is_shared {
            self.prefixes.touch(source);
            self.stats.cached_tokens += shared as u64;
        }
        self.slots[index].share(if is_shared { shared } else { 0 });
        PrefixSearch::Done
    }

    fn prefixes_are_kept(&self) -> bool {
        self.parts.prefixes > 0 && !self.parts.model.is_recurrent() && !self.parts.model.is_hybrid()
    }

    /// Fills the batch: first with answers, then with prompts, oldest first.
    fn plan(&mut self) -> Vec<BatchPart> {
        self.batch.clear();
        let mut planned = Vec::new();
        let mut paused = 0;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.is_feeding() {
                continue;
            }
            if slot.outlet.is_behind() {
                paused += 1;
            } else {
                self.put(index, 1, &mut planned);
            }
        }
        self.stats.paused = paused;
        let room = self.batch_tokens.saturating_sub(planned.len());
        // A step that only decodes prompts may use the whole batch, because no answer waits for it.
        let mut most = if planned.is_empty() {
            room
        } else {
            room.min(self.parts.slice)
        };
        for index in 0..self.slots.len() {
            if most == 0 {
                break;
            }
            let slot = &self.slots[index];
            if !slot.is_feeding() || (!slot.looked && matches!(self.look(index), PrefixSearch::SoonMore)) {
                continue;
            }
            most -= self.put(index, most, &mut planned);
        }
        planned
    }

    /// Adds the next tokens of a slot to the batch and returns their number.
    fn put(&mut self, index: usize, most: usize, planned: &mut Vec<BatchPart>) -> usize {
        let slot = &mut self.slots[index];
        let sequence = slot.sequence;
        let (tokens, from, is_last) = slot.next(most);
        let mut put = 0;
        for (offset, &token) in tokens.iter().enumerate() {
            let wants_logits = is_last && offset + 1 == tokens.len();
            let position = i32::try_from(from + offset).unwrap_or(i32::MAX);
            if self
                .batch
                .add(token, position, &[sequence], wants_logits)
                .is_err()
            {
                break;
            }
            put += 1;
        }
        let logits = (is_last && put == tokens.len()).then(|| self.batch.n_tokens() - 1);
        planned.push(BatchPart {
            slot: index,
            tokens: put,
            logits,
        });
        put
    }

    fn step(&mut self, planned: &[BatchPart]) {
        let mut endings = Vec::new();
        let mut step = Step {
            number: self.stats.steps + 1,
            answer_tokens: 0,
            prompt_tokens: 0,
            running: 0,
            paused: 0,
        };
        match self.parts.context.decode(&mut self.batch) {
            Ok(()) => {
                let busy = u32::try_from(planned.len()).unwrap_or(u32::MAX);
                for planned in planned {
                    let slot = &mut self.slots[planned.slot];
                    let tokens = u32::try_from(planned.tokens).unwrap_or(u32::MAX);
                    if slot.is_feeding() {
                        step.prompt_tokens += tokens;
                    } else {
                        step.answer_tokens += tokens;
                    }
                    slot.advance(planned.tokens, busy);
                    if let Some(index) = planned.logits
                        && let Some(ending) = self.choose(planned.slot, index)
                    {
                        endings.push((planned.slot, ending));
                    }
                }
                self.stats.prompt_tokens += u64::from(step.prompt_tokens);
            }
            Err(error) => {
                // How much of the batch llama.cpp decoded is unknown, so none of these sequences
                // can continue.
                tracing::error!(%error, "llama.cpp could not decode a batch");
                let error = Arc::new(error);
                endings.extend(planned.iter().map(|planned| {
                    (
                        planned.slot,
                        Ending::Failed(Fault::Decode(Arc::clone(&error)).into()),
                    )
                }));
            }
        }
        self.stats.steps = step.number;
        // From the last index to the first, so that the remaining indices stay valid.
        endings.sort_by_key(|&(slot, _)| std::cmp::Reverse(slot));
        let farewells = endings
            .into_iter()
            .filter_map(|(slot, ending)| self.end(slot, ending))
            .collect::<Vec<_>>();
        self.stats.paused = 0;
        for slot in &mut self.slots {
            self.stats.paused += u32::from(slot.outlet.is_behind());
        }
        self.publish();
        farewells.into_iter().for_each(Farewell::send);
        if let Some(Observer(observer)) = &self.parts.observer {
            step.running = self.stats.running;
            step.paused = self.stats.paused;
            observer(&step);
        }
    }

    /// Chooses the next token of a slot. Returns `None` while its answer continues.
    fn choose(&mut self, index: usize, logits: i32) -> Option<Ending> {
        let slot = &mut self.slots[index];
        let model = self.parts.model;
        match slot.chooser.choose(
            model,
            &self.parts.context,
            logits,
            &self.never,
            &mut self.candidates,
        ) {
            Ok(choice) => {
                let bytes = match choice {
                    Choice::Token(token) => {
                        self.stats.answer_tokens += 1;
                        model.vocab().token_to_piece(token, false, None)
                    }
                    Choice::End => Vec::new(),
                };
                slot.take(choice, &bytes).map(Ending::Finished)
            }
            Err(fault) => {
                tracing::warn!(error = %fault, "a generation failed");
                Some(Ending::Failed(fault.into()))
            }
        }
    }

    /// Removes a generation from its slot.
    fn end(&mut self, index: usize, ending: Ending) -> Option<Farewell> {
        let slot = self.slots.remove(index);
        let sequence = slot.sequence;
        let is_lost = matches!(ending, Ending::Failed(_));
        match &ending {
            Ending::Finished(_) => self.stats.finished += 1,
            Ending::Gone => {
                self.stats.cancelled += 1;
                stats::outcome(&self.parts.name, "cancelled");
            }
            Ending::Failed(_) => {
                self.stats.failed += 1;
                stats::outcome(&self.parts.name, "failed");
            }
        }
        let (decoded, farewell) = slot.end(ending, self.stats.slots);
        if let Some(Ok(finished)) = farewell.as_ref().map(|farewell| &farewell.end) {
            stats::finished(&self.parts.name, finished);
        }
        let free = if is_lost {
            vec![sequence]
        } else {
            self.prefixes.keep(sequence, decoded)
        };
        for sequence in free {
            self.release(sequence);
        }
        farewell
    }

    fn publish(&mut self) {
        let before = self.parts.board.read();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.stats.running = count(self.slots.len());
        self.stats.waiting = count(self.waiting.len());
        self.stats.cells_reserved = count(self.reserved());
        self.stats.cells_cached = count(self.prefixes.cells());
        if before != self.stats {
            self.parts.board.write(self.stats);
            stats::changed(&self.parts.name, &before, &self.stats);
        }
    }
}
