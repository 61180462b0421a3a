//! A reader's position in a log.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;

use super::error::ResumeError;
use super::log::{Interruption, Log};
use super::record::Record;
use crate::frame::{End, Frame};
use crate::turn::observer::Observation;
use crate::turn::{OpenQuestion, Timeouts, TurnHandle};
use crate::wire::Wire;

/// A reader's position in a log. Dropping it disconnects the reader.
#[derive(Debug)]
pub(crate) struct Cursor {
    log: Arc<Log>,
    reader: u64,
    /// The index of the next frame.
    next: u64,
    is_finished: bool,
    /// Set in the first reader until it has a wire.
    observation: Option<Arc<Observation>>,
}

impl Cursor {
    /// Adds a reader that starts at index `from`, or with the snapshot of the frames before.
    pub(super) fn attach(log: &Arc<Log>, from: u64) -> Result<Self, ResumeError> {
        let (reader, is_finished) = log.add_reader(from)?;
        Ok(Self {
            log: Arc::clone(log),
            reader,
            next: from,
            is_finished,
            observation: None,
        })
    }

    /// Adds the reader of a turn whose response begins now.
    pub(super) fn first(log: &Arc<Log>, observation: Option<Arc<Observation>>) -> Self {
        Self {
            reader: log.add_first_reader(),
            log: Arc::clone(log),
            next: 0,
            is_finished: false,
            observation,
        }
    }

    /// Records the wire.
    pub(crate) fn name_wire(&mut self, name: &'static str) {
        if let Some(observation) = self.observation.take() {
            observation.name_wire(name);
        }
    }

    pub(crate) fn handle(&self) -> &TurnHandle {
        &self.log.head.handle
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.log.head.timeouts
    }

    /// Returns the index at which the reader starts, or continues.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether nothing was left to read when the reader was added: it has seen the end.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns the end of the turn, if it has ended.
    pub(crate) fn end(&self) -> Option<End> {
        self.log.end()
    }

    /// Returns whether the turn has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.has_ended()
    }

    /// Reports that the reader has a wire: from now on it has to take the frames that are ready.
    pub(super) fn follow(&self, position: u64) {
        self.log.follow(self.reader, position);
    }

    /// Reads the frames from `position` on; pending while no frame is ready.
    pub(super) fn poll_read(
        &self,
        position: u64,
        cx: &Context<'_>,
    ) -> Poll<Result<Vec<Record>, Interruption>> {
        self.log.poll_read(self.reader, position, cx)
    }

    /// Takes the next frames, or a snapshot in place of dropped frames; `None` if there is neither.
    pub(crate) fn poll_frames(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<Frame>>> {
        self.poll_read(self.next, cx).map(|read| match read {
            Ok(records) => {
                self.next += records.len() as u64;
                Some(records.iter().map(Record::to_frame).collect())
            }
            Err(Interruption::Dropped(snapshot)) => {
                let snapshot = snapshot?.into_snapshot();
                self.next = snapshot.frames;
                Some(vec![Frame::Snapshot(Box::new(snapshot))])
            }
            // A reader without a wire is never cut off.
            Err(Interruption::Stalled) => None,
        })
    }

    /// Returns the question with this ID and the index of the frame after it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenQuestion, u64)> {
        self.log.question(request_id)
    }

    /// Returns whether the turn waits for the answer to this question. A question that is answered,
    /// or whose turn has ended, is only reported: a stream that ended there would ask its reader
    /// for an answer that is refused.
    pub(super) fn is_waiting_for(&self, request_id: &str) -> bool {
        let known = self.handle().waits_for(request_id);
        known.unwrap_or_else(|| !self.log.is_resolved(request_id))
    }

    /// Checks that a stream on `wire` can continue from here.
    pub(crate) fn supports(&self, wire: &impl Wire) -> Result<(), ResumeError> {
        let mut encoder = wire.encoder();
        let is_numbered = encoder.seek(self.next);
        let first = if is_numbered { self.next } else { 0 };
        self.log.check_index(first).or_else(|(error, snapshot)| {
            let can_start_over = is_numbered || self.next == 0;
            let snapshot = snapshot.filter(|_| can_start_over).ok_or(error)?;
            let snapshot = snapshot.into_snapshot();
            let encoded = encoder.snapshot(&snapshot, &mut BytesMut::new());
            encoded.map_err(|_| error)
        })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.log.remove_reader(self.reader);
    }
}
