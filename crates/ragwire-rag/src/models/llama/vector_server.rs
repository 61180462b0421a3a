//! Serves requests of many texts in turn on the thread that computes vectors.
//!
//! Each step fills one batch with one text of every request in turn, as long as there is room. A
//! question that arrives while ten thousand passages are embedded therefore waits for one batch and
//! not for all of them. If the caller of a request no longer waits, its remaining texts are
//! abandoned. A request says which result it needs; this module does not know what the vectors are
//! used for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use std::vec;

use llama_cpp_2::context::params::LlamaPoolingType;
use llama_cpp_2::llama_backend::LlamaBackend;
use tokio::sync::{mpsc, oneshot};

use super::backend::{LoadError, LoadedModel, backend};
use super::batching_options::{Batching, Counts};
use super::sequences::{ComputeError, MAX_SEQUENCES, Sequences, Size};
use super::tokenizer::{Tokenizer, Tokens};
use crate::models::{ModelError, normalize};

/// Number of requests that are served at a time. Further requests wait in the queue, where they
/// take only their own memory.
const MAX_ACTIVE: usize = 16;

/// Number of pairs with which a model is tested.
const PROBES: usize = 4;
/// Number of tokens of a batch at most.
const MAX_BATCH_TOKENS: u32 = 65_536;

/// The vectors of one text: a single one, or one for each token.
pub(super) type Vectors = Vec<Vec<f32>>;

/// The result that a request needs for each text.
#[derive(Clone, Debug)]
pub(super) enum VectorKind {
    /// One vector for the text, with this prefix.
    Whole(String),
    /// A vector for each token of the text, with this prefix.
    Each(String),
    /// A score of the text against this query.
    Score(String),
}

/// Some texts, and the channel for their results.
pub(super) struct Request {
    pub(super) kind: VectorKind,
    pub(super) texts: Vec<String>,
    pub(super) reply: oneshot::Sender<Result<Vec<Vectors>, ModelError>>,
}

/// A request that is being served.
struct Active {
    kind: VectorKind,
    texts: vec::IntoIter<String>,
    /// The next text, if it did not fit in the last batch.
    next: Option<Tokens>,
    /// The results so far. Batches are computed in order, so the results are in order.
    done: Vec<Vectors>,
    bytes: usize,
    error: Option<ModelError>,
    reply: oneshot::Sender<Result<Vec<Vectors>, ModelError>>,
}

impl Active {
    fn new(request: Request) -> Self {
        Self {
            kind: request.kind,
            done: Vec::with_capacity(request.texts.len()),
            texts: request.texts.into_iter(),
            next: None,
            bytes: 0,
            error: None,
            reply: request.reply,
        }
    }

    /// Tokenizes the next text, if there is one.
    fn next(&mut self, reading: &Reading<'_>) -> Option<Tokens> {
        let next = self.next.take();
        next.or_else(|| {
            let text = self.texts.next()?;
            Some(match &self.kind {
                VectorKind::Whole(prefix) | VectorKind::Each(prefix) => {
                    reading.tokenizer.text(prefix, &text, reading.limit)
                }
                VectorKind::Score(query) => reading.tokenizer.pair(query, &text, reading.limit),
            })
        })
    }

    /// Adds the result of the next text.
    fn take(&mut self, vectors: Vectors, max_bytes: usize) {
        self.bytes += vectors
            .iter()
            .map(|vector| size_of_val(vector.as_slice()))
            .sum::<usize>();
        if self.bytes > max_bytes {
            let error = format!("the vectors of all texts together are larger than {max_bytes} bytes");
            self.error = Some(ModelError::BadPrompt(error));
            self.done = Vec::new();
        } else if self.error.is_none() {
            self.done.push(vectors);
        }
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || (self.next.is_none() && self.texts.len() == 0)
    }

    fn end_with(self, error: ModelError) {
        let _ = self.reply.send(Err(error));
    }

    fn end(self) {
        let result = self.error.map_or_else(|| Ok(self.done), Err);
        // The caller may have dropped its future.
        let _ = self.reply.send(result);
    }
}

/// The context that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Pooled,
    Each,
}

