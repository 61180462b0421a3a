//! Frames that wait for a reader without a wire.

use std::sync::Arc;

use bytes::BytesMut;

use crate::event::Event;
use crate::frame::{End, Frame};
use crate::time::Timestamp;
use crate::wire::{EncodeError, Encoder};

/// A frame that waits for its reader. Each kind is allocated separately, because an end is much larger
/// than an event, and an event than most texts. A journal's log shares the allocation.
#[derive(Debug)]
pub(crate) enum QueuedFrame {
    Text(Arc<str>),
    Event(Arc<TimedEvent>),
    End(Arc<End>),
}

/// An event and its timestamp.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimedEvent {
    pub(crate) event: Event,
    pub(crate) timestamp: Option<Timestamp>,
}

impl QueuedFrame {
    /// Returns the frame. A text is copied; an event or an end is cloned only if a log shares it.
    pub(crate) fn into_frame(self) -> Frame {
        match self {
            Self::Text(text) => Frame::Text((*text).to_owned()),
            Self::Event(timed) => {
                let TimedEvent { event, timestamp } = Arc::unwrap_or_clone(timed);
                Frame::Event { event, timestamp }
            }
            Self::End(end) => Frame::End(Arc::unwrap_or_clone(end)),
        }
    }

    pub(super) fn as_event(&self) -> Option<&Event> {
        match self {
            Self::Event(timed) => Some(&timed.event),
            Self::Text(_) | Self::End(_) => None,
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Text(text) => encoder.text(text, out),
            Self::Event(timed) => encoder.event(&timed.event, timed.timestamp, out),
            Self::End(end) => encoder.end(end, out),
        }
    }
}
