//! The part of `src/turn/human` that the queue needs.

#[path = "../../../../src/turn/human/open.rs"]
pub(crate) mod open;
