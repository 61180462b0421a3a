//! Models of the queue. They compile the queue's own source with loom's locks instead of the
//! standard library's.
//!
//! This is a separate package so that nothing else is built twice. `cargo test -p ragwire-loom`
//! runs the models.
#![cfg(test)]
#![allow(
    dead_code,
    unused_imports,
    clippy::wrong_self_convention,
    reason = "the models use a part of what is included"
)]

#[path = "../../../src/event/mod.rs"]
mod event;
#[path = "../../../src/failure.rs"]
mod failure;
#[path = "../../../src/frame.rs"]
mod frame;
#[path = "../../../src/json/mod.rs"]
mod json;
#[path = "../../../src/metadata.rs"]
mod metadata;
mod models;
#[path = "../../../src/order.rs"]
mod order;
#[path = "../../../src/record.rs"]
mod record;
#[path = "../../../src/snapshot.rs"]
mod snapshot;
#[path = "../../../src/time.rs"]
mod time;
mod turn;
#[path = "../../../src/utf8.rs"]
mod utf8;
#[path = "../../../src/wire/mod.rs"]
mod wire;
