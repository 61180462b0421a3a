//! What holds for every turn on every wire: any events, any text, any end, cut anywhere. The numbers are those of the
//! invariants in `ARCHITECTURE.md`.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../generated/mod.rs"]
mod generated;

mod ai_sdk;
mod event_stream;
mod framed;
mod framing;
mod lossless;
mod names;
mod seen;
