//! What stands under the queue's lock, and the steps that keep it consistent.

use std::collections::VecDeque;
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::BytesMut;

use super::{Activity, Closed, Figures, Refused};
use crate::event::Event;
use crate::frame::{End, Frame};
use crate::json;
use crate::order::{FrameKind, Order};
use crate::time::Timestamp;
use crate::turn::limits::QueueLimits;
use crate::utf8::Carry;
use crate::wire::{EncodeError, Encoder};

/// First size of the shared buffer: a page holds the events of a typical retrieval.
const FIRST_BUFFER_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct State {
    pub(super) out: Out,
    /// Frames that wait, `text` counted once.
    pub(super) frames: usize,
    /// Text that is not in `out` yet: what comes next may still join it.
    pub(super) text: String,
    pub(super) carry: Carry,
    /// The whole answer so far, where somebody asked for it.
    pub(super) transcript: Option<String>,
    /// The end, from the moment it is known; the reader encodes it after everything else.
    pub(super) end: Option<End>,
    pub(super) end_taken: bool,
    /// Asked for, not there yet: the producer finishes by it at its next step.
    pub(super) ending: Option<End>,
    pub(super) reader_gone: bool,
    /// Why nothing more is taken; the first reason stays.
    pub(super) closed: Option<Closed>,
    /// The end is known and only waits for the application's hook.
    pub(super) decided: bool,
    pub(super) activity: Activity,
    /// Whether frames came in since the clock was last read.
    pub(super) unstamped: bool,
    pub(super) figures: Figures,
    pub(super) reader: Option<Waker>,
    pub(super) producer: Option<Waker>,
    pub(super) senders: Vec<Waker>,
}

/// Where frames go.
#[derive(Debug)]
pub(super) enum Out {
    /// Nobody has chosen a wire: they are kept, with their size as JSON.
    Frames {
        frames: VecDeque<Frame>,
        bytes: usize,
        order: Order,
    },
    /// They are encoded at once.
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
            transcript: transcript.then(String::new),
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

    /// Whether the producer may put one more frame in.
    pub(super) fn admit(&self, limits: &QueueLimits) -> Result<(), Refused> {
        self.room(limits)?;
        match self.activity.began {
            Some(_) => Ok(()),
            None => Err(Refused::Full),
        }
    }

    /// Whether there is room for one more frame.
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

    /// Moves the text to where frames go. An unfinished character stays behind in the carry and joins the text that follows.
    pub(super) fn flush_text(&mut self) {
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

    pub(super) fn event(
        &mut self,
        event: &Event,
        at: Timestamp,
        max_bytes: usize,
    ) -> Result<(), EncodeError> {
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

    /// What was sent since the last reading of the clock counts as sent now: a silence is never taken for longer than it was.
    pub(super) fn stamp(&mut self, now: Instant) {
        self.unstamped = false;
        self.activity.sent = now;
    }

    /// Remembers who waits, once.
    pub(super) fn add_sender(&mut self, cx: &Context<'_>) {
        if !self.senders.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.senders.push(cx.waker().clone());
        }
    }

    /// Everything was taken: who is to be woken.
    pub(super) fn taken(&mut self, now: Instant) -> Vec<Waker> {
        if self.unstamped {
            self.stamp(now);
        }
        self.frames = 0;
        self.activity.behind_since = None;
        std::mem::take(&mut self.senders)
    }

    /// Puts the end behind everything else, once: who is to be woken.
    pub(super) fn take_end(&mut self) -> Option<Waker> {
        let end = self.end.as_ref().filter(|_| !self.end_taken)?;
        self.end_taken = true;
        match &mut self.out {
            Out::Bytes { encoder, buffer } => {
                reserve(buffer);
                let _ = encoder.end(end, buffer);
            }
            Out::Frames { frames, .. } => frames.push_back(Frame::End(end.clone())),
        }
        self.producer.take()
    }
}

/// An empty buffer of the first size.
pub(super) fn first_buffer() -> BytesMut {
    BytesMut::with_capacity(FIRST_BUFFER_BYTES)
}

/// Gives an empty buffer its first size; a used one grows by itself.
fn reserve(buffer: &mut BytesMut) {
    if buffer.capacity() == 0 {
        buffer.reserve(FIRST_BUFFER_BYTES);
    }
}
