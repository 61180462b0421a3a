//! Shared by the tests of several packages: a real Redis server ([`redis`]), a consistency check
//! for what readers received of a turn ([`history`]), models that a test generates ([`gguf`],
//! [`tiny_bert`], [`tiny_llama`]) or downloads ([`minilm`]), a double of a Qdrant server (`qdrant`),
//! and repeatable random numbers ([`seed`]).
//!
//! It does not depend on ragwire: a check must not rely on what it checks.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a panic is how a test fails"
)]

pub mod gguf;
pub mod history;
pub mod minilm;
pub mod ports;
#[cfg(feature = "qdrant")]
pub mod qdrant;
pub mod redis;
pub mod seed;
pub mod tiny_bert;
pub mod tiny_llama;
