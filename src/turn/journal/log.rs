//! The log of one turn: one lock around its frames and who waits for them.
//!
//! One recorder appends; any number of readers follow, each at its own place. None of them waits for another: what is dropped at
//! the head is dropped for whoever has not read it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::error::ResumeError;
use super::follower::Reading;
use super::kept::{Dropped, Kept, Record};
use crate::frame::End;
use crate::turn::group::WeakMembership;
use crate::turn::{OpenAsk, QueueLimits, Timeouts, TurnHandle};

/// What does not change in the life of a log.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) handle: TurnHandle,
    pub(super) owner: String,
    /// Its lane and its owner, where it has a lane.
    pub(super) conversation: Option<(String, String)>,
    pub(super) timeouts: Timeouts,
    /// Weak, since the log outlives the turn.
    pub(super) membership: Option<WeakMembership>,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) head: Head,
    max_bytes: usize,
    /// What all logs of the journal count.
    total: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    /// Who reads, and how to wake them while they wait.
    readers: HashMap<u64, Option<Waker>>,
    /// The number of the next reader.
    next_reader: u64,
    /// Since when nobody reads.
    alone_since: Option<Instant>,
    recorder: Option<Waker>,
}

impl Log {
    pub(super) fn new(head: Head, max_bytes: usize, total: Arc<AtomicUsize>) -> Self {
        Self {
            head,
            max_bytes,
            total,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a frame, which gets its index by that, and wakes whoever waits for it.
    pub(super) fn append(&self, record: Record) {
        let bytes = record.bytes();
        let mut state = self.lock();
        let before = state.kept.bytes();
        state.kept.push(record, bytes);
        state.kept.trim(self.max_bytes);
        self.count(before, state.kept.bytes());
        let waiting: Vec<Waker> = state.readers.values_mut().filter_map(Option::take).collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Drops frames from the head on until this log counts `bytes` less, or has one frame.
    pub(super) fn shrink_by(&self, bytes: usize) {
        let mut state = self.lock();
        let before = state.kept.bytes();
        state.kept.trim(before.saturating_sub(bytes));
        self.count(before, state.kept.bytes());
    }

    fn count(&self, before: usize, after: usize) {
        // A sum and nothing more: no other memory hangs on it.
        if after > before {
            self.total.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.total.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// How the turn ended, if it did.
    pub(super) fn end(&self) -> Option<End> {
        self.lock().kept.end().cloned()
    }

    /// The question of that id, and the index of the frame behind it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenAsk, u64)> {
        let state = self.lock();
        let (question, next) = state.kept.question(request_id)?;
        Some((OpenAsk::from(question), next))
    }

    /// Whether the frames say what became of a question: how it was resolved, or that the turn is over.
    pub(super) fn is_settled(&self, request_id: &str) -> bool {
        self.lock().kept.is_settled(request_id)
    }

    /// A reader that begins at `from`.
    pub(super) fn attach(self: &Arc<Self>, from: u64) -> Result<Reading, ResumeError> {
        let state = self.lock();
        state.kept.place(from)?;
        Ok(self.seat(state, from))
    }

    /// The reader that the turn begins with.
    pub(super) fn first_reader(self: &Arc<Self>) -> Reading {
        self.seat(self.lock(), 0)
    }

    fn seat(self: &Arc<Self>, mut state: MutexGuard<'_, State>, from: u64) -> Reading {
        let is_over = state.kept.end().is_some() && from == state.kept.next();
        let reader = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(reader, None);
        state.alone_since = None;
        drop(state);
        let membership = self.head.membership.as_ref().and_then(WeakMembership::upgrade);
        Reading::new(Arc::clone(self), reader, from, is_over, membership)
    }

    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.lock();
        let waker = state.readers.remove(&reader);
        let recorder = if state.readers.is_empty() {
            state.alone_since = Some(Instant::now());
            state.recorder.take()
        } else {
            None
        };
        drop(state);
        drop(waker);
        if let Some(recorder) = recorder {
            recorder.wake();
        }
    }

    /// Whether every frame from `from` on is still there.
    pub(super) fn holds(&self, from: u64) -> Result<(), ResumeError> {
        self.lock().kept.place(from)
    }

    /// What `reader` finds at `from`: at least one frame. It waits where there is none yet.
    pub(super) fn poll_read(
        &self,
        reader: u64,
        from: u64,
        cx: &Context<'_>,
    ) -> Poll<Result<Vec<Record>, Dropped>> {
        let mut state = self.lock();
        // As much as a queue would hold for its reader.
        match state.kept.read(from, QueueLimits::MAX_BYTES) {
            Ok(records) if records.is_empty() => {
                let before = state.readers.insert(reader, Some(cx.waker().clone()));
                // A waker's drop may be anybody's code: outside of the lock.
                drop(state);
                drop(before);
                Poll::Pending
            }
            read => Poll::Ready(read),
        }
    }

    /// Since when nobody reads; the recorder is woken when that changes.
    pub(super) fn alone_since(&self, cx: &Context<'_>) -> Option<Instant> {
        let mut state = self.lock();
        match &mut state.recorder {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.recorder = Some(cx.waker().clone()),
        }
        state.alone_since
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let bytes = self.lock().kept.bytes();
        self.count(bytes, 0);
    }
}
