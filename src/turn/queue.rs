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

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::limits::QueueLimits;
use super::sync::{Mutex, MutexGuard};
use crate::event::Event;
use crate::frame::{End, Frame, FrameKind, Order, Status, Timestamp};
use crate::json;
use crate::utf8::Carry;
use crate::wire::{EncodeError, Encoder};

/// First size of the shared buffer: a page holds the events of a typical retrieval.
const FIRST_BUFFER_BYTES: usize = 4096;

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
    /// When the producer last sent something; later than that by at most the time that it lay here.
    pub(crate) sent: Instant,
    /// Since when something has been ready that the reader did not take; `None` while nothing is, or nobody has chosen a wire.
    pub(crate) behind_since: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: Out,
    /// Frames that wait, `text` counted once.
    frames: usize,
    /// Text that is not in `out` yet: what comes next may still join it.
    text: String,
    carry: Carry,
    /// The whole answer so far, where somebody asked for it.
    transcript: Option<String>,
    /// The end, from the moment it is known; the reader encodes it after everything else.
    end: Option<End>,
    end_taken: bool,
    /// Asked for, not there yet: the producer finishes by it at its next step.
    ending: Option<End>,
    reader_gone: bool,
    /// Why nothing more is taken; the first reason stays.
    closed: Option<Closed>,
    /// The end is known and only waits for the application's hook.
    decided: bool,
    activity: Activity,
    /// Whether frames came in since the clock was last read.
    unstamped: bool,
    figures: Figures,
    reader: Option<Waker>,
    producer: Option<Waker>,
    senders: Vec<Waker>,
}

