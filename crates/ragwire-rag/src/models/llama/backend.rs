//! The backend of llama.cpp, one per process, and the loading of a GGUF with specific errors.
//!
//! llama.cpp reports every failure to load with a null pointer, and aborts later on some files that
//! it does load. Therefore the file's header is checked before loading, and the vocabulary
//! afterwards.
//!
//! This module knows neither prompts nor sequences.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use llama_cpp_2::gguf::GgufContext;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::{LlamaModelParams, LlamaSplitMode};
use llama_cpp_2::{LogOptions, list_llama_ggml_backend_devices, send_logs_to_tracing};

/// All layers on the accelerator, if there is one.
const ALL_LAYERS: u32 = u32::MAX;
/// Number of threads at most; ggml's limit.
const MAX_THREADS: u32 = 512;
/// Number of threads at most by default: with more, a token waits for memory, not for arithmetic.
const DEFAULT_MAX_THREADS: u32 = 16;

/// `GGUF_TYPE_STRING` in the format.
const GGUF_STRING: u32 = 8;
/// Architectures that only read, or that do not write token by token.
const NO_WRITERS: [&str; 19] = [
    "bert",
    "clip",
    "dream",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "llada",
    "llada-moe",
    "llama-embed",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "plamo2-embed",
    "rnd1",
    "t5",
    "t5encoder",
    "wavtokenizer-dec",
];

/// Architectures that read something other than text, or that read only as part of a writer. A
/// context for vectors would abort.
const NO_READERS: [&str; 3] = ["clip", "t5", "wavtokenizer-dec"];

/// How a model is distributed over several accelerators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Split {
    /// The whole model on one accelerator: [`LlamaFile::main_gpu`].
    Single,
    /// Whole layers on each accelerator. llama.cpp's default.
    #[default]
    Layer,
    /// The rows of each matrix over all accelerators.
    Row,
}

/// A model's file, and the devices that compute it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LlamaFile {
    /// The GGUF file; the first one if the model has several files.
    pub path: PathBuf,
    /// Number of layers on the accelerator; the others are computed on the CPU. Default: all.
    pub gpu_layers: u32,
    /// The accelerator that holds the whole model ([`Split::Single`]).
    pub main_gpu: u32,
    /// How the model is distributed over several accelerators.
    pub split: Split,
    /// The devices to use, by their index in llama.cpp's list; empty for all.
    pub devices: Vec<usize>,
    /// Whether the file is mapped (the default) or read.
    pub mmap: bool,
    /// Whether the model's memory is locked, so that it is not swapped out.
    pub mlock: bool,
    /// Number of CPU threads, 1 to 512. Default: half of those available, at most 16; the other
    /// half is for the server, and often not made of separate cores.
    pub threads: u32,
    /// Number of bytes that the weights and the cells of the context may take together. If `None`,
    /// the memory of all devices.
    pub memory_limit: Option<u64>,
}

