//! The beginning of a turn in one frame, for readers that arrive after its frames were dropped. The
//! journal decides which events a snapshot still contains.

use crate::event::Event;
use crate::time::Timestamp;

/// Replaces the first frames of a turn by the answer so far and the last state of each step.
///
/// A reader replaces everything it has of the turn by the snapshot. Applied in order, its events
/// have the same result as all events, provided that a newer state of a step replaces an older one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The number of frames that it replaces, at least 1. Equals the index of the next frame.
    pub frames: u64,
    /// The last state of each step, in the order in which they were sent, with their times.
    pub events: Vec<(Event, Option<Timestamp>)>,
    /// The answer so far.
    pub text: String,
    /// The number of events that it omits because a later event replaces them. Pieces of a thought
    /// that are joined and `retract`, which is applied to the text, are not omitted.
    pub events_dropped: u64,
}

impl Snapshot {
    /// Creates an empty snapshot that replaces this number of frames.
    pub fn new(frames: u64) -> Self {
        Self {
            frames,
            ..Self::default()
        }
    }

    /// Sets the last state of each step.
    #[must_use]
    pub fn events(mut self, events: Vec<(Event, Option<Timestamp>)>) -> Self {
        self.events = events;
        self
    }

    /// Sets the answer so far.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the number of omitted events.
    #[must_use]
    pub fn events_dropped(mut self, events: u64) -> Self {
        self.events_dropped = events;
        self
    }
}