/// Where frames go.
#[derive(Debug)]
enum Out {
    /// Nobody has chosen a wire: they are kept, with their size as JSON.
    Frames {
        frames: VecDeque<Frame>,
        bytes: usize,
        order: Order,
    },
    /// They are encoded at once.
    Bytes { encoder: Encoder, buffer: BytesMut },
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits, transcript: bool, now: Instant) -> Self {
        Self {
            limits,
            state: Mutex::new(State {
                out: Out::Frames {
                    frames: VecDeque::new(),
                    bytes: 0,
                    order: Order::default(),
                },
                frames: 0,
                text: String::new(),
                carry: Carry::default(),
                transcript: transcript.then(String::new),
                end: None,
                end_taken: false,
                ending: None,
                reader_gone: false,
                closed: None,
                decided: false,
                activity: Activity {
                    sent: now,
                    behind_since: None,
                },
                unstamped: false,
                figures: Figures::default(),
                reader: None,
                producer: None,
                senders: Vec::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock would be a bug of ours; the state it leaves is still consistent frame by frame.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    // ---- producer ------------------------------------------------------------------------------------------------

    /// Queues an event.
    pub(crate) fn push_event(
        &self,
        event: &Event,
        at: Timestamp,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        state.admit(&self.limits)?;
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
        if !state.senders.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.senders.push(cx.waker().clone());
        }
        true
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
        let (producer, senders) = (state.producer.take(), std::mem::take(&mut state.senders));
        drop(state);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// The end is known and comes after the application's hook: until then nothing is added, so the hook is told the whole
    /// answer, and time changes nothing about it.
    pub(crate) fn decide(&self) {
        let mut state = self.lock();
        state.decided = true;
        state.closed.get_or_insert(Closed::Ended);
        let senders = std::mem::take(&mut state.senders);
        drop(state);
        senders.into_iter().for_each(Waker::wake);
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
        let (reader, producer) = (state.reader.take(), state.producer.take());
        let senders = std::mem::take(&mut state.senders);
        drop(guard);
        wake(reader);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
        true
    }

    /// Whether the producer should give up now, and how the turn then ends.
    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        if let Some(end) = state.ending.take().or_else(|| state.end.clone()) {
            // Kept, so that a sink used meanwhile is still refused.
            state.ending = Some(end.clone());
            return Poll::Ready(end);
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

    /// The answer so far, if it was asked for; it is kept no longer.
    pub(crate) fn take_transcript(&self) -> String {
        self.lock().transcript.take().unwrap_or_default()
    }

    pub(crate) fn activity(&self, now: Instant) -> Activity {
        let mut state = self.lock();
        if state.unstamped {
            state.stamp(now);
        }
        state.activity
    }

    pub(crate) fn figures(&self) -> Figures {
        self.lock().figures
    }

    // ---- reader --------------------------------------------------------------------------------------------------

    /// Waits until the response has begun or the turn failed before that: one decision, under one lock. `overdue` says that the
    /// caller's patience is over, which begins the response whatever there is.
    pub(crate) fn poll_commit(&self, cx: &Context<'_>, on: CommitOn, overdue: bool) -> Poll<Result<(), End>> {
        let mut state = self.lock();
        let begun = match on {
            CommitOn::Frame => state.figures.frames > 0,
            CommitOn::Text => state.figures.first_text.is_some(),
            CommitOn::End => false,
        };
        // A full queue cannot get any nearer to what is waited for.
        if begun || overdue || matches!(state.admit(&self.limits), Err(Refused::Full)) {
            return Poll::Ready(Ok(()));
        }
        match &state.end {
            Some(End {
                status: Status::Completed,
                ..
            }) => Poll::Ready(Ok(())),
            Some(end) => Poll::Ready(Err(end.clone())),
            None => {
                register(&mut state.reader, cx);
                Poll::Pending
            }
        }
    }

    /// A wire is chosen: what was kept is encoded, and from now on everything at once.
    pub(crate) fn attach(&self, mut encoder: Encoder, now: Instant) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Out::Frames { frames, .. } = &mut state.out else {
            return;
        };
        let mut buffer = BytesMut::with_capacity(FIRST_BUFFER_BYTES);
        for frame in std::mem::take(frames) {
            // The queue checked the order; an event that is too long for this wire is the one thing that can be refused.
            if encoder.encode(&frame, &mut buffer).is_err() {
                match &mut state.end {
                    // Already summed up.
                    Some(end) => end.metadata.events_dropped += 1,
                    None => state.figures.dropped += 1,
                }
            }
        }
        state.out = Out::Bytes { encoder, buffer };
        if state.frames > 0 {
            state.activity.behind_since = Some(now);
        }
    }

    /// Takes everything that is ready as one chunk, the terminal included; `None` after it.
    pub(crate) fn poll_bytes(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Bytes>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.flush_text();
        state.take_end();
        let Out::Bytes { buffer, .. } = &mut state.out else {
            return Poll::Ready(None);
        };
        if buffer.is_empty() {
            if state.end_taken {
                return Poll::Ready(None);
            }
            register(&mut state.reader, cx);
            // Late events may leave no bytes before the end: the reader has taken all there is, so they fill nothing.
            let senders = if state.frames > 0 {
                state.taken(now)
            } else {
                Vec::new()
            };
            drop(guard);
            senders.into_iter().for_each(Waker::wake);
            return Poll::Pending;
        }
        let chunk = buffer.split().freeze();
        state.figures.bytes += chunk.len() as u64;
        let senders = state.taken(now);
        drop(guard);
        senders.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(chunk))
    }

    /// Takes the next frame as it is; `None` after the end. For a reader that wants no wire.
    pub(crate) fn poll_frame(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Frame>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.flush_text();
        state.take_end();
        let Out::Frames { frames, bytes, .. } = &mut state.out else {
            return Poll::Ready(None);
        };
        let Some(frame) = frames.pop_front() else {
            if state.end_taken {
                return Poll::Ready(None);
            }
            register(&mut state.reader, cx);
            return Poll::Pending;
        };
        if frames.is_empty() {
            *bytes = 0;
            let senders = state.taken(now);
            drop(guard);
            senders.into_iter().for_each(Waker::wake);
        }
        Poll::Ready(Some(frame))
    }

    /// Writes the wire's filler, if it has one now and nothing else is ready.
    pub(crate) fn keep_alive(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Out::Bytes { encoder, buffer } = &mut state.out
            && buffer.is_empty()
            && state.text.is_empty()
            && state.end.is_none()
        {
            encoder.keep_alive(buffer);
        }
    }

    /// Whether the terminal was handed out and nothing is left.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.lock();
        state.end_taken && state.is_empty()
    }

    /// How the turn ended, once the reader has been told.
    pub(crate) fn end_taken(&self) -> Option<Status> {
        let state = self.lock();
        state
            .end
            .as_ref()
            .filter(|_| state.end_taken)
            .map(|end| end.status.clone())
    }

    /// The reader is gone: whoever sends is told, and the producer gives up.
    pub(crate) fn disconnect(&self) {
        let mut state = self.lock();
        state.reader_gone = true;
        state.closed.get_or_insert(Closed::Disconnected);
        state.activity.behind_since = None;
        // A sink may live on for a long time; what nobody will read does not.
        state.text = String::new();
        state.out = Out::Frames {
            frames: VecDeque::new(),
            bytes: 0,
            order: Order::default(),
        };
        let (producer, senders) = (state.producer.take(), std::mem::take(&mut state.senders));
        drop(state);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Whether one more frame may come in.
    fn admit(&self, limits: &QueueLimits) -> Result<(), Refused> {
        if let Some(closed) = self.closed {
            return Err(Refused::Closed(closed));
        }
        if self.frames >= limits.max_frames || self.bytes() >= limits.max_bytes {
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.text.len()
            + match &self.out {
                Out::Frames { bytes, .. } => *bytes,
                Out::Bytes { buffer, .. } => buffer.len(),
            }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
            && match &self.out {
                Out::Frames { frames, .. } => frames.is_empty(),
                Out::Bytes { buffer, .. } => buffer.is_empty(),
            }
    }

    /// Moves the text to where frames go. An unfinished character stays behind in the carry and joins the text that follows.
    fn flush_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                // Refused only after the end, and then nothing gets this far.
                let _ = encoder.text(&self.text, buffer);
                self.text.clear();
            }
            Out::Frames { frames, bytes, order } => {
                *bytes += self.text.len();
                let _ = order.accept(FrameKind::Text);
                frames.push_back(Frame::Text(std::mem::take(&mut self.text)));
            }
        }
    }

    fn event(&mut self, event: &Event, at: Timestamp, max_bytes: usize) -> Result<(), EncodeError> {
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                encoder.event(event, Some(at), buffer)
            }
            Out::Frames { frames, bytes, order } => {
                let length = json::length(event)?;
                if length > max_bytes {
                    return Err(EncodeError::TooLarge { max_bytes });
                }
                order.accept(FrameKind::Event)?;
                *bytes += length;
                frames.push_back(Frame::Event {
                    event: event.clone(),
                    timestamp: Some(at),
                });
                Ok(())
            }
        }
    }

    /// Something was sent. The clock is read where the moment matters: for the first frame of a kind, and for the first that
    /// the reader finds. Reading it for each frame was a tenth of a turn's cost.
    fn sent(&mut self, first: bool, now: impl FnOnce() -> Instant) -> Option<Instant> {
        self.figures.frames += 1;
        if !first && self.frames > 1 {
            self.unstamped = true;
            return None;
        }
        let now = now();
        self.stamp(now);
        if matches!(self.out, Out::Bytes { .. }) {
            self.activity.behind_since.get_or_insert(now);
        }
        Some(now)
    }

    /// What was sent since the last reading of the clock counts as sent now: a silence is never taken for longer than it was.
    fn stamp(&mut self, now: Instant) {
        self.unstamped = false;
        self.activity.sent = now;
    }

    /// Everything was taken: who is to be woken.
    fn taken(&mut self, now: Instant) -> Vec<Waker> {
        if self.unstamped {
            self.stamp(now);
        }
        self.frames = 0;
        self.activity.behind_since = None;
        std::mem::take(&mut self.senders)
    }

    /// Puts the end behind everything else, once.
    fn take_end(&mut self) {
        let Some(end) = self.end.as_ref().filter(|_| !self.end_taken) else {
            return;
        };
        self.end_taken = true;
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                let _ = encoder.end(end, buffer);
            }
            Out::Frames { frames, .. } => frames.push_back(Frame::End(end.clone())),
        }
    }
}

/// Gives an empty buffer its first size; a used one grows by itself.
fn reserve(buffer: &mut BytesMut) {
    if buffer.capacity() == 0 {
        buffer.reserve(FIRST_BUFFER_BYTES);
    }
}

fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
