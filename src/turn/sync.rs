//! The locks of the queue, in one module so that the models in `tests/loom` can replace them by
//! loom's.

pub(super) use std::sync::{Mutex, MutexGuard};
