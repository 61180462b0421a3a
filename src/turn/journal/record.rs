//! One frame of a log, shared by all readers.

use std::sync::Arc;

use bytes::BytesMut;

use crate::event::{Event, InputRequested};
use crate::frame::{End, Frame};
use crate::json;
use crate::time::Timestamp;
use crate::wire::ndjson::Ndjson;
use crate::wire::{EncodeError, Encoder, Limits, Wire};

/// Approximate bytes of a record besides its content: its place in the queue, its counters, and the
/// fixed part of the frame.
pub(super) const RECORD_BYTES: usize = 64;

/// A frame that any number of readers share. Most frames are texts, so a text does not take the
/// space of an event.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Text(Arc<str>),
    Frame(Arc<Frame>),
}

impl Record {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn frame(frame: Frame) -> Self {
        match frame {
            Frame::Text(text) => Self::Text(text.into()),
            frame => Self::Frame(Arc::new(frame)),
        }
    }

    pub(super) fn to_frame(&self) -> Frame {
        match self {
            Self::Text(text) => Frame::Text((**text).to_owned()),
            Self::Frame(frame) => (**frame).clone(),
        }
    }

    pub(super) fn as_end(&self) -> Option<&End> {
        match self {
            Self::Frame(frame) => match &**frame {
                Frame::End(end) => Some(end),
                Frame::Event { .. } | Frame::Text(_) | Frame::Snapshot(_) => None,
            },
            Self::Text(_) => None,
        }
    }

    /// Returns the event and its timestamp, if this is an event.
    pub(super) fn as_event(&self) -> Option<(&Event, Option<Timestamp>)> {
        match self {
            Self::Frame(frame) => event_of(frame),
            Self::Text(_) => None,
        }
    }

    /// Returns the question to a human and its timestamp, if this is one.
    pub(super) fn as_question(&self) -> Option<(&InputRequested, Option<Timestamp>)> {
        match self.as_event()? {
            (Event::InputRequested(question), timestamp) => Some((question, timestamp)),
            _ => None,
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Text(text) => encoder.text(text, out),
            Self::Frame(frame) => encoder.encode(frame, out),
        }
    }

    /// Returns the size that the limits count.
    pub(super) fn bytes(&self) -> usize {
        let content = match self {
            Self::Text(text) => text.len(),
            Self::Frame(frame) => match &**frame {
                Frame::Text(text) => text.len(),
                // The queue has serialized the event before, so this cannot fail.
                Frame::Event { event, .. } => json::length(event).unwrap_or_default(),
                Frame::End(end) => {
                    let unlimited = Limits::default().max_trailer_bytes(usize::MAX);
                    let mut out = BytesMut::new();
                    let _ = Ndjson::default().limits(unlimited).encoder().end(end, &mut out);
                    out.len()
                }
                // Sinks cannot send a snapshot, and a log stores its own elsewhere.
                Frame::Snapshot(_) => 0,
            },
        };
        RECORD_BYTES + content
    }
}

/// Returns the event of a frame and its timestamp, if it has one.
pub(super) fn event_of(frame: &Frame) -> Option<(&Event, Option<Timestamp>)> {
    match frame {
        Frame::Event { event, timestamp } => Some((event, *timestamp)),
        Frame::Text(_) | Frame::End(_) | Frame::Snapshot(_) => None,
    }
}
