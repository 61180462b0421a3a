//! The part of `src/turn` that the queue needs.

pub(crate) mod human;
#[path = "../../../src/turn/limits.rs"]
pub(crate) mod limits;
#[path = "../../../src/turn/queue/mod.rs"]
pub(crate) mod queue;

mod sync {
    pub(super) use loom::sync::{Mutex, MutexGuard};
}