impl VectorKind {
    fn lane(&self) -> Lane {
        match self {
            Self::Whole(_) | Self::Score(_) => Lane::Pooled,
            Self::Each(_) => Lane::Each,
        }
    }
}

/// Converts texts to tokens.
struct Reading<'m> {
    tokenizer: Tokenizer<'m>,
    /// Number of tokens of a text at most, including those that the tokenizer adds.
    limit: usize,
    /// Number of texts of a batch at most.
    max_texts: usize,
}

/// A model with its contexts, on the thread that owns it.
pub(super) struct VectorServer<'m> {
    backend: &'static LlamaBackend,
    loaded: &'m LoadedModel,
    reading: Reading<'m>,
    size: Size,
    max_vector_bytes: usize,
    pooled: Sequences<'m>,
    /// Created on first use: it takes memory, and many callers never need it.
    each: Option<Sequences<'m>>,
    counts: Arc<Counts>,
}

impl<'m> VectorServer<'m> {
    /// Creates the contexts of a model.
    pub(super) fn open(
        loaded: &'m LoadedModel,
        tokenizer: Tokenizer<'m>,
        pooling: LlamaPoolingType,
        batching: &Batching,
        threads: u32,
        counts: Arc<Counts>,
    ) -> Result<Self, LoadError> {
        let backend = backend()?;
        let model = &loaded.model;
        if model.is_recurrent() || model.is_hybrid() {
            return Err(LoadError::Unsupported(
                "vectors of a model with a recurrent state",
            ));
        }
        let frame = tokenizer.text_frame().max(tokenizer.pair_frame());
        let limit = batching.max_text_tokens.min(model.n_ctx_train()) as usize;
        // Two more: one token of a query and one of a passage.
        if limit < frame + 2 {
            return Err(LoadError::Options(format!(
                "a text needs at least {} tokens",
                frame + 2
            )));
        }
        if !(1..=MAX_SEQUENCES).contains(&batching.max_texts) {
            return Err(LoadError::Options(format!(
                "a batch has 1 to {MAX_SEQUENCES} texts"
            )));
        }
        let tokens = (batching.max_tokens as usize)
            .max(limit)
            .max(PROBES * (frame + 2));
        let tokens = u32::try_from(tokens)
            .ok()
            .filter(|&tokens| tokens <= MAX_BATCH_TOKENS)
            .ok_or_else(|| LoadError::Options(format!("a batch has at most {MAX_BATCH_TOKENS} tokens")))?;
        let size = Size {
            tokens,
            sequences: batching.max_texts.max(PROBES as u32),
            threads: i32::try_from(threads).unwrap_or(i32::MAX),
        };
        loaded.check_context(size.bytes(model))?;
        let pooled = Sequences::open(backend, model, pooling, size).ok_or(LoadError::Context)?;
        Ok(Self {
            backend,
            loaded,
            reading: Reading {
                tokenizer,
                limit: limit.min(pooled.max_tokens()),
                max_texts: batching.max_texts as usize,
            },
            size,
            max_vector_bytes: batching.max_vector_bytes,
            pooled,
            each: None,
            counts,
        })
    }

    /// Serves until the channel of requests is closed.
    pub(super) fn serve(&mut self, mut requests: mpsc::Receiver<Request>) {
        let mut active = VecDeque::with_capacity(MAX_ACTIVE);
        loop {
            if active.is_empty() {
                let Some(request) = requests.blocking_recv() else {
                    return;
                };
                active.push_back(Active::new(request));
            }
            while active.len() < MAX_ACTIVE
                && let Ok(request) = requests.try_recv()
            {
                active.push_back(Active::new(request));
            }
            if requests.is_closed() {
                while let Some(request) = requests.blocking_recv() {
                    active.push_back(Active::new(request));
                }
                active
                    .drain(..)
                    .for_each(|request| request.end_with(ModelError::Closed));
                return;
            }
            // Drops requests whose callers no longer wait.
            active.retain(|request| !request.reply.is_closed());
            self.step(&mut active);
            for request in std::mem::take(&mut active) {
                if request.is_over() {
                    request.end();
                } else {
                    active.push_back(request);
                }
            }
            // The first request selects the context, so each context has its turn.
            if !active.is_empty() {
                active.rotate_left(1);
            }
        }
    }

