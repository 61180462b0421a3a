//! llama.cpp in this process, behind the seams of [`model`](super::model).
//!
//! | module | what it is |
//! |---|---|
//! | `backend` | the process's one backend, and loading a GGUF |
mod backend;

pub use backend::{ALL_LAYERS, DEFAULT_MAX_THREADS, LlamaFile, LoadError, MAX_THREADS, Split};
