//! A reader of a log: at its own place, on its own wire, at its own pace.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use super::error::{ResumeError, gone};
use super::fold::Held;
use super::kept::Record;
use super::log::{Cut, Log};
use crate::event::Custom;
use crate::frame::{End, Frame};
use crate::turn::timeouts::write_stalled;
use crate::turn::{OpenQuestion, Timeouts, TurnHandle};
use crate::wire::{EncodeError, Encoder, Wire};

/// What stands for an event that does not fit a wire whose frames are numbered: without it a number would be missing.
const STAND_IN: &str = "dropped";

/// A reader's place in a log. Dropping it disconnects this reader.
#[derive(Debug)]
pub(crate) struct Reading {
    log: Arc<Log>,
    reader: u64,
    /// The next frame.
    from: u64,
    is_over: bool,
}

impl Reading {
    pub(super) fn new(log: Arc<Log>, reader: u64, from: u64, is_over: bool) -> Self {
        Self {
            log,
            reader,
            from,
            is_over,
        }
    }

    pub(crate) fn handle(&self) -> &TurnHandle {
        &self.log.head.handle
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.log.head.timeouts
    }

    /// Whether there was nothing left to read when it was made: the turn is over, and this reader has seen its end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How the turn ended, if it did.
    pub(crate) fn end(&self) -> Option<End> {
        self.log.end()
    }

    /// Takes the next frames, or a snapshot in place of those that are not kept any more; `None` where there is neither.
    pub(crate) fn poll_frames(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<Frame>>> {
        self.log
            .poll_read(self.reader, self.from, cx)
            .map(|read| match read {
                Ok(records) => {
                    self.from += records.len() as u64;
                    Some(records.iter().map(Record::to_frame).collect())
                }
                Err(Cut::Gone(held)) => {
                    let snapshot = held?.into_snapshot();
                    self.from = snapshot.frames;
                    Some(vec![Frame::Snapshot(Box::new(snapshot))])
                }
                // Not one without a wire.
                Err(Cut::Stalled) => None,
            })
    }

    /// The question of that id, and the index of the frame behind it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenQuestion, u64)> {
        self.log.question(request_id)
    }

    /// Whether the turn waits for the answer to that question. One that has its answer, or is over, is only told: ending a stream there
    /// would send its reader to answer what cannot be answered.
    fn waits_for(&self, request_id: &str) -> bool {
        let known = self.handle().waits_for(request_id);
        known.unwrap_or_else(|| !self.log.is_settled(request_id))
    }

    /// Whether `wire` can go on from here.
    pub(crate) fn supports(&self, wire: &impl Wire) -> Result<(), ResumeError> {
        let mut encoder = wire.encoder();
        let is_numbered = encoder.seek(self.from);
        let first = if is_numbered { self.from } else { 0 };
        self.log.holds(first).or_else(|(error, held)| {
            let held = held.filter(|_| is_numbered || self.from == 0).ok_or(error)?;
            let told = encoder.snapshot(&held.into_snapshot(), &mut BytesMut::new());
            told.map_err(|_| error)
        })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.log.detach(self.reader);
    }
}

/// A reader of a log on one wire.
#[derive(Debug)]
pub(crate) struct Follower {
    reading: Reading,
    encoder: Encoder,
    /// The next frame that the encoder takes. While it lies before the reader's own next frame, what it becomes is thrown away: the
    /// encoder only learns what the reader has seen.
    position: u64,
    /// Whether the wire writes the index of each frame.
    is_numbered: bool,
    /// Whether the wire may end a stream at a question.
    may_park: bool,
    /// Whether this reader's stream ends at a question that nobody has answered.
    parks: bool,
    is_parked: bool,
    /// Events that do not fit this wire, and that nothing stands for.
    events_dropped: u64,
    out: BytesMut,
    is_finished: bool,
}

impl Follower {
    pub(crate) fn new(reading: Reading, mut encoder: Encoder) -> Self {
        let is_numbered = encoder.seek(reading.from);
        let may_park = encoder.allow_parking();
        let position = if is_numbered { reading.from } else { 0 };
        reading.log.follow(reading.reader, position);
        Self {
            position,
            is_numbered,
            may_park,
            parks: may_park,
            is_parked: false,
            events_dropped: 0,
            out: BytesMut::new(),
            is_finished: reading.is_over(),
            encoder,
            reading,
        }
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        self.reading.timeouts()
    }

