//! The log of one turn: one lock around its frames and its readers.
//!
//! One recorder appends; any number of readers follow, each at its own position. Readers do not
//! wait for each other: a frame that is dropped at the head is dropped for every reader that has
//! not read it.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::entries::{FrameDropped, LogEntries};
use super::error::ResumeError;
use super::fold::FoldedSnapshot;
use super::record::Record;
use crate::frame::End;
use crate::turn::admission::group::{Membership, WeakMembership};
use crate::turn::{OpenQuestion, QueueLimits, Timeouts, TurnHandle};

/// The part of a log that does not change.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) handle: TurnHandle,
    pub(super) owner: String,
    /// The lane and the owner of the turn, if it has a lane.
    pub(super) conversation: Option<(String, String)>,
    pub(super) timeouts: Timeouts,
    /// The turn's membership in its group, weak because the log outlives the turn.
    pub(super) membership: Option<WeakMembership>,
    /// For a turn of another host, the source of the frames. The readers of the log keep it alive.
    pub(super) _source: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) head: Head,
    max_bytes: usize,
    /// The size of all logs of the journal.
    total: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: LogEntries,
    readers: BTreeMap<u64, ReaderState>,
    next_reader: u64,
    /// The time since when the log has had no reader.
    alone_since: Option<Instant>,
    recorder: Option<Waker>,
}

/// The state of one reader.
#[derive(Debug, Default)]
struct ReaderState {
    /// Set while the reader waits for a frame.
    waker: Option<Waker>,
    /// Whether the reader has a wire, and with it a client that takes bytes or does not.
    has_wire: bool,
    /// The time since when there have been frames that the reader has not taken.
    behind_since: Option<Instant>,
    /// A reader occupies the turn's place in its group.
    _membership: Option<Membership>,
}

/// The reason why a reader gets no more frames.
#[derive(Debug)]
pub(super) enum Interruption {
    /// The next frame has been dropped; with the snapshot that replaces it, if there is one.
    Dropped(Option<FoldedSnapshot>),
    /// The reader took nothing for too long.
    Stalled,
}

impl From<FrameDropped> for Interruption {
    fn from(dropped: FrameDropped) -> Self {
        Self::Dropped(dropped.snapshot)
    }
}

impl Log {
    pub(super) fn new(head: Head, entries: LogEntries, max_bytes: usize, total: Arc<AtomicUsize>) -> Self {
        total.fetch_add(entries.bytes(), Ordering::Relaxed);
        let state = State {
            entries,
            ..State::default()
        };
        Self {
            head,
            max_bytes,
            total,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the frames that `fill` hands over under the next indexes and wakes the waiting
    /// readers.
    pub(super) fn append(&self, fill: impl FnOnce(&mut dyn FnMut(Record))) {
        let mut state = self.lock();
        let (before, next) = (state.entries.bytes(), state.entries.next());
        fill(&mut |record| {
            let bytes = record.bytes();
            state.entries.push(record, bytes);
            state.entries.trim(self.max_bytes);
        });
        if state.entries.next() == next {
            return;
        }
        self.update_total(before, state.entries.bytes());
        let mut waiting = Vec::new();
        let mut now = None;
        for reader in state.readers.values_mut() {
            waiting.extend(reader.waker.take());
            if reader.has_wire && reader.behind_since.is_none() {
                reader.behind_since = Some(*now.get_or_insert_with(Instant::now));
            }
        }
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Drops frames from the head until this log is `bytes` smaller or has one frame left.
    pub(super) fn shrink_by(&self, bytes: usize) {
        let mut state = self.lock();
        let before = state.entries.bytes();
        state.entries.trim(before.saturating_sub(bytes));
        self.update_total(before, state.entries.bytes());
    }

    fn update_total(&self, before: usize, after: usize) {
        // Relaxed: it is only a sum, and no other memory depends on it.
        if after > before {
            self.total.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.total.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Returns the index of the next frame.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "used by mirrors only"))]
    pub(super) fn next(&self) -> u64 {
        self.lock().entries.next()
    }

    /// Returns the end of the turn, if it has ended.
    pub(super) fn end(&self) -> Option<End> {
        self.lock().entries.end()
    }

    /// Returns the number of readers.
    pub(super) fn readers(&self) -> usize {
        self.lock().readers.len()
    }

    /// Returns whether the turn has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().entries.has_ended()
    }

    /// Stores the frames in less memory if the turn has ended and has no reader now. Readers that
    /// come later decode them.
    pub(super) fn seal_if_unread(&self) {
        let mut state = self.lock();
        if state.readers.is_empty() {
            let before = state.entries.bytes();
            state.entries.seal();
            self.update_total(before, state.entries.bytes());
        }
    }

    /// Drops the frames of an evicted turn. Readers that are still behind may get a snapshot of them.
    pub(super) fn evict(&self) {
        let mut state = self.lock();
        let before = state.entries.bytes();
        if state.readers.is_empty() {
            state.entries.evict();
        } else {
            state.entries.trim(0);
        }
        self.update_total(before, state.entries.bytes());
    }

    /// Returns the question with this ID and the index of the frame after it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenQuestion, u64)> {
        self.lock().entries.question(request_id)
    }

