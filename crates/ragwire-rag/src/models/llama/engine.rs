//! The chat engine: handles in front of two threads.
//!
//! ```text
//! handles ─► prepare (template, tokens, grammar)
//!         ─► decode (model, context, all generations) ─► one channel per generation
//! ```
//!
//! Every channel between them is bounded by the number of generations that may run and wait. The
//! decoding thread owns the context and never waits for a single reader. If it panics, all current
//! and later requests fail with the panic as the error.

use std::fmt::{self, Debug, Formatter};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::model::LlamaModel;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::LoadError;
use super::backend::{self, Kind, LoadedModel};
use super::options::{Cells, LlamaOptions};
use super::prepare::{self, Preparer, Request};
use super::sampling::Fault;
use super::scheduler::{Parts, Scheduler};
use super::stats::{Board, LlamaStats};
use super::stop::Stop;
use super::template::Template;
use crate::models::{Boxed, Generation, LanguageModel, ModelError, Prompt};

/// Number of token counts that may wait in addition to the generations.
const COUNTS_WAITING: usize = 64;
/// Stack of the preparing thread: llama.cpp parses long names and texts with recursive regular
/// expressions. Only the part that is used takes memory.
const PREPARE_STACK_BYTES: usize = 64 << 20;
/// Stack of the decoding thread, which grammars and the graphs of large models need.
const DECODE_STACK_BYTES: usize = 16 << 20;
/// Number of tokens that llama.cpp computes at a time; its own default.
const COMPUTE_TOKENS: u32 = 512;
/// `LLAMA_FLASH_ATTN_TYPE_DISABLED`.
const NO_FLASH_ATTENTION: i32 = 0;

/// A chat model that llama.cpp runs. Cheap to clone; all clones share one engine.
///
/// Many generations run in one batch, and a generation that is dropped leaves the batch within one
/// step. Prompts that begin alike share the decoded prefix. Messages are plain text, whatever they
/// contain: they never yield control tokens.
///
/// # Drop
///
/// When the last handle is dropped, the engine completes the generations that run or wait and still
/// have a reader, and then ends. [`shutdown`](Self::shutdown) waits for that: call it before the
/// process exits if the model is on a GPU, because CUDA aborts a process that exits while a thread
/// still frees its model.
#[derive(Clone)]
pub struct LlamaEngine(Arc<Inner>);

struct Inner {
    name: String,
    context_tokens: u32,
    /// `None` once the engine is stopped.
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    /// One permit for each generation that may run or wait.
    places: Arc<Semaphore>,
    stop: Arc<Stop>,
    board: Board,
    /// Closes when both threads have ended.
    ended: watch::Receiver<()>,
}

/// What the decoding thread reports once the model is loaded.
struct ModelInfo {
    name: String,
    context_tokens: u32,
}

/// The parts of an engine whose model is still being loaded.
struct Startup {
    requests: mpsc::Sender<Request>,
    places: Arc<Semaphore>,
    stop: Arc<Stop>,
    board: Board,
    ended: watch::Receiver<()>,
    opened: oneshot::Receiver<Result<ModelInfo, LoadError>>,
}

impl LlamaEngine {
    /// Loads a model and creates its context. This takes as long as reading the file.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the model; its thread ends once the model is loaded.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the file or the options cannot be used.
    pub async fn load(options: LlamaOptions) -> Result<Self, LoadError> {
        let mut starting = start(options)?;
        let opened = (&mut starting.opened).await;
        Self::new(starting, opened.unwrap_or(Err(LoadError::Thread(None))))
    }

    /// Like [`load`](Self::load), for threads that may block. Panics in an asynchronous context.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the file or the options cannot be used.
    pub fn load_blocking(options: LlamaOptions) -> Result<Self, LoadError> {
        let mut starting = start(options)?;
        let (_, never) = oneshot::channel();
        let opened = std::mem::replace(&mut starting.opened, never).blocking_recv();
        Self::new(starting, opened.unwrap_or(Err(LoadError::Thread(None))))
    }

