//! The wires: every vector through the encoders and decoders, the same turn on all wires, and
//! properties that hold for any turn and any bytes.
//!
//! Needs no feature, so that `cargo test --no-default-features` runs all of it on the sans-IO layer
//! alone.
#![allow(clippy::unwrap_used, reason = "a helper that cannot continue fails its test")]

mod cut;
mod decoded;
mod differential;
mod encoders;
mod eve;
mod frames;
mod generated;
mod langgraph;
mod langgraph_encoder;
mod limits;
mod mcp;
mod ollama;
mod openai;
mod padding;
mod properties;
mod received;
mod responses;
mod seeds;
mod streams;
mod trustgraph;
mod vectors;
mod wires;
mod written;