impl LlamaFile {
    /// The model in the file `path`, with the defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get() / 2);
        Self {
            path: path.into(),
            gpu_layers: ALL_LAYERS,
            main_gpu: 0,
            split: Split::default(),
            devices: Vec::new(),
            mmap: true,
            mlock: false,
            threads: u32::try_from(threads)
                .unwrap_or(DEFAULT_MAX_THREADS)
                .clamp(1, DEFAULT_MAX_THREADS),
            memory_limit: None,
        }
    }

    /// Sets how many layers are on the accelerator.
    #[must_use]
    pub fn gpu_layers(mut self, layers: u32) -> Self {
        self.gpu_layers = layers;
        self
    }

    /// Puts the whole model on one accelerator.
    #[must_use]
    pub fn single_gpu(mut self, index: u32) -> Self {
        self.split = Split::Single;
        self.main_gpu = index;
        self
    }

    /// Sets how the model is distributed over several accelerators.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// Sets the devices, by their index in llama.cpp's list.
    #[must_use]
    pub fn devices(mut self, devices: Vec<usize>) -> Self {
        self.devices = devices;
        self
    }

    /// Sets whether the file is mapped.
    #[must_use]
    pub fn mmap(mut self, mmap: bool) -> Self {
        self.mmap = mmap;
        self
    }

    /// Sets whether the model's memory is locked, so that it is not swapped out.
    #[must_use]
    pub fn mlock(mut self, mlock: bool) -> Self {
        self.mlock = mlock;
        self
    }

    /// Sets the number of CPU threads.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Sets how many bytes weights and context may take.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist.
    #[error("model file not found: {}", .0.display())]
    Missing(PathBuf),
    /// The file could not be read.
    #[error("the model file cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file is not a GGUF.
    #[error("the model file is not gguf")]
    NotGguf,
    /// The file begins like a GGUF, but its header is incomplete or contradicts itself.
    #[error("the header of the model file is damaged")]
    Damaged,
    /// The model cannot be used for this.
    #[error("architecture {architecture} does not support {wanted}")]
    WrongKind {
        /// The architecture in the file.
        architecture: String,
        /// The intended use.
        wanted: &'static str,
    },
    /// llama.cpp refused the model: an unknown architecture, or missing or truncated weights. The
    /// log of llama.cpp (target `llama-cpp-2`) has the details.
    #[error("llama.cpp refused the model (architecture {architecture})")]
    Refused {
        /// The architecture in the file.
        architecture: String,
    },
    /// The file has no tokenizer, so the model cannot read text.
    #[error("the model file has no tokenizer")]
    NoTokenizer,
    /// The vocabulary cannot represent every text.
    #[error("the model's vocabulary cannot be used: {0}")]
    Vocabulary(&'static str),
    /// The model and its context need more memory than is available or allowed.
    #[error("the model needs {needed} bytes, but {available} are available")]
    TooBig {
        /// Bytes of the weights and of the context.
        needed: u64,
        /// Bytes of all devices, or as many as the options allow.
        available: u64,
    },
    /// An option is out of range, or names a device that does not exist.
    #[error("the options cannot be used: {0}")]
    Options(String),
    /// llama.cpp does not support the chat template.
    #[error("the chat template is not known to llama.cpp; set one by name, such as `chatml`")]
    Template,
    /// llama.cpp could not create the context, usually because memory is short.
    #[error("the context could not be made")]
    Context,
    /// The model does not compute a vector for a whole text.
    #[error("the model does not pool its vectors")]
    NoPooling,
    /// The model does not score pairs.
    #[error("the model is not a reranker")]
    NotARanker,
    /// The model does not support this.
    #[error("the model cannot do that: {0}")]
    Unsupported(&'static str),
    /// Another part of the process has initialized llama.cpp.
    #[error("another part of the process holds llama.cpp's backend")]
    Backend,
    /// The model's thread could not be started, or panicked.
    #[error("the model's thread failed")]
    Thread(#[source] Option<io::Error>),
}

impl LoadError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "model_missing",
            Self::Unreadable(_) => "model_unreadable",
            Self::NotGguf => "model_not_gguf",
            Self::Damaged => "model_damaged",
            Self::WrongKind { .. } => "model_wrong_kind",
            Self::Refused { .. } => "model_refused",
            Self::NoTokenizer => "model_no_tokenizer",
            Self::Vocabulary(_) => "model_vocabulary",
            Self::TooBig { .. } => "model_too_big",
            Self::Options(_) => "model_options",
            Self::Template => "model_template",
            Self::Context => "model_context",
            Self::NoPooling => "model_no_pooling",
            Self::NotARanker => "model_no_ranker",
            Self::Unsupported(_) => "model_unsupported",
            Self::Backend => "model_backend",
            Self::Thread(_) => "model_thread",
        }
    }
}

/// The purpose for which a model is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Embedding,
    Ranking,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
            Self::Ranking => "ranking",
        }
    }
}

/// A model with its weights.
#[derive(Debug)]
pub(super) struct LoadedModel {
    pub(super) model: LlamaModel,
    architecture: String,
    /// The model's name in the file, otherwise the file's name.
    pub(super) name: String,
    /// Bytes of the weights.
    pub(super) bytes: u64,
    /// Number of bytes that weights and context may take together.
    pub(super) memory: u64,
}

impl LoadedModel {
    /// Returns the number that the file has under a key of its architecture.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        let key = format!("{}.{key}", self.architecture);
        self.model.meta_val_str(&key).ok()?.parse().ok()
    }

    /// Rejects a context that does not fit beside the weights. Otherwise its allocation might
    /// succeed and the process be killed at first use.
    pub(super) fn check_context(&self, bytes: u64) -> Result<(), LoadError> {
        check_size(self.bytes.saturating_add(bytes), self.memory)
    }
}

/// Returns llama.cpp's backend. The first call initializes it and redirects its log to `tracing`.
pub(super) fn backend() -> Result<&'static LlamaBackend, LoadError> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    BACKEND
        .get_or_init(|| {
            send_logs_to_tracing(LogOptions::default());
            LlamaBackend::init().ok()
        })
        .as_ref()
        .ok_or(LoadError::Backend)
}

/// Loads a model. This takes as long as reading the file.
pub(super) fn load(file: &LlamaFile, kind: Kind) -> Result<LoadedModel, LoadError> {
    let backend = backend()?;
    if !(1..=MAX_THREADS).contains(&file.threads) {
        return Err(LoadError::Options(format!("threads must be 1 to {MAX_THREADS}")));
    }
    let header = Header::read(&file.path)?;
    header.check(kind)?;
    let memory = file.memory_limit.unwrap_or_else(memory_of_devices);
    check_size(header.bytes, memory)?;
    let params = params(file)?;
    let refused = || LoadError::Refused {
        architecture: header.architecture.clone(),
    };
    let model = LlamaModel::load_from_file(backend, &file.path, &params).map_err(|_| refused())?;
    let causal = format!("{}.attention.causal", header.architecture);
    if kind == Kind::Chat && model.meta_val_str(&causal).is_ok_and(|value| value == "false") {
        return Err(header.wrong(kind));
    }
    check_vocabulary(&model, &header.tokenizer)?;
    Ok(LoadedModel {
        bytes: model.size(),
        model,
        architecture: header.architecture,
        name: header.name,
        memory,
    })
}

