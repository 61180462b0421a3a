//! The bounded queue between one producer and one reader: frames until a wire is chosen, then
//! encoded bytes.
//!
//! The queue knows no runtime and no clock: wakers go in, and the caller passes the time. One lock
//! protects everything, so that the commit, the end and a cancellation are atomic (modelled with
//! loom in `tests/loom`).
//!
//! Streaming is expensive because of the handover, not because of the encoding: one chunk per item
//! means one channel slot, one wake-up and one write each. So the producer encodes into one shared
//! buffer, and the reader takes the whole buffer: one write when it is behind, no delay when it
//! keeps up. Adjacent texts that wait for the reader become one text, on every wire.
//!
//! Data and outcome are stored separately: a full queue cannot block a failure, because the end
//! needs no room, and a failure cannot overtake data, because the end is encoded after everything
//! sent before it.

mod delay;
mod frame;
mod read;
mod state;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

pub(crate) use self::frame::{QueuedFrame, TimedEvent};
use self::state::{Out, State};
use super::human::open::Questions;
use super::limits::QueueLimits;
use super::sync::{Mutex, MutexGuard};
use crate::event::Event;
use crate::frame::End;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::utf8::Carry;
use crate::wire::EncodeError;

/// The maximum length of the answer that the hook before the end gets. It is never cut on the wire.
const MAX_TRANSCRIPT_BYTES: usize = 1024 * 1024;

/// Why the queue accepts nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The turn has its end.
    Ended,
    /// The reader has disconnected.
    Disconnected,
}

/// Why an item was not queued.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The queue is full now.
    Full,
    /// The queue accepts nothing more.
    Closed(Closed),
    /// The frame is invalid. Nothing was queued.
    Invalid(EncodeError),
}

/// The frame that begins the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOn {
    /// Any frame.
    Frame,
    /// The first piece of the answer.
    Text,
    /// The end of the turn.
    End,
}

/// Measurements for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) first_event: Option<Instant>,
    pub(crate) first_text: Option<Instant>,
    /// How often a sender waited for the reader.
    pub(crate) stalls: u64,
}

