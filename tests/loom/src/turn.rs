//! As much of `src/turn` as the queue needs.

#[path = "../../../src/turn/asks.rs"]
pub(crate) mod asks;
#[path = "../../../src/turn/limits.rs"]
pub(crate) mod limits;
#[path = "../../../src/turn/queue/mod.rs"]
pub(crate) mod queue;

mod sync {
    pub(super) use loom::sync::{Mutex, MutexGuard};
}
