//! The bounded queue between one producer and one reader: frames while nobody has chosen a wire, then finished bytes.
//!
//! It knows no runtime and no clock: wakers go in, moments come from the caller. One lock holds everything, so the moment of
//! commitment, the end and a cancellation can never be seen half (modelled with loom in `tests/loom`).
//!
//! What costs when a turn is streamed is not the encoding but the hop: one chunk per item means one channel slot, one wake-up
//! and one write each. So the producer encodes into one shared buffer, and the reader takes that buffer whole: one write when it
//! is behind, no delay when it keeps up. Texts that meet while the reader is behind become one text, on every wire.
//!
//! Data and outcome travel apart: the end has a place of its own, so a full queue cannot block a failure, and it is encoded
//! after everything that was sent before it, so a failure cannot overtake data.

mod read;
mod state;

use std::task::{Context, Poll, Waker};
use std::time::Instant;

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

/// Longest answer that is kept for the hook before the end: what is longer is cut there, never on the wire.
const MAX_TRANSCRIPT_BYTES: usize = 1024 * 1024;

/// Why the queue takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The turn has its end.
    Ended,
    /// Nobody reads.
    Disconnected,
}

/// Why something was not put into the queue.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No room now.
    Full,
    /// No room ever.
    Closed(Closed),
    /// Not a legal frame; nothing was queued.
    Invalid(EncodeError),
}

/// What the reader waits for before it says that the response has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOn {
    /// Any frame.
    Frame,
    /// The first piece of the answer.
    Text,
    /// The end of the turn.
    End,
}

/// What was measured on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) first_event: Option<Instant>,
    pub(crate) first_text: Option<Instant>,
}

