//! The state under the queue's lock, and the operations that keep it consistent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::BytesMut;

use super::delay::TextDelay;
use super::{Activity, Closed, Figures, QueuedFrame, Refused, TimedEvent};
use crate::event::{CacheMiss, Event};
use crate::frame::End;
use crate::json;
use crate::order::{FrameKind, Order};
use crate::time::Timestamp;
use crate::turn::limits::QueueLimits;
use crate::utf8::{self, Carry};
use crate::wire::{EncodeError, Encoder};

/// The initial size of the shared buffer: enough for a few events. Most streams are paced by a model
/// and never have more waiting, and there may be thousands of them; a burst grows it.
const FIRST_BUFFER_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct State {
    pub(super) out: Out,
    /// Number of waiting frames; `text` counts as one.
    pub(super) frames: usize,
    /// Text that is not in `out` yet, because the next text may still be joined to it.
    pub(super) text: String,
    pub(super) carry: Carry,
    /// Holds the first text back.
    pub(super) delay: Option<TextDelay>,
    /// The complete answer so far, if it is recorded for a hook.
    pub(super) transcript: Option<String>,
    /// The number of characters of the answer so far.
    pub(super) answer_chars: u64,
    /// The end as soon as it is known. The reader encodes it after everything else.
    pub(super) end: Option<Arc<End>>,
    pub(super) end_taken: bool,
    /// A requested end, with which the producer finishes at its next step.
    pub(super) ending: Option<Box<End>>,
    pub(super) reader_gone: bool,
    /// Why the queue accepts nothing more. The first reason stays.
    pub(super) closed: Option<Closed>,
    /// Whether the end is known and waits for the application's hook.
    pub(super) decided: bool,
    pub(super) activity: Activity,
    /// Whether frames were queued since the clock was last read.
    pub(super) unstamped: bool,
    pub(super) figures: Figures,
    pub(super) reader: Option<Waker>,
    pub(super) producer: Option<Waker>,
    pub(super) senders: Vec<Waker>,
}

/// Where frames go.
#[derive(Debug)]
pub(super) enum Out {
    /// No wire is chosen: frames are stored, with their size as JSON.
    Frames {
        frames: VecDeque<QueuedFrame>,
        bytes: usize,
        order: Order,
    },
    /// Frames are encoded at once.
    Bytes { encoder: Encoder, buffer: BytesMut },
}

impl Out {
    /// No wire and no frames.
    pub(super) fn nothing() -> Self {
        Self::Frames {
            frames: VecDeque::new(),
            bytes: 0,
            order: Order::default(),
        }
    }
}

impl State {
    pub(super) fn new(transcript: bool, now: Instant) -> Self {
        Self {
            out: Out::nothing(),
            frames: 0,
            text: String::new(),
            carry: Carry::default(),
            delay: None,
            transcript: transcript.then(String::new),
            answer_chars: 0,
            end: None,
            end_taken: false,
            ending: None,
            reader_gone: false,
            closed: None,
            decided: false,
            activity: Activity {
                began: Some(now),
                sent: now,
                behind_since: None,
            },
            unstamped: false,
            figures: Figures::default(),
            reader: None,
            producer: None,
            senders: Vec::new(),
        }
    }

    /// Checks whether the producer may queue one more frame.
    pub(super) fn admit(&self, limits: &QueueLimits) -> Result<(), Refused> {
        self.room(limits)?;
        match self.activity.began {
            Some(_) => Ok(()),
            None => Err(Refused::Full),
        }
    }