    /// Returns the scores of [`PROBES`] identical pairs, independent of any request.
    pub(super) fn probe(&mut self) -> Result<Vec<f32>, ComputeError> {
        let pair = self.reading.tokenizer.pair("a", "a", self.reading.limit);
        self.pooled.clear();
        // That many pairs fit: see `open`.
        while self.pooled.len() < PROBES && self.pooled.add(&pair.tokens) {}
        self.pooled.compute()?;
        (0..self.pooled.len())
            .map(|sequence| Ok(self.pooled.pooled(sequence)?.first().copied().unwrap_or(f32::NAN)))
            .collect()
    }

    /// Computes one batch.
    fn step(&mut self, active: &mut VecDeque<Active>) {
        let Some(first) = active.front_mut() else { return };
        let lane = first.kind.lane();
        let sequences = match lane {
            Lane::Pooled => &mut self.pooled,
            Lane::Each => match open_each(&mut self.each, self.backend, self.loaded, self.size) {
                Ok(each) => each,
                Err(error) => {
                    first.error = Some(ModelError::Failed(Box::new(error)));
                    return;
                }
            },
        };
        let began = Instant::now();
        let placed = fill(sequences, &self.reading, lane, active);
        let computed = sequences.compute();
        if computed.is_ok() {
            let cut = placed.iter().filter(|text| text.tokens.cut).count();
            self.counts
                .batch(placed.len(), cut, sequences.tokens(), began.elapsed());
        }
        for (sequence, BatchEntry { request, tokens }) in placed.into_iter().enumerate() {
            let request = &mut active[request];
            let vectors = computed
                .clone()
                .and_then(|()| read(sequences, sequence, &request.kind, tokens.words));
            match vectors {
                Ok(vectors) => request.take(vectors, self.max_vector_bytes),
                Err(error) => request.error = Some(error.into()),
            }
        }
    }
}

/// Creates the context for vectors of tokens, in addition to the first one.
fn open_each<'a, 'm>(
    each: &'a mut Option<Sequences<'m>>,
    backend: &LlamaBackend,
    loaded: &'m LoadedModel,
    size: Size,
) -> Result<&'a mut Sequences<'m>, LoadError> {
    if each.is_none() {
        loaded.check_context(size.bytes(&loaded.model).saturating_mul(2))?;
        *each = Sequences::open(backend, &loaded.model, LlamaPoolingType::None, size);
    }
    each.as_mut().ok_or(LoadError::Context)
}

/// The position of a text in a batch.
struct BatchEntry {
    request: usize,
    tokens: Tokens,
}

/// Fills an empty batch with a text of each request in turn, until no request has a next text that
/// fits.
fn fill(
    sequences: &mut Sequences<'_>,
    reading: &Reading<'_>,
    lane: Lane,
    active: &mut VecDeque<Active>,
) -> Vec<BatchEntry> {
    sequences.clear();
    let mut placed = Vec::new();
    loop {
        let before = placed.len();
        for (index, request) in active.iter_mut().enumerate() {
            if request.kind.lane() != lane {
                continue;
            }
            let Some(tokens) = request.next(reading) else {
                continue;
            };
            if placed.len() < reading.max_texts && sequences.add(&tokens.tokens) {
                placed.push(BatchEntry {
                    request: index,
                    tokens,
                });
            } else {
                request.next = Some(tokens);
            }
        }
        if placed.len() == before {
            return placed;
        }
    }
}

fn read(
    sequences: &Sequences<'_>,
    sequence: usize,
    kind: &VectorKind,
    words: Range<usize>,
) -> Result<Vectors, ComputeError> {
    let mut vectors = match kind {
        VectorKind::Score(_) => return Ok(vec![sequences.pooled(sequence)?]),
        VectorKind::Whole(_) => vec![sequences.pooled(sequence)?],
        VectorKind::Each(_) => sequences.each(sequence, words)?,
    };
    vectors.iter_mut().for_each(|vector| normalize(vector));
    Ok(vectors)
}