/// The times from which time-outs count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// Since when the producer may send. `None` while its turn is on the waiting list.
    pub(crate) began: Option<Instant>,
    /// When the producer last sent something. May be later by the time that it waited here.
    pub(crate) sent: Instant,
    /// Since when data has waited for the reader. `None` if no data waits or no wire is chosen.
    pub(crate) behind_since: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    /// The turn's questions. Their lock is never taken while the queue's is held.
    pub(crate) questions: Questions,
    state: Mutex<State>,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits, transcript: bool, now: Instant) -> Self {
        Self {
            limits,
            questions: Questions::default(),
            state: Mutex::new(State::new(transcript, now)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock would be a bug in this crate. It leaves consistent frames.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Marks the turn as waiting for admission: until `begin`, senders wait as if the queue were
    /// full.
    pub(crate) fn hold(&self) {
        self.lock().activity.began = None;
    }

    /// Marks the turn as admitted. Its time limits count from now.
    pub(crate) fn begin(&self, now: Instant) {
        let mut state = self.lock();
        state.activity.began = Some(now);
        state.stamp(now);
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        senders.into_iter().for_each(Waker::wake);
    }

    /// Queues an event. It may be moved out of `event`; after an error it is still there. Returns
    /// `true` for the first frame of the turn.
    pub(crate) fn push_event(
        &self,
        event: &mut Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<bool, Refused> {
        let state = self.lock();
        state.admit(&self.limits)?;
        self.add_event(state, event, at, now)
    }

    /// Queues an event that reports the turn's position on the waiting list.
    pub(crate) fn push_waiting(
        &self,
        event: &mut Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<bool, Refused> {
        let state = self.lock();
        state.room(&self.limits)?;
        self.add_event(state, event, at, now)
    }

    fn add_event(
        &self,
        mut state: MutexGuard<'_, State>,
        event: &mut Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<bool, Refused> {
        if state.pass_held_text(event) {
            return Ok(false);
        }
        state
            .event(event, at, self.limits.max_event_bytes)
            .map_err(Refused::Invalid)?;
        state.frames += 1;
        let first = state.figures.first_event.is_none();
        let moment = state.sent(first, now);
        if first {
            state.figures.first_event = moment;
        }
        let is_first_frame = state.figures.frames == 1;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(is_first_frame)
    }

    /// Queues a piece of the answer. An empty piece has no effect. Returns `true` for the first frame
    /// of the turn.
    pub(crate) fn push_text(&self, text: &str, now: impl Fn() -> Instant) -> Result<bool, Refused> {
        self.push_with(now, |carry, out| {
            carry.finish(out);
            out.push_str(text);
        })
    }

    /// Queues a piece of the answer that may end within a character. Returns `true` for the first
    /// frame of the turn.
    pub(crate) fn push_bytes(&self, bytes: &[u8], now: impl Fn() -> Instant) -> Result<bool, Refused> {
        self.push_with(now, |carry, out| carry.push(bytes, out))
    }

    fn push_with(
        &self,
        now: impl Fn() -> Instant,
        add: impl FnOnce(&mut Carry, &mut String),
    ) -> Result<bool, Refused> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.admit(&self.limits)?;
        let before = state.text.len();
        add(&mut state.carry, &mut state.text);
        if state.text.len() == before {
            return Ok(false);
        }
        let added = &state.text[before..];
        state.answer_chars += added.chars().count() as u64;
        if let Some(transcript) = &mut state.transcript {
            let room = MAX_TRANSCRIPT_BYTES.saturating_sub(transcript.len());
            transcript.push_str(&added[..added.floor_char_boundary(room)]);
        }
        state.frames += usize::from(before == 0);
        let producer = state.hold_text(&now);
        let first = state.figures.first_text.is_none();
        let moment = state.sent(first, now);
        if first {
            state.figures.first_text = moment;
        }
        let is_first_frame = state.figures.frames == 1;
        let reader = state.reader.take();
        drop(guard);
        wake(producer);
        wake(reader);
        Ok(is_first_frame)
    }

    /// Registers a sender that waits for room. Returns `false` if there may already be room.
    pub(crate) fn wait_for_room(&self, cx: &Context<'_>) -> bool {
        let mut state = self.lock();
        if !matches!(state.admit(&self.limits), Err(Refused::Full)) {
            return false;
        }
        state.add_sender(cx);
        // A turn on the waiting list does not wait for its reader.
        state.figures.stalls += u64::from(state.activity.began.is_some());
        true
    }

    /// Returns `true` if the reader's wire would show an event that is sent now only at the end.
    pub(crate) fn hides_events(&self) -> bool {
        let state = self.lock();
        match &state.out {
            Out::Frames { .. } => false,
            Out::Bytes { encoder, .. } => {
                // Text that still waits precedes the event, unless it is held.
                let phase = if state.text.is_empty() || state.delay.is_some() {
                    Phase::Events
                } else {
                    Phase::Text
                };
                !encoder.shows_events(phase)
            }
        }
    }

    /// Counts an event that a policy dropped.
    pub(crate) fn count_dropped(&self) {
        self.lock().figures.dropped += 1;
    }

    /// Requests an end: the producer's task publishes it after the application's hook. The first
    /// request wins.
    pub(crate) fn request_end(&self, end: End) -> Result<(), Closed> {
        let mut state = self.lock();
        if let Some(closed) = state.closed {
            return Err(closed);
        }
        state.closed = Some(Closed::Ended);
        state.ending = Some(Box::new(end));
        wake_all(state);
        Ok(())
    }

    /// Returns the end that was requested, or `end` if none was. No other can be requested after this.
    pub(crate) fn settle(&self, end: Box<End>) -> Box<End> {
        let mut state = self.lock();
        state.closed.get_or_insert(Closed::Ended);
        state.ending.take().unwrap_or(end)
    }

    /// Closes the queue while the application's hook runs: nothing is added, so the hook gets the
    /// complete answer, and no time limit changes the end.
    pub(crate) fn decide(&self) {
        let mut state = self.lock();
        state.decided = true;
        state.closed.get_or_insert(Closed::Ended);
        wake_all(state);
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.lock().decided
    }

    /// Publishes the end. The first end wins, and later sends fail. Returns `true` if this is the
    /// first end.
    pub(crate) fn finish(&self, end: End) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.end.is_some() {
            return false;
        }
        let mut end = end;
        end.metadata.events_dropped += state.figures.dropped;
        let before = state.text.len();
        state.carry.finish(&mut state.text);
        if before == 0 && !state.text.is_empty() {
            state.frames += 1;
        }
        state.end = Some(Arc::new(end));
        state.closed.get_or_insert(Closed::Ended);
        wake_all(guard);
        true
    }

    /// Waits until the producer should stop. Returns the end of the turn.
    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        if let Some(end) = state.ending.as_deref().or(state.end.as_deref()) {
            return Poll::Ready(end.clone());
        }
        if state.reader_gone {
            return Poll::Ready(End::stopped());
        }
        register(&mut state.producer, cx);
        Poll::Pending
    }

    /// Returns why the queue accepts nothing more, or `None` while it is open.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.lock().closed
    }

    /// Waits until the queue accepts nothing more.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<Closed> {
        let mut state = self.lock();
        if let Some(closed) = state.closed {
            return Poll::Ready(closed);
        }
        // Registered with the waiting senders, because every end wakes them.
        state.add_sender(cx);
        Poll::Pending
    }

    /// Returns the number of characters of the answer so far.
    pub(crate) fn answer_chars(&self) -> u64 {
        self.lock().answer_chars
    }

    /// Takes the answer so far, if it was recorded.
    pub(crate) fn take_transcript(&self) -> String {
        self.lock().transcript.take().unwrap_or_default()
    }

    pub(crate) fn activity(&self, now: Instant) -> Activity {
        // Waiting for a human does not count as idle.
        let is_asking = self.questions.is_waiting();
        let mut state = self.lock();
        if is_asking || state.unstamped {
            state.stamp(now);
        }
        state.activity
    }

    pub(crate) fn figures(&self) -> Figures {
        self.lock().figures
    }
}

fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

/// Releases the lock and wakes every waiting task. Each one checks for itself what has changed.
fn wake_all(mut state: MutexGuard<'_, State>) {
    let (reader, producer) = (state.reader.take(), state.producer.take());
    let senders = std::mem::take(&mut state.senders);
    drop(state);
    wake(reader);
    wake(producer);
    senders.into_iter().for_each(Waker::wake);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
