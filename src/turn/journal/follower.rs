//! A reader of a log on one wire, at its own pace.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::cursor::Cursor;
use super::error::gone;
use super::fold::FoldedSnapshot;
use super::log::Interruption;
use super::record::Record;
use crate::event::Custom;
use crate::frame::End;
use crate::turn::Timeouts;
use crate::turn::timeouts::write_stalled;
use crate::wire::{EncodeError, Encoder};

/// The name of the event that replaces one which does not fit a wire with numbered frames. Without
/// it, a number would be missing.
const PLACEHOLDER: &str = "dropped";

/// A reader of a log on one wire.
#[derive(Debug)]
pub(crate) struct Follower {
    cursor: Cursor,
    encoder: Encoder,
    /// The index of the next frame that the encoder takes. Frames before the cursor are encoded
    /// only to bring the encoder to the reader's state; their bytes are discarded.
    position: u64,
    /// Whether the wire writes the index of each frame.
    is_numbered: bool,
    /// Whether the wire can end a stream at a question.
    may_park: bool,
    /// Whether this stream ends at an open question.
    parks: bool,
    is_parked: bool,
    /// Events that do not fit this wire and have no placeholder.
    events_dropped: u64,
    out: BytesMut,
    is_finished: bool,
}

impl Follower {
    pub(crate) fn new(cursor: Cursor, mut encoder: Encoder) -> Self {
        let is_numbered = encoder.seek(cursor.next());
        let may_park = encoder.allow_parking();
        let position = if is_numbered { cursor.next() } else { 0 };
        cursor.follow(position);
        Self {
            position,
            is_numbered,
            may_park,
            parks: may_park,
            is_parked: false,
            events_dropped: 0,
            out: BytesMut::new(),
            is_finished: cursor.is_finished(),
            encoder,
            cursor,
        }
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        self.cursor.timeouts()
    }

    /// Returns whether the terminal, or the wire's ending at a question, has been handed out.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    pub(crate) fn pass_questions(&mut self) {
        self.parks = false;
    }

    /// Takes the bytes that are ready as one chunk; `None` after the terminal, or after the
    /// question at which this stream ends.
    pub(crate) fn poll_bytes(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        match self.cursor.poll_read(self.position, cx) {
            Poll::Ready(Ok(records)) => {
                for record in &records {
                    self.encode(record);
                    // The later frames belong to the stream that resumes with the answer.
                    if self.is_finished {
                        break;
                    }
                }
                self.wake_if_empty(cx);
            }
            Poll::Ready(Err(interruption)) => {
                let failure = match interruption {
                    Interruption::Stalled => Some(write_stalled()),
                    Interruption::Dropped(snapshot) => {
                        let has_caught_up = snapshot.is_some_and(|snapshot| self.catch_up(snapshot));
                        (!has_caught_up).then(gone)
                    }
                };
                if let Some(failure) = failure {
                    self.encoder.seek(self.position);
                    let _ = self.encoder.end(&End::failed(failure), &mut self.out);
                    self.is_finished = true;
                }
                self.wake_if_empty(cx);
            }
            Poll::Pending => {}
        }
        if !self.out.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.out).freeze()));
        }
        if self.is_finished {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Schedules another poll if the frames produced no bytes, as those that the reader already
    /// has. Other tasks run in between.
    fn wake_if_empty(&self, cx: &Context<'_>) {
        if self.out.is_empty() && !self.is_finished {
            cx.waker().wake_by_ref();
        }
    }

    /// Continues with a snapshot of the dropped frames; returns false if the wire cannot carry it.
    /// On a wire with numbered frames it replaces everything that the reader has. On other wires,
    /// only a reader that has nothing yet can take it; the others would get a part of it twice.
    fn catch_up(&mut self, snapshot: FoldedSnapshot) -> bool {
        if !self.is_numbered && (self.cursor.next(), self.position) != (0, 0) {
            return false;
        }
        let snapshot = snapshot.into_snapshot();
        let is_encoded = self.encoder.snapshot(&snapshot, &mut self.out).is_ok();
        if is_encoded {
            self.position = snapshot.frames;
        }
        is_encoded
    }

    fn encode(&mut self, record: &Record) {
        let is_known = self.position < self.cursor.next();
        let before = self.out.len();
        let mut parks_at = None;
        self.encoder.seek(self.position);
        match record.as_end() {
            Some(end) => {
                if self.events_dropped == 0 {
                    let _ = self.encoder.end(end, &mut self.out);
                } else {
                    let mut end = end.clone();
                    end.metadata.events_dropped += self.events_dropped;
                    let _ = self.encoder.end(&end, &mut self.out);
                }
                self.is_finished = true;
            }
            None => match record.encode(&mut self.encoder, &mut self.out) {
                Ok(()) => parks_at = record.as_question().filter(|_| self.may_park),
                Err(error) => self.replace_event(&error),
            },
        }
        if is_known {
            self.out.truncate(before);
        }
        self.position += 1;
        if let Some((question, timestamp)) = parks_at {
            if self.position == self.cursor.next() {
                self.encoder.unpark(&mut self.out);
            } else if self.parks && !is_known && self.cursor.is_waiting_for(&question.request_id) {
                self.encoder.park(question, timestamp, &mut self.out);
                self.is_finished = true;
                self.is_parked = true;
            }
        }
    }

    /// Handles an event that does not fit this wire. If frames are numbered, a placeholder reports
    /// it; otherwise the end counts it. The end cannot count it in both cases, because a reader
    /// that resumes after that frame has not counted it.
    fn replace_event(&mut self, error: &EncodeError) {
        if !self.is_numbered {
            self.events_dropped += 1;
            return;
        }
        let code = serde_json::Value::from(error.code());
        if let Ok(event) = Custom::new(PLACEHOLDER, &code) {
            let _ = self.encoder.event(&event.into(), None, &mut self.out);
        }
    }

    /// Writes the wire's keep-alive, if it has one now. Not while the encoder is behind its reader:
    /// what is legal depends on what the reader has seen.
    pub(crate) fn keep_alive(&mut self) {
        if !self.is_finished && self.position >= self.cursor.next() {
            self.encoder.keep_alive(&mut self.out);
        }
    }

    /// Appends padding that makes `written` bytes a multiple of `block`, if it is legal now.
    pub(crate) fn pad(&mut self, written: usize, block: usize, out: &mut BytesMut) {
        if !self.is_finished {
            self.encoder.pad(written, block, out);
        }
    }
}
