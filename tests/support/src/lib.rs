//! What the tests of several packages share: a real Redis ([`redis`]), a judge of what readers saw of a turn ([`history`]), models that a
//! test makes up ([`gguf`], [`tiny_bert`], [`tiny_llama`]) or fetches ([`minilm`]), and the randomness of a test that can be played again
//! ([`seed`]).
//!
//! It deliberately does not know ragwire: a judge must not lean on what it judges.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a panic is how a test fails"
)]

pub mod gguf;
pub mod history;
pub mod minilm;
pub mod redis;
pub mod seed;
pub mod tiny_bert;
pub mod tiny_llama;
