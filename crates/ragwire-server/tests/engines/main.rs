//! Models of random weights and stores, as the settings name them: what runs, what it says, what keeps the store in step, and every mistake.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod mistakes;
mod models;
mod parts;
#[cfg(unix)]
mod program;
#[cfg(feature = "qdrant-edge")]
mod stores;
#[cfg(unix)]
mod wire;
