//! llama.cpp in this process, behind the traits of [`models`](super).
//!
//! ```no_run
//! # use ragwire_rag::models::llama::{LlamaEngine, LlamaFile, LlamaOptions, LoadError};
//! # use ragwire_rag::models::{LanguageModel, Prompt};
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = LlamaEngine::load(LlamaOptions::new("model.gguf").slots(8)).await?;
//! let mut generation = engine.generate(Prompt::user("Why is the sky blue?"));
//! while let Some(piece) = generation.next().await {
//!     print!("{}", piece?);
//! }
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `backend` | the backend of the process, and loading a GGUF |
//! | `batching_options` | the batches of a model for vectors, and their statistics |
//! | `embedder` | texts to vectors |
//! | `engine` | the chat engine: its handle and its threads |
//! | `options` | options of a chat engine |
//! | `outlet` | the channel of a generation, which never blocks the engine |
//! | `prefixes` | decoded beginnings that later prompts share |
//! | `prepare` | prompts prepared beside the decoding |
//! | `ranker` | passages to scores |
//! | `sampling` | how the next token is chosen |
//! | `scheduler` | continuous batching |
//! | `sequences` | a context through which many texts pass at a time |
//! | `shape` | JSON schemas as grammars |
//! | `slot` | a running generation |
//! | `stats` | statistics and metrics |
//! | `stop` | the signal that stops an engine |
//! | `template` | from messages to tokens |
//! | `text` | from the bytes of tokens to pieces |
//! | `tokenizer` | from a text to the tokens of a batch |
//! | `vector_server` | requests of many texts, served in turn on the thread that computes vectors |
//! | `worker` | a thread that owns a model, and its bounded queue |
//!
//! llama.cpp logs to `tracing`, under the target `llama-cpp-2`. Engines report to the `metrics`
//! facade, with the label `model`:
//!
//! | metric | kind | what it counts |
//! |---|---|---|
//! | `ragwire_llama_steps_total` | counter | batches decoded |
//! | `ragwire_llama_prompt_tokens_total` | counter | prompt tokens decoded |
//! | `ragwire_llama_cached_tokens_total` | counter | prompt tokens shared instead |
//! | `ragwire_llama_answer_tokens_total` | counter | answer tokens chosen |
//! | `ragwire_llama_generations_total` | counter | generations that ended, by `outcome`: `stop`, `length`, `cancelled`, `failed` |
//! | `ragwire_llama_slots` | gauge | generations that may have a slot at a time |
//! | `ragwire_llama_running`, `_paused`, `_waiting` | gauge | generations with a slot, those with a slow reader, those in the queue |
//! | `ragwire_llama_cells_reserved`, `_cells_cached` | gauge | cells reserved for running generations, and kept for reuse |
//! | `ragwire_llama_prompt_seconds` | histogram | from the first slice of a prompt to the first token |
//! | `ragwire_llama_generation_seconds` | histogram | from the first token to the last |
//! | `ragwire_llama_tokens_per_second` | histogram | of one generation, after its first token; where it has more |
//! | `ragwire_llama_texts_total` | counter | texts embedded, or pairs ranked, by `work`: `embed`, `rank` |
//! | `ragwire_llama_texts_cut_total` | counter | those of them that were longer than the model takes, by `work` |
//! | `ragwire_llama_text_tokens_total` | counter | their tokens, by `work` |
//! | `ragwire_llama_batches_total` | counter | their batches, by `work` |
//! | `ragwire_llama_batch_seconds` | histogram | of one such batch, by `work` |
//!
//! The same figures of one answer are in its turn's [`Usage`](ragwire::Usage): tokens, reused
//! tokens, both times, tokens per second, the engine's slots and the largest number of busy ones.
//! What judges consume is added to the tokens and times, but not to the other figures.
//!
//! Building llama.cpp takes minutes and needs cmake, a C++ compiler and libclang. This module knows
//! neither documents nor a pipeline.

mod backend;
mod batching_options;
mod embedder;
mod engine;
mod options;
mod outlet;
mod prefixes;
mod prepare;
mod ranker;
mod sampling;
mod scheduler;
mod sequences;
mod shape;
mod slot;
mod stats;
mod stop;
mod template;
mod text;
mod tokenizer;
mod vector_server;
mod worker;

pub use backend::{LlamaFile, LoadError, Split};
pub use batching_options::{BatchStats, Batching};
pub use embedder::{EmbedderOptions, LlamaEmbedder, Pooling};
pub use engine::LlamaEngine;
pub use options::{Cells, LlamaOptions, MAX_PREFIXES, MAX_SLOTS, MAX_STEP_TOKENS, MAX_WAITING};
pub use ranker::{LlamaRanker, RankerOptions};
pub use sampling::{MAX_REPEAT_PENALTY, MAX_STOP_BYTES, MAX_STOPS, MAX_TEMPERATURE};
pub use stats::{LlamaStats, Step};
pub use template::MAX_MESSAGES;