    fn new(starting: Startup, opened: Result<ModelInfo, LoadError>) -> Result<Self, LoadError> {
        let opened = opened?;
        Ok(Self(Arc::new(Inner {
            name: opened.name,
            context_tokens: opened.context_tokens,
            requests: Mutex::new(Some(starting.requests)),
            places: starting.places,
            stop: starting.stop,
            board: starting.board,
            ended: starting.ended,
        })))
    }

    /// Returns the current state of the engine and its totals so far.
    pub fn stats(&self) -> LlamaStats {
        self.0.board.read()
    }

    /// Stops the engine: every generation that runs or waits fails with [`ModelError::Closed`]
    /// within one step, and so does every later one. Does not wait.
    pub fn stop(&self) {
        self.0.stop.set();
        // The preparing thread ends when no handle can send requests to it.
        drop(self.lock().take());
    }

    /// Waits until both threads have ended and the model's memory is free. That happens after
    /// [`stop`](Self::stop), and never otherwise while this handle exists.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    /// [Stops](Self::stop) the engine and waits until it has [ended](Self::ended).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the stop.
    pub async fn shutdown(&self) {
        self.stop();
        self.ended().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Request>>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: Request) -> Result<(), ModelError> {
        match self.lock().as_ref() {
            None => Err(ModelError::Closed),
            Some(requests) => requests.try_send(request).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => ModelError::Busy,
                mpsc::error::TrySendError::Closed(_) => ModelError::Closed,
            }),
        }
    }
}

impl Debug for LlamaEngine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaEngine")
            .field("name", &self.0.name)
            .field("context_tokens", &self.0.context_tokens)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl LanguageModel for LlamaEngine {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn context_tokens(&self) -> u32 {
        self.0.context_tokens
    }

    /// Counts exactly the tokens that [`generate`](LanguageModel::generate) would decode. Only the
    /// messages matter.
    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>> {
        Box::pin(async move {
            let (reply, count) = oneshot::channel();
            self.ask(Request::Count {
                messages: prompt.messages.clone(),
                reply,
            })?;
            count.await.unwrap_or(Err(ModelError::Closed))
        })
    }

    fn generate(&self, prompt: Prompt) -> Generation {
        let (sender, generation) = Generation::channel();
        let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else {
            return Generation::failed(ModelError::Busy);
        };
        let request = Request::Generate {
            prompt: Box::new(prompt),
            sender,
            place,
        };
        match self.ask(request) {
            Ok(()) => generation,
            Err(error) => Generation::failed(error),
        }
    }
}

fn start(options: LlamaOptions) -> Result<Startup, LoadError> {
    options.check()?;
    let generations = (options.slots + options.waiting) as usize;
    let (requests, asked) = mpsc::channel(generations + COUNTS_WAITING);
    let (open, opened) = oneshot::channel();
    let (alive, ended) = watch::channel(());
    let starting = Startup {
        requests,
        places: Arc::new(Semaphore::new(generations)),
        stop: Arc::default(),
        board: Board::default(),
        ended,
        opened,
    };
    let stop = Arc::clone(&starting.stop);
    let board = starting.board.clone();
    thread::Builder::new()
        .name("ragwire-llama".to_owned())
        .stack_size(DECODE_STACK_BYTES)
        .spawn(move || {
            let alive = Arc::new(alive);
            if let Err((error, open)) = run(options, generations, asked, open, &stop, &board, &alive) {
                // The caller may have dropped its future.
                let _ = open.send(Err(error));
            }
        })
        .map_err(|error| LoadError::Thread(Some(error)))?;
    Ok(starting)
}

type Open = oneshot::Sender<Result<ModelInfo, LoadError>>;

