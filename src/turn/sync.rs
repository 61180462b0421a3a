//! The locks of the queue, in one place so that the model in `tests/loom` can put loom's in.

pub(super) use std::sync::{Mutex, MutexGuard};
