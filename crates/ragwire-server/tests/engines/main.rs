//! Models of random weights and stores, configured by settings: which parts run, their output, how
//! the store follows the library, every mistake, and model files from the hub.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[cfg(all(unix, feature = "qdrant-edge"))]
mod edge_kills;
#[cfg(unix)]
mod hub;
mod mistakes;
mod models;
mod parts;
#[cfg(unix)]
mod program;
#[cfg(all(unix, feature = "qdrant-edge"))]
#[path = "../served/request.rs"]
mod request;
#[cfg(feature = "qdrant-edge")]
mod stores;
#[cfg(unix)]
mod wire;
