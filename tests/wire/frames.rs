//! Frames in few words.

use ragwire::{Event, Frame};

pub(crate) fn event(event: impl Into<Event>) -> Frame {
    let (event, timestamp) = (event.into(), None);
    Frame::Event { event, timestamp }
}

pub(crate) fn text(text: &str) -> Frame {
    Frame::Text(text.into())
}