    /// Checks whether there is room for one more frame.
    pub(super) fn room(&self, limits: &QueueLimits) -> Result<(), Refused> {
        if let Some(closed) = self.closed {
            return Err(Refused::Closed(closed));
        }
        if self.frames >= limits.max_frames || self.bytes() >= limits.max_bytes {
            return Err(Refused::Full);
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
            + match &self.out {
                Out::Frames { bytes, .. } => *bytes,
                Out::Bytes { buffer, .. } => buffer.len(),
            }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
            && match &self.out {
                Out::Frames { frames, .. } => frames.is_empty(),
                Out::Bytes { buffer, .. } => buffer.is_empty(),
            }
    }

    /// Moves the text to `out`. An incomplete character stays in `carry` and continues with the
    /// next text.
    pub(super) fn flush_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                // Fails only after the end, when no text is queued.
                let _ = encoder.text(&self.text, buffer);
                self.text.clear();
            }
            Out::Frames { frames, bytes, order } => {
                *bytes += self.text.len();
                let _ = order.accept(FrameKind::Text);
                frames.push_back(QueuedFrame::Text(self.text.as_str().into()));
                self.text.clear();
            }
        }
    }

    /// Queues an event. It is moved out of `event` if it has to wait for a wire.
    pub(super) fn event(
        &mut self,
        event: &mut Event,
        at: Timestamp,
        max_bytes: usize,
    ) -> Result<(), EncodeError> {
        let kept = if let Event::Retract(retract) = &*event {
            Some(retract.kept)
        } else {
            None
        };
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                encoder.event(event, Some(at), buffer)?;
            }
            Out::Frames { frames, bytes, order } => {
                let length = json::length_within(event, max_bytes)?;
                let length = length.ok_or(EncodeError::TooLarge { max_bytes })?;
                order.accept(FrameKind::Event)?;
                *bytes += length;
                frames.push_back(QueuedFrame::Event(Arc::new(TimedEvent {
                    event: std::mem::replace(event, CacheMiss::new().into()),
                    timestamp: Some(at),
                })));
            }
        }
        if let Some(kept) = kept {
            self.retract(kept);
        }
        Ok(())
    }

    /// Takes back the answer after its first `kept` characters.
    pub(super) fn retract(&mut self, kept: u64) {
        if kept >= self.answer_chars {
            return;
        }
        self.answer_chars = kept;
        self.carry = Carry::default();
        if let Some(transcript) = &mut self.transcript {
            utf8::keep_chars(transcript, kept);
        }
    }

    /// Records that something was sent. The clock is read only where the time matters: for the
    /// first frame of a kind, and for the first one that waits for the reader. Reading it for each
    /// frame was a tenth of a turn's cost.
    pub(super) fn sent(&mut self, first: bool, now: impl FnOnce() -> Instant) -> Option<Instant> {
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

    /// Counts everything sent since the clock was last read as sent now, so that an idle time is
    /// never overestimated.
    pub(super) fn stamp(&mut self, now: Instant) {
        self.unstamped = false;
        self.activity.sent = now;
    }

    /// Registers a waiting sender once.
    pub(super) fn add_sender(&mut self, cx: &Context<'_>) {
        if !self.senders.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.senders.push(cx.waker().clone());
        }
    }

    /// Records that everything was taken. Returns the senders to wake.
    pub(super) fn taken(&mut self, now: Instant) -> Vec<Waker> {
        if self.unstamped {
            self.stamp(now);
        }
        self.frames = 0;
        self.activity.behind_since = None;
        std::mem::take(&mut self.senders)
    }

    /// Appends the end after everything else, once. Returns the producer to wake.
    pub(super) fn take_end(&mut self) -> Option<Waker> {
        let end = self.end.as_ref().filter(|_| !self.end_taken)?;
        self.end_taken = true;
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                let _ = encoder.end(end, buffer);
            }
            Out::Frames { frames, .. } => frames.push_back(QueuedFrame::End(Arc::clone(end))),
        }
        self.producer.take()
    }
}

/// Creates an empty buffer of the initial size.
pub(super) fn first_buffer() -> BytesMut {
    BytesMut::with_capacity(FIRST_BUFFER_BYTES)
}

/// Gives an empty buffer its initial size. A used one grows by itself.
fn reserve(buffer: &mut BytesMut) {
    if buffer.capacity() == 0 {
        buffer.reserve(FIRST_BUFFER_BYTES);
    }
}
