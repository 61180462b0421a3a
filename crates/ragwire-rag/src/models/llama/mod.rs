//! llama.cpp in this process, behind the seams of [`model`](super::model).
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
//! | module | what it is |
//! |---|---|
//! | `backend` | the process's one backend, and loading a GGUF |
//! | `batches` | requests of many texts, taken in turns, on the thread that computes vectors |
//! | `batching` | how many texts a model is given at once, and what came of them |
//! | `embedder` | texts to vectors |
//! | `engine` | the chat engine's handle and threads |
//! | `gbnf` | grammars and JSON schemas that llama.cpp can be trusted with |
//! | `options` | what an engine is made with |
//! | `outlet` | a generation's channel, never waited for |
//! | `prefixes` | beginnings that later prompts share |
//! | `prepare` | prompts made ready beside the decoding |
//! | `ranker` | passages to scores |
//! | `sampling` | how the next token is chosen |
//! | `scheduler` | continuous batching |
//! | `sequences` | one context through which texts go many at a time |
//! | `slot` | one generation while it runs |
//! | `stats` | what is counted |
//! | `template` | from messages to tokens |
//! | `text` | from tokens' bytes to pieces |
//! | `tokenizer` | a text to the tokens of a batch, with what stands around it |
//! | `worker` | a thread that owns a model, and the bounded way to it |
//!
//! What llama.cpp says goes to `tracing`, under the target `llama-cpp-2`. What an engine does goes to the `metrics` facade, labelled `model`:
//!
//! | metric | kind | what it counts |
//! |---|---|---|
//! | `ragwire_llama_steps_total` | counter | batches decoded |
//! | `ragwire_llama_prompt_tokens_total` | counter | prompt tokens decoded |
//! | `ragwire_llama_cached_tokens_total` | counter | prompt tokens shared instead |
//! | `ragwire_llama_answer_tokens_total` | counter | answer tokens chosen |
//! | `ragwire_llama_generations_total` | counter | generations that ended, by `outcome`: `stop`, `length`, `cancelled`, `failed` |
//! | `ragwire_llama_slots` | gauge | generations that may have a slot at a time |
//! | `ragwire_llama_running`, `_paused`, `_waiting` | gauge | generations with a slot, those of them with a reader behind, in line |
//! | `ragwire_llama_cells_reserved`, `_cells_cached` | gauge | cells promised, and left behind |
//! | `ragwire_llama_prompt_seconds` | histogram | from the first slice of a prompt to the first token |
//! | `ragwire_llama_generation_seconds` | histogram | from the first token to the last |
//! | `ragwire_llama_tokens_per_second` | histogram | of one generation, after its first token; where it has more |
//! | `ragwire_llama_texts_total` | counter | texts embedded, or pairs ranked, by `work`: `embed`, `rank` |
//! | `ragwire_llama_texts_cut_total` | counter | those of them that were longer than the model takes, by `work` |
//! | `ragwire_llama_text_tokens_total` | counter | their tokens, by `work` |
//! | `ragwire_llama_batches_total` | counter | their batches, by `work` |
//! | `ragwire_llama_batch_seconds` | histogram | of one such batch, by `work` |
//!
//! The same figures of one answer are in its turn's [`Usage`](ragwire::Usage): tokens, shared ones, both times, tokens per second, the engine's slots and how
//! many of them were busy at most. What judges consumed is added to tokens and times there, not to the others.
//!
//! It builds llama.cpp: minutes, with cmake, a C++ compiler and libclang. It knows no documents and no pipeline.

mod backend;
mod batches;
mod batching;
mod embedder;
mod engine;
mod gbnf;
mod options;
mod outlet;
mod prefixes;
mod prepare;
mod ranker;
mod sampling;
mod scheduler;
mod sequences;
mod slot;
mod stats;
mod template;
mod text;
mod tokenizer;
mod worker;

pub use backend::{ALL_LAYERS, DEFAULT_MAX_THREADS, LlamaFile, LoadError, MAX_THREADS, Split};
pub use batches::MAX_BATCH_TOKENS;
pub use batching::{BATCH_TEXTS, BATCH_TOKENS, BatchStats, Batching, TEXT_TOKENS, VECTOR_BYTES, WAITING};
pub use embedder::{EmbedderOptions, LlamaEmbedder, Pooling};
pub use engine::LlamaEngine;
pub use gbnf::{MAX_GRAMMAR_BYTES, MAX_SCHEMA_BYTES, MAX_SHAPE_DEPTH};
pub use options::{
    Cells, DEFAULT_CONTEXT_TOKENS, DEFAULT_PREFIXES, DEFAULT_SLICE_TOKENS, DEFAULT_SLOTS,
    DEFAULT_STEP_TOKENS, DEFAULT_WAITING, LlamaOptions, MAX_PREFIXES, MAX_SLOTS, MAX_STEP_TOKENS,
    MAX_WAITING,
};
pub use prefixes::MIN_SHARED_TOKENS;
pub use ranker::{LlamaRanker, RankerOptions};
pub use sampling::{MAX_REPEAT_PENALTY, MAX_STOP_BYTES, MAX_STOPS, MAX_TEMPERATURE, PENALTY_TOKENS};
pub use stats::{LlamaStats, Step};
pub use template::{DEFAULT_TEMPLATE, MAX_MESSAGES};