    /// Returns whether the frames resolve a question: by its resolution, or by the end of the turn.
    pub(super) fn is_resolved(&self, request_id: &str) -> bool {
        self.lock().entries.is_resolved(request_id)
    }

    /// Adds a reader that starts at `from`, or with the snapshot of the frames before. Returns its
    /// number, and whether it starts after the end.
    pub(super) fn add_reader(&self, from: u64) -> Result<(u64, bool), ResumeError> {
        let state = self.lock();
        match state.entries.check_index(from) {
            Err(ResumeError::Gone { .. }) if state.entries.is_folded() => {}
            checked => checked?,
        }
        let is_finished = state.entries.has_ended() && from == state.entries.next();
        Ok((self.insert_reader(state), is_finished))
    }

    /// Adds the reader that the turn begins with, and returns its number.
    pub(super) fn add_first_reader(&self) -> u64 {
        self.insert_reader(self.lock())
    }

    fn insert_reader(&self, mut state: MutexGuard<'_, State>) -> u64 {
        let number = state.next_reader;
        state.next_reader += 1;
        let reader = ReaderState {
            _membership: self.head.membership.as_ref().and_then(WeakMembership::upgrade),
            ..ReaderState::default()
        };
        state.readers.insert(number, reader);
        state.alone_since = None;
        number
    }

    /// Reports that a reader has a wire: from now on it has to take the frames that are ready.
    pub(super) fn follow(&self, reader: u64, from: u64) {
        let mut state = self.lock();
        let is_behind = from < state.entries.next();
        if let Some(reader) = state.readers.get_mut(&reader) {
            reader.has_wire = true;
            reader.behind_since = is_behind.then(Instant::now);
        }
    }

    pub(super) fn remove_reader(&self, reader: u64) {
        let mut state = self.lock();
        // `None` if the reader was cut off before.
        let removed = state.readers.remove(&reader);
        let recorder = if removed.is_some() && state.readers.is_empty() {
            state.alone_since = Some(Instant::now());
            state.recorder.take()
        } else {
            None
        };
        drop(state);
        drop(removed);
        if let Some(recorder) = recorder {
            recorder.wake();
        }
    }

    /// Cuts off readers that have taken nothing for the turn's write time-out: a client that never
    /// reads must not hold a place in the group or keep the turn running. Returns when to check
    /// again.
    pub(super) fn cut_stalled(&self, now: Instant) -> Option<Instant> {
        let after = self.head.timeouts.write_stall?;
        // A reader that is up to date may fall behind right now.
        let mut next = now.checked_add(after)?;
        let mut state = self.lock();
        let stalled: Vec<(u64, ReaderState)> = state
            .readers
            .extract_if(.., |_, reader| {
                let due = reader.behind_since.and_then(|since| since.checked_add(after));
                next = due.filter(|due| *due > now).map_or(next, |due| due.min(next));
                due.is_some_and(|due| due <= now)
            })
            .collect();
        if !stalled.is_empty() && state.readers.is_empty() {
            state.alone_since = Some(now);
        }
        drop(state);
        drop(stalled);
        Some(next)
    }

    /// Waits until no reader is left, or the remaining ones take nothing. The turn's place in its
    /// group depends on that after the end.
    pub(super) async fn emptied(&self) {
        let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
        poll_fn(|cx| {
            while timer.as_mut().poll(cx).is_ready() {
                let Some(next) = self.cut_stalled(Instant::now()) else {
                    return Poll::Ready(());
                };
                timer.as_mut().reset(next);
            }
            self.alone_since(cx).map_or(Poll::Pending, |_| Poll::Ready(()))
        })
        .await;
    }

    /// Checks that every frame from `from` on is stored. The error contains the snapshot of the
    /// dropped ones, if there is one.
    pub(super) fn check_index(&self, from: u64) -> Result<(), (ResumeError, Option<FoldedSnapshot>)> {
        let state = self.lock();
        state
            .entries
            .check_index(from)
            .map_err(|error| (error, state.entries.snapshot()))
    }

    /// Reads at least one frame from `from` on; pending while no frame is ready.
    pub(super) fn poll_read(
        &self,
        reader: u64,
        from: u64,
        cx: &Context<'_>,
    ) -> Poll<Result<Vec<Record>, Interruption>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(reader) = state.readers.get_mut(&reader) else {
            return Poll::Ready(Err(Interruption::Stalled));
        };
        // As many bytes as a queue holds for its reader.
        let records = state.entries.read(from, QueueLimits::MAX_BYTES)?;
        if records.is_empty() {
            reader.behind_since = None;
            if reader
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                return Poll::Pending;
            }
            let before = reader.waker.replace(cx.waker().clone());
            // Dropping a waker may run foreign code, so it happens outside of the lock.
            drop(guard);
            drop(before);
            return Poll::Pending;
        }
        let has_more = from + (records.len() as u64) < state.entries.next();
        reader.behind_since = (reader.has_wire && has_more).then(Instant::now);
        Poll::Ready(Ok(records))
    }

    /// Returns since when the log has had no reader. The recorder is woken when that changes.
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
        let bytes = self.lock().entries.bytes();
        self.update_total(bytes, 0);
    }
}
