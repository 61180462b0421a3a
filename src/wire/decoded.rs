//! The output side of a decoder, shared by all decoders: frames in legal order, then at most one
//! error.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::{DecodeError, Finish, object};
use crate::event::{Custom, Event};
use crate::frame::Frame;
use crate::order::{Order, Phase};
use crate::time::Timestamp;

/// Frames that were decoded and not taken yet, and the error that ended the stream, if any.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    order: Order,
    frames: VecDeque<Frame>,
    error: Option<DecodeError>,
    /// Whether the error was returned; it is returned once.
    error_taken: bool,
}

impl Decoded {
    pub(super) fn phase(&self) -> Phase {
        self.order.phase()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase() == Phase::Ended
    }

    /// Records that the answer has begun, even if no text was decoded yet.
    pub(super) fn begin_text(&mut self) {
        self.order.begin_text();
    }

    /// Records that the metadata has begun.
    pub(super) fn begin_trailer(&mut self) {
        self.order.begin_trailer();
    }

    /// Adds a frame. Only an order that a wire does not allow is refused: nothing may follow the end.
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), DecodeError> {
        let accepted = self.order.accept(frame.kind());
        accepted.map_err(|_| DecodeError::TrailingBytes)?;
        if matches!(&frame, Frame::Snapshot(snapshot) if !snapshot.text.is_empty()) {
            self.order.begin_text();
        }
        self.frames.push_back(frame);
        Ok(())
    }

    /// Adds a piece of the answer. An empty one is not a frame.
    pub(super) fn push_text(&mut self, text: impl Into<String>) -> Result<(), DecodeError> {
        let text = text.into();
        if text.is_empty() {
            return Ok(());
        }
        self.push(Frame::Text(text))
    }

    /// Adds an event.
    pub(super) fn push_event(
        &mut self,
        event: impl Into<Event>,
        timestamp: Option<Timestamp>,
    ) -> Result<(), DecodeError> {
        let event = event.into();
        self.push(Frame::Event { event, timestamp })
    }

    /// Adds an application event. Its name may be any.
    pub(super) fn push_custom(
        &mut self,
        name: &str,
        data: Value,
        timestamp: Option<Timestamp>,
    ) -> Result<(), DecodeError> {
        let name = name.to_owned();
        self.push_event(Event::Custom(Custom { name, data }), timestamp)
    }

    /// Adds the event `name` with these members. `timestamp` is its time if it is in our form.
    /// Members that do not fit the event's shape make it an application event.
    pub(super) fn push_named(
        &mut self,
        name: &str,
        members: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<(), DecodeError> {
        let mut event = Map::new();
        event.insert("event".to_owned(), name.into());
        event.extend(members.into_iter().filter(|(name, _)| name != "event"));
        self.push(object::read_event(event).ok_or(DecodeError::BadEvent)?)
    }

    /// The last frame that was not taken yet.
    pub(super) fn last_mut(&mut self) -> Option<&mut Frame> {
        self.frames.back_mut()
    }

    /// Records an error. Only the first one counts.
    pub(super) fn fail(&mut self, error: DecodeError) {
        self.error.get_or_insert(error);
    }

    pub(super) fn finish(&self) -> Finish {
        match (self.error, self.phase()) {
            (Some(error), _) => Finish::Invalid(error),
            (None, Phase::Ended) => Finish::Complete,
            (None, phase) => Finish::Truncated { phase },
        }
    }
}

impl Iterator for Decoded {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(frame) = self.frames.pop_front() {
            return Some(Ok(frame));
        }
        let error = self.error.filter(|_| !self.error_taken)?;
        self.error_taken = true;
        Some(Err(error))
    }
}

/// Whether a line contains only JSON whitespace, which decoders skip.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}
