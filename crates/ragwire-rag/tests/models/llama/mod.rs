//! The chat engine through its public API, on a llama of random weights: what runs at once, what is shared, what is refused, and that nothing a
//! caller can ask for makes llama.cpp abort the process. A test that aborts takes all of them with it.
//!
//! One thread computes (two on busy cores spin for each other), and the context is kept in 32 bits, without flash attention: in 16 bits the
//! logits of a sequence differ by a thousandth with the places of its cells, which now and then is another token. In 32 it is a millionth,
//! and the texts can be compared as they are.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod batching;
mod gate;
mod life;
mod load;
mod misuse;
mod models;
mod prefixes;
mod prompts;
mod shapes;
