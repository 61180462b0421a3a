//! The suite on sessions in memory.

use super::{Storage, run_suite};
use crate::session::clock::Clock;
use crate::session::{SessionLimits, Sessions};

pub(super) struct Memory;

impl Storage for Memory {
    const SURVIVES_RESTART: bool = false;

    async fn open(&self, limits: SessionLimits, clock: Clock) -> Sessions {
        Sessions::in_memory_with(limits, clock)
    }
}

run_suite!(Memory);
