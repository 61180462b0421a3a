//! Tests of the embedder and the ranker over llama.cpp, against plain Rust over the same random
//! weights and against NumPy over a real model.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod cosine;
mod decoder;
mod embedder;
mod load;
mod metrics;
mod minilm;
mod ranker;
mod requests;
mod tokens;