/// The moments that time-outs are counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// Since when the producer may send; `None` while its turn waits for a place.
    pub(crate) began: Option<Instant>,
    /// When the producer last sent something; later than that by at most the time that it lay here.
    pub(crate) sent: Instant,
    /// Since when something has been ready that the reader did not take; `None` while nothing is, or nobody has chosen a wire.
    pub(crate) behind_since: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    /// What the turn asks, under a lock of its own: never taken within the other.
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
        // A panic under this lock would be a bug of ours; the state it leaves is still consistent frame by frame.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The turn waits for its place: until it begins, whoever sends waits as if the queue were full.
    pub(crate) fn hold(&self) {
        self.lock().activity.began = None;
    }

    /// The turn has its place; its times count from now.
    pub(crate) fn begin(&self, now: Instant) {
        let mut state = self.lock();
        state.activity.began = Some(now);
        state.stamp(now);
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        senders.into_iter().for_each(Waker::wake);
    }

    /// Queues an event.
    pub(crate) fn push_event(
        &self,
        event: &Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Refused> {
        let state = self.lock();
        state.admit(&self.limits)?;
        self.add_event(state, event, at, now)
    }

    /// Queues an event that tells how the turn waits.
    pub(crate) fn push_waiting(
        &self,
        event: &Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Refused> {
        let state = self.lock();
        state.room(&self.limits)?;
        self.add_event(state, event, at, now)
    }

    fn add_event(
        &self,
        mut state: MutexGuard<'_, State>,
        event: &Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Refused> {
        state.flush_text();
        state
            .event(event, at, self.limits.max_event_bytes)
            .map_err(Refused::Invalid)?;
        state.frames += 1;
        let first = state.figures.first_event.is_none();
        let moment = state.sent(first, now);
        if first {
            state.figures.first_event = moment;
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(())
    }

    /// Queues a piece of the answer; an empty one is nothing.
    pub(crate) fn push_text(&self, text: &str, now: impl FnOnce() -> Instant) -> Result<(), Refused> {
        self.push_with(now, |carry, out| {
            carry.finish(out);
            out.push_str(text);
        })
    }

    /// Queues a piece of the answer that may end within a character.
    pub(crate) fn push_bytes(&self, bytes: &[u8], now: impl FnOnce() -> Instant) -> Result<(), Refused> {
        self.push_with(now, |carry, out| carry.push(bytes, out))
    }

    fn push_with(
        &self,
        now: impl FnOnce() -> Instant,
        add: impl FnOnce(&mut Carry, &mut String),
    ) -> Result<(), Refused> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.admit(&self.limits)?;
        let before = state.text.len();
        add(&mut state.carry, &mut state.text);
        if state.text.len() == before {
            return Ok(());
        }
        if let Some(transcript) = &mut state.transcript {
            let room = MAX_TRANSCRIPT_BYTES.saturating_sub(transcript.len());
            let added = &state.text[before..];
            transcript.push_str(&added[..added.floor_char_boundary(room)]);
        }
        state.frames += usize::from(before == 0);
        let first = state.figures.first_text.is_none();
        let moment = state.sent(first, now);
        if first {
            state.figures.first_text = moment;
        }
        let reader = state.reader.take();
        drop(guard);
        wake(reader);
        Ok(())
    }

    /// Registers a sender that waits for room; false where there may be room already.
    pub(crate) fn wait_for_room(&self, cx: &Context<'_>) -> bool {
        let mut state = self.lock();
        if !matches!(state.admit(&self.limits), Err(Refused::Full)) {
            return false;
        }
        state.add_sender(cx);
        true
    }

    /// Whether the reader's wire shows an event that is sent now only at the end.
    pub(crate) fn hides_events(&self) -> bool {
        let state = self.lock();
        match &state.out {
            Out::Frames { .. } => false,
            Out::Bytes { encoder, .. } => {
                // A text that still waits comes before.
                let phase = if state.text.is_empty() {
                    Phase::Events
                } else {
                    Phase::Text
                };
                !encoder.shows_events(phase)
            }
        }
    }

    /// Counts an event that a policy kept out.
    pub(crate) fn count_dropped(&self) {
        self.lock().figures.dropped += 1;
    }

    /// Asks for an end: the producer's task makes it one, after the application's hook. The first to ask wins.
    pub(crate) fn request_end(&self, end: End) -> Result<(), Closed> {
        let mut state = self.lock();
        if let Some(closed) = state.closed {
            return Err(closed);
        }
        state.closed = Some(Closed::Ended);
        state.ending = Some(end);
        wake_all(state);
        Ok(())
    }

    /// The end is known and comes after the application's hook: until then nothing is added, so the hook is told the whole
    /// answer, and time changes nothing about it.
    pub(crate) fn decide(&self) {
        let mut state = self.lock();
        state.decided = true;
        state.closed.get_or_insert(Closed::Ended);
        wake_all(state);
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.lock().decided
    }

    /// The turn is over. The first end wins; what is sent after it is refused. True where this was the first.
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
        state.end = Some(end);
        state.closed.get_or_insert(Closed::Ended);
        wake_all(guard);
        true
    }

    /// Whether the producer should give up now, and how the turn then ends.
    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        if let Some(end) = state.ending.as_ref().or(state.end.as_ref()) {
            return Poll::Ready(end.clone());
        }
        if state.reader_gone {
            return Poll::Ready(End::stopped());
        }
        register(&mut state.producer, cx);
        Poll::Pending
    }

    /// Why nothing more is taken, if so.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.lock().closed
    }

    /// Waits until nothing more is taken.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<Closed> {
        let mut state = self.lock();
        if let Some(closed) = state.closed {
            return Poll::Ready(closed);
        }
        // Woken with those who wait for room: whatever ends the turn wakes them all.
        state.add_sender(cx);
        Poll::Pending
    }

    /// The answer so far, if it was asked for; it is kept no longer.
    pub(crate) fn take_transcript(&self) -> String {
        self.lock().transcript.take().unwrap_or_default()
    }

    pub(crate) fn activity(&self, now: Instant) -> Activity {
        // A turn that waits for a human is not silent.
        let asks = self.questions.is_waiting();
        let mut state = self.lock();
        if asks || state.unstamped {
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

/// Lets go of the lock, then wakes whoever waits for anything: each looks for itself what has changed.
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