    /// Whether everything was handed out: the terminal, or the wire's ending at a question.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    pub(crate) fn pass_questions(&mut self) {
        self.parks = false;
    }

    /// Takes what is ready as one chunk; `None` after the terminal, or after a question at which this stream ends.
    pub(crate) fn poll_bytes(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        match self.reading.log.poll_read(self.reading.reader, self.position, cx) {
            Poll::Ready(Ok(records)) => {
                for record in &records {
                    self.encode(record);
                    // What follows is for whoever comes back with the answer.
                    if self.is_finished {
                        break;
                    }
                }
                self.look_again(cx);
            }
            Poll::Ready(Err(cut)) => {
                let failure = match cut {
                    Cut::Stalled => Some(write_stalled()),
                    Cut::Gone(held) => {
                        let has_caught_up = held.is_some_and(|held| self.catch_up(held));
                        (!has_caught_up).then(gone)
                    }
                };
                if let Some(failure) = failure {
                    self.encoder.seek(self.position);
                    let _ = self.encoder.end(&End::failed(failure), &mut self.out);
                    self.is_finished = true;
                }
                self.look_again(cx);
            }
            Poll::Pending => {}
        }
        if !self.out.is_empty() {
            return Poll::Ready(Some(self.out.split().freeze()));
        }
        if self.is_finished {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Frames may leave no bytes, above all those that the reader has. Other tasks have their turn in between.
    fn look_again(&self, cx: &Context<'_>) {
        if self.out.is_empty() && !self.is_finished {
            cx.waker().wake_by_ref();
        }
    }

    /// Goes on with a snapshot behind the frames that are gone; false where the wire cannot carry it. Where frames are numbered it takes the
    /// place of all that the reader has. Any other reader would have a part of it twice, unless it has nothing yet.
    fn catch_up(&mut self, held: Held) -> bool {
        if !self.is_numbered && (self.reading.from, self.position) != (0, 0) {
            return false;
        }
        let snapshot = held.into_snapshot();
        let is_told = self.encoder.snapshot(&snapshot, &mut self.out).is_ok();
        if is_told {
            self.position = snapshot.frames;
        }
        is_told
    }

    fn encode(&mut self, record: &Record) {
        let is_known = self.position < self.reading.from;
        let before = self.out.len();
        let mut asks = None;
        self.encoder.seek(self.position);
        match record.as_end() {
            Some(end) => {
                let mut end = end.clone();
                end.metadata.events_dropped += self.events_dropped;
                let _ = self.encoder.end(&end, &mut self.out);
                self.is_finished = true;
            }
            None => match record.encode(&mut self.encoder, &mut self.out) {
                Ok(()) => asks = record.as_question().filter(|_| self.may_park),
                Err(error) => self.leave_out(&error),
            },
        }
        if is_known {
            self.out.truncate(before);
        }
        self.position += 1;
        if let Some((question, timestamp)) = asks {
            if self.position == self.reading.from {
                self.encoder.unpark(&mut self.out);
            } else if self.parks && !is_known && self.reading.waits_for(&question.request_id) {
                self.encoder.park(question, timestamp, &mut self.out);
                self.is_finished = true;
                self.is_parked = true;
            }
        }
    }

    /// An event does not fit this wire. The end counts it, except where a frame in its place tells it: a reader that came back behind
    /// that frame has not counted it.
    fn leave_out(&mut self, error: &EncodeError) {
        if !self.is_numbered {
            self.events_dropped += 1;
            return;
        }
        let code = serde_json::Value::from(error.code());
        if let Ok(event) = Custom::new(STAND_IN, &code) {
            let _ = self.encoder.event(&event.into(), None, &mut self.out);
        }
    }

    /// Writes the wire's filler, if it has one now. Not while the encoder is behind its reader: a filler is legal by what the
    /// reader has seen.
    pub(crate) fn keep_alive(&mut self) {
        if !self.is_finished && self.position >= self.reading.from {
            self.encoder.keep_alive(&mut self.out);
        }
    }
}
