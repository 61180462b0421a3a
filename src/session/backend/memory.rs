//! Sessions in the memory of this process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Backend, Operation, Stored};
use crate::session::clock::Clock;
use crate::session::key::Key;
use crate::session::{SessionLimits, Sessions};

impl Sessions {
    /// Stores sessions in the memory of this process.
    pub fn in_memory(limits: SessionLimits) -> Self {
        Self::in_memory_with(limits, Clock::default())
    }

    pub(in crate::session) fn in_memory_with(limits: SessionLimits, clock: Clock) -> Self {
        let memory = Memory {
            limits,
            clock,
            state: Mutex::default(),
        };
        Self::new(limits, memory)
    }
}

struct Memory {
    limits: SessionLimits,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Key, Stored>,
    /// The keys by their stamps, the oldest first.
    order: BTreeMap<u64, Key>,
    /// The newest stamp.
    last: u64,
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn load<'a>(&'a self, key: &'a Key) -> Operation<'a, Option<Stored>> {
        Box::pin(async move {
            let oldest = self.limits.oldest(self.clock.now());
            let state = self.lock();
            let found = state.sessions.get(key);
            Ok(found.filter(|stored| stored.stamp >= oldest).cloned())
        })
    }

    fn swap<'a>(&'a self, key: &'a Key, from: Option<u64>, bytes: Vec<u8>) -> Operation<'a, Option<u64>> {
        Box::pin(async move {
            let mut state = self.lock();
            let now = self.clock.now();
            state.drop_before(self.limits.oldest(now));
            let current = state.sessions.get(key).map(|stored| stored.stamp);
            if current != from {
                return Ok(None);
            }
            let stamp = now.max(state.last + 1);
            state.last = stamp;
            if let Some(current) = current {
                state.order.remove(&current);
            }
            state.order.insert(stamp, key.clone());
            state.sessions.insert(key.clone(), Stored { stamp, bytes });
            while state.sessions.len() > self.limits.max_sessions {
                state.drop_oldest();
            }
            Ok(Some(stamp))
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Operation<'a, bool> {
        Box::pin(async move {
            let mut state = self.lock();
            let oldest = self.limits.oldest(self.clock.now());
            let Some(Stored { stamp, .. }) = state.sessions.remove(key) else {
                return Ok(false);
            };
            state.order.remove(&stamp);
            Ok(stamp >= oldest)
        })
    }

    fn list<'a>(&'a self, owner: &'a str, limit: usize) -> Operation<'a, Vec<(String, Stored)>> {
        Box::pin(async move {
            let oldest = self.limits.oldest(self.clock.now());
            let state = self.lock();
            let newest = state.order.range(oldest..).rev();
            let theirs = newest.filter(|(_, key)| &*key.owner == owner).take(limit);
            let found =
                theirs.filter_map(|(_, key)| Some((key.id.to_string(), state.sessions.get(key)?.clone())));
            Ok(found.collect())
        })
    }

    fn sweep(&self) -> Operation<'_, usize> {
        Box::pin(async move {
            let mut state = self.lock();
            state.drop_before(self.limits.oldest(self.clock.now()));
            Ok(state.sessions.len())
        })
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.sessions.remove(&key);
        }
    }

    fn drop_before(&mut self, oldest: u64) {
        while self
            .order
            .first_key_value()
            .is_some_and(|(stamp, _)| *stamp < oldest)
        {
            self.drop_oldest();
        }
    }
}
