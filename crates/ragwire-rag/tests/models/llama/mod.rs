//! Tests of the chat engine through its public API, on a Llama of random weights: concurrency,
//! sharing, refusals, and that no request of a caller makes llama.cpp abort the process. If one
//! test aborts, the whole binary ends.
//!
//! One thread computes, because two threads spin for each other on busy cores. The context is
//! stored in 32 bits, without flash attention: in 16 bits the logits of a sequence depend on the
//! positions of its cells by about a thousandth, which sometimes changes a token. In 32 bits the
//! difference is a millionth, so the texts can be compared for equality.

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
