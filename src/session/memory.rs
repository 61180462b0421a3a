//! Sessions in the memory of this process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::SessionLimits;
use super::store::{Clock, Key, Stamped};

pub(super) struct Memory {
    limits: SessionLimits,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Key, Stamped>,
    /// By their stamps, the oldest first.
    order: BTreeMap<u64, Key>,
    /// The last stamp that was given.
    last: u64,
}

impl Memory {
    pub(super) fn new(limits: SessionLimits, clock: Clock) -> Self {
        Self {
            limits,
            clock,
            state: Mutex::default(),
        }
    }

    pub(super) fn load(&self, key: &Key) -> Option<Stamped> {
        let oldest = self.clock.now().saturating_sub(self.limits.age());
        let state = self.lock();
        state
            .sessions
            .get(key)
            .filter(|(stamp, _)| *stamp >= oldest)
            .cloned()
    }

    pub(super) fn swap(&self, key: &Key, from: Option<u64>, bytes: Vec<u8>) -> Option<u64> {
        let mut state = self.lock();
        let now = self.clock.now();
        state.drop_before(now.saturating_sub(self.limits.age()));
        let found = state.sessions.get(key).map(|(stamp, _)| *stamp);
        if found != from {
            return None;
        }
        let stamp = now.max(state.last + 1);
        state.last = stamp;
        if let Some(found) = found {
            state.order.remove(&found);
        }
        state.order.insert(stamp, key.clone());
        state.sessions.insert(key.clone(), (stamp, bytes));
        while state.sessions.len() > self.limits.max_sessions {
            state.drop_oldest();
        }
        Some(stamp)
    }

    pub(super) fn remove(&self, key: &Key) -> bool {
        let mut state = self.lock();
        let oldest = self.clock.now().saturating_sub(self.limits.age());
        let Some((stamp, _)) = state.sessions.remove(key) else {
            return false;
        };
        state.order.remove(&stamp);
        stamp >= oldest
    }

    pub(super) fn sweep(&self) -> usize {
        let mut state = self.lock();
        state.drop_before(self.clock.now().saturating_sub(self.limits.age()));
        state.sessions.len()
    }

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
