//! The logs of a journal: which turns are stored, how much all of them take, and when they are
//! evicted.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

use super::entries::LogEntries;
use super::error::UnknownTurn;
use super::log::{Head, Log};
use super::record::Record;
use super::{JournalLimits, JournalStats};
use crate::turn::TurnId;

/// A lane and the owner of its turns.
type Conversation = (String, String);

#[derive(Debug)]
pub(super) struct Registry {
    pub(super) limits: JournalLimits,
    /// The size of all logs.
    bytes: Arc<AtomicUsize>,
    resumes: AtomicU64,
    evictions: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<TurnId, Arc<Log>>,
    /// The newest stored turn of each conversation.
    newest: HashMap<Conversation, TurnId>,
    /// Slots of turns whose response has not begun.
    reserved: usize,
    /// The finished turns with the time of their end, the oldest first.
    finished: VecDeque<(Instant, TurnId)>,
    /// How many of them, from the oldest on, were sealed if they had no reader.
    sealed: usize,
    /// Whether a task evicts expired turns.
    has_sweeper: bool,
}

impl Registry {
    pub(super) fn new(limits: JournalLimits) -> Self {
        Self {
            limits,
            bytes: Arc::default(),
            resumes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many turns are stored.
    pub(super) fn turns(&self) -> usize {
        self.evict_expired();
        self.lock().turns.len()
    }

    /// Returns the size of all logs in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.evict_expired();
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns what is stored, and what happened so far.
    pub(super) fn stats(&self) -> JournalStats {
        let bytes = self.bytes();
        // The logs are asked outside of the lock.
        let logs: Vec<_> = self.lock().turns.values().cloned().collect();
        JournalStats {
            turns: logs.len(),
            bytes,
            readers: logs.iter().map(|log| log.readers()).sum(),
            resumes: self.resumes.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// Counts a reader that was added to a turn later.
    pub(super) fn count_resume(&self) {
        self.resumes.fetch_add(1, Ordering::Relaxed);
    }

    fn count_evictions(&self, turns: usize) {
        self.evictions.fetch_add(turns as u64, Ordering::Relaxed);
    }

    /// Returns the newest turn of a conversation.
    pub(super) fn newest(&self, lane: &str, owner: &str) -> Option<TurnId> {
        self.evict_expired();
        let conversation = (lane.to_owned(), owner.to_owned());
        self.lock().newest.get(&conversation).copied()
    }

    /// Returns a turn of this owner. A turn of another owner is treated as an unknown one.
    pub(super) fn find(&self, id: TurnId, owner: &str) -> Result<Arc<Log>, UnknownTurn> {
        let log = self.get(id).ok_or(UnknownTurn)?;
        if log.head.owner.is_empty() || log.head.owner == owner {
            Ok(log)
        } else {
            Err(UnknownTurn)
        }
    }

    /// Returns a turn of any owner.
    pub(super) fn get(&self, id: TurnId) -> Option<Arc<Log>> {
        self.evict_expired();
        self.lock().turns.get(&id).cloned()
    }

    /// Creates a log that continues after `entries` and counts towards the size of all logs.
    pub(super) fn new_log(&self, head: Head, entries: LogEntries) -> Log {
        Log::new(head, entries, self.limits.max_turn_bytes, Arc::clone(&self.bytes))
    }

    /// Stores a turn whose response begins.
    pub(super) fn insert(&self, id: TurnId, log: Arc<Log>) {
        let mut state = self.lock();
        if let Some(conversation) = &log.head.conversation {
            state.newest.insert(conversation.clone(), id);
        }
        state.turns.insert(id, log);
    }

    /// Reserves a slot for a turn and returns true, or returns false if all slots are taken by
    /// running turns, the ID is in use, or it is guessable.
    pub(super) fn reserve(&self, id: TurnId) -> bool {
        self.evict_expired();
        let mut evicted = Vec::new();
        let mut state = self.lock();
        // A guessable ID (see `TurnId::random`) must not become one that grants access.
        let is_usable = id.is_random() && !state.turns.contains_key(&id);
        while state.turns.len() + state.reserved >= self.limits.max_turns {
            match state.remove_oldest() {
                Some(log) => evicted.push(log),
                None => break,
            }
        }
        let is_full = state.turns.len() + state.reserved >= self.limits.max_turns;
        let is_reserved = is_usable && !is_full;
        if is_reserved {
            state.reserved += 1;
        }
        drop(state);
        self.count_evictions(evicted.len());
        drop_frames(evicted);
        is_reserved
    }

    /// Releases a reserved slot.
    pub(super) fn release(&self) {
        self.lock().reserved -= 1;
    }

    /// Appends a frame to a log and enforces the limit on the size of all logs.
    pub(super) fn append_one(&self, log: &Log, record: Record) {
        self.append(log, |append| append(record));
    }

    /// Appends the frames that `fill` hands over to a log, and enforces the limit on the size of
    /// all logs.
    pub(super) fn append(&self, log: &Log, fill: impl FnOnce(&mut dyn FnMut(Record))) {
        log.append(fill);
        let excess = || {
            let bytes = self.bytes.load(Ordering::Relaxed);
            bytes.saturating_sub(self.limits.max_bytes)
        };
        // Sealing costs as much as encoding a turn once more, so it is done only for room.
        while excess() > 0 {
            let mut state = self.lock();
            if let Some(unsealed) = state.next_unsealed() {
                drop(state);
                unsealed.seal_if_unread();
                continue;
            }
            let oldest = state.remove_oldest();
            drop(state);
            if oldest.is_none() {
                break;
            }
            self.count_evictions(1);
            drop_frames(oldest);
        }
        match excess() {
            0 => {}
            excess => log.shrink_by(excess),
        }
    }

    /// Reports the end of a turn: from now on it is kept for [`JournalLimits::keep`].
    pub(super) fn finish(&self, log: &Log) {
        let ended = (Instant::now(), log.head.handle.id());
        self.lock().finished.push_back(ended);
    }

    /// Returns the task that evicts expired turns, unless another one runs.
    pub(super) fn sweeper(self: &Arc<Self>) -> Option<Sweeper> {
        let mut state = self.lock();
        let has_sweeper = std::mem::replace(&mut state.has_sweeper, true);
        (!has_sweeper).then(|| Sweeper(Arc::downgrade(self)))
    }

    fn keeps_turns_for_ever(&self) -> bool {
        Instant::now().checked_add(self.limits.keep).is_none()
    }

    /// Evicts expired turns and returns when the next one expires.
    fn evict_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut expired = Vec::new();
        let mut state = self.lock();
        let next = loop {
            let Some((ended, _)) = state.finished.front() else {
                break None;
            };
            match ended.checked_add(self.limits.keep) {
                Some(due) if due <= now => expired.extend(state.remove_oldest()),
                due => break due,
            }
        };
        drop(state);
        drop_frames(expired);
        next
    }
}

impl State {
    /// Returns the finished turn that is sealed next, if one is left.
    fn next_unsealed(&mut self) -> Option<Arc<Log>> {
        let (_, id) = self.finished.get(self.sealed)?;
        self.sealed += 1;
        self.turns.get(id).cloned()
    }

    /// Removes the turn that ended first. The caller drops its frames outside of the lock.
    fn remove_oldest(&mut self) -> Option<Arc<Log>> {
        let (_, id) = self.finished.pop_front()?;
        self.sealed = self.sealed.saturating_sub(1);
        let log = self.turns.remove(&id)?;
        if let Some(conversation) = &log.head.conversation
            && self.newest.get(conversation) == Some(&id)
        {
            self.newest.remove(conversation);
        }
        Some(log)
    }
}

/// Drops the frames of evicted turns. Readers that are still behind fail with the code `gone`;
/// otherwise a client that never reads would hold memory that no limit counts.
fn drop_frames(logs: impl IntoIterator<Item = Arc<Log>>) {
    for log in logs {
        log.evict();
    }
}

/// The task that evicts expired turns until none is left that can expire.
pub(super) struct Sweeper(Weak<Registry>);

impl Sweeper {
    pub(super) async fn run(mut self) {
        while let Some(next) = self.sweep() {
            tokio::time::sleep_until(next).await;
        }
    }

    /// Evicts expired turns and returns when to do it again. The decision to stop is made under the
    /// lock under which turns are added.
    fn sweep(&mut self) -> Option<Instant> {
        let registry = self.0.upgrade()?;
        loop {
            if let Some(next) = registry.evict_expired() {
                return Some(next);
            }
            let mut state = registry.lock();
            // Otherwise a turn has just been added.
            if state.finished.is_empty() || registry.keeps_turns_for_ever() {
                state.has_sweeper = false;
                self.0 = Weak::new();
                return None;
            }
        }
    }
}

impl Drop for Sweeper {
    /// The runtime may drop the task while it sleeps.
    fn drop(&mut self) {
        if let Some(registry) = self.0.upgrade() {
            registry.lock().has_sweeper = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_without_randomness_gets_no_slot() {
        let registry = Registry::new(JournalLimits::default().max_turns(1));
        let guessable = TurnId::parse(&"0".repeat(32)).unwrap();
        assert!(!registry.reserve(guessable));
        // Nor does it take one.
        assert!(registry.reserve(TurnId::random()));
        assert!(!registry.reserve(TurnId::random()));
        registry.release();
        assert!(registry.reserve(TurnId::random()));
    }
}