/// The metadata of the file, which is read before the weights.
struct Header {
    architecture: String,
    tokenizer: String,
    name: String,
    bytes: u64,
}

impl Header {
    fn read(path: &Path) -> Result<Self, LoadError> {
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => LoadError::Missing(path.to_path_buf()),
            _ => LoadError::Unreadable(error),
        };
        if path.to_str().is_none_or(|path| path.contains('\0')) {
            return Err(LoadError::Options("the path is not UTF-8".to_owned()));
        }
        let mut file = File::open(path).map_err(missing)?;
        let mut magic = [0; 4];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == *b"GGUF" => {}
            Ok(()) => return Err(LoadError::NotGguf),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LoadError::NotGguf),
            Err(error) => return Err(LoadError::Unreadable(error)),
        }
        let bytes = file.metadata().map_err(LoadError::Unreadable)?.len();
        drop(file);
        let gguf = GgufContext::from_file(path).ok_or(LoadError::Damaged)?;
        let text = |key: &str| {
            let index = gguf.find_key(key);
            // Reading a value as a string aborts the process if it is not a string.
            let is_text = index >= 0 && gguf.kv_type(index) == GGUF_STRING;
            is_text.then(|| gguf.val_str(index)).flatten().map(str::to_owned)
        };
        let stem = || {
            path.file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        };
        Ok(Self {
            architecture: text("general.architecture").ok_or(LoadError::Damaged)?,
            tokenizer: text("tokenizer.ggml.model").unwrap_or_default(),
            name: text("general.name")
                .filter(|name| !name.trim().is_empty())
                .unwrap_or_else(stem),
            bytes,
        })
    }

    fn check(&self, kind: Kind) -> Result<(), LoadError> {
        if kind == Kind::Chat && NO_WRITERS.contains(&self.architecture.as_str()) {
            return Err(self.wrong(kind));
        }
        if kind != Kind::Chat && NO_READERS.contains(&self.architecture.as_str()) {
            return Err(self.wrong(kind));
        }
        // Tokenizing without a tokenizer aborts the process.
        if ["", "none", "no_vocab"].contains(&self.tokenizer.as_str()) {
            return Err(LoadError::NoTokenizer);
        }
        Ok(())
    }

    fn wrong(&self, kind: Kind) -> LoadError {
        LoadError::WrongKind {
            architecture: self.architecture.clone(),
            wanted: kind.as_str(),
        }
    }
}

fn params(file: &LlamaFile) -> Result<LlamaModelParams, LoadError> {
    let split = match file.split {
        Split::Single => LlamaSplitMode::None,
        Split::Layer => LlamaSplitMode::Layer,
        Split::Row => LlamaSplitMode::Row,
    };
    let main_gpu =
        i32::try_from(file.main_gpu).map_err(|_| LoadError::Options("main_gpu does not exist".to_owned()))?;
    let params = LlamaModelParams::default()
        .with_n_gpu_layers(file.gpu_layers)
        .with_main_gpu(main_gpu)
        .with_split_mode(split)
        .with_use_mmap(file.mmap)
        .with_use_mlock(file.mlock);
    if file.devices.is_empty() {
        return Ok(params);
    }
    params
        .with_devices(&file.devices)
        .map_err(|error| LoadError::Options(error.to_string()))
}

/// Returns the memory of all devices together. If the devices do not report it, there is no limit.
fn memory_of_devices() -> u64 {
    let total = list_llama_ggml_backend_devices()
        .iter()
        .map(|device| device.memory_total as u64)
        .sum::<u64>();
    if total == 0 { u64::MAX } else { total }
}

fn check_size(needed: u64, available: u64) -> Result<(), LoadError> {
    if needed > available {
        return Err(LoadError::TooBig { needed, available });
    }
    Ok(())
}

/// Checks that a SentencePiece vocabulary has a token for every byte. llama.cpp spells unknown
/// words byte by byte, and aborts if a byte is missing.
fn check_vocabulary(model: &LlamaModel, tokenizer: &str) -> Result<(), LoadError> {
    let vocab = model.vocab();
    if vocab.n_tokens() <= 0 {
        return Err(LoadError::Vocabulary("it is empty"));
    }
    if tokenizer != "llama" {
        return Ok(());
    }
    let mut spelled = [false; 256];
    for token in vocab.tokens() {
        let text = vocab
            .text(token)
            .and_then(|text| text.to_str().ok())
            .unwrap_or_default();
        let byte = match text.as_bytes() {
            [b'<', b'0', b'x', _, _, b'>'] => usize::from_str_radix(&text[3..5], 16).ok(),
            // The other spelling that llama.cpp accepts.
            [byte] => Some(usize::from(*byte)),
            _ => None,
        };
        if let Some(known) = byte.and_then(|byte| spelled.get_mut(byte)) {
            *known = true;
        }
    }
    if spelled.iter().all(|known| *known) {
        Ok(())
    } else {
        Err(LoadError::Vocabulary("it has no token for at least one byte"))
    }
}

impl<P: Into<PathBuf>> From<P> for LlamaFile {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}