/// Runs the decoding thread.
fn run(
    options: LlamaOptions,
    generations: usize,
    mut asked: mpsc::Receiver<Request>,
    open: Open,
    stop: &Arc<Stop>,
    board: &Board,
    alive: &Arc<watch::Sender<()>>,
) -> Result<(), (LoadError, Open)> {
    macro_rules! or_report {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => return Err((error, open)),
            }
        };
    }
    let loaded = or_report!(backend::load(&options.file, Kind::Chat));
    let (context_tokens, cells) = or_report!(options.sizes(loaded.model.n_ctx_train()));
    let template = or_report!(Template::new(&loaded.model, options.template.as_deref()));
    or_report!(loaded.check_context(context_bytes(&loaded, &options, cells)));
    let name = options.name.clone().unwrap_or(loaded.name);
    let model = Arc::new(loaded.model);
    if cells <= options.sequences() {
        let error = LoadError::Options("cells must be more than slots and prefixes together".to_owned());
        return Err((error, open));
    }
    let context = or_report!(context(&model, &options, cells));
    // No drivers: the runtime only polls.
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = or_report!(runtime.map_err(|error| LoadError::Thread(Some(error))));

    let (prepared, ready) = mpsc::channel(generations);
    let preparer = Preparer {
        model: Arc::clone(&model),
        template,
        context_tokens,
        stop: Arc::clone(stop),
    };
    let kept_alive = Arc::clone(alive);
    let spawned = thread::Builder::new()
        .name("ragwire-llama-prompts".to_owned())
        .stack_size(PREPARE_STACK_BYTES)
        .spawn(move || {
            preparer.serve(&mut asked, &prepared);
            drop(preparer);
            drop(kept_alive);
        });
    or_report!(spawned.map_err(|error| LoadError::Thread(Some(error))));

    let mut scheduler = Scheduler::new(Parts {
        model: &model,
        name: name.clone(),
        context,
        slots: options.slots as usize,
        prefixes: options.prefixes as usize,
        step: options.step_tokens as usize,
        slice: options.slice_tokens as usize,
        ready,
        stop: Arc::clone(stop),
        board: board.clone(),
        observer: options.observer,
    });
    let wait = |woken: Pin<&mut dyn Future<Output = ()>>| runtime.block_on(woken);
    // If no caller waits any longer, the requests are already closed and the engine ends at once.
    let _ = open.send(Ok(ModelInfo { name, context_tokens }));
    // After a panic the context is only freed, never used.
    match catch_unwind(AssertUnwindSafe(|| scheduler.serve(wait))) {
        Ok(()) => scheduler.end_all(|| ModelError::Closed),
        Err(panic) => {
            let message = prepare::message(&*panic);
            tracing::error!(message, "the engine's thread panicked");
            scheduler.end_all(|| Fault::Panicked(message.clone()).into());
        }
    }
    Ok(())
}

fn context<'model>(
    model: &'model LlamaModel,
    options: &LlamaOptions,
    cells: u32,
) -> Result<LlamaContext<'model>, LoadError> {
    let threads = i32::try_from(options.file.threads).unwrap_or(1);
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(cells))
        // llama.cpp aborts if a context has more sequences than its batches have tokens.
        .with_n_batch(options.step_tokens.max(options.sequences()))
        .with_n_ubatch(options.step_tokens.min(COMPUTE_TOKENS))
        .with_n_seq_max(options.sequences())
        // All sequences share the cells: a common prefix takes its cells once.
        .with_kv_unified(true)
        // A sliding window would evict prefixes that other sequences share.
        .with_swa_full(true)
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        .with_type_k(options.cell_kind.kind())
        .with_type_v(options.cell_kind.kind())
        .with_no_perf(true);
    let params = match options.cell_kind {
        Cells::F32 => params.with_flash_attention_policy(NO_FLASH_ATTENTION),
        Cells::F16 | Cells::Q8 => params,
    };
    model
        .new_context(backend::backend()?, params)
        .map_err(|_| LoadError::Context)
}

/// Returns the bytes of the cells: keys and values of every layer.
fn context_bytes(loaded: &LoadedModel, options: &LlamaOptions, cells: u32) -> u64 {
    let model = &loaded.model;
    let share = u64::try_from(model.n_embd()).unwrap_or(0) / u64::from(model.n_head().max(1));
    // Many models have heads that are wider than their share of the embedding.
    let width = |part| loaded.number(part).unwrap_or(share);
    let numbers = u64::from(cells)
        .saturating_mul(u64::from(model.n_layer()))
        .saturating_mul(u64::from(model.n_head_kv()))
        .saturating_mul(width("attention.key_length").saturating_add(width("attention.value_length")));
    options.cell_kind.bytes(numbers)
}
