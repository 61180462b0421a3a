//! The log of one turn: one lock around its frames and who waits for them.
//!
//! One recorder appends; any number of readers follow, each at its own place. None of them waits for another: what is dropped at
//! the head is dropped for whoever has not read it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::Journal;
use super::error::ResumeError;
use super::fold::Held;
use super::follower::Reading;
use super::kept::{Dropped, Kept, Record};
use crate::frame::End;
use crate::turn::admission::group::{Membership, WeakMembership};
use crate::turn::{OpenQuestion, QueueLimits, Timeouts, TurnHandle};

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
    /// Of a turn that is only read here: its readers keep the journal, which brings them their frames.
    pub(super) _journal: Option<Journal>,
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
    /// Who reads.
    readers: HashMap<u64, Seat>,
    /// The number of the next reader.
    next_reader: u64,
    /// Since when nobody reads.
    alone_since: Option<Instant>,
    recorder: Option<Waker>,
}

/// What the log knows of one reader.
#[derive(Debug, Default)]
struct Seat {
    /// While it waits.
    waker: Option<Waker>,
    /// Whether it has a wire, and with it somebody who takes bytes or does not.
    follows: bool,
    /// Since when there has been something that it did not take.
    behind_since: Option<Instant>,
    /// A reader holds the turn's place in its group.
    _membership: Option<Membership>,
}

/// Why a reader gets nothing more.
#[derive(Debug)]
pub(super) enum Cut {
    /// What it would read next is not kept any more; with what there is of it.
    Gone(Option<Held>),
    /// It took nothing for too long.
    Stalled,
}

impl From<Dropped> for Cut {
    fn from(dropped: Dropped) -> Self {
        Self::Gone(dropped.held)
    }
}

impl Log {
    pub(super) fn new(head: Head, kept: Kept, max_bytes: usize, total: Arc<AtomicUsize>) -> Self {
        total.fetch_add(kept.bytes(), Ordering::Relaxed);
        let state = State {
            kept,
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

    /// Appends a frame, which gets its index by that, and wakes whoever waits for it.
    pub(super) fn append(&self, record: Record) {
        let bytes = record.bytes();
        let mut state = self.lock();
        let before = state.kept.bytes();
        state.kept.push(record, bytes);
        state.kept.trim(self.max_bytes);
        self.count(before, state.kept.bytes());
        let mut waiting = Vec::new();
        let mut now = None;
        for seat in state.readers.values_mut() {
            waiting.extend(seat.waker.take());
            if seat.follows && seat.behind_since.is_none() {
                seat.behind_since = Some(*now.get_or_insert_with(Instant::now));
            }
        }
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

    /// The index that the next frame gets.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "asked by mirrors"))]
    pub(super) fn next(&self) -> u64 {
        self.lock().kept.next()
    }

    /// How the turn ended, if it did.
    pub(super) fn end(&self) -> Option<End> {
        self.lock().kept.end().cloned()
    }

    /// The question of that id, and the index of the frame behind it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenQuestion, u64)> {
        let state = self.lock();
        let (question, next) = state.kept.question(request_id)?;
        Some((OpenQuestion::from(question), next))
    }

    /// Whether the frames say what became of a question: how it was resolved, or that the turn is over.
    pub(super) fn is_settled(&self, request_id: &str) -> bool {
        self.lock().kept.is_settled(request_id)
    }

    /// A reader that begins at `from`, or with what there is of the frames before.
    pub(super) fn attach(self: &Arc<Self>, from: u64) -> Result<Reading, ResumeError> {
        let state = self.lock();
        match state.kept.place(from) {
            Err(ResumeError::Gone { .. }) if state.kept.is_folded() => {}
            place => place?,
        }
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
        let seat = Seat {
            _membership: self.head.membership.as_ref().and_then(WeakMembership::upgrade),
            ..Seat::default()
        };
        state.readers.insert(reader, seat);
        state.alone_since = None;
        drop(state);
        Reading::new(Arc::clone(self), reader, from, is_over)
    }

    /// The reader has its wire: from now on it has to take what there is.
    pub(super) fn follow(&self, reader: u64, from: u64) {
        let mut state = self.lock();
        let is_behind = from < state.kept.next();
        if let Some(seat) = state.readers.get_mut(&reader) {
            seat.follows = true;
            seat.behind_since = is_behind.then(Instant::now);
        }
    }

    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.lock();
        // None where it was cut before.
        let seat = state.readers.remove(&reader);
        let recorder = if seat.is_some() && state.readers.is_empty() {
            state.alone_since = Some(Instant::now());
            state.recorder.take()
        } else {
            None
        };
        drop(state);
        drop(seat);
        if let Some(recorder) = recorder {
            recorder.wake();
        }
    }

    /// Counts readers as gone that have taken nothing for as long as the turn allows: their places in the group and what becomes of the
    /// turn must not hang on a client that never reads. Says when to look again.
    pub(super) fn cut_stalled(&self, now: Instant) -> Option<Instant> {
        let after = self.head.timeouts.write_stall?;
        // Who is not behind may fall behind right now.
        let mut next = now.checked_add(after)?;
        let mut state = self.lock();
        let cut: Vec<(u64, Seat)> = state
            .readers
            .extract_if(|_, seat| {
                let due = seat.behind_since.and_then(|since| since.checked_add(after));
                next = due.filter(|due| *due > now).map_or(next, |due| due.min(next));
                due.is_some_and(|due| due <= now)
            })
            .collect();
        if !cut.is_empty() && state.readers.is_empty() {
            state.alone_since = Some(now);
        }
        drop(state);
        drop(cut);
        Some(next)
    }

    /// Waits until nobody reads, or those who are left take nothing: after the end, when the turn's place in its group hangs on them.
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

    /// Whether every frame from `from` on is still there; otherwise with what there is of them.
    pub(super) fn holds(&self, from: u64) -> Result<(), (ResumeError, Option<Held>)> {
        let state = self.lock();
        state.kept.place(from).map_err(|error| (error, state.kept.held()))
    }

    /// What `reader` finds at `from`: at least one frame. It waits where there is none yet.
    pub(super) fn poll_read(
        &self,
        reader: u64,
        from: u64,
        cx: &Context<'_>,
    ) -> Poll<Result<Vec<Record>, Cut>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(seat) = state.readers.get_mut(&reader) else {
            return Poll::Ready(Err(Cut::Stalled));
        };
        // As much as a queue would hold for its reader.
        let records = state.kept.read(from, QueueLimits::MAX_BYTES)?;
        if records.is_empty() {
            let before = seat.waker.replace(cx.waker().clone());
            seat.behind_since = None;
            // A waker's drop may be anybody's code: outside of the lock.
            drop(guard);
            drop(before);
            return Poll::Pending;
        }
        let has_more = from + (records.len() as u64) < state.kept.next();
        seat.behind_since = (seat.follows && has_more).then(Instant::now);
        Poll::Ready(Ok(records))
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
