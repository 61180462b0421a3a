//! llama.cpp in this process, behind the seams of [`model`](super::model).
//!
//! | module | what it is |
//! |---|---|
//! | `backend` | the process's one backend, and loading a GGUF |
//! | `batches` | requests of many texts, taken in turns, on the thread that computes vectors |
//! | `batching` | how many texts a model is given at once, and what came of them |
//! | `embedder` | texts to vectors |
//! | `ranker` | passages to scores |
//! | `sequences` | one context through which texts go many at a time |
//! | `tokenizer` | a text to the tokens that a model takes, with what stands around it |
//! | `worker` | a thread that owns a model, and the bounded way to it |
mod backend;
mod batches;
mod batching;
mod embedder;
mod ranker;
mod sequences;
mod tokenizer;
mod worker;

pub use backend::{ALL_LAYERS, DEFAULT_MAX_THREADS, LlamaFile, LoadError, MAX_THREADS, Split};
pub use batches::MAX_BATCH_TOKENS;
pub use batching::{BATCH_TEXTS, BATCH_TOKENS, BatchStats, Batching, TEXT_TOKENS, VECTOR_BYTES, WAITING};
pub use embedder::{EmbedderOptions, LlamaEmbedder, Pooling};
pub use ranker::{LlamaRanker, RankerOptions};
